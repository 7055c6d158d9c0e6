"""Marian's own decoder beside Foveate and CTranslate2: one Transformer of the shipped translator's size for all.

python benchmarks/marian_decoding.py --python old/bin/python      # a Python 3.10 in which bergamot 0.4.5 is installed

Marian cannot hold the shipped translator, which is pre-norm (`peers/marian.py` says why), so a post-norm model is
trained for some updates on the verses. One thread; CPU time from ids to ids, and from text to text for Marian, whose
text is a word for each id.
"""

import argparse
import json
import shutil
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import race
import torch
from contract import Size
from corpus import Corpus, read
from ours import Decode, Exported, switches
from peers import marian
from safetensors.torch import load_model, save_model
from torch.nn.utils import clip_grad_norm_

from foveate import machine
from foveate.data.batch import Batch
from foveate.data.tokeniser import BOS, EOS
from foveate.models.transformer import Transformer
from foveate.nn.precision import set_precision

WORK = Path(__file__).parent / "work"
SIZE = Size()
CONFIG = marian.config(model_dim=SIZE.model_dim, heads=SIZE.heads, feedforward_dim=SIZE.feedforward_dim, layers=(4, 2))
ROWS = {
    # table row → (process, engine)
    "Marian, float32": ("marian", "float32"),
    "Marian, int8": ("marian", "int8shiftAll"),
    "CTranslate2, float32": ("default", "ctranslate2"),
    "CTranslate2, int8": ("default", "ctranslate2-int8"),
    "foveate, float32": ("tuned", "float32"),
    "foveate, bfloat16": ("tuned", "bfloat16"),
    "foveate, int8": ("tuned", "int8"),
}
OURS = "foveate, float32"
HELD_OUT, LONGEST = 256, 128
"""Verses that are not trained on, and the most tokens of an output."""
TIE = 1e-4
"""Mean log-probabilities that differ by less are equal to rounding."""


def weights(corpus: Corpus, steps: int) -> Path:
    """A trained model, also in Marian's form; kept for the next run."""
    folder = WORK / f"post-norm-{steps}"
    if (folder / "vocab.spm").exists():
        return folder
    torch.manual_seed(0)
    learner = replace(CONFIG, output_bias=False).build(SIZE.vocab, SIZE.vocab).train()
    optimiser = torch.optim.Adam(learner.parameters(), lr=0.0, betas=(0.9, 0.98), fused=True)
    stream, begin, warm_up = corpus.batches(seed=1), time.time(), max(1, steps // 4)
    for step in range(1, steps + 1):
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * min(step / warm_up, (warm_up / step) ** 0.5)
        rows = next(stream)
        source, target = (Batch.of([side[row] for row in rows]) for side in (corpus.sources, corpus.targets))
        with torch.autocast("cpu", torch.bfloat16):
            loss = learner.loss(source, target, label_smoothing=0.1) / (target.num_tokens - target.size)
        loss.backward()
        clip_grad_norm_(learner.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        marian.begin_with_zeros(learner)
        if step % 20 == 0:
            print(f"step {step}: loss {float(loss.detach()):.2f}, {time.time() - begin:.0f} s", file=sys.stderr)
    model = CONFIG.build(SIZE.vocab, SIZE.vocab)
    model.load_state_dict(learner.state_dict() | {"output_bias": marian.output_bias(SIZE.vocab)})
    marian.write(model, CONFIG, folder)
    save_model(model, str(folder / "model.safetensors"))
    return folder


def trained(folder: Path) -> Transformer:
    model = CONFIG.build(SIZE.vocab, SIZE.vocab)
    load_model(model, folder / "model.safetensors")
    return model.eval()


def ending(model: Transformer, sources: list[list[int]]) -> list[list[int]]:
    """The sources whose greedy outputs end by themselves: each engine has another limit of lengths."""
    outputs = Decode(model)(sources, 1, LONGEST)
    return [source for source, output in zip(sources, outputs, strict=True) if len(output) < 2 * len(source)]


def build(engine: str, options: dict[str, Any]) -> race.Engine:
    """Foveate in a precision, or CTranslate2 as `foveate translate --engine` runs it."""
    model = trained(Path(options["folder"]))
    exported = engine.startswith("ctranslate2")
    if not exported:
        set_precision(model, engine)
    translate = Exported(model, engine) if exported else Decode(model)

    def engine_(job: dict[str, Any]) -> dict[str, Any]:
        with switches():
            outputs = translate(job["sources"], job["beam"], LONGEST)
        return {"units": len(outputs), "outputs": outputs}

    return engine_


def work(options: dict[str, Any]) -> None:
    """A worker process."""
    if options["policy"] == "tuned":
        race.tuned_allocator()
    torch.set_num_threads(1)
    race.serve(lambda engine: build(engine, options))


@torch.no_grad()
def scores(model: Transformer, sources: list[list[int]], outputs: list[list[int]]) -> list[float]:
    """The mean log-probability of a token of each output, its end included."""
    results = []
    for source, output in zip(sources, outputs, strict=True):
        logits = model(Batch.of([source]), Batch.of([[BOS, *output, EOS]]))
        ids = torch.tensor([*output, EOS])
        results.append(float(logits.log_softmax(-1).gather(1, ids[:, None]).mean()))
    return results


def cell(
    readings: dict[str, race.Reading], jobs_a_round: int, sources: list[list[int]], model: Transformer
) -> dict[str, dict[str, Any]]:
    """For each engine: seconds of each round, and its outputs beside ours."""
    results = {}
    expected = _outputs(readings[OURS], jobs_a_round)
    for label, reading in readings.items():
        outputs = _outputs(reading, jobs_a_round)
        starts = range(0, len(reading.cpu), jobs_a_round)
        results[label] = {
            "seconds": [sum(reading.cpu[start : start + jobs_a_round]) for start in starts],
            "sentences": len(outputs),
            "tokens": sum(len(row) + 1 for row in outputs),
            "equal": sum(a == b for a, b in zip(outputs, expected, strict=True)),
        }
        if "float32" in label:
            other = [number for number, row in enumerate(outputs) if row != expected[number]]
            ours, theirs = (
                scores(model, [sources[number] for number in other], [side[number] for number in other])
                for side in (expected, outputs)
            )
            results[label]["gains"] = sorted(a - b for a, b in zip(ours, theirs, strict=True))
    return results


def _outputs(reading: race.Reading, jobs_a_round: int) -> list[list[int]]:
    return [row for answer in reading.answers[:jobs_a_round] for row in answer["outputs"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=Path, help="a Python that has bergamot")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=128, help="held-out verses at most; 16 of them at batch 1")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 32, 128])
    parser.add_argument("--beams", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--steps", type=int, default=300, help="updates of the common weights")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(json.loads(arguments.worker))
    if arguments.python is None:
        parser.error("--python names a Python that has bergamot")
    if shutil.which(arguments.python) is None:
        parser.error(f"--python: {arguments.python} is not a program")
    torch.set_num_threads(1)
    machine.tune()
    corpus = read(vocab=SIZE.vocab)
    folder = weights(Corpus(corpus.sources[:-HELD_OUT], corpus.targets[:-HELD_OUT], corpus.vocab), arguments.steps)
    options = {"folder": str(folder)}
    workers = {policy: race.Worker(__file__, policy, options) for policy in ("default", "tuned")}
    script = Path(__file__).parent / "peers" / "marian_worker.py"
    workers["marian"] = race.Worker(str(script), "default", options, python=str(arguments.python))
    entries = {label: (workers[process], engine) for label, (process, engine) in ROWS.items()}
    results: dict[str, dict[str, dict[str, Any]]] = {}
    model = trained(folder)
    verses = ending(model, corpus.sources[-HELD_OUT:])[: arguments.sentences]
    for beam in arguments.beams:
        for batch in arguments.batches:
            sources = verses[: 16 if batch == 1 else None]
            jobs = [
                {"sources": sources[first : first + batch], "beam": beam} for first in range(0, len(sources), batch)
            ]
            readings = race.race(entries, jobs * arguments.rounds, warm_up=jobs[0], say=lambda text: None)
            name = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}"
            results[name] = cell(readings, len(jobs), sources, model)
            print(f"{name} is done", file=sys.stderr)
    for worker in workers.values():
        worker.close()
    result = {"machine": race.machine(1), "settings": race.settings(arguments), "results": results}
    print(tables(results))
    print(f"\nkept in {race.save('marian-decoding', result)}")
    return None


def tables(results: dict[str, dict[str, dict[str, Any]]]) -> str:
    labels = list(next(iter(results.values())))
    ratios = [(kind, peer) for peer in ("Marian", "CTranslate2") for kind in ("float32", "int8")]
    ratios = [(kind, peer) for kind, peer in ratios if f"{peer}, {kind}" in labels]
    speed, outputs = [], []
    for name, row in results.items():
        times = [f"{1e3 * statistics.median(row[label]['seconds']) / row[label]['sentences']:.2f}" for label in labels]
        speed.append(
            [name, *times, *(_ratio(row[f"{peer}, {kind}"], row[f"foveate, {kind}"]) for kind, peer in ratios)]
        )
        for label in (label for label in labels if "gains" in row[label] and label != OURS):
            gains = row[label]["gains"]
            better = [sum(gain >= TIE for gain in gains), sum(gain <= -TIE for gain in gains)]
            outputs.append([f"{name}, {label}", *map(str, [row[label]["sentences"], len(gains), *better])])
    header = ["CPU ms a sentence", *labels, *(f"{kind} x {peer}" for kind, peer in ratios)]
    names = ["beside foveate, float32", "sentences", "differ", "ours better", "theirs better"]
    return race.table(header, speed) + "\n\n" + race.table(names, outputs)


def _ratio(peer: dict[str, Any], own: dict[str, Any]) -> str:
    return f"{statistics.median(a / b for a, b in zip(peer['seconds'], own['seconds'], strict=True)):.2f}"


if __name__ == "__main__":
    main()
