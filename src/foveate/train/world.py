"""The processes of a run: each knows its rank, and all agree on sums, on what the first one read, and on when to stop.

`ALONE` is a run of one process, which is every run that torchrun did not start. `joined` reads torchrun's variables.
The first rank alone reads and writes the run's folder; the others receive what they need from it.
"""

import contextlib
import json
import os
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.graph import increment_version

from foveate.errors import DataError, FoveateError, PeerError, SetupError, UsageError
from foveate.nn.measurement import in_turn
from foveate.train.accelerator import local_place, own_device
from foveate.train.pulse import APPEARANCE, Pulse

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""The variables by which torchrun, and launchers that follow it, describe a process."""
UNNAMED = "none"
"""torchrun's `--rdzv-id` where none is given."""
PATIENT = timedelta(days=7)
"""torch's own time limit of a collective operation. `Pulse` watches instead, and knows who is late."""
Answer = TypeVar("Answer")


class World:
    """A run of one process, and the interface of all: `rank` from 0, of `size` processes."""

    rank, size = 0, 1

    def __init__(self) -> None:
        self._launcher = os.getppid() if "TORCHELASTIC_RUN_ID" in os.environ else None  # which torchrun sets

    @property
    def is_first(self) -> bool:
        """Whether this process reads, writes and prints."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """The device for this process's model: a GPU of its own if the machine has any. Raises UsageError if the
        machine has fewer than processes.
        """
        return own_device(*local_place(), torch.cuda.device_count())

    @property
    def is_orphan(self) -> bool:
        """Whether the launcher that started the processes has ended."""
        return self._launcher not in (None, os.getppid())

    def once(self, work: Callable[[], Answer], *, during: str = "") -> Answer:
        """The answer of `work`, done by the first rank alone: plain data, which all ranks return.

        All ranks raise the FoveateError that it raises. `during` names the work for messages.
        """
        return work()

    def each(self, work: Callable[[int], Answer], count: int, *, during: str = "") -> list[Answer]:
        """The answers of `work` for all numbers below `count`, in order: plain data, which all ranks return. Each rank
        does every `size`-th piece of work.

        All ranks raise the FoveateError that one raises.
        """
        return in_turn(work, count)

    def sum(self, tensor: Tensor) -> Tensor:
        """The sum of the tensors of all ranks, in place."""
        return tensor

    def begin_sum(self, tensor: Tensor) -> Callable[[], None]:
        """Begins `sum` of a tensor, beside other work; the answer waits for its end."""
        return lambda: None

    def share(self, tensors: Sequence[Tensor]) -> None:
        """Overwrites the tensors with those of the first rank."""

    def gather(self, text: str) -> list[str]:
        """The texts of all ranks, by rank."""
        return [text]

    def require_equal(self, facts: Mapping[str, Any]) -> None:
        """Raises UsageError where a rank has other facts (versions, settings, digests of data) than the first one."""

    def computing(self, limited: bool = True) -> None:
        """Tells the watch of the other ranks that a new piece of work begins; a limited one is an update's."""

    def meeting(self) -> contextlib.AbstractContextManager[None]:
        """A context in which this rank waits for the others in the middle of its work."""
        return contextlib.nullcontext()

    def watch(self, seconds: float) -> None:
        """Sets the seconds after which a rank that makes no progress counts as stalled."""


ALONE = World()


class Ranks(World):
    """Several processes, one of them this one, connected by gloo and, with a GPU, by NCCL."""

    def __init__(self, rank: int, size: int, pulse: Pulse) -> None:
        self.rank, self.size, self._pulse = rank, size, pulse
        self._launcher = os.getppid()

    def once(self, work: Callable[[], Answer], *, during: str = "") -> Answer:
        message, error = "", None
        if self.is_first:
            self._pulse.computes(during or "its part", limited=False)
            message, error = _done(work)
        return cast(Answer, _answer(self._first_text(message), error))

    def each(self, work: Callable[[int], Answer], count: int, *, during: str = "") -> list[Answer]:
        self._pulse.computes(during or "its part", limited=False)
        message, error = _done(lambda: [work(number) for number in range(self.rank, count, self.size)])
        shares = [_answer(text, error) for text in self.gather(message)]
        return [shares[number % self.size][number // self.size] for number in range(count)]

    def sum(self, tensor: Tensor) -> Tensor:
        with self._waiting():
            dist.all_reduce(tensor)
        return tensor

    def begin_sum(self, tensor: Tensor) -> Callable[[], None]:
        def finish() -> None:
            with self._waiting():
                work.wait()

        with self._translated():
            work = dist.all_reduce(tensor, async_op=True)
        return finish

    def share(self, tensors: Sequence[Tensor]) -> None:
        with self._waiting(), torch.no_grad():
            for tensor in tensors:
                whole = tensor.detach() if tensor.is_contiguous() else tensor.detach().contiguous()
                dist.broadcast(whole, 0)
                if whole.data_ptr() != tensor.data_ptr():
                    tensor.copy_(whole)
                else:
                    increment_version(tensor)  # which a broadcast does not: state prepared from it is invalid now

    def gather(self, text: str) -> list[str]:
        content = text.encode()
        sizes = torch.zeros(self.size, dtype=torch.int64)
        sizes[self.rank] = len(content)
        longest = int(self.sum(sizes).max())
        table = torch.zeros(self.size, longest, dtype=torch.uint8)
        table[self.rank, : len(content)] = torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else 0
        self.sum(table)
        return [row[:size].numpy().tobytes().decode() for row, size in zip(table, sizes.tolist(), strict=True)]

    def require_equal(self, facts: Mapping[str, Any]) -> None:
        place = {"host": platform.node(), "process": os.getpid()}
        all_facts = [json.loads(text) for text in self.gather(json.dumps({**facts, **place}))]
        first = all_facts[0]
        absent = "not set"
        wrong = [
            f"rank {rank} ({theirs['host']}, process {theirs['process']}): {name} is {theirs.get(name, absent)}, "
            f"rank 0 has {first.get(name, absent)}"
            for rank, theirs in enumerate(all_facts)
            for name in dict.fromkeys([*first, *theirs])  # another schedule, say, has other settings
            if name not in place and theirs.get(name, absent) != first.get(name, absent)
        ]
        if wrong:
            listed = "\n".join(f"  {line}" for line in wrong[:8])
            error = UsageError(
                f"The processes of this run are not alike, so that it was not begun:\n{listed}\n"
                "Give all of them the same program, settings and data."
            )
            error.shared = True
            raise error

    def computing(self, limited: bool = True) -> None:
        self._pulse.computes("an update" if limited else "its beginning", limited=limited)

    def watch(self, seconds: float) -> None:
        self._pulse.limit = seconds

    def _first_text(self, message: str) -> str:
        """The first rank's message."""
        content = bytearray(message.encode())
        size = torch.tensor(len(content))
        self.share([size])
        letters = torch.zeros(int(size), dtype=torch.uint8)
        if self.is_first:
            letters.copy_(torch.frombuffer(content, dtype=torch.uint8))
        self.share([letters])
        return bytes(letters.tolist()).decode()

    @contextlib.contextmanager
    def meeting(self) -> Iterator[None]:
        with self._pulse.waiting(), self._translated():
            yield

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        self._pulse.waits()
        with self._translated():
            yield

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:  # gloo and NCCL have no class of their own for a closed connection
            raise lost(self.rank) from error


def _done(work: Callable[[], object]) -> tuple[str, FoveateError | None]:
    """The message on a piece of work for all ranks, and the error that it raised."""
    try:
        return json.dumps({"answer": work()}), None
    except FoveateError as error:
        return json.dumps({"code": error.exit_code, "error": str(error)}), error


def _answer(message: str, own: FoveateError | None) -> Any:
    """The answer in a message. Raises the FoveateError that it tells of, which may be this rank's own."""
    reply = json.loads(message)
    if "error" in reply:
        error = own or ERRORS.get(reply["code"], UsageError)(reply["error"])
        error.shared = True
        raise error
    return reply["answer"]


ERRORS = {kind.exit_code: kind for kind in (UsageError, DataError, SetupError)}


def lost(rank: int) -> PeerError:
    """The error of a rank whose connection to another one broke."""
    problem = PeerError(
        f"Another process of this run has ended, so that rank {rank} of it stops. `foveate resume` continues from the "
        "last checkpoint."
    )
    problem.shared = True
    return problem


def launched() -> bool:
    """Whether a launcher such as torchrun started this process as one of several. Raises UsageError for a number of
    processes that no launcher sets.
    """
    return all(os.environ.get(name) for name in VARIABLES) and _number("WORLD_SIZE") > 1


def _number(name: str, *, below: int | None = None) -> int:
    """The whole number in a launcher's variable. Raises UsageError for anything else, and for a number that is not
    `below` another one.
    """
    text = os.environ[name]
    if not text.isdecimal() or (below is not None and int(text) >= below):
        limit = "" if below is None else f" below {below:,}"
        raise UsageError(
            f"The environment variable {name} is {text!r}, but launchers such as torchrun set a whole number{limit} "
            "there. Start all processes by one launcher, or unset the variable to train with one process."
        )
    return int(text)


def restarts() -> int:
    """The number of starts of this process by torchrun before this one, as far as a process of the same machine was
    the reason: machines do not count the failures of others.
    """
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)) if launched() else 0


def launch() -> str:
    """The name that the user has given to the launch by torchrun (`--rdzv-id`), also where machines are replaced and
    count no restarts; empty without one.
    """
    name = os.environ.get("TORCHELASTIC_RUN_ID", UNNAMED) if launched() else UNNAMED
    return "" if name == UNNAMED else name


@contextlib.contextmanager
def joined() -> Iterator[World]:
    """The world of this process: `ALONE`, or that of the variables that torchrun sets.

    Raises UsageError for variables that no launcher sets, and PeerError if the other processes do not appear.
    """
    if not launched():
        yield ALONE
        return
    size = _number("WORLD_SIZE")
    rank = _number("RANK", below=size)
    _number("MASTER_PORT", below=1 << 16)
    try:
        store = next(dist.rendezvous("env://", rank, size, timeout=timedelta(seconds=APPEARANCE)))[0]
    except RuntimeError as error:
        place = ":".join(os.environ[name] for name in VARIABLES[2:])
        raise PeerError(
            f"Rank {rank} of {size} has not met the others at {place} (MASTER_ADDR, MASTER_PORT): "
            f"{str(error).splitlines()[0].rstrip('.')}. Start all processes within {APPEARANCE:g} seconds, with an "
            "address of the first one's machine and a free port."
        ) from error
    with Pulse(store, rank, size) as pulse:
        world = Ranks(rank, size, pulse)
        kinds = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"  # chosen by a tensor's device
        try:
            dist.init_process_group(kinds, store=store, rank=rank, world_size=size, timeout=PATIENT)
        except RuntimeError as error:
            raise lost(rank) from error
        yield world
        world.gather("")  # all are done, so that the first rank may end, in which the others' store lives
    dist.destroy_process_group()
