"""A service under load, beside other servers: the same model, texts and moments, and one thread for the engine.

    python -m venv peers && peers/bin/pip install -c constraints.txt torch
    peers/bin/pip install -c constraints.txt -r benchmarks/requirements-serve.txt '.[serve]'
    python benchmarks/serve.py --peers peers/bin/python                       # beam 4
    python benchmarks/serve.py --peers peers/bin/python --greedy --servers foveate litserve ctranslate2

Requests arrive by a Poisson process, from a process of its own. Load 1.0 is what our engine translates in batches of
32 without a pause, without a server. The goodput counts answers within a second; delays are counted from the planned
moment of a request, so that a late client does not flatter a server. `foveate serve` may let a request wait for 0.6
seconds (`--wait`), since an answer counts for one only.

Beyond the capacity a queue grows for as long as the load lasts, and how many answers are in time says how long that
was; a short load flatters all, because the queue is empty when it begins and is answered when it has ended. So loads
beyond it last longer, and the requests of the second half are counted by themselves, too: the peak is theirs.
"""

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import flight
import http_load
import race

LOADS = {0.5: 6.0, 0.8: 6.0, 1.0: 6.0, 1.3: 16.0, 20.0: 8.0}
"""The loads, and the seconds in which requests arrive."""
SECONDS = 6.0
"""The same of another load."""
SOON = 1.0
PATIENCE = 5.0
"""Seconds after which a client leaves."""
SERVERS = ("foveate", "litserve", "fastapi", "ctranslate2")
REFUSING = "refusing"
"""Batches of our engine that refuse what has waited as long as `--wait` says: only by `--servers`."""
NAMES = {
    "foveate": "`foveate serve`",
    "litserve": "LitServe, batches",
    "fastapi": "FastAPI, one by one",
    "ctranslate2": "CTranslate2, window",
    REFUSING: "Batches that refuse late requests",
}
PACKAGES = {
    "foveate": (),
    "litserve": ("fastapi", "uvicorn", "litserve"),
    "fastapi": ("fastapi", "uvicorn"),
    "ctranslate2": ("fastapi", "uvicorn", "ctranslate2"),
    REFUSING: ("fastapi", "uvicorn"),
}
"""The packages of each server beside those of Foveate."""


def lacking(server: str, python: str) -> str | None:
    """The package of a server that a Python lacks, as its own message says; None if it has all."""
    for package in PACKAGES[server]:
        answer = subprocess.run([python, "-c", f"import {package}"], capture_output=True, text=True)
        if answer.returncode:
            return answer.stderr.strip().rpartition("\n")[2]
    return None


def greedy(folder: Path) -> str:
    """A copy of the translator that decodes greedily unless it is asked for more."""
    from foveate.storage.shipped import run_folder

    shutil.copytree(run_folder("en-fr"), folder)
    file = folder / "config.json"
    run = json.loads(file.read_text(encoding="utf-8"))
    run["config"]["decode"] = {"kind": "greedy"}
    file.write_text(json.dumps(run), encoding="utf-8")
    return str(folder)


def work(server: str, run: str, port: int, wait: float) -> None:
    """The life of another server's process."""
    sys.path.insert(0, str(Path(__file__).parent))
    if server == "litserve":
        from peers import serve_litserve

        serve_litserve.serve(run, port)
        return
    import torch
    from peers import serve_fastapi

    from foveate import Translator

    torch.set_num_threads(1)
    if server == "fastapi":
        serve_fastapi.loop(Translator.load(run), port)
    elif server == REFUSING:
        serve_fastapi.window(Translator.load(run), port, late=wait)
    else:
        serve_fastapi.window(Translator.load(run, engine="ctranslate2"), port)


@contextlib.contextmanager
def running(server: str, arguments: argparse.Namespace) -> Iterator[str]:
    """A server that answers; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    if server == "foveate":
        command = [sys.executable, "-m", "foveate", "serve", f"en-fr={arguments.run}", "--port", str(port)]
        command += ["--threads", "1", "--quiet", "--wait", str(arguments.wait)]
    else:
        command = [arguments.peers, "-W", "ignore", __file__, "--server", server, "--port", str(port)]
        command += ["--run", arguments.run, "--wait", str(arguments.wait)]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, start_new_session=True, stdout=quiet, stderr=quiet) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            _wait_for(address, process)
            yield address
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(3)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # workers go on with what nobody waits for


def _wait_for(address: str, process: "subprocess.Popen[bytes]") -> None:
    """Wait until a server translates."""
    body = b'{"q": "Good morning.", "source": "en", "target": "fr"}'
    request = urllib.request.Request(f"{address}/translate", body, {"content-type": "application/json"})
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError), urllib.request.urlopen(request, timeout=30) as response:
            if b"Bonjour" in response.read():
                return
        time.sleep(0.2)
    raise SystemExit(f"The server at {address} does not answer.")


def texts_of(file: Path | None) -> list[str]:
    """The lines of a file that are not empty, or verses."""
    lines = file.read_text(encoding="utf-8").splitlines() if file else flight.verses()
    return [line for line in lines if line.strip()]


def capacity(arguments: argparse.Namespace) -> float:
    """Sentences in a second in batches of 32, without a server, by the clock."""
    import torch

    from foveate import Translator

    torch.set_num_threads(1)
    translator = Translator.load(arguments.run)
    texts = texts_of(arguments.texts)
    chosen = random.Random(0).sample(texts, min(len(texts), arguments.closed))
    translator.translate(chosen[: flight.BATCH])
    started = time.perf_counter()
    for first in range(0, len(chosen), flight.BATCH):
        translator.translate(chosen[first : first + flight.BATCH])
    return len(chosen) / (time.perf_counter() - started)


def summary(sent: list[http_load.Sent], seconds: float) -> dict[str, Any]:
    """Quantiles of delays in milliseconds, and answers in a second, also to the requests of the second half."""
    answers = sorted(delay for _, delay, status in sent if status == 200)
    refusals = sorted(delay for _, delay, status in sent if status in (429, 503))
    return {
        "requests": len(sent),
        "answers": len(answers),
        "refusals": len(refusals),
        "none": len(sent) - len(answers) - len(refusals),
        **{f"p{share}": _quantile(answers, share) for share in (50, 95, 99)},
        "goodput": sum(delay <= SOON for delay in answers) / seconds,
        "second half": _good(sent, seconds / 2) / (seconds / 2),
        "refusals p99": _quantile(refusals, 99),
    }


def _good(sent: list[http_load.Sent], since: float) -> int:
    """The answers in time to requests since a moment."""
    return sum(moment >= since and delay <= SOON and status == 200 for moment, delay, status in sent)


def _quantile(delays: list[float], share: int) -> float | None:
    return 1000 * delays[min(len(delays) - 1, len(delays) * share // 100)] if delays else None


def measured(arguments: argparse.Namespace, most: float) -> list[dict[str, Any]]:
    """All servers under all loads, each time fresh: some go on with what nobody waits for any more."""
    texts, results = texts_of(arguments.texts), list[dict[str, Any]]()
    for server in arguments.servers:
        for load, seconds in arguments.loads:
            arrivals = flight.poisson(texts, load * most, seconds, arguments.seed)
            with running(server, arguments) as address:
                http_load.sent(address, flight.poisson(texts, most / 2, 1.0, 99), PATIENCE)  # caches are filled
                row = summary(http_load.sent(address, arrivals, PATIENCE), seconds)
            results.append({"server": server, "load": load, "seconds": seconds, **row})
            print(results[-1], file=sys.stderr, flush=True)
    return results


def table(results: list[dict[str, Any]]) -> str:
    """The rows of all servers, load by load."""
    rows = []
    for load in sorted({row["load"] for row in results}):
        for row in results:
            if row["load"] == load:
                best = max(each["second half"] for each in results if each["server"] == row["server"])
                cells = [_number(row[name]) for name in ("p50", "p95", "p99")]
                share = f"{row['second half'] / best:.0%}" if best else "–"
                ends = f"{row['refusals']:,} in {_number(row['refusals p99'])}" if row["refusals"] else "0"
                good = (f"{row['goodput']:.1f}", f"{row['second half']:.1f}", share)
                name = NAMES[row["server"]]
                rows.append([f"{load:g}", f"{row['seconds']:g}", name, *cells, *good, ends, f"{row['none']:,}"])
    header = [
        "load",
        "for, s",
        "server",
        "p50, ms",
        "p95",
        "p99",
        "goodput, 1/s",
        "second half",
        "of its peak",
        "refused in p99, ms",
        "no answer",
    ]
    return race.table(header, rows)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def lasting(text: str) -> tuple[float, float]:
    """A load and its seconds.

    >>> lasting("1.3:20"), lasting("0.8"), lasting("2")
    ((1.3, 20.0), (0.8, 6.0), (2.0, 6.0))
    """
    load, _, seconds = text.partition(":")
    return float(load), float(seconds) if seconds else LOADS.get(float(load), SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default=sys.executable, help="the Python that has the other servers")
    parser.add_argument("--servers", nargs="*", choices=NAMES, default=list(SERVERS))
    parser.add_argument("--greedy", action="store_true", help="in place of beam 4")
    parser.add_argument(
        "--loads", type=lasting, nargs="*", default=list(LOADS.items()), metavar="LOAD[:SECONDS]", help="of arrivals"
    )
    parser.add_argument("--wait", type=float, default=0.6, help="seconds of `foveate serve --wait`")
    parser.add_argument("--closed", type=int, default=320, help="sentences that measure the capacity")
    parser.add_argument("--texts", type=Path, metavar="FILE", help="lines to send in place of verses")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--server", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--run", default="en-fr", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.server:
        work(arguments.server, arguments.run, arguments.port, arguments.wait)
        return
    if shutil.which(arguments.peers) is None:
        parser.error(f"--peers: {arguments.peers} is not a program")
    reasons = {server: lacking(server, arguments.peers) for server in arguments.servers}
    for server, reason in reasons.items():
        if reason:
            print(f"left out: {NAMES[server]} ({reason})", flush=True)
    arguments.servers = [server for server, reason in reasons.items() if reason is None]
    settings = {**race.settings(arguments), "peers": "another environment"}
    with tempfile.TemporaryDirectory() as folder:
        if arguments.greedy:
            arguments.run = greedy(Path(folder, "greedy"))
        most = capacity(arguments)
        print(f"Load 1.0, {'greedy' if arguments.greedy else 'beam 4'}: {most:.1f} sentences a second", flush=True)
        results = measured(arguments, most)
    print(table(results))
    path = race.save("serve", {"machine": race.machine(1), "settings": settings, "capacity": most, "results": results})
    print(f"kept in {path}")


if __name__ == "__main__":
    main()
