"""Train one model in worlds of several processes: equal bits, loss distance and speed; and kill them at random moments.

    python benchmarks/worlds.py --out benchmarks/results/worlds.json
    python benchmarks/worlds.py --kills 50

The table trains a small translator of verses (Transformer, 2 + 2 layers of width 64, dropout 0.1, 12 batches of at most
512 tokens an update) in each world with each reduction, one thread a process. With `--kills`, rank by rank or all at
once are killed by SIGKILL, at random moments and inside saves, and the run goes on in a world of another size; compared
are the bytes of the final weights, of the moments and of the log with those of one process that was left alone.
Processes are forked from one that has imported torch, and find each other by torchrun's variables.
"""

import argparse
import json
import lzma
import os
import random
import resource
import shutil
import signal
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from kill_and_resume import CONFIG, Addition, Silent, Tally, traces

from foveate import TranslateConfig, TranslateTask
from foveate.config import build
from foveate.errors import FoveateError
from foveate.storage.manifest import file_digest
from foveate.train import TrainConfig, fit
from foveate.train.world import World, joined

VERSES = Path(__file__).resolve().parents[1] / "examples/data/verses.tsv.xz"
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
    """One run in changing worlds, with a rank or all killed at random moments, until it gets through.

    Nobody is killed before all have met, for which the others would wait as long as a process may take to appear.
    """
    while True:
        meetings, met = os.pipe()

        def work(world: World, met: int = met) -> None:
            os.write(met, b".")
            training(folder)(world)

        processes = fork_world(chance.choice(WORLDS), work)
        os.close(met)
        if tally.kills < kills:
            for _ in processes:
                os.read(meetings, 1)
            moment = time.monotonic() + chance.uniform(0, pause)
            inside = chance.random() < 0.6  # wait for a save
            while time.monotonic() < moment or (
                inside and time.monotonic() < moment + pause and not any(folder.glob("**/.tmp-*"))
            ):
                time.sleep(0.0005)
            for process in processes if chance.random() < 0.5 else [chance.choice(processes)]:
                os.kill(process, signal.SIGKILL)
        os.close(meetings)
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


def measured(folder: Path, steps: int) -> list[dict[str, Any]]:
    """A row for each world and reduction: the weights' digest, loss, CPU seconds of all processes, and speed."""
    with lzma.open(VERSES, "rt", encoding="utf-8") as verses:
        (folder / "verses.tsv").write_text("".join(verses.readlines()[1:1501]), encoding="utf-8")
    data = {"source": str(folder / "verses.tsv"), "columns": [0, 1], "max_tokens": 512}
    block = {"model_dim": 64, "num_heads": 4, "feedforward_dim": 256, "dropout": 0.1}
    model = {"kind": "transformer", "encoder_layers": 2, "decoder_layers": 2, "block": block}
    config = build(TranslateConfig, {"data": data, "model": model})
    train = TrainConfig(steps=steps, accumulate=12, validate_every=steps, save_every=steps, log_every=3)
    TranslateTask.prepare(config, folder / "run")
    rows = []
    for reduction in ("exact", "fast"):
        for size in WORLDS:
            run = folder / f"{reduction}-{size}"
            shutil.copytree(folder / "run", run)
            before = resource.getrusage(resource.RUSAGE_CHILDREN)

            def work(
                world: World, run: Path = run, settings: TrainConfig = replace(train, reduction=reduction)
            ) -> None:
                fit(TranslateTask.open(config, run), settings, run, progress=Silent(), world=world)

            in_world(size, work)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            log = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            rows.append(
                {
                    "reduction": reduction,
                    "processes": size,
                    "sha256": file_digest(run / "model.safetensors"),
                    "loss": next(row["loss"] for row in log if row["kind"] == "valid"),
                    "training loss": [row["loss"] for row in log if row["kind"] == "train"],
                    "cpu_seconds": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
                    "tokens_per_second": statistics.median(
                        row["tokens_per_second"] for row in log if row["kind"] == "train"
                    ),
                }
            )
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows in Markdown, with the distance of the loss from that of one process with exact sums."""
    first = rows[0]["loss"]
    lines = [
        "| reduction | processes | SHA-256 of the weights | loss, distance | CPU s | tokens/s |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join(
        lines
        + [
            f"| {row['reduction']} | {row['processes']} | `{row['sha256'][:12]}` | {abs(row['loss'] - first):.1e} "
            f"| {row['cpu_seconds']:.1f} | {row['tokens_per_second']:,.0f} |"
            for row in rows
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=0, help="kill this often instead of measuring")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    parser.add_argument("--steps", type=int, default=15, help="updates of each run of the table")
    parser.add_argument("--out", type=Path, metavar="JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.kills:
        return kill(arguments.kills, arguments.seed)
    with tempfile.TemporaryDirectory() as temporary:
        rows = measured(Path(temporary), arguments.steps)
    if arguments.out:
        arguments.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    print(table(rows))
    return 0 if len({row["sha256"] for row in rows if row["reduction"] == "exact"}) == 1 else 1


if __name__ == "__main__":
    sys.exit(main())
