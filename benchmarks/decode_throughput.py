"""Decoding side by side: the same weights in every engine, the same sentences, real lengths, outputs compared.

python benchmarks/decode_throughput.py --threads 1 --rounds 3
"""

import argparse
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import race
from contract import ForcedTranslator, Rows, Size
from corpus import VERSES, Corpus, read

WORK = Path(__file__).parent / "work"
REFERENCE = "HF generate, fp32, as it comes"
ROWS = {
    # table row → (allocator policy, engine, precision)
    REFERENCE: ("default", "hugging_face", "float32"),
    "HF generate, fp32, tuned allocator": ("tuned", "hugging_face", "float32"),
    "HF generate, bf16, tuned allocator": ("tuned", "hugging_face", "bfloat16"),
    "JoeyNMT, fp32": ("default", "joeynmt", "float32"),
    "x-transformers, fp32, forced lengths": ("default", "x_transformers", "forced"),
    "CTranslate2, fp32": ("default", "ctranslate2", "float32"),
    "CTranslate2, int8": ("default", "ctranslate2", "int8"),
    "foveate, fp32": ("tuned", "ours", "float32"),
    "foveate, bf16": ("tuned", "ours", "bfloat16"),
    "foveate, int8": ("tuned", "ours", "int8"),
    "foveate --engine ctranslate2": ("default", "ours", "ctranslate2"),
    "foveate --engine ctranslate2-int8": ("default", "ours", "ctranslate2-int8"),
    "foveate --engine onnx": ("default", "ours", "onnx"),
}


def weights(corpus: Corpus, steps: int, held_out: int) -> Path:
    """A folder with a Marian trained for a few hundred steps: real lengths and ends. Kept for the next run."""
    import torch
    from peers.hugging_face import Marian
    from torch.nn.utils import clip_grad_norm_

    folder = WORK / f"marian-{steps}"
    if (folder / "model.safetensors").exists():
        return folder
    torch.manual_seed(0)
    model = Marian(Size()).train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.0, betas=(0.9, 0.98))
    training = Corpus(corpus.sources[:-held_out], corpus.targets[:-held_out], corpus.vocab)
    stream, begin, warm_up = training.batches(seed=1), time.time(), max(1, steps // 4)
    for step in range(1, steps + 1):
        for group in optimiser.param_groups:
            group["lr"] = 1e-3 * min(step / warm_up, (warm_up / step) ** 0.5)
        rows = next(stream)
        with torch.autocast("cpu", torch.bfloat16):
            loss = model([training.sources[row] for row in rows], [training.targets[row] for row in rows])
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        if step % 20 == 0 or step == steps:
            left = (time.time() - begin) / step * (steps - step)
            print(
                f"training weights: step {step} of {steps}, loss {float(loss):.2f}, {left:.0f} s left", file=sys.stderr
            )
    model.model.save_pretrained(folder)
    return folder


def build(engine: str, options: dict[str, Any]) -> race.Engine:
    """An engine with the common weights."""
    import contextlib

    kind, precision = json.loads(engine)
    module = importlib.import_module("ours" if kind == "ours" else f"peers.{kind}")
    if precision == "forced":
        return _forced(module.forced(Size(**options["size"])), _corpus(options))
    translate = module.translator(Path(options["weights"]), precision, options["threads"])
    inside = module.switches if kind == "ours" else contextlib.nullcontext
    corpus = _corpus(options)

    def engine_(job: dict[str, Any]) -> dict[str, Any]:
        sources: Rows = [corpus.sources[row] for row in job["rows"]]
        with inside():
            outputs = translate(sources, job["beam"], job["max_new_tokens"])
        return {"units": len(outputs), "tokens": sum(len(row) + 1 for row in outputs), "outputs": outputs}

    return engine_


def _forced(translate: ForcedTranslator, corpus: Corpus) -> race.Engine:
    """An engine with weights of its own; its outputs are compared with nobody's."""

    def engine_(job: dict[str, Any]) -> dict[str, Any]:
        outputs = translate([corpus.sources[row] for row in job["rows"]], job["lengths"])
        return {"units": len(outputs), "tokens": sum(job["lengths"]), "outputs": [row[:-1] for row in outputs]}

    return engine_


_loaded: dict[str, Corpus] = {}


def _corpus(options: dict[str, Any]) -> Corpus:
    if "corpus" not in _loaded:
        _loaded["corpus"] = read(Path(options["corpus"]), vocab=options["size"]["vocab"])
    return _loaded["corpus"]


def work(options: dict[str, Any]) -> None:
    """A worker process."""
    if options["policy"] == "tuned":
        race.tuned_allocator()
    import torch

    torch.set_num_threads(options["threads"])
    race.serve(lambda engine: build(engine, options))


def jobs(arguments: argparse.Namespace, total: int, batch: int, beam: int) -> list[dict[str, Any]]:
    """The held-out sentences in the order they stand, cut into batches; all of them each round."""
    count = min(arguments.sentences, arguments.single) if batch == 1 else arguments.sentences
    rows = list(range(total - arguments.sentences, total))[:count]
    cut = [rows[first : first + batch] for first in range(0, len(rows), batch)]
    return [{"rows": part, "beam": beam, "max_new_tokens": arguments.max_new_tokens} for part in cut]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=VERSES, help="six-language verses, .tsv.xz")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--single", type=int, default=50, help="sentences at batch 1, which takes the longest")
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 32, 128])
    parser.add_argument("--beams", type=int, nargs="*", default=[1, 4])
    parser.add_argument("--max-new-tokens", type=int, default=64)
    parser.add_argument("--steps", type=int, default=400, help="training steps of the common weights")
    parser.add_argument("--only", nargs="*", default=[], help="rows that contain one of these texts, and the reference")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(json.loads(arguments.worker))
    import torch

    torch.set_num_threads(arguments.threads)
    corpus = read(arguments.corpus, vocab=Size().vocab)
    path = weights(corpus, arguments.steps, arguments.sentences)
    options = {
        "threads": arguments.threads,
        "corpus": str(arguments.corpus),
        "size": vars(Size()),
        "weights": str(path),
    }
    workers = {policy: race.Worker(__file__, policy, options) for policy in ("default", "tuned")}
    entries = {
        label: (workers[policy], json.dumps([kind, precision]))
        for label, (policy, kind, precision) in ROWS.items()
        if label == REFERENCE or not arguments.only or any(part in label for part in arguments.only)
    }
    results = {}
    for beam in arguments.beams:
        for batch in arguments.batches:
            setting = f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {batch}"
            once = jobs(arguments, len(corpus), batch, beam)
            for job in once:
                worker, engine = entries[REFERENCE]
                job["lengths"] = [len(row) + 1 for row in worker.ask(engine=engine, job=job)["outputs"]]
            racing = {label: entry for label, entry in entries.items() if beam == 1 or ROWS[label][2] != "forced"}
            readings = race.race(racing, once * arguments.rounds, warm_up=once[0], say=lambda text: None)
            results[setting] = _summary(readings, len(once))
            print(f"\n{setting}\n{_table(results[setting])}", flush=True)
    for worker in workers.values():
        worker.close()
    settings = race.settings(arguments)
    result = {
        "machine": race.machine(arguments.threads),
        "size": vars(Size()),
        "settings": settings,
        "results": results,
    }
    print(f"\nkept in {race.save('decode', result)}")
    return None


def _summary(readings: dict[str, race.Reading], jobs_a_round: int) -> dict[str, Any]:
    """Per row: rates over whole rounds (all sentences), the ratio to the reference, equal outputs, lengths."""
    rounds = {label: _rounds(reading, jobs_a_round) for label, reading in readings.items()}
    reference = readings[REFERENCE]
    expected = [row for answer in reference.answers[:jobs_a_round] for row in answer["outputs"]]
    summary = {}
    for label, reading in readings.items():
        outputs = [row for answer in reading.answers[:jobs_a_round] for row in answer["outputs"]]
        tokens = sum(len(row) + 1 for row in outputs)
        lengths = sorted(len(row) for row in outputs)
        summary[label] = {
            "sentences_per_cpu_second": rounds[label].rate(),
            "sentences_per_second": rounds[label].rate("wall"),
            "tokens_per_cpu_second": rounds[label].rate() * tokens / len(outputs),
            "times_reference": race.ratio(rounds[label], rounds[REFERENCE]),
            "equal_outputs": None
            if ROWS[label][2] == "forced"
            else sum(a == b for a, b in zip(outputs, expected, strict=True)) / len(expected),
            "lengths": [lengths[int(len(lengths) * share)] for share in (0.05, 0.5, 0.95)],
            "cpu": rounds[label].cpu,
            "wall": rounds[label].wall,
        }
    return summary


def _rounds(reading: race.Reading, jobs_a_round: int) -> race.Reading:
    """Jobs summed up to rounds."""
    starts = range(0, len(reading.cpu), jobs_a_round)
    columns = []
    for values in (reading.units, reading.cpu, reading.wall):
        columns.append([sum(values[start : start + jobs_a_round]) for start in starts])
    return race.Reading(*columns)


def _table(summary: dict[str, Any]) -> str:
    rows = [
        [
            label,
            f"{row['sentences_per_cpu_second']:.1f}",
            f"{row['tokens_per_cpu_second']:.0f}",
            f"{row['sentences_per_second']:.1f}",
            f"{row['times_reference']:.2f}",
            "own weights" if row["equal_outputs"] is None else f"{row['equal_outputs']:.1%}",
            "/".join(str(length) for length in row["lengths"]),
        ]
        for label, row in summary.items()
    ]
    header = ["engine", "sentences/CPU-s", "tokens/CPU-s", "sentences/s", "x HF", "equal outputs", "lengths 5/50/95 %"]
    return race.table(header, rows)


if __name__ == "__main__":
    main()
