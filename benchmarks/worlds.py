"""Train one model in worlds of several processes: equal bits, loss distance and speed; and kill them at random moments.

    python benchmarks/worlds.py --worlds 1 2 3 4 --steps 30 --out benchmarks/results/worlds.json
    python benchmarks/worlds.py --kills 50

The table trains a small translator (Transformer, 2 + 2 layers, dropout 0.1, 12 batches an update) in each world with
each reduction, one thread a process. With `--kills`, rank by rank or all at once are killed by SIGKILL, at random
moments and inside saves, and the run goes on in a world of another size; compared are the bytes of the final weights,
of the moments and of the log with those of one process that was left alone. Processes are forked from one that has
imported torch, and find each other by torchrun's variables.
"""

import argparse
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from kill_and_resume import CONFIG, Addition, Silent, Tally, traces

from foveate.errors import FoveateError
from foveate.train import fit
from foveate.train.world import World, joined

WORLDS = (1, 2, 3, 4)
KILLED = replace(CONFIG, accumulate=4, steps=60, reduction="exact", stall_seconds=30.0)
"""The configuration under kills: three worlds can share its batches unequally."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def fork_world(size: int, work: Callable[[World], object]) -> list[int]:
    """Forks `size` processes that do `work` in one world; returns their numbers."""
    port, processes = free_port(), []
    sys.stdout.flush()
    for rank in range(size):
        process = os.fork()
        if process == 0:
            status = 1
            os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size)}
            os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
            try:
                with joined() as world:
                    work(world)
                status = 0
            except FoveateError as error:
                status = error.exit_code
                if not (error.shared and rank):
                    print(f"rank {rank}: {error}", file=sys.stderr, flush=True)
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(status)
        processes.append(process)
    return processes


def ends(processes: Sequence[int]) -> list[int]:
    """The exit codes of the processes; negative for signals."""
    return [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]


def in_world(size: int, work: Callable[[World], object]) -> None:
    """Does the work in a world. Raises SystemExit if a process fails."""
    if any(codes := ends(fork_world(size, work))):
        raise SystemExit(f"Processes ended with the codes {codes}; their message is above.")


def training(folder: Path) -> Callable[[World], object]:
    return lambda world: fit(Addition(), KILLED, folder, resume=True, progress=Silent(), world=world)


def kill_until_done(folder: Path, tally: Tally, kills: int, pause: float, chance: random.Random) -> None:
    """One run in changing worlds, with a rank or all killed at random moments, until it gets through."""
    while True:
        processes = fork_world(chance.choice(WORLDS), training(folder))
        if tally.kills < kills:
            moment = time.monotonic() + chance.uniform(0, pause)
            inside = chance.random() < 0.6  # wait for a save
            while time.monotonic() < moment or (
                inside and time.monotonic() < moment + pause and not any(folder.glob("**/.tmp-*"))
            ):
                time.sleep(0.0005)
            for process in processes if chance.random() < 0.5 else [chance.choice(processes)]:
                os.kill(process, signal.SIGKILL)
        codes = ends(processes)
        if any(code < 0 for code in codes):
            tally.kills += 1
            tally.while_saving += any(folder.glob("**/.tmp-*"))
        elif any(codes):
            raise SystemExit(f"Processes ended with the codes {codes}; their message is above.")
        if not any(codes):
            return


def kill(kills: int, seed: int) -> int:
    """Prints the tally; returns 1 if a run ended with other bits."""
    chance, tally = random.Random(seed), Tally()
    with tempfile.TemporaryDirectory() as temporary:
        training(Path(temporary, "warm"))(World())
        started = time.monotonic()
        training(Path(temporary, "alone"))(World())
        pause, expected = 2 * (time.monotonic() - started), traces(Path(temporary, "alone"), KILLED.steps)
        while tally.kills < kills:
            folder = Path(temporary, f"killed-{tally.rounds}")
            kill_until_done(folder, tally, kills, pause, chance)
            reached = traces(folder, KILLED.steps)
            unequal = [name for name in expected if reached[name] != expected[name]]
            tally.different += [f"{name} of run {tally.rounds + 1}" for name in unequal]
            tally.rounds += 1
    print(
        f"{tally.kills} kills in {tally.rounds} runs of {KILLED.steps} steps in changing worlds of 1 to 4 processes "
        f"(seed {seed}), {tally.while_saving} in the middle of a save."
    )
    print(f"Different from one process left alone: {', '.join(tally.different) or 'nothing'}.")
    return 1 if tally.different else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=0, help="kill this often instead of measuring")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    return kill(arguments.kills, arguments.seed)


if __name__ == "__main__":
    sys.exit(main())
