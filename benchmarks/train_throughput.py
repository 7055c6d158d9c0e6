"""Training throughput side by side: real target tokens per second of the same Transformer on the same batches.

python benchmarks/train_throughput.py --threads 1 --rounds 8
"""

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

import race
from contract import Size, count_parameters
from corpus import COLUMNS, VERSES, describe, read

ENGINES = {
    "nn.Transformer": "peers.torch_transformer",
    "HF Marian": "peers.hugging_face",
    "x-transformers": "peers.x_transformers",
    "JoeyNMT": "peers.joeynmt",
    "foveate": "ours",
    "a step's products alone": "products",
}
OURS, BOUND = "foveate", "a step's products alone"


def labels() -> dict[str, tuple[str, str, str]]:
    """Table row → (allocator policy, engine, precision)."""
    rows = {}
    for name in ENGINES:
        rows[f"{name}, fp32, as it comes"] = ("default", name, "float32")
    for precision, short in (("float32", "fp32"), ("bfloat16", "bf16")):
        for name in ENGINES:
            rows[f"{name}, {short}, tuned allocator"] = ("tuned", name, precision)
    return rows


def build(engine: str, options: dict[str, Any]) -> race.Engine:
    """A model with its optimiser, and the step that trains it: the same for all."""
    import contextlib

    import torch
    from torch.nn.utils import clip_grad_norm_

    name, precision, policy = json.loads(engine)
    module = importlib.import_module(ENGINES[name])
    size = Size(**options["size"])
    torch.manual_seed(0)
    model = module.trainee(size).train()
    fused = name == OURS or policy == "tuned"  # ours always trains so; torch's default is not fused
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-4, betas=(0.9, 0.98), fused=fused or None)
    corpus = _corpus(options)
    plain = contextlib.nullcontext
    switches = module.switches if name == OURS and policy == "tuned" else plain

    def step(rows: list[int]) -> float:
        sources, targets = [corpus.sources[row] for row in rows], [corpus.targets[row] for row in rows]
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = model(sources, targets)
        loss.backward()
        clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        return float(loss.detach())

    def engine_(job: list[list[int]]) -> dict[str, Any]:
        with switches():
            losses = [step(rows) for rows in job]
        units = sum(corpus.real_targets(rows) for rows in job)
        return {"units": units, "loss": losses[-1], "parameters": count_parameters(model)}

    return engine_


_loaded: dict[str, Any] = {}


def _corpus(options: dict[str, Any]) -> Any:
    if "corpus" not in _loaded:
        _loaded["corpus"] = read(Path(options["corpus"]), columns=options["columns"], vocab=options["size"]["vocab"])
    return _loaded["corpus"]


def work(options: dict[str, Any]) -> None:
    """A worker process."""
    if options["policy"] == "tuned":
        race.tuned_allocator()
    import torch

    torch.set_num_threads(options["threads"])
    race.serve(lambda engine: build(engine, options))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, default=VERSES, help="sentence pairs, .tsv or .tsv.xz")
    parser.add_argument("--columns", nargs=2, type=int, default=COLUMNS, help="of source and target, from 0")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--group", type=int, default=2, help="steps an engine makes before the next has its turn")
    parser.add_argument("--padded-targets", type=int, default=2048, help="target positions a batch, padding counted")
    parser.add_argument("--random", action="store_true", help="batches without length buckets")
    parser.add_argument("--only", nargs="*", default=[], help="rows that contain one of these texts")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work(json.loads(arguments.worker))
    corpus = read(arguments.corpus, columns=arguments.columns, vocab=Size().vocab)
    stream = corpus.batches(padded_targets=arguments.padded_targets, bucketed=not arguments.random)
    batches = [next(stream) for _ in range(arguments.rounds * arguments.group)]
    print(describe(corpus, batches))
    options = {
        "threads": arguments.threads,
        "corpus": str(arguments.corpus),
        "columns": arguments.columns,
        "size": vars(Size()),
    }
    workers = {policy: race.Worker(__file__, policy, options) for policy in ("default", "tuned")}
    chosen = {
        label: row
        for label, row in labels().items()
        if not arguments.only or any(part in label for part in arguments.only)
    }
    entries = {
        label: (workers[policy], json.dumps([name, precision, policy]))
        for label, (policy, name, precision) in chosen.items()
    }
    jobs = [
        [rows.tolist() for rows in batches[first : first + arguments.group]]
        for first in range(0, len(batches), arguments.group)
    ]
    readings = race.race(entries, jobs, warm_up=jobs[0], say=lambda text: print(text, file=sys.stderr, flush=True))
    for worker in workers.values():
        worker.close()
    report(readings, arguments, describe(corpus, batches))
    return None


def report(readings: dict[str, race.Reading], arguments: argparse.Namespace, corpus: str) -> None:
    """Print the table and the ratios that matter; keep both."""
    peers = [name for name in ENGINES if name not in (OURS, BOUND)]
    base = race.best(readings, [f"{name}, fp32, as it comes" for name in peers])
    rows = []
    for label, reading in readings.items():
        against = f"{race.ratio(reading, readings[base]):.2f}" if base else ""
        parameters = f"{reading.answers[-1]['parameters'] / 1e6:.2f} M"
        losses = f"{reading.answers[-1]['loss']:.2f}"
        rows.append([label, f"{reading.rate():.0f}", f"{reading.rate('wall'):.0f}", against, parameters, losses])
    text = race.table(["engine", "tokens/CPU-s", "tokens/s", "x best as it comes", "parameters", "last loss"], rows)
    ratios = {}
    for ours, setting, words in (
        ("bf16, tuned allocator", "fp32, as it comes", "against the best peer as it comes"),
        ("bf16, tuned allocator", "bf16, tuned allocator", "against the best peer with equal precision and allocator"),
        ("fp32, tuned allocator", "fp32, as it comes", "in fp32, against the best peer as it comes"),
        ("fp32, tuned allocator", "fp32, tuned allocator", "in fp32, against the best peer with the same allocator"),
        ("fp32, as it comes", "fp32, as it comes", "with every switch off, against the best peer as it comes"),
    ):
        mine = f"{OURS}, {ours}"
        other = race.best(readings, [f"{name}, {setting}" for name in peers])
        if mine in readings and other:
            ratios[words] = race.ratio(readings[mine], readings[other])
            text += f"\n{OURS} {ours.split(',')[0]} {words} ({other.split(',')[0]}): {ratios[words]:.2f} x"
    print(text)
    result = {
        "machine": race.machine(arguments.threads),
        "corpus": corpus,
        "size": vars(Size()),
        "settings": race.settings(arguments),
        "ratios": ratios,
        "rows": {
            label: {
                "tokens_per_cpu_second": reading.rate(),
                "tokens_per_second": reading.rate("wall"),
                "cpu": reading.cpu,
                "wall": reading.wall,
                "units": reading.units,
                **reading.answers[-1],
            }
            for label, reading in readings.items()
        },
    }
    print(f"kept in {race.save('train', result)}")


if __name__ == "__main__":
    main()
