"""The speed that `foveate plan --processes` expects on this machine, beside that of trainings by as many processes.

    python benchmarks/plan_check.py --processes 1 2 --out benchmarks/results/plan-check.json

A small translator (Transformer, 2 + 2 layers, 128 wide) of the verses, 4 batches of 2,048 tokens an update, one thread
a process. What is expected comes from a batch of the mean lengths of the data, measured beforehand; what is measured
are the target tokens a second that the training writes into metrics.jsonl, without its first rows.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import race
from preparation import verses

SETTINGS = {
    "model": {
        "kind": "transformer",
        "encoder_layers": 2,
        "decoder_layers": 2,
        "block": {"model_dim": 128, "num_heads": 4, "feedforward_dim": 512},
    },
    "source_tokeniser": {"kind": "sentencepiece", "vocab_size": 4000},
    "target_tokeniser": {"kind": "sentencepiece", "vocab_size": 4000},
    "data": {"max_tokens": 2048},
}
ACCUMULATE, STEPS, EVERY, SKIPPED = 4, 40, 5, 2


def expected(run: Path, processes: int, reduction: str) -> float:
    """Target tokens a second, as the command prints them."""
    from foveate.data.parallel import ParallelData

    data = ParallelData.open(run / "data" / "train")
    source, target = (round(float(store.lengths.mean())) for store in (data.source, data.target))
    lengths = ["--source-length", str(source), "--target-length", str(target - 1)]
    settings = ["--set", f"train.accumulate={ACCUMULATE}", "--set", f"train.reduction={reduction}"]
    command = [sys.executable, "-m", "foveate", "plan", "translate", str(run.parent / "run.toml"), *lengths, *settings]
    done = subprocess.run(
        [*command, "--processes", str(processes), "--threads", "1"], check=True, stdout=subprocess.PIPE, text=True
    )
    (speed,) = (line.split()[1] for line in done.stdout.splitlines() if line.startswith("  speed "))
    return float(speed.replace(",", ""))


def measured(pairs: Path, run: Path, processes: int, reduction: str) -> float:
    """Target tokens a second."""
    toml = run.parent / "run.toml"
    toml.write_text(_toml(pairs))
    train = {"steps": STEPS, "accumulate": ACCUMULATE, "reduction": reduction, "log_every": EVERY}
    words = [word for name, value in train.items() for word in ("--set", f"train.{name}={value}")]
    words += [
        "--set",
        f"train.validate_every={STEPS}",
        "--set",
        f"train.save_every={STEPS}",
        "--processes",
        str(processes),
    ]
    command = [sys.executable, "-m", "foveate", "train", "translate", str(toml), "--out", str(run), "--quiet", *words]
    subprocess.run([*command, "--threads", "1"], check=True)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return statistics.median([row["tokens_per_second"] for row in rows if "tokens_per_second" in row][SKIPPED:])


def _toml(pairs: Path) -> str:
    from foveate.config import build, to_toml
    from foveate.tasks import TASKS

    settings: dict[str, Any] = {**SETTINGS, "data": {**SETTINGS["data"], "source": str(pairs)}}
    return to_toml(build(TASKS["translate"].side.run_config, settings))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = folder / "pairs.tsv"
        pairs.write_text("".join(f"{source}\t{target}\n" for source, target in verses()), encoding="utf-8")
        for processes in options.processes:
            for reduction in ("exact", "fast"):
                run = folder / f"{processes}-{reduction}"
                speed = measured(pairs, run, processes, reduction)
                rows.append(
                    {
                        "processes": processes,
                        "reduction": reduction,
                        "expected": expected(run, processes, reduction),
                        "measured": speed,
                    }
                )
    result = {"machine": race.machine(1), "rows": rows}
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    header = ["processes", "reduction", "expected, target tokens a second", "measured", "measured / expected"]
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        figures = f"{row['expected']:,.0f} | {row['measured']:,.0f} | {row['measured'] / row['expected']:.2f}"
        print(f"| {row['processes']} | {row['reduction']} | {figures} |")


if __name__ == "__main__":
    main()
