"""Trains captioners of scenes with several kinds of attention, each for the same time, and measures where they look.

    apt install dataset-fashion-mnist
    python examples/pictures/scenes.py scenes/ --train 60000
    python examples/pictures/captions.py scenes/ --out demo/captions --seeds 0,1,2

Each variant changes some settings of captions.toml, and learns on one thread for the same seconds of the processor.
`hard` goes on from the weights of `soft`, for a seventh of its time: places that are drawn teach little to a model that
knows nothing yet.

The test scenes have boxes, which training never sees. They tell three things apart: whether a caption names the right
articles, whether the decoder looks at an article while it names it, and where it looks when it is wrong. The table has,
in percent but for CIDEr-D (at most 10):

* BLEU and CIDEr-D of the captions, found by the usual search;
* nouns right: the n-th article of the reference is also the n-th article of the caption;
* pointing: of the right nouns, those whose largest weight lies within the article's box;
* mass: the share of the weights of a right noun that lies within the box;
* misread, misplaced: of the wrong nouns, those that looked into the right box, and those that looked into another.

A weight lies at the pixel in the middle of its place. Layers and heads of a Transformer are averaged.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from foveate.attention import record
from foveate.data.batch import Batch
from foveate.data.row import Row
from foveate.data.text import read_lines
from foveate.data.tokeniser import BOS, EOS
from foveate.metrics import caption_scores
from foveate.tasks.caption.use import Describer

FOLDER = Path(__file__).parent
sys.path += [str(FOLDER), str(FOLDER.parent)]
from figures import keep, show  # noqa: E402
from measure import Loan, Recipe, measuring  # noqa: E402
from scenes import KINDS, SIDE, Article  # noqa: E402

CONFIGURATION, RESULTS = FOLDER / "captions.toml", FOLDER / "captions.json"
SAMPLED = "{ kind = 'hard', mode = 'sample', expectation = 0.5, entropy_weight = 0.002 }"
BLOCK = "block = { model_dim = 128, num_heads = 4, feedforward_dim = 256, norm = 'pre', dropout = 0.0 }"
VARIANTS: dict[str, Sequence[str]] = {
    "mean": ("model.decoder.attention=none",),
    "soft": (),
    "penalty": ("model.decoder.penalty=1.0",),
    "hard": (f"model.decoder.attention.normaliser={SAMPLED}", "train.learning_rate=5e-4"),
    "transformer": (f"model.decoder={{ kind = 'transformer', {BLOCK} }}",),
}
"""The settings in which each variant differs from captions.toml."""
FIRST, MORE = "soft", 0.15
"""The variant whose weights hard attention begins with, and the share of its time that hard attention has."""
GROUP = 250
"""Pictures that are looked at together."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = measuring(__doc__, out=Path("demo/captions"), results=RESULTS, seconds=300, variants=VARIANTS)
    parser.add_argument("scenes", type=Path, help="the folder that scenes.py has written")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING", help="change a setting of all")
    arguments = parser.parse_args(argv)
    data = {"data": arguments.scenes / "train.tsv", "valid_data": arguments.scenes / "valid.tsv"}
    recipe = Recipe(task="caption", configuration=CONFIGURATION, data=data)
    table = ", ".join([f"scenes, {arguments.seconds:g} s", *arguments.set])
    boxes = read_boxes(arguments.scenes / "boxes.tsv")
    test = [line.split("\t") for line in read_lines(arguments.scenes / "test.tsv")]
    for seed in arguments.seeds:
        for variant in arguments.variant or VARIANTS:
            runs = {name: arguments.out / f"{name}-{seed}-{arguments.seconds:g}" for name in VARIANTS}
            seconds, loan = arguments.seconds, None
            if variant == "hard":
                seconds, loan = MORE * seconds, Loan(runs[FIRST])
            settings = [*VARIANTS[variant], *arguments.set]
            store = arguments.out / "store"
            spent = recipe.train(settings, seed, runs[variant], store=store, seconds=seconds, loan=loan)
            figures = score(Describer.load(runs[variant]), arguments.scenes, test, boxes)
            keep(table, variant, seed, {**figures, **spent}, path=arguments.results)
            show(table, path=arguments.results)
    return 0


def read_boxes(path: Path) -> dict[str, list[Article]]:
    """The articles of each picture, in the order of its first caption."""
    boxes: dict[str, list[Article]] = {}
    for line in list(read_lines(path))[1:]:
        picture, word, *box = line.split("\t")
        boxes.setdefault(picture, []).append(Article(word, *map(int, box)))
    return boxes


def score(
    describer: Describer, folder: Path, test: Sequence[Sequence[str]], boxes: Mapping[str, Sequence[Article]]
) -> dict[str, float]:
    """The figures of the captions of test scenes, each a path and its reference."""
    rows = [describer.row(thing) for path, _ in test for thing in describer.things([str(folder / path)])]
    captions = [one.text for one in describer.of_rows(rows, [path for path, _ in test])]
    bleu, cider = caption_scores(captions, [[text] for _, text in test], ["bleu", "cider"])
    looks = weights(describer, rows, captions)
    articles = [boxes[path] for path, _ in test]
    figures = {"BLEU": bleu.value, "CIDEr-D": cider.value, **glances(captions, articles, looks)}
    if describer.model.draws_places:
        drawn = [one.text for one in describer.of_rows(rows, [path for path, _ in test], glimpses=0)]
        figures["nouns right, drawn"] = glances(drawn, articles, None)["nouns right"]
    return figures


def weights(describer: Describer, rows: Sequence[Row], captions: Sequence[str]) -> list[Tensor] | None:
    """The weights (words, rows, columns) of each caption, as a float tensor; None for a model without attention."""
    looks: list[Tensor] = []
    words = [describer.tokeniser.encode(text) for text in captions]
    for start in range(0, len(rows), GROUP):
        some = range(start, min(start + GROUP, len(rows)))
        pictures = Batch.of([rows[number] for number in some])
        texts = Batch.of([[BOS, *words[number], EOS] for number in some])
        with torch.inference_mode(), record(describer.model) as recording:
            describer.model(pictures, texts)
        layers = [one.weights().mean(1) for one in recording.of_kind("cross")]
        if not layers:
            return None
        mean = torch.stack(layers).mean(0).unflatten(-1, describer.model.grid)
        looks += [mean[place, : len(words[number])] for place, number in enumerate(some)]
    return looks


def glances(
    captions: Sequence[str], scenes: Sequence[Sequence[Article]], looks: Sequence[Tensor] | None
) -> dict[str, float]:
    """The shares of right nouns and of looks into boxes while an article was named, in percent."""
    right, pointing, mass, misread, misplaced, wrong = 0, 0, 0.0, 0, 0, 0
    for number, (caption, articles) in enumerate(zip(captions, scenes, strict=True)):
        words = caption.split()
        times = [time for time, word in enumerate(words) if word in KINDS]
        for article, time in zip(articles, times, strict=False):
            same = words[time] == article.word
            right, wrong = right + same, wrong + (not same)
            if looks is None:
                continue
            look = looks[number][time]
            masses = {other: float(look[inside(other, look)].sum()) for other in articles}
            largest = look == look.max()
            there = [other for other in articles if bool((largest & inside(other, look)).any())]
            if same:
                pointing, mass = pointing + (article in there), mass + masses[article]
            else:
                misread, misplaced = misread + (article in there), misplaced + bool(there and article not in there)
    figures = {"nouns right": 100 * right / sum(map(len, scenes))}
    if looks is None:
        return figures
    return figures | {
        "pointing": 100 * pointing / max(right, 1),
        "mass": 100 * mass / max(right, 1),
        "misread": 100 * misread / max(wrong, 1),
        "misplaced": 100 * misplaced / max(wrong, 1),
    }


def inside(article: Article, grid: Tensor) -> Tensor:
    """The places whose middle lies within an article's box."""
    rows, columns = ((torch.arange(count) + 0.5) * SIDE / count for count in grid.shape)
    down = (article.top <= rows) & (rows < article.bottom)
    across = (article.left <= columns) & (columns < article.right)
    return down[:, None] & across


if __name__ == "__main__":
    raise SystemExit(main())
