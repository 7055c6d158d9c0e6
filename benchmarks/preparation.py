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

import race

VERSES = Path(__file__).parent.parent / "examples" / "data" / "verses.tsv.xz"
COLUMNS = (2, 3)
"""English (World) and French (Segond)."""
VOCABULARY = 8000


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
    started, before, private = time.perf_counter(), os.times(), Private()
    data, report = prepare(folder, pairs, source, target, max_length=250, processes=processes, origin=str(lines))
    seconds, after = time.perf_counter() - started, os.times()
    own_private = private.peak
    own, children = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
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
                "private_mib": own_private / 1024,
                "peak_mib": own / 1024,
                "peak_child_mib": children / 1024,
                "pairs": len(data),
                "tokens": data.source.num_tokens + data.target.num_tokens,
                "sha256": digest.hexdigest(),
                "report": str(report),
            }
        )
    )


class Private:
    """The peak of this process's own memory, in KiB, without pages of files, which the system drops when it needs
    room. Looked up ten times a second.
    """

    def __init__(self) -> None:
        self.peak = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            status = Path("/proc/self/status").read_text()
            self.peak = max(self.peak, int(status.partition("RssAnon:")[2].split()[0]))
            time.sleep(0.1)


def _dying(pairs, stop):  # type: ignore[no-untyped-def]
    yield from islice(pairs, stop)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
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
        for processes in options.processes:
            runs.append(json.loads(_call(lines, folder / "data", processes).stdout))
            subprocess.run(["rm", "-r", folder / "data"], check=True)
        if options.kill:
            dead = _call(lines, folder / "data", options.processes[-1], stop=options.lines // 2)
            assert dead.returncode == -signal.SIGKILL, dead.stderr
            runs.append({**json.loads(_call(lines, folder / "data", options.processes[-1]).stdout), "continued": True})
    assert len({run["sha256"] for run in runs}) == 1, runs
    result = {"machine": race.machine(1), "lines": options.lines, "bytes": size, "runs": runs}
    if options.out:
        options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(_table(runs, options.lines))


def _call(lines: Path, folder: Path, processes: int, stop: int = 0) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, __file__, "--here", str(lines), str(folder), str(processes), str(stop)]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=None, text=True, check=not stop)


def _table(runs: list[dict[str, object]], lines: int) -> str:
    rows = [
        "| processes | seconds | CPU seconds | memory, MiB | with pages of files | largest child | SHA-256 |",
        "|---|---|---|---|---|---|---|",
    ]
    for run in runs:
        name = f"{run['processes']}{', continued after kill -9 half-way' if run.get('continued') else ''}"
        memory = f"{run['private_mib']:.0f} | {run['peak_mib']:.0f} | {run['peak_child_mib']:.0f}"
        rows.append(
            f"| {name} | {run['seconds']:.0f} | {run['cpu_seconds']:.0f} | {memory} | {str(run['sha256'])[:12]}… |"
        )
    return "\n".join([f"{lines:,} pairs:", "", *rows])


if __name__ == "__main__":
    main()
