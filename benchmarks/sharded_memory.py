"""Memory of each process of a run, for worlds of several sizes and every `train.sharding`.

    MALLOC_MMAP_THRESHOLD_=65536 python benchmarks/sharded_memory.py --out benchmarks/results/sharded_memory.json

A Transformer of 6 + 6 layers makes updates of four batches of random tokens on CPU, one thread a process. The number is
the largest over the processes, in bytes a parameter: of all tensors that live between two updates, and of all memory
that the process got from the system while it made updates, beyond what it had before it built the model.
"""

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed.fsdp
from kill_and_resume import Silent
from worlds import in_world

from foveate.data.batch import Batch
from foveate.models import TransformerConfig
from foveate.nn import BlockConfig
from foveate.train import Constant, Loss, TrainConfig, fit
from foveate.train.world import World

MODEL = TransformerConfig(
    block=BlockConfig(model_dim=384, num_heads=6, feedforward_dim=1536, norm="pre"),
    encoder_layers=6,
    decoder_layers=6,
    share="all",
)
VOCAB = 4000
CONFIG = TrainConfig(
    steps=3, accumulate=4, validate_every=100, save_every=100, log_every=100, schedule=Constant(), stall_seconds=600.0
)
WORLDS = (1, 2, 4)


def resident(name: str = "VmRSS") -> int:
    """Bytes of this process in memory now, or at most (`VmHWM`) since `forget_peak`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(name))


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def tensor_bytes() -> int:
    """Bytes of the memory of all tensors of this process, each counted once."""
    gc.collect()
    memory = {}
    for each in gc.get_objects():
        if issubclass(type(each), torch.Tensor):
            inner = each._local_tensor if hasattr(each, "_local_tensor") else each
            storage = inner.untyped_storage()
            memory[storage.data_ptr()] = storage.nbytes()
    return sum(size for place, size in memory.items() if place)


class Measured(Silent):
    """Measures from the first update to the last, before the run ends, for which weights are gathered."""

    def __init__(self) -> None:
        self.between, self.peak = 0, 0

    def advance(self, step: int, loss: float) -> None:
        if step == 1:
            forget_peak()
        elif step < CONFIG.steps:
            self.between = tensor_bytes()
        else:
            self.peak = resident("VmHWM")


class RandomTokens:
    """Translation of random tokens: only its memory matters."""

    steps_per_epoch = 100

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = MODEL.build(VOCAB, VOCAB)

    def batch(self, step: int) -> Batch:
        return Batch.of(torch.randint(2, VOCAB, (2, 12), generator=torch.Generator().manual_seed(step)).tolist())

    def loss(self, batch: Batch) -> Loss:
        return Loss(self.model.loss(batch, batch), batch.num_tokens - batch.size)

    def validate(self) -> dict[str, float]:
        return {"loss": 0.0}

    def describe(self, batch: Batch) -> str:
        return f"{batch.size} texts"


def measured(folder: Path, size: int, sharding: Any) -> dict[str, Any]:
    """A row of the table."""

    def work(world: World) -> None:
        forget_peak()
        before, tensors = resident(), tensor_bytes()
        task, progress = RandomTokens(), Measured()
        parameters = task.model.parameter_count()
        fit(task, replace(CONFIG, sharding=sharding), folder / f"{size}-{sharding}", progress=progress, world=world)
        row = {
            "between updates": (progress.between - tensors) / parameters,
            "at most": (progress.peak - before) / parameters,
            "parameters": parameters,
        }
        (folder / f"{size}-{sharding}-{world.rank}.json").write_text(json.dumps(row))

    in_world(size, work)
    rows = [json.loads((folder / f"{size}-{sharding}-{rank}.json").read_text()) for rank in range(size)]
    largest = {name: max(row[name] for row in rows) for name in rows[0]}
    return {"processes": size, "sharding": sharding, **largest}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| processes | `train.sharding` | tensors between updates | memory in updates, at most |",
        "|---|---|---|---|",
    ]
    return "\n".join(
        lines
        + [
            f"| {row['processes']} | `{row['sharding']}` | {row['between updates']:.1f} | {row['at most']:.1f} |"
            for row in rows
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="JSON")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        rows = [measured(Path(temporary), 1, "replicate")]
        rows += [
            measured(Path(temporary), size, sharding)
            for size in WORLDS[1:]
            for sharding in ("replicate", "moments", "full")
        ]
    if arguments.out:
        arguments.out.write_text(json.dumps({"torch": torch.__version__, "rows": rows}, indent=1) + "\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
