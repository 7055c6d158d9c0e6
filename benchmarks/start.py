"""The cost of a first answer: commands as cold processes, in turns, and how numpy's answers agree with torch's.

    python benchmarks/start.py                      # 15 rounds of all commands
    python benchmarks/start.py --agree 300          # that many sentences by both engines

Files are in the page cache, kernels are compiled. CPU seconds are those of the process and its children; a median of
all rounds. The sentences of `--agree` are lines of the pages in docs/.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import race

ROOT = Path(__file__).resolve().parents[1]
TEXT = "Good morning."
NOUNS = ("cat", "dog", "house", "tree")
TEXTS = [f"The {noun} is near the {other}." for noun in NOUNS for other in NOUNS]
CLOSE = "The dog is near the cat."
"""The only one of the texts that rounding decides, so that torch answers all texts of a command with it."""
COMMANDS: dict[str, list[str]] = {
    "Python": ["-c", "pass"],
    "`import foveate`": ["-c", "import foveate"],
    "`import numpy`": ["-c", "import numpy"],
    "`import onnxruntime`": ["-c", "import onnxruntime"],
    "`import torch`": ["-c", "import torch"],
    "`foveate --help`": ["-m", "foveate", "--help"],
    "`foveate translate --help`": ["-m", "foveate", "translate", "--help"],
    "`foveate translate en-fr TEXT`": ["-m", "foveate", "translate", "en-fr", TEXT],
    "… `--align`": ["-m", "foveate", "translate", "en-fr", TEXT, "--align"],
    "… `--n-best 4`": ["-m", "foveate", "translate", "en-fr", TEXT, "--n-best", "4"],
    "… 15 texts": ["-m", "foveate", "translate", "en-fr", *(text for text in TEXTS if text != CLOSE)],
    "… 16 texts, one of them close": ["-m", "foveate", "translate", "en-fr", *TEXTS],
    "… by torch (`--engine own`)": ["-m", "foveate", "translate", "en-fr", TEXT, "--engine", "own"],
    "… 16 texts by torch": ["-m", "foveate", "translate", "en-fr", "--engine", "own", *TEXTS],
    "`foveate look en-fr TEXT`": ["-m", "foveate", "look", "en-fr", TEXT],
}


def measured(words: list[str]) -> tuple[float, float]:
    """CPU seconds and seconds of a process."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL, cwd=ROOT, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{words} failed.")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began


def race_commands(rounds: int) -> dict[str, dict[str, float]]:
    """Medians of CPU seconds and seconds by command, after a round that is not counted."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for number in range(rounds + 1):
        for name, words in COMMANDS.items():
            once = measured(words)
            times[name] += [once] if number else []
    return {
        name: {"cpu": statistics.median(cpu for cpu, _ in runs), "wall": statistics.median(wall for _, wall in runs)}
        for name, runs in times.items()
    }


def sentences(count: int) -> list[str]:
    """Lines of the project's pages that look like text."""
    lines = [
        line.strip("*# \n") for page in sorted((ROOT / "docs").rglob("*.md")) for line in page.open(encoding="utf-8")
    ]
    texts = [line for line in lines if re.fullmatch(r"[A-Z][\w ,;:.'()-]{20,140}[.:]?", line)]
    return texts[:: max(1, len(texts) // count)][:count]


def agreement(count: int) -> list[dict[str, Any]]:
    """How many sentences have other hypotheses, how many were left to torch, and how far log-probabilities differ."""
    from foveate.light.light_search import CloseError
    from foveate.search import GreedyConfig, Wu
    from foveate.tasks.translate.light_translator import LightTranslator
    from foveate.tasks.translate.use import Translator

    torches, lights, texts, rows = Translator.load("en-fr"), LightTranslator.load("en-fr"), sentences(count), []
    searches = {
        "greedy": GreedyConfig(),
        "beam 4": torches.config,
        "beam 4, all four, Wu's penalty": replace(torches.config, num_best=4, length_penalty=Wu()),
    }
    for name, config in searches.items():
        left = differ = 0
        farthest = 0.0
        for theirs in torches.translate(texts, config=config):
            try:
                ours = lights.translate(theirs.source, config=config)
            except CloseError:
                left += 1
                continue
            differ += [one.tokens for one in ours.hypotheses] != [one.tokens for one in theirs.hypotheses]
            for one, other in zip(ours.hypotheses, theirs.hypotheses, strict=False):
                farthest = max(farthest, abs(one.log_probability - other.log_probability))
        rows.append({"search": name, "texts": len(texts), "differ": differ, "left": left, "farthest": farthest})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--agree", type=int, default=0, metavar="N")
    parser.add_argument("--out", type=Path, metavar="FILE", help="JSON with the results")
    arguments = parser.parse_args()
    results: dict[str, Any] = {"machine": race.machine(1)}
    if arguments.agree:
        results["agreement"] = agreement(arguments.agree)
        print("| search | texts | other hypotheses | left to torch | largest difference of a log-probability |")
        print("|---|--:|--:|--:|--:|")
        for row in results["agreement"]:
            print(f"| {row['search']} | {row['texts']} | {row['differ']} | {row['left']} | {row['farthest']:.1e} |")
    else:
        results |= {"rounds": arguments.rounds, "commands": race_commands(arguments.rounds)}
        print("| process | CPU seconds | seconds |")
        print("|---|--:|--:|")
        for name, row in results["commands"].items():
            print(f"| {name} | {row['cpu']:.2f} | {row['wall']:.2f} |")
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
