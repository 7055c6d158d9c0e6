"""What happens when things go wrong: one command that breaks the service, training and files, and counts.

    python benchmarks/reliability.py --out docs/reliability.md        # the page; some minutes

The service runs in processes of its own, and its clients are in this one. The exit code is 0 when every line holds.
"""

import argparse
import asyncio
import collections
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import race
from http_client import Client, LostError
from scoreboard import Line, page

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from tests.surface.malformed import SOUND, Sound, damaged  # noqa: E402
from tests.surface.sense_run import sense_runs  # noqa: E402
from tests.surface.service_process import ALL, ServiceProcess  # noqa: E402

SENTENCES = ("The black cat sleeps.", "A man is riding a bicycle.", "Good morning.", "I read a book in the garden.")
PATIENT = ("--wait", "300", "--timeout", "300", "--quiet")
"""A service that admits everything: here nothing may be refused because it is busy."""
HANGS = 60.0
"""Seconds after which a request without an answer counts as hanging."""
REST = 3.0
"""Seconds without requests before memory is read: a process that rests gives free memory back."""
SETTLED = 4.0
"""Seconds after which a spare process is loaded."""
BACK = 5.0
GROWTH = 0.05
LONG = "a" * 3000
"""The longest text that a damaged request has. A process keeps the memory of its largest request: these come first."""
TEXTS = ("q", "text", "source", "prompt", "inputs", "instances")
"""The fields of requests that hold a text, or a list whose first item is one."""


def malformed(arguments: argparse.Namespace) -> Line:
    """Damaged requests to every route, of several clients at once."""
    statuses: collections.Counter[str] = collections.Counter()
    examples: list[str] = []
    noise, sent = random.Random(arguments.seed), 0

    async def whole(running: ServiceProcess) -> list[list[int]]:
        nonlocal sent
        client, memory = Client(running.address), [_memory(running)]

        async def ask(until: int) -> None:
            nonlocal sent
            while sent < until:
                sent += 1
                content = damaged(noise, client.host)
                try:
                    status = str((await asyncio.wait_for(client.ask(content), HANGS)).status)
                except (LostError, TimeoutError) as error:
                    status = type(error).__name__
                if status[0] not in "1234":
                    examples.append(f"{status}: {content[:300]!r}")
                statuses[status] += 1

        await asyncio.gather(*(client.ask(sound.content(client.host)) for sound in _longest()))
        for until in (arguments.requests // 5, arguments.requests):  # after a fifth caches and pools are full
            await asyncio.gather(*(ask(until) for _ in range(16)))
            await asyncio.sleep(REST)
            memory.append(_memory(running))
        client.close()
        memory.append(_memory(running, "VmHWM"))
        return memory

    with (
        tempfile.TemporaryDirectory() as folder,
        ServiceProcess(*ALL, *sense_runs(Path(folder)), *PATIENT) as running,
    ):
        memory = asyncio.run(whole(running))
        healthy = running.client.get("/health").status_code == 200 and len(running.children) == 1
    growth = [after / before - 1 for before, after in zip(memory[1], memory[2], strict=True)]
    failures = sum(count for status, count in statuses.items() if status[0] not in "1234")
    told = ", ".join(f"{count:,} × {status}" for status, count in sorted(statuses.items()))
    return Line(
        "malformed requests, every route",
        f"{arguments.requests:,}, by 16 connections",
        f"{failures} × 5xx, lost or hanging ({told}); the front has {memory[2][0]:.0f} MB ({growth[0]:+.1%} since "
        f"the first fifth), the model process {memory[2][1]:.0f} MB ({growth[1]:+.1%}) at rest, and "
        f"{memory[3][1]:.0f} MB at most",
        not failures and healthy and max(growth) < GROWTH,
        {"statuses": statuses, "memory": memory, "examples": examples[:20]},
    )


def _longest() -> list[Sound]:
    """One request with the longest text for every route that takes a text."""
    requests = []
    for sound in SOUND:
        if sound.kind != "application/json" or not sound.body:
            continue
        fields = json.loads(sound.body)
        for name in set(TEXTS) & set(fields):
            fields[name] = LONG if isinstance(fields[name], str) else [LONG]
        requests.append(replace(sound, body=json.dumps(fields).encode()))
    return requests


def drain(arguments: argparse.Namespace) -> Line:
    """SIGTERM with many requests in flight, and others that come later."""

    async def whole(running: ServiceProcess) -> tuple[list[int | str], int, int, float]:
        client = Client(running.address)
        number = arguments.in_flight * 3 // 2
        tasks = [asyncio.ensure_future(_status(client, _question(client, at))) for at in range(number)]
        flying = 0
        while flying < arguments.in_flight and not all(task.done() for task in tasks):
            metrics = (await client.ask(client.got("/metrics"))).body.decode()
            flying = int(float(re.findall(r"^foveate_requests_in_flight (\S+)", metrics, re.MULTILINE)[0]))
        running.process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        while (await client.ask(client.got("/health/ready"))).status == 200:
            await asyncio.sleep(0.01)
        late = [await _status(client, _question(client, 0)) for _ in range(20)]
        statuses = list(await asyncio.gather(*tasks))
        seconds = time.monotonic() - started
        client.close()
        return statuses, flying, sum(status == 503 for status in late), seconds

    with ServiceProcess("en-fr", *PATIENT) as running:
        statuses, flying, late, seconds = asyncio.run(whole(running))
        code = running.end()
    counts = collections.Counter(statuses)
    # Requests that had not been admitted at the signal are told so; whatever was in flight is answered.
    lost = len(statuses) - counts[200] - counts[503]
    return Line(
        "SIGTERM under load",
        f"{flying:,} requests in flight",
        f"{counts[200]:,} answered, {counts[503]} refused because they came later, {lost} lost; {late} of 20 newcomers "
        f"told that it closes; exit code {code} after {seconds:.1f} s",
        flying >= arguments.in_flight and counts[200] >= flying and not lost and late == 20 and not code,
        {"in flight": flying, "statuses": {str(key): value for key, value in counts.items()}, "seconds": seconds},
    )


def killed(arguments: argparse.Namespace) -> Line:
    """kill −9 of the model process while clients ask."""
    return _killed(
        arguments, "kill −9 of the model process under load", lambda running: running.children, arguments.kills
    )


def orphaned(arguments: argparse.Namespace) -> Line:
    """kill −9 of the process that forks model processes, and of the model process."""
    return _killed(
        arguments,
        "kill −9 of the model process and of the one that forks it",
        lambda running: [*running.nurseries, *running.children],
        1,
    )


def spared(arguments: argparse.Namespace) -> Line:
    """kill −9 of the model process that answers, while a spare one is loaded."""
    return _killed(
        arguments,
        "kill −9 of the model process under load, with `--spare`",
        lambda running: running.children[:1],
        arguments.kills,
        "--spare",
    )


def _killed(
    arguments: argparse.Namespace,
    name: str,
    victims: Callable[[ServiceProcess], list[int]],
    kills: int,
    *options: str,
) -> Line:
    async def attack(running: ServiceProcess, load: "Load") -> list[float]:
        back = []
        for _ in range(kills):
            await asyncio.sleep(SETTLED if options else 1.5)
            moment = time.monotonic()
            for victim in victims(running):
                os.kill(victim, signal.SIGKILL)
            while not any(begun > moment and status == 200 for begun, status in load.answers):
                await asyncio.sleep(0.01)
            back.append(time.monotonic() - moment)
        return back

    load, back = _under_load(attack, *options)
    counts = load.counts()
    return Line(
        name,
        f"{kills} times, 16 clients, {len(load.answers):,} requests",
        f"{counts[200]:,} answered, {counts[503]:,} × 503, {load.strange} others; back after "
        f"{', '.join(f'{seconds:.2f}' for seconds in back)} s",
        not load.strange and max(back) < BACK,
        {"back": back, "statuses": {str(key): value for key, value in counts.items()}},
    )


def reload(arguments: argparse.Namespace) -> Line:
    """The runs are loaded anew while clients ask."""

    async def attack(running: ServiceProcess, load: "Load") -> list[float]:
        client, seconds = Client(running.address), []
        for _ in range(arguments.reloads):
            await asyncio.sleep(0.5)
            moment, before = time.monotonic(), running.children
            response = await client.ask(client.posted("/admin/reload"))
            assert response.status == 200, response
            assert set(running.children) - set(before), "another process answers now"
            seconds.append(time.monotonic() - moment)
        client.close()
        return seconds

    load, seconds = _under_load(attack)
    counts = load.counts()
    return Line(
        "reload under load",
        f"{arguments.reloads} times, 16 clients, {len(load.answers):,} requests",
        f"{counts[200]:,} answered, {len(load.answers) - counts[200]} not; a reload took {max(seconds):.1f} s at most",
        counts[200] == len(load.answers) and not load.strange,
        {"seconds": seconds},
    )


class Load:
    """Clients that ask again as soon as they have an answer."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.answers: list[tuple[float, int | str]] = []
        """When each request was sent, and its status."""
        self.wrong = 0
        self.ended = False
        self._expected: dict[int, str] = {}

    @property
    def strange(self) -> int:
        """Answers that are neither right nor a 503."""
        return self.wrong + sum(status not in (200, 503) for _, status in self.answers)

    def counts(self) -> "collections.Counter[int | str]":
        return collections.Counter(status for _, status in self.answers)

    async def learn(self) -> None:
        """What each sentence is in French."""
        for number in range(len(SENTENCES)):
            response = await self.client.ask(_question(self.client, number))
            self._expected[number] = response.json()["translatedText"]

    async def run(self, number: int) -> None:
        while not self.ended:
            begun, number = time.monotonic(), (number + 1) % len(SENTENCES)
            try:
                response = await asyncio.wait_for(self.client.ask(_question(self.client, number)), HANGS)
            except (LostError, TimeoutError, OSError) as error:
                self.answers.append((begun, type(error).__name__))
                continue
            self.answers.append((begun, response.status))
            if response.status == 200:
                self.wrong += response.json()["translatedText"] != self._expected[number]
            else:
                await asyncio.sleep(0.05)


def _under_load(
    attack: Callable[[ServiceProcess, Load], Awaitable[list[float]]], *options: str
) -> tuple[Load, list[float]]:
    async def whole(running: ServiceProcess) -> tuple[Load, list[float]]:
        load = Load(Client(running.address))
        await load.learn()
        clients = [asyncio.ensure_future(load.run(number)) for number in range(16)]
        seconds = await attack(running, load)
        await asyncio.sleep(0.5)
        load.ended = True
        await asyncio.gather(*clients)
        load.client.close()
        return load, seconds

    with ServiceProcess("en-fr", *PATIENT, *options) as running:
        return asyncio.run(whole(running))


def training(arguments: argparse.Namespace) -> Line:
    """Training is killed at random moments and resumed."""
    command = [sys.executable, str(ROOT / "benchmarks/kill_and_resume.py"), "--kills", str(arguments.training_kills)]
    done = subprocess.run(command, capture_output=True, text=True)
    kills, different = done.stdout.strip().split("\n")
    return Line(
        "kill −9 of training, and resume",
        kills.removesuffix("."),
        f"different bits in weights, moments or measurements: {different.partition(': ')[2].removesuffix('.')}",
        done.returncode == 0,
    )


def damages(arguments: argparse.Namespace) -> Line:
    """Files of a checkpoint are damaged: the damage is named, and the checkpoint before is used."""
    import torch

    from foveate.storage.checkpoint import Checkpoints

    noise, kinds = random.Random(arguments.seed), collections.Counter[str]()
    silent, notes = 0, list[str]()
    with tempfile.TemporaryDirectory() as folder:
        checkpoints = Checkpoints(Path(folder), notes.append)
        for step in (1, 2):
            weights = {"w": torch.full((64,), float(step))}
            checkpoints.save(step, model=weights, optimiser=weights, state={"step": step})
        files = sorted(path for path in checkpoints.path(2).iterdir() if path.is_file())
        for _ in range(arguments.damages):
            path, kind = noise.choice(files), noise.choice(("flipped bit", "cut", "missing"))
            sound = path.read_bytes()
            if kind == "flipped bit":
                content = bytearray(sound)
                content[noise.randrange(len(content))] ^= 1 << noise.randrange(8)
                path.write_bytes(content)
            elif kind == "cut":
                path.write_bytes(sound[: noise.randrange(len(sound))])
            else:
                path.unlink()
            notes.clear()
            newest = checkpoints.newest()
            used = newest is not None and bool((newest.model["w"] == 1).all())
            silent += not (used and len(notes) == 1 and "step-00000002" in notes[0])
            kinds[kind] += 1
            path.write_bytes(sound)
    told = ", ".join(f"{count} × {kind}" for kind, count in sorted(kinds.items()))
    return Line(
        "damaged checkpoints",
        f"{arguments.damages:,} ({told})",
        f"{arguments.damages - silent:,} named, the checkpoint before used; {silent} unnoticed",
        not silent,
    )


LINES: dict[str, Callable[[argparse.Namespace], Line]] = {
    "malformed": malformed,
    "drain": drain,
    "killed": killed,
    "spared": spared,
    "orphaned": orphaned,
    "reload": reload,
    "training": training,
    "damages": damages,
}


def _question(client: Client, number: int) -> bytes:
    return client.posted("/translate", q=SENTENCES[number % len(SENTENCES)], source="en", target="fr")


async def _status(client: Client, content: bytes) -> int | str:
    try:
        return (await asyncio.wait_for(client.ask(content), 2 * HANGS)).status
    except (LostError, TimeoutError, OSError) as error:
        return type(error).__name__


def _memory(running: ServiceProcess, kind: str = "VmRSS") -> list[float]:
    """Megabytes of the front and of the model process: now, or the most (VmHWM)."""
    sizes = []
    for process in (running.process.pid, *running.children[:1]):
        status = Path(f"/proc/{process}/status").read_text()
        sizes.append(int(re.findall(rf"{kind}:\s+(\d+)", status)[0]) / 1024)
    return sizes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=100_000, help="malformed requests")
    parser.add_argument("--in-flight", type=int, default=1_000, help="requests at SIGTERM")
    parser.add_argument("--kills", type=int, default=3, help="of the model process")
    parser.add_argument("--reloads", type=int, default=3)
    parser.add_argument("--training-kills", type=int, default=100)
    parser.add_argument("--damages", type=int, default=1_000, help="of checkpoints")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", choices=LINES, default=list(LINES))
    parser.add_argument("--out", type=Path, help="the page to write")
    arguments = parser.parse_args()
    lines = []
    for name in arguments.only:
        started = time.monotonic()
        lines.append(LINES[name](arguments))
        line = lines[-1]
        print(f"{line.name}: {line.done}: {line.result} ({time.monotonic() - started:.0f} s)", flush=True)
    machine = race.machine(1)
    results = {"machine": machine, "settings": race.settings(arguments), "lines": [vars(line) for line in lines]}
    print(f"kept in {race.save('reliability', results)}")
    if arguments.out:
        arguments.out.write_text(page(lines, machine), encoding="utf-8")
    return 0 if all(line.holds for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
