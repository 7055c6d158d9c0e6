"""Processes that compute batches while this one measures its own: those of a training share a machine as well."""

import contextlib
import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from multiprocessing.synchronize import Event
from typing import Any

from foveate.config import build, modules_in, permit, to_dict
from foveate.errors import SetupError


@contextlib.contextmanager
def beside_others(
    count: int, name: str, config: Any, lengths: Sequence[int], vocab: int | None, *, threads: int
) -> Iterator[None]:
    """Within this context so many other processes make steps with the batch of a task's probe. Raises SetupError if one
    ends.
    """
    from foveate import machine

    context = multiprocessing.get_context("spawn")  # not by fork: see `encoded` of `foveate.data.block_encoding`
    ended, ready = context.Event(), [context.Event() for _ in range(count)]
    tuning = machine.current()
    plain = to_dict(config)  # a task's configuration is a class that is made at run time, which no pickle names
    processes = [
        context.Process(target=_compute, args=(name, plain, lengths, vocab, threads, tuning, mine, ended), daemon=True)
        for mine in ready
    ]
    try:
        for process in processes:
            process.start()
        for process, mine in zip(processes, ready, strict=True):
            while not mine.wait(0.2):
                if not process.is_alive():
                    raise SetupError(
                        f"One of {count} processes that compute beside this one has ended, perhaps for lack of memory. "
                        "Plan for fewer with --processes."
                    )
        yield
    finally:
        ended.set()
        for process in processes:
            if process.pid is not None:
                process.join(timeout=30)
                process.kill()


def _compute(
    name: str,
    plain: Any,
    lengths: Sequence[int],
    vocab: int | None,
    threads: int,
    tuning: Any,
    ready: Event,
    ended: Event,
) -> None:
    """The work of another process, which does not outlive its parent. Ctrl-C is for the parent."""
    import torch

    from foveate import machine
    from foveate.tasks import TASKS
    from foveate.tasks.run_plan import timed

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(threads)
    machine.use(tuning)
    side, parent = TASKS[name].side, multiprocessing.parent_process()
    with permit(*modules_in(plain)):
        config = build(side.run_config, plain)
    probe, bfloat16 = side.probe(config, lengths, vocab), config.train.precision == "bfloat16"
    timed(probe, bfloat16=bfloat16)
    ready.set()
    while not ended.is_set() and parent is not None and parent.is_alive():
        timed(probe, bfloat16=bfloat16)
