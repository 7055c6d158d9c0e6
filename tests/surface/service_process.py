"""A service in a process of its own, as users start it."""

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import httpx

RUNS = Path(__file__).parents[1] / "golden/version_0_1/runs"
ALL = (
    "en-fr",
    f"tags={RUNS / 'tag_transformer'}",
    f"labels={RUNS / 'classify_transformer'}",
    f"gpt={RUNS / 'language_model_gpt'}",
    f"gaps={RUNS / 'masked_language_model'}",
)


class ServiceProcess:
    """`foveate serve` at a free port, until the end of the context."""

    def __init__(
        self, *arguments: str, seconds: float = 60, loading: Callable[["ServiceProcess"], None] | None = None
    ) -> None:
        """`loading` is called while the runs are being loaded."""
        command = [sys.executable, "-m", "foveate", "serve", *arguments, "--port", "0", "--threads", "1"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
        self.lines: list[str] = []
        self._arrived: queue.Queue[str | None] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        if loading is not None:
            until = time.monotonic() + seconds
            while not self.nurseries and time.monotonic() < until:
                time.sleep(0.01)
            loading(self)
        self.address = re.search(r"http://\S+", self.wait_for("serves", seconds))[0]  # type: ignore[index]
        self.client = httpx.Client(base_url=self.address, timeout=60)

    def wait_for(self, words: str, seconds: float = 30) -> str:
        """The next line of standard error with some words."""
        until = time.monotonic() + seconds
        while True:
            line = self._arrived.get(timeout=max(until - time.monotonic(), 0.01))
            assert line is not None, "\n".join(self.lines)
            if words in line:
                return line

    @property
    def nurseries(self) -> list[int]:
        """The process from which model processes are forked."""
        return _children(self.process.pid)

    @property
    def children(self) -> list[int]:
        """The processes that hold the models."""
        return [child for nursery in self.nurseries for child in _children(nursery)]

    def end(self, number: int = signal.SIGTERM) -> int:
        """End the service; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        code = self.process.wait(60)
        self._listener.join()
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code

    def __enter__(self) -> "ServiceProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.client.close()
        self.end()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            self._arrived.put(line)
        self._arrived.put(None)


def _children(pid: int) -> list[int]:
    """The processes that any thread of a process has started."""
    children = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            children += [int(child) for child in thread.read_text().split()]
    return children
