"""Running engines against each other fairly on a noisy machine.

The allocator policy can only be chosen when a process starts, so there is one worker process per policy. Only one
works at a time: the runner goes round all engines of all workers, a small job each, again and again. What disturbs the
machine then disturbs all alike, and medians of ratios within one run can be trusted where seconds cannot.
"""

import argparse
import ctypes
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"

Engine = Callable[[Any], dict[str, Any]]
"""Does one job; answers with at least `units`, what it got done."""


@dataclass
class Reading:
    """What was measured of one engine, job by job."""

    units: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)

    def rate(self, clock: str = "cpu") -> float:
        """Units per second: the median over the jobs."""
        return statistics.median(units / spent for units, spent in zip(self.units, getattr(self, clock), strict=True))


def tuned_allocator() -> None:
    """glibc: keep large blocks in the heap and never trim it, so that pages are touched once."""
    libc = ctypes.CDLL(None)
    mmap_max, trim_threshold, top_pad = -4, -1, -2
    for name, value in ((mmap_max, 0), (trim_threshold, 2**31 - 1), (top_pad, 256 * 2**20)):
        libc.mallopt(name, value)


class Worker:
    """A process with one allocator policy that builds engines by name and runs jobs, one at a time."""

    def __init__(self, script: str, policy: str, options: Mapping[str, Any], *, python: str = sys.executable) -> None:
        command = [python, "-W", "ignore", script, "--worker", json.dumps({"policy": policy, **options})]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, **question: Any) -> dict[str, Any]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(question) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"The worker ended while it was asked {question}. Its message is above.")
        return json.loads(answer)

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def serve(build: Callable[[str], Engine]) -> None:
    """A worker's life: build each engine when it is first asked for, then do its jobs and time them."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not end up among the answers
    engines: dict[str, Engine] = {}
    for line in sys.stdin:
        question = json.loads(line)
        name = question["engine"]
        if name not in engines:
            try:
                engines[name] = build(name)
            except ImportError as error:
                answers.write(json.dumps({"missing": str(error)}) + "\n")
                answers.flush()
                continue
        cpu, wall = time.process_time(), time.perf_counter()
        answer = engines[name](question["job"])
        answer |= {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall}
        answer["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def race(
    entries: Mapping[str, tuple[Worker, str]], jobs: list[Any], *, warm_up: Any, say: Callable[[str], None]
) -> dict[str, Reading]:
    """Every entry (its worker, its engine there) does every job; one job goes round before the next begins."""
    readings: dict[str, Reading] = {}
    for label, (worker, engine) in entries.items():
        answer = worker.ask(engine=engine, job=warm_up)
        if "missing" in answer:
            say(f"left out: {label} ({answer['missing']})")
        else:
            readings[label] = Reading()
    order = list(readings)
    for number, job in enumerate(jobs):
        for label in order[number % len(order) :] + order[: number % len(order)]:
            worker, engine = entries[label]
            answer = worker.ask(engine=engine, job=job)
            reading = readings[label]
            for name in ("units", "cpu", "wall"):
                getattr(reading, name).append(answer.pop(name))
            reading.answers.append(answer)
        say(f"round {number + 1} of {len(jobs)}")
    return readings


def ratio(first: Reading, second: Reading, clock: str = "cpu") -> float:
    """How many times as fast the first is: the median over the rounds, each compared with its own round."""
    return statistics.median(
        (u / t) / (v / s)
        for u, t, v, s in zip(first.units, getattr(first, clock), second.units, getattr(second, clock), strict=True)
    )


def best(readings: Mapping[str, Reading], labels: list[str]) -> str | None:
    """The fastest of those that ran."""
    ran = [label for label in labels if label in readings]
    return max(ran, key=lambda label: readings[label].rate()) if ran else None


def machine(threads: int) -> dict[str, Any]:
    """What the figures were measured on and with."""
    model = platform.processor()
    information = Path("/proc/cpuinfo")
    if information.exists():
        names = [line.split(":", 1)[1].strip() for line in information.read_text().splitlines() if "model name" in line]
        flags = next((line for line in information.read_text().splitlines() if line.startswith("flags")), "").split()
        wide = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16") if flag in flags]
        model = f"{names[0] if names else model}, {os.cpu_count()} cores, {' '.join(wide)}"
    packages = (
        "torch",
        "transformers",
        "x-transformers",
        "joeynmt",
        "ctranslate2",
        "sentencepiece",
        "numpy",
        "foveate",
    )
    versions = {}
    for name in packages:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = None
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "processor": model,
        "system": f"{platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}",
        "python": platform.python_version(),
        "threads": threads,
        "load": list(os.getloadavg()),
        "versions": versions,
    }


def settings(arguments: argparse.Namespace) -> dict[str, str]:
    """What was asked for, without the folders of this machine."""
    return {
        name: value.name if isinstance(value, Path) else str(value)
        for name, value in vars(arguments).items()
        if name != "worker"
    }


def save(name: str, result: Mapping[str, Any]) -> Path:
    """One JSON file a run, named by its date and second: results are kept, not overwritten."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}-{datetime.now(UTC):%Y-%m-%d-%H%M%S}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


def table(header: list[str], rows: list[list[str]]) -> str:
    """Markdown, aligned to be read as text too."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [header, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) + " |" for line in lines
    )


def forget_peak() -> int:
    """Give freed memory back and let the peak start anew; the bytes that this process has now.

    getrusage would not do: a process begins with the peak of the one that started it.
    """
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


def resident(name: str) -> int:
    """Bytes of this process, by Linux: VmRSS has them now, VmHWM had them at the peak."""
    told = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in told if line.startswith(name))
