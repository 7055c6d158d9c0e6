"""Sends requests at given moments, whatever has become of those before, and tells how long each answer took.

The program of the load's own process: it reads one JSON from standard input and writes one to standard output.
"""

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from http_client import Client, LostError

NONE = 0
"""The status of a request without an answer."""
Sent = tuple[float, float, int]
"""The planned moment of a request, the seconds from there until its answer, and its status."""


def sent(address: str, arrivals: Sequence[tuple[float, str]], patience: float) -> list[Sent]:
    """Translate texts at their moments, from a process of its own. Clients leave after `patience` seconds."""
    order = {"address": address, "arrivals": arrivals, "patience": patience}
    done = subprocess.run(
        [sys.executable, __file__], input=json.dumps(order), stdout=subprocess.PIPE, text=True, check=True
    )
    return [(moment, seconds, status) for moment, seconds, status in json.loads(done.stdout)]


async def _send(order: dict[str, Any]) -> list[Sent]:
    client, loop, results = Client(order["address"]), asyncio.get_running_loop(), list[Sent]()
    begun = loop.time() + 0.1

    async def ask(moment: float, content: bytes) -> None:
        try:
            async with asyncio.timeout_at(begun + moment + order["patience"]):
                status = (await client.ask(content)).status
        except (LostError, TimeoutError, OSError):
            status = NONE
        results.append((moment, loop.time() - begun - moment, status))

    contents = [client.posted("/translate", q=text, source="en", target="fr") for _, text in order["arrivals"]]
    tasks = []
    for (moment, _), content in zip(order["arrivals"], contents, strict=True):
        wait = begun + moment - loop.time()
        if wait > 0.001:
            await asyncio.sleep(wait)
        tasks.append(loop.create_task(ask(moment, content)))
    await asyncio.gather(*tasks)
    client.close()
    return results


if __name__ == "__main__":
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    json.dump(asyncio.run(_send(json.load(sys.stdin))), sys.stdout)
