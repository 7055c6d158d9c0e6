"""The time and the memory of preparing many pairs, for several numbers of processes.

python benchmarks/preparation.py --lines 10000000 --processes 1 2

The lines are made of the six-language verses: line i joins the first half of a verse and the second half of another.
Every preparation runs in a process of its own, which prints its peak memory. Then the digests of all files are
compared, and with `--kill` a preparation that is killed half-way is continued.
"""

import argparse
import hashlib
import json
import lzma
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from itertools import islice
from pathlib import Path
from typing import Any

import race

VERSES = Path(__file__).parent.parent / "examples" / "data" / "verses.tsv.xz"
COLUMNS = (2, 3)
"""English (World) and French (Segond)."""
VOCABULARY = 8000
MEMORY = {"resident": ("Rss",), "private": ("Private_Clean", "Private_Dirty"), "anonymous": ("Anonymous",)}
"""Kinds of memory, and the entries of the system's books that they are the sums of."""


def verses() -> list[tuple[str, str]]:
    with lzma.open(VERSES, "rt", encoding="utf-8") as file:
        lines = file.read().splitlines()
    table = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(row[COLUMNS[0]], row[COLUMNS[1]]) for row in table if len(row) > max(COLUMNS)]


def write_lines(path: Path, count: int) -> None:
    """`count` lines of two columns; 5,706 times 5,706 joined verses come before one returns."""
    halves = []
    for pair in verses():
        words = [side.split() for side in pair]
        halves.append([(" ".join(side[: len(side) // 2]), " ".join(side[len(side) // 2 :])) for side in words])
    with path.open("w", encoding="utf-8") as out:
        for line in range(count):
            turn, place = divmod(line, len(halves))
            first, second = halves[place], halves[(place + turn) % len(halves)]
            out.write(f"{first[0][0]} {second[0][1]}\t{first[1][0]} {second[1][1]}\n")


def tokenisers() -> tuple[object, object]:
    from foveate.data.tokeniser import SentencePieceTokeniser

    sides = zip(*verses(), strict=True)
    source, target = (SentencePieceTokeniser.train(side, vocab_size=VOCABULARY) for side in sides)
    return source, target


def prepare_here(lines: Path, folder: Path, processes: int, stop: int | None) -> None:
    """Prepare the pairs and print what it took. With `stop`, die by kill -9 at that pair."""
    from foveate.data.parallel import prepare
    from foveate.data.text import read_pairs

    source, target = tokenisers()
    pairs = read_pairs(lines)
    if stop is not None:
        pairs = _dying(pairs, stop)
    started, before, memory = time.perf_counter(), os.times(), Memory()
    data, report = prepare(folder, pairs, source, target, max_length=250, processes=processes, origin=str(lines))
    seconds, after = time.perf_counter() - started, os.times()
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.*")):
        digest.update(f"{path.relative_to(folder)} {path.stat().st_size} ".encode())
        digest.update(hashlib.file_digest(path.open("rb"), "sha256").digest())
    print(
        json.dumps(
            {
                "processes": processes,
                "seconds": seconds,
                "cpu_seconds": sum(after[:4]) - sum(before[:4]),
                **memory.mebibytes(),
                "peak_child_mib": children / 1024,
                "pairs": len(data),
                "tokens": data.source.num_tokens + data.target.num_tokens,
                "sha256": digest.hexdigest(),
                "report": str(report),
            }
        )
    )


class Memory:
    """The peaks of this process's memory, by the system's books (`/proc/self/smaps_rollup`), looked up five times a
    second: all its pages, those that no other process has, and those of no file.
    """

    def __init__(self) -> None:
        self.peaks = dict.fromkeys(MEMORY, 0)
        self._look()
        self.at_first = dict(self.peaks)
        threading.Thread(target=self._watch, daemon=True).start()

    def mebibytes(self) -> dict[str, float]:
        self._look()
        named = {f"{name}_mib": value / 1024 for name, value in self.peaks.items()}
        return {**named, **{f"{name}_at_first_mib": value / 1024 for name, value in self.at_first.items()}}

    def _look(self) -> None:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()[1:]
        kibibytes = {line.partition(":")[0]: int(line.split()[1]) for line in lines}
        for name, parts in MEMORY.items():
            self.peaks[name] = max(self.peaks[name], sum(kibibytes[part] for part in parts))

    def _watch(self) -> None:
        while True:
            self._look()
            time.sleep(0.2)


def _dying(pairs, stop):  # type: ignore[no-untyped-def]
    yield from islice(pairs, stop)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--like", type=Path, metavar="JSON", help="results whose bytes these must have; no whole runs")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--kill", action="store_true", help="also kill a preparation half-way and continue it")
    parser.add_argument("--here", nargs=4, metavar=("LINES", "FOLDER", "PROCESSES", "STOP"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        lines, folder, processes, stop = options.here
        prepare_here(Path(lines), Path(folder), int(processes), int(stop) if int(stop) else None)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        lines = folder / "lines.tsv"
        started = time.perf_counter()
        write_lines(lines, options.lines)
        written = time.perf_counter() - started
        size = lines.stat().st_size
        print(f"{options.lines:,} lines, {size / 1e9:.2f} GB, written in {written:.0f} s", file=sys.stderr)
        runs = []
        for processes in () if options.like else options.processes:
            runs.append(json.loads(_call(lines, folder / "data", processes).stdout))
            subprocess.run(["rm", "-r", folder / "data"], check=True)
        if options.kill:
            began = time.perf_counter()
            dead = _call(lines, folder / "data", options.processes[-1], stop=options.lines // 2)
            print(f"killed after {time.perf_counter() - began:.0f} s", file=sys.stderr)
            assert dead.returncode == -signal.SIGKILL, dead.stderr
            runs.append({**json.loads(_call(lines, folder / "data", options.processes[-1]).stdout), "continued": True})
    others = json.loads(options.like.read_text())["runs"] if options.like else []
    assert len({run["sha256"] for run in (*runs, *others)}) == 1, runs
    result = {"machine": race.machine(1), "lines": options.lines, "bytes": size, "runs": runs}
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(_table(runs, options.lines))


def _call(lines: Path, folder: Path, processes: int, stop: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, "--here", str(lines), str(folder), str(processes), str(stop)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=None, text=True, check=not stop)


def _table(runs: list[dict[str, Any]], lines: int) -> str:
    rows = [
        "| pairs | processes | seconds | CPU seconds | memory, MiB | without files | largest child | SHA-256 |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        name = f"{run['processes']}{', continued after kill -9 half-way' if run.get('continued') else ''}"
        memory = f"{run['private_mib']:.0f} | {run['anonymous_mib']:.0f} | {run['peak_child_mib']:.0f}"
        rows.append(
            f"| {lines:,} | {name} | {run['seconds']:.0f} | {run['cpu_seconds']:.0f} | {memory} "
            f"| `{str(run['sha256'])[:12]}` |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    main()
