"""Short texts while a service answers a long question that no flight can take: how long do they wait?

    git worktree add ../before COMMIT
    python benchmarks/beside.py --before ../before

A client sends a short sentence five times a second: alone, and while another request has 60 sentences translated with
three alternatives each, which is a batch of its own. Services of both trees take turns, each with one thread.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from worlds import free_port

SHORT = "Open the file and save it."
LONG = [
    "The two disciples heard him speak, and they followed Jesus to the place in which he was staying that day."
] * 60
BETWEEN = 0.2
ALONE = 4.0
"""Seconds of the measurement without a long question."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="tree of an earlier version")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    trees = {"before": arguments.before.resolve(), "now": Path(__file__).resolve().parents[1]}
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in trees}
    for _ in range(arguments.rounds):
        for name, tree in trees.items():
            rows[name].append(measured(tree))
    print("| | short, alone, p50 ms | short, beside, p50 ms | the longest | long question, s |\n|---|--:|--:|--:|--:|")
    for name, measurements in rows.items():
        alone, beside = ([one for row in measurements for one in row[part]] for part in ("alone", "beside"))
        shown = (statistics.median(alone), statistics.median(beside), max(beside))
        long = statistics.median(row["long"] for row in measurements)
        print(f"| {name} | {' | '.join(f'{1000 * value:.0f}' for value in shown)} | {long:.2f} |")
    return 0


def measured(tree: Path) -> dict[str, Any]:
    """Seconds of short requests alone and beside a long one, and of that one."""
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "OMP_NUM_THREADS": "1"}
    words = ("-m", "foveate", "serve", "en-fr", "--port", str(port), "--threads", "1", "--no-tune")
    service = subprocess.Popen([sys.executable, *words], env=environment, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 60
        while True:
            try:
                ask(port, SHORT)
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.2)
        alone, until = [], time.monotonic() + ALONE
        while time.monotonic() < until:
            alone.append(ask(port, SHORT))
            time.sleep(BETWEEN)
        long: list[float] = []
        other = threading.Thread(target=lambda: long.append(ask(port, LONG, alternatives=3)))
        other.start()
        time.sleep(BETWEEN)
        beside = []
        while other.is_alive():
            beside.append(ask(port, SHORT))
            time.sleep(BETWEEN)
        return {"alone": alone, "beside": beside, "long": long[0]}
    finally:
        service.terminate()
        service.wait()


def ask(port: int, text: str | list[str], **settings: Any) -> float:
    """The seconds of a translation."""
    body = json.dumps({"q": text, "source": "en", "target": "fr", **settings}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/translate", body, {"content-type": "application/json"})
    began = time.perf_counter()
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - began


if __name__ == "__main__":
    raise SystemExit(main())
