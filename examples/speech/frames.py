"""Labels every frame of speech with its phone: the fully-connected network, its context window, and attention.

    python examples/speech/phones.py phones/
    python examples/speech/frames.py phones/ --out demo/phones
    python examples/speech/frames.py phones/ --out demo/phones --variant convolutions --seeds 0,1,2

The lecture's baseline is a fully-connected network, which gives equal frames equal labels. With a window of neighbours
it becomes better, and its first matrix larger. Each variant changes some settings of phones.toml, and learns for about
the same time on one thread. Test sentences and test voices are both unseen; all voices are synthetic.

The table has the share of frames with the right phone, the same after smoothing by the order of phones in the training
data (`decode` of `foveate train tag`), and the edits between the strings of phones without repetitions, all in percent.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from foveate.metrics.transcription import Edits
from foveate.tasks import TASKS
from foveate.tasks.tag.frame_use import SMOOTHING, FrameLabeller, collapsed

sys.path.append(str(Path(__file__).parents[1]))
from figures import keep, show
from measure import Recipe, measuring

CONFIGURATION = Path(__file__).parent / "phones.toml"
RESULTS = Path(__file__).parent / "results.json"
NEIGHBOURS = "model.encoder={{ kind = 'window', window = {0}, hidden_dim = 256, num_layers = 3 }}"
BLOCK = (
    "block = {{ model_dim = 128, num_heads = 4, feedforward_dim = 256, norm = 'pre', "
    "encoder_attention = {{ visibility = '{0}' }} }}"
)
ATTENTION = f"model.encoder={{{{ kind = 'transformer', num_layers = 3, {BLOCK} }}}}"
VARIANTS: dict[str, Sequence[str]] = {
    "alone": (NEIGHBOURS.format(0),),
    "neighbours-5": (NEIGHBOURS.format(5),),
    "neighbours-12": (NEIGHBOURS.format(12),),
    "window-16": (ATTENTION.format("window(left=16, right=16)"),),
    "window-16-2": (ATTENTION.format("window(left=16, right=2)"),),
    "bilstm": ("model.encoder={ kind = 'rnn', cell = 'lstm', hidden_dim = 64, num_layers = 2 }",),
    "convolutions": (),
}
"""The settings in which each variant differs from phones.toml."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = measuring(__doc__, out=Path("demo/phones"), results=RESULTS, seconds=120, variants=VARIANTS)
    parser.add_argument("phones", type=Path, help="the folder that phones.py has written")
    arguments = parser.parse_args(argv)
    data = {"data": arguments.phones / "train.tsv", "valid_data": arguments.phones / "valid.tsv"}
    recipe = Recipe(task="tag", configuration=CONFIGURATION, data=data)
    table = f"phones, {arguments.seconds:g} s"
    for variant in arguments.variant or VARIANTS:
        for seed in arguments.seeds:
            run = arguments.out / f"{variant}-{seed}-{arguments.seconds:g}"
            store = arguments.out / "store"
            spent = recipe.train(VARIANTS[variant], seed, run, store=store, seconds=arguments.seconds)
            keep(table, variant, seed, {**score(run, arguments.phones / "test.tsv"), **spent}, path=arguments.results)
            show(table, path=arguments.results)
    return 0


def score(run: Path, table: Path) -> dict[str, float]:
    """Frames and phones of unseen sentences and voices, in percent, without and with smoothing."""
    labeller = FrameLabeller.load(run)
    examples = list(TASKS["tag"].side.saved_config(run).read(str(table)))
    figures = {}
    for name, smoothing in (("", None), ("smoothed ", SMOOTHING)):
        predicted = labeller.predict(examples, smoothing)
        pairs = [(gold, answer) for gold, answer in zip(predicted.gold, predicted.labels, strict=True)]
        right = sum(a == b for gold, answer in pairs for a, b in zip(gold, answer, strict=True))
        edits = Edits.total(Edits.between(collapsed(gold), collapsed(answer)) for gold, answer in pairs)
        figures[f"{name}frames right"] = 100 * right / sum(len(gold) for gold, _ in pairs)
        figures[f"{name}edits of phones"] = 100 * edits.rate
    return figures


if __name__ == "__main__":
    raise SystemExit(main())
