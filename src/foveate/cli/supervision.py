"""Training by several processes, which torchrun starts, and again from the last checkpoint if one is killed."""

import argparse
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import elastic_launch
from torch.distributed.run import config_from_args, parse_args

from foveate.errors import PeerError, UsageError
from foveate.storage.checkpoint import Checkpoints
from foveate.suggestion import counted
from foveate.tasks.side import written
from foveate.train.sharing import require_batches
from foveate.train.world import launched
from foveate.voice import say, tell

RESTARTS = 3
"""Starts after a loss of processes, since the last new checkpoint, before this gives up."""
HANGUPS = tuple(getattr(signal, name) for name in ("SIGHUP", "SIGQUIT") if hasattr(signal, name))
PATIENCE = 3600
"""Seconds for the step and the save after Ctrl-C, until torchrun kills a process."""


def require_processes(processes: int, accumulate: int) -> None:
    """Raises UsageError where --processes cannot be had: inside torchrun, or for more processes than batches."""
    if launched():
        raise UsageError("torchrun has started several processes already. Leave --processes out, or torchrun.")
    require_batches(accumulate, processes)


def supervise(folder: Path, arguments: argparse.Namespace, modules: Sequence[str], reduction: str) -> int:
    """Train a run in `arguments.processes` processes to its end; returns the exit code.

    A process that is killed or stalls ends the others, and all begin again from the newest checkpoint.
    """
    size = arguments.processes
    threads = arguments.threads or max(1, _cores() // size)
    say(f"{counted(size, 'process')} with {counted(threads, 'thread')} each.")
    if reduction == "fast":
        say(
            'Their gradients are added as train.reduction = "fast" does: with another number of processes the last '
            "bits differ. A run begun with --set train.reduction=exact has the same weights in any world."
        )
    elif not arguments.threads:
        say(
            f"The bits of the weights depend on the number of threads: give --threads {threads} with any other number "
            "of processes."
        )
    checkpoints, failures = Checkpoints(folder / "checkpoints"), 0
    while True:
        before = max(checkpoints.steps(), default=0)
        code, reason = _launch(size, threads, _command(folder, arguments, threads, modules))
        if code != PeerError.exit_code:
            return code
        reached = max(checkpoints.steps(), default=0)
        failures = 1 if reached > before else failures + 1
        if failures > RESTARTS:
            tell(
                f"{reason} This was the {failures}th time without a new checkpoint. What is saved remains:  "
                f"foveate resume {written(folder)} --processes {size}"
            )
            return code
        since = f"the checkpoint of step {reached:,}" if reached else "the beginning"
        tell(f"{reason} All begin again from {since}.")


def _command(folder: Path, arguments: argparse.Namespace, threads: int, modules: Sequence[str]) -> list[str]:
    """The command of a process: it continues the run."""
    return [
        *(sys.executable, "-P", "-u", "-m", "foveate", "resume", str(folder), "--threads", str(threads)),
        *(["--quiet"] if arguments.quiet else []),
        *(["--no-tune"] if arguments.no_tune else []),
        *(["--debug"] if arguments.debug else []),
        *(word for module in modules for word in ("--import", module)),
    ]


def _launch(size: int, threads: int, command: Sequence[str]) -> tuple[int, str]:
    """Runs the command in `size` processes by torchrun's library; the exit code and, for a lost process, a sentence."""
    options = [
        *("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", f"--rdzv-id={os.getpid()}"),  # as --standalone does
        *(f"--nproc-per-node={size}", "--max-restarts=0", f"--shutdown-timeout={PATIENCE}"),
    ]
    with _environment(threads), _silence(), _handlers():
        config, program, words = config_from_args(parse_args([*options, "--no-python", *command]))
        try:
            elastic_launch(config=config, entrypoint=program)(*words)
        except ChildFailedError as error:
            return _outcome(error.failures)
        except SignalException:
            return 130, ""
    return 0, ""


def _outcome(failures: Mapping[int, ProcessFailure]) -> tuple[int, str]:
    """The exit code that the processes' failures mean, and the sentence on one that was lost."""
    codes = {rank: failure.exitcode for rank, failure in sorted(failures.items())}
    if 130 in codes.values():
        return 130, ""
    own = [code for code in codes.values() if code > 0 and code != PeerError.exit_code]
    if own:
        return own[0], ""
    killed = [f"rank {rank} by {signal.Signals(-code).name}" for rank, code in codes.items() if _is_kill(code)]
    if killed:
        return PeerError.exit_code, f"A process was killed: {', '.join(killed)}."
    return PeerError.exit_code, "The processes lost each other."


def _is_kill(code: int) -> bool:
    """Whether an exit code is that of a signal, other than the one by which torchrun ends the processes that remain."""
    return code < 0 and -code != signal.SIGTERM


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _environment(threads: int) -> Iterator[None]:
    """Variables for the processes: their threads, a store of their own, without which torch's agents hand them
    addresses of processes that have ended (pytorch issues 135712, 167288), and no warnings of closed connections.
    """
    ours = {"OMP_NUM_THREADS": str(threads), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _handlers() -> Iterator[None]:
    """Puts the handlers of signals back, which torchrun replaces."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, *HANGUPS)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _silence() -> Iterator[None]:
    """Without torchrun's log, which reports each process that ends, also on purpose."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
