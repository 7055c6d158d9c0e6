"""Kill training at random moments, resume it each time, and compare the end with a run that was left alone.

    python benchmarks/kill_and_resume.py --kills 100

Compared are the bytes of the final weights, of AdamW's moments and the rows of metrics.jsonl without their clocks.
The exit code is 0 when all of them are equal. Children are forked from one process, so that a kill costs
milliseconds, not an import of torch.
"""

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from foveate.nn.measurement import Each, SharedValidation
from foveate.storage.manifest import file_digest
from foveate.train import Loss, Plateau, TrainConfig, fit

CONFIG = TrainConfig(
    steps=150,
    schedule=Plateau(patience=1, decay=0.7, warmup=20),
    validate_every=15,
    save_every=10,
    log_every=4,
    average=3,
    accumulate=2,
    learning_rate=3e-3,
)
VALIDATED = 5
"""Batches of a validation."""


class Addition(SharedValidation):
    """Says the sum of four digits modulo ten, through a network with dropout."""

    steps_per_epoch = 50

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(
            nn.Embedding(10, 16), nn.Flatten(), nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 10)
        )

    def batch(self, step: int) -> Tensor:
        generator = torch.Generator().manual_seed(1 + step % self.steps_per_epoch)
        return torch.randint(10, (16 + step % 5, 4), generator=generator)

    def loss(self, batch: Tensor) -> Loss:
        logits, target = self.model(batch), batch.sum(1) % 10
        correct = (logits.argmax(1) == target).sum()
        return Loss(cross_entropy(logits, target, reduction="sum"), len(batch), {"accuracy": correct})

    def measured(self, each: Each) -> dict[str, float]:
        total, count = map(sum, zip(*each(self.validated, VALIDATED), strict=True))
        return {"loss": total / count}

    def validated(self, number: int) -> tuple[float, int]:
        """The loss of a validation batch, and its count."""
        loss = self.loss(torch.randint(10, (15, 4), generator=torch.Generator().manual_seed(-1 - number)))
        return float(loss.total), loss.count

    def describe(self, batch: Tensor) -> str:
        return f"{len(batch)} sums"


@dataclass
class Tally:
    """What happened."""

    kills: int = 0
    while_saving: int = 0
    rounds: int = 0
    different: list[str] = field(default_factory=list)


def train(folder: Path) -> None:
    fit(Addition(), CONFIG, folder, resume=True, progress=Silent())


class Silent:
    """Shows nothing: a note about a resume is no news here."""

    def begin(self, step: int, steps: int, seconds: float | None) -> None: ...
    def advance(self, step: int, loss: float) -> None: ...
    def row(self, row: object) -> None: ...
    def note(self, sentence: str) -> None: ...

    def tell(self, sentence: str) -> None: ...
    def end(self) -> None: ...


def fork(folder: Path) -> int:
    """Trains in a child process; returns its number."""
    process = os.fork()
    if process == 0:
        status = 1
        try:
            train(folder)
            status = 0
        finally:
            os._exit(status)
    return process


def kill_until_done(folder: Path, tally: Tally, kills: int, pause: float, chance: random.Random) -> None:
    """One run, killed at random moments until it gets through or the kills are used up."""
    while True:
        process = fork(folder)
        if tally.kills < kills:
            time.sleep(chance.uniform(0, pause))
            os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFSIGNALED(status):
            tally.kills += 1
            tally.while_saving += any(folder.glob("**/.tmp-*"))
        elif os.WEXITSTATUS(status) == 0:
            return
        else:
            raise SystemExit(f"Training in {folder} failed; its message is above.")


def traces(folder: Path, steps: int = CONFIG.steps) -> dict[str, str]:
    """What has to be equal in two runs."""
    last = folder / "checkpoints" / f"step-{steps:08d}"
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    clocks = ("seconds", "tokens_per_second")
    return {
        "final weights": file_digest(folder / "model.safetensors"),
        "last weights": file_digest(last / "model.safetensors"),
        "optimiser": file_digest(last / "optimiser.safetensors"),
        "metrics.jsonl": json.dumps([{key: value for key, value in row.items() if key not in clocks} for row in rows]),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments of the kills")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    chance, tally = random.Random(arguments.seed), Tally()
    with tempfile.TemporaryDirectory() as temporary:
        train(Path(temporary, "warm"))  # so that the children find everything imported
        started = time.monotonic()
        train(Path(temporary, "alone"))
        alone, expected = time.monotonic() - started, traces(Path(temporary, "alone"))
        while tally.kills < arguments.kills:
            folder = Path(temporary, f"killed-{tally.rounds}")
            kill_until_done(folder, tally, arguments.kills, alone / 3, chance)
            found = traces(folder)
            tally.different += [
                f"{name} of run {tally.rounds + 1}" for name in expected if found[name] != expected[name]
            ]
            tally.rounds += 1
    runs = f"{tally.rounds} runs of {CONFIG.steps} steps (seed {arguments.seed})"
    print(f"{tally.kills} kills in {runs}, {tally.while_saving} in the middle of a save.")
    print(f"Different from the run left alone: {', '.join(tally.different) or 'nothing'}.")
    return 1 if tally.different else 0


if __name__ == "__main__":
    sys.exit(main())
