"""The translator that comes with Foveate in every precision, beside CTranslate2 with the same weights.

python benchmarks/shipped_decoding.py --threads 1 --rounds 3
python benchmarks/shipped_decoding.py --threads 1 --steps 24      # no hypothesis ends before: the same steps for all

Engines take turns in one process, batch after batch. The text is that of Ruth, Daniel, John and Romans, which the
translator has not read. CTranslate2 runs as `foveate translate --engine ctranslate2` runs it.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

import race
import torch
from corpus import VERSES
from torch.nn.functional import linear

from foveate import Translator, machine
from foveate.data.batch import Batch
from foveate.data.tokeniser import BOS, EOS
from foveate.decode import BeamConfig, GreedyConfig, Hypothesis
from foveate.export import CTranslate2Engine
from foveate.metrics import corpus_bleu
from foveate.nn.int8 import Int8Product
from foveate.nn.linear_layer import packed_product, packed_weight
from foveate.search import beam_size

ENGINES: dict[str, dict[str, Any]] = {
    "CTranslate2, float32": {"engine": "ctranslate2"},
    "CTranslate2, int8": {"engine": "ctranslate2-int8"},
    "foveate, float32": {},
    "foveate, bfloat16": {"precision": "bfloat16"},
    "foveate, int8": {"precision": "int8"},
}
TIE = 1e-4
"""Scores that differ by less are equal to rounding."""
RIVALS = {label: "CTranslate2, int8" if "int8" in label else "CTranslate2, float32" for label in ENGINES}
BOOKS = {"8", "27", "43", "45"}
ENGLISH, FRENCH = 2, 3
SHAPES = ((256, 768), (256, 256), (256, 1024), (1024, 256), (256, 8000))


def held_out(count: int) -> list[tuple[str, str]]:
    """English and French verses, evenly from the books."""
    import lzma

    with lzma.open(VERSES, "rt", encoding="utf-8") as file:
        cells = [line.rstrip("\n").split("\t") for line in file]
    pairs = [(row[ENGLISH], row[FRENCH]) for row in cells if row[0].split(".")[0] in BOOKS]
    return pairs[:: max(1, len(pairs) // count)][:count]


def speed(
    translators: dict[str, Translator], texts: Sequence[str], batch: int, beam: int, rounds: int, steps: int | None
) -> dict[str, dict[str, Any]]:
    """Seconds of each engine, the ratio to CTranslate2 in the same precision, and the share of float32's outputs.

    With `steps`, hypotheses have exactly so many tokens, the end included if it is the last.
    """
    exact = {} if steps is None else {"min_length": steps - 1, "max_length": steps}
    config = GreedyConfig(**exact) if beam == 1 else BeamConfig(beam=beam, **exact)
    rows = {label: [one.encode(text, "A verse") for text in texts] for label, one in translators.items()}
    spent: dict[str, list[tuple[float, float]]] = {label: [] for label in translators}
    outputs: dict[str, list[Hypothesis]] = {}
    for turn in range(rounds + 1):  # the first one prepares the engines
        sums = {label: [0.0, 0.0] for label in translators}
        best: dict[str, list[Hypothesis]] = {label: [] for label in translators}
        for first in range(0, len(texts), batch):
            for label, translator in translators.items():
                part = rows[label][first : first + batch]
                cpu, wall = time.process_time(), time.perf_counter()
                answers = _decoded(translator, part, config)
                sums[label][0] += time.process_time() - cpu
                sums[label][1] += time.perf_counter() - wall
                best[label] += [answer[0] for answer in answers]
        outputs = best
        for label, (cpu, wall) in sums.items():
            if turn:
                spent[label].append((cpu, wall))
    reference = outputs["foveate, float32"]
    results = {}
    for label, seconds in spent.items():
        rival = spent[RIVALS[label]]
        tokens = sum(len(one.tokens) + one.finished for one in outputs[label])
        results[label] = {
            "milliseconds_a_sentence": [1e3 * min(column) / len(texts) for column in zip(*seconds, strict=True)],
            "tokens": tokens,
            "times_ctranslate2": [
                statistics.median(theirs[clock] / own[clock] for theirs, own in zip(rival, seconds, strict=True))
                for clock in (0, 1)
            ],
            "equal_to_float32": sum(a.tokens == b.tokens for a, b in zip(outputs[label], reference, strict=True))
            / len(texts),
        }
    if steps is None and "CTranslate2, float32" in outputs:
        results["CTranslate2, float32"]["differences"] = differences(reference, outputs["CTranslate2, float32"])
    return results


def _decoded(
    translator: Translator, part: list[list[int]], config: GreedyConfig | BeamConfig
) -> list[list[Hypothesis]]:
    """The answers of an engine; CTranslate2 is asked itself for hypotheses of a length, which its adapter refuses."""
    theirs = translator.engine._exported
    if not isinstance(theirs, CTranslate2Engine) or not config.min_length:
        return translator.engine.decode(part, range(len(part)), config)
    answers = theirs._translator.translate_batch(
        [[theirs._source[token] for token in source[:-1]] for source in part],
        beam_size=beam_size(config),
        min_decoding_length=config.min_length,
        max_decoding_length=config.max_length,
        return_scores=True,
    )
    return [[Hypothesis(tuple(theirs._ids[name] for name in one.hypotheses[0]), 0.0, 0.0, False)] for one in answers]


def differences(ours: list[Hypothesis], theirs: list[Hypothesis]) -> dict[str, Any]:
    """Sentences with other tokens, and by how much our scores are higher than theirs."""
    gains = [a.score - b.score for a, b in zip(ours, theirs, strict=True) if a.tokens != b.tokens]
    return {
        "sentences": len(ours),
        "differ": len(gains),
        "ties": sum(abs(gain) < TIE for gain in gains),
        "ours better": sum(gain >= TIE for gain in gains),
        "theirs better": sum(gain <= -TIE for gain in gains),
        "gains": sorted(gains),
    }


def quality(translators: dict[str, Translator], pairs: Sequence[tuple[str, str]]) -> dict[str, dict[str, Any]]:
    """BLEU with beam 4, and what a precision changes in the log-probability of float32's tokens."""
    sources, references = zip(*pairs, strict=True)
    own = {label: one for label, one in translators.items() if label.startswith("foveate")}
    written = {label: one.translate(list(sources), config=BeamConfig(beam=4)) for label, one in own.items()}
    reference = written["foveate, float32"]
    tokens = [list(one.hypotheses[0].tokens) for one in reference]
    logs = {}
    for label, one in own.items():
        parts = []
        for source, target in zip(sources, tokens, strict=True):
            given = Batch.of([[BOS, *target, EOS]])
            logits = one.model(Batch.of([one.encode(source, "A verse")]), given).float()
            ids = torch.tensor([*target, EOS])
            parts.append(logits.log_softmax(-1).gather(1, ids[:, None])[:, 0])
        logs[label] = torch.cat(parts)
    exact = logs["foveate, float32"]
    return {
        label: {
            "bleu": corpus_bleu([each.text for each in texts], list(references)).value,
            "equal_outputs": sum(a.text == b.text for a, b in zip(texts, reference, strict=True)) / len(texts),
            "mean_change_of_log_probability": float((logs[label] - exact).abs().mean()),
            "largest_change": float((logs[label] - exact).abs().max()),
        }
        for label, texts in written.items()
    }


def products(rows: int) -> dict[str, dict[str, float]]:
    """Microseconds of a product, activations' rounding included, in each precision; the weight is packed once."""
    results = {}
    for inputs, outputs in SHAPES:
        weight, x = torch.randn(outputs, inputs), torch.randn(rows, inputs)
        half, packed, ours = weight.bfloat16(), packed_weight(weight), Int8Product(weight, None)
        short = x.bfloat16()
        ways = {
            "float32": lambda x=x, weight=weight: linear(x, weight),
            "float32, packed": lambda x=x, packed=packed: packed_product(x, packed, None),
            "bfloat16": lambda short=short, half=half: linear(short, half),
            "int8": lambda x=x, ours=ours: ours(x),
        }
        if machine.multiplies_bfloat16():
            half_packed = packed_weight(half)
            ways["bfloat16, packed"] = lambda short=short, packed=half_packed: packed_product(short, packed, None)
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(5):
            for name, way in ways.items():
                begin = time.perf_counter()
                for _ in range(10):
                    way()
                best[name] = min(best[name], (time.perf_counter() - begin) / 10 * 1e6)
        results[f"{rows} x {inputs} x {outputs}"] = best
    return results


@torch.no_grad()  # weights that are loaded in inference mode cannot be prepared
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=256, help="held-out verses; 24 of them at batch 1")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 32, 128])
    parser.add_argument("--beams", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--steps", type=int, metavar="N", help="tokens of every hypothesis (until they end)")
    parser.add_argument("--cells", action="store_true", help="only the speed")
    arguments = parser.parse_args()
    pairs = held_out(arguments.sentences)
    results: dict[str, Any] = {"speed": {}, "products": {}}
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        machine.tune()
        translators = {label: Translator.load("en-fr", **options) for label, options in ENGINES.items()}
        if "quality" not in results and arguments.steps is None and not arguments.cells:
            results["quality"] = quality(translators, pairs)
            for rows in arguments.batches:
                results["products"] |= products(rows)
        for beam in arguments.beams:
            for batch in arguments.batches:
                texts = [source for source, _ in pairs][: 24 if batch == 1 else None]
                name = (
                    f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}, {threads} thread{'s' * (threads > 1)}"
                )
                results["speed"][name] = speed(translators, texts, batch, beam, arguments.rounds, arguments.steps)
    result = {"machine": race.machine(max(arguments.threads)), "settings": race.settings(arguments), **results}
    print(_tables(results))
    print(f"\nkept in {race.save('shipped-decoding', result)}")


def _tables(results: dict[str, Any]) -> str:
    header = ["cell", *(f"{label} (ms)" for label in ENGINES), "float32 x CTranslate2", "int8 x CTranslate2"]
    lines = []
    for name, row in results["speed"].items():
        clock = 0 if name.endswith("1 thread") else 1
        times = [f"{row[label]['milliseconds_a_sentence'][clock]:.2f}" for label in ENGINES]
        ratios = [f"{row[f'foveate, {kind}']['times_ctranslate2'][clock]:.2f}" for kind in ("float32", "int8")]
        lines.append([name, *times, *ratios])
    parts = [race.table(header, lines)]
    lines = [[name, *_difference(row)] for name, row in results["speed"].items() if _difference(row)]
    if lines:
        header = ["float32", "sentences", "differ", "ties", "ours better", "theirs better", "differences of scores"]
        parts.append(race.table(header, lines))
    if "quality" not in results:
        return "\n\n".join(parts)
    header = ["precision", "BLEU", "outputs of float32", "mean change of ln p", "largest"]
    lines = [
        [
            label,
            f"{row['bleu']:.2f}",
            f"{row['equal_outputs']:.1%}",
            f"{row['mean_change_of_log_probability']:.4f}",
            f"{row['largest_change']:.3f}",
        ]
        for label, row in results["quality"].items()
    ]
    parts.append(race.table(header, lines))
    ways = next(iter(results["products"].values()))
    lines = [[name, *(f"{row[way]:.1f}" for way in ways)] for name, row in results["products"].items()]
    parts.append(race.table(["rows x inputs x outputs (µs)", *ways], lines))
    return "\n\n".join(parts)


def _difference(row: dict[str, Any]) -> list[str]:
    found = row["CTranslate2, float32"].get("differences")
    if found is None:
        return []
    names = ("sentences", "differ", "ties", "ours better", "theirs better")
    span = f"{found['gains'][0]:.4f} to {found['gains'][-1]:.4f}" if found["gains"] else "–"
    return [*(str(found[name]) for name in names), span]


if __name__ == "__main__":
    main()
