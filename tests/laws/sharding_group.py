"""Trains a small Transformer in worlds whose processes have parts of it, for `test_sharding`; prints what happened.

    python sharding_group.py FOLDER

All groups are forked from this process, which imports torch and FSDP once.
"""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed.fsdp
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from kill_and_resume import Silent
from worlds import ends, fork_world

from foveate import machine
from foveate.data.batch import Batch
from foveate.errors import FoveateError
from foveate.models import BahdanauConfig, GPTConfig, LanguageModel, LlamaConfig, TransformerConfig
from foveate.nn import BlockConfig
from foveate.nn.measurement import Each, SharedValidation
from foveate.storage.checkpoint import Checkpoints, load_weights, restore_model
from foveate.storage.tensor import read_tensors
from foveate.tasks.language_model.task import LanguageModelTaskConfig, loss_of_text
from foveate.tasks.translate.task import TranslateConfig, loss_of_words
from foveate.tasks.unlikelihood_loss import UnlikelihoodConfig
from foveate.train import Constant, Loss, TrainConfig, fit, reduction
from foveate.train.shards import Shards
from foveate.train.world import World

CONFIG = TrainConfig(
    steps=12,
    accumulate=3,
    validate_every=3,
    save_every=3,
    log_every=3,
    average=2,
    schedule=Constant(),
    stall_seconds=30.0,
    weight_decay=0.5,
)
BLOCK = BlockConfig(model_dim=16, num_heads=2, feedforward_dim=32, norm="pre", dropout=0.1)
MODEL = TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=1)
SMALL = replace(BLOCK, dropout=0.0)
MODELS: dict[str, Callable[[], Any]] = {
    "transformer": lambda: replace(MODEL, block=SMALL).build(11, 11),
    "gpt": lambda: GPTConfig(block=SMALL, num_layers=2).build(11),
    "llama": lambda: LlamaConfig(
        model_dim=16, num_heads=4, num_kv_heads=2, feedforward_dim=24, num_layers=2, dropout=0.0
    ).build(11),
    "bahdanau": lambda: BahdanauConfig(embedding_dim=8, hidden_dim=8, maxout_dim=6, dropout=0.0).build(11, 11),
}
VALIDATED = 4
"""Batches of a validation: three processes compute unequally many."""


class Copying(SharedValidation):
    """Copies digits. A layer is used in odd batches alone, one never, and one factor is a number without an axis."""

    steps_per_epoch = 50

    def __init__(self, change: Callable[["Copying", int], object] = lambda task, number: None) -> None:
        torch.manual_seed(0)
        self.model: Any = MODEL.build(11, 11)
        self.model.odd, self.model.never = nn.Linear(5, 1), nn.Linear(4, 4)
        self.model.scale = nn.Parameter(torch.tensor(1.0))
        self.change, self.number = change, 0

    def batch(self, step: int) -> Batch:
        self.number = step
        generator = torch.Generator().manual_seed(step)
        lengths = torch.randint(3, 9, (4,), generator=generator).tolist()
        return Batch.of([torch.randint(2, 11, (length,), generator=generator).tolist() for length in lengths])

    def loss(self, batch: Batch) -> Loss:
        total = self.model.loss(batch, batch) * self.model.scale
        if self.number % 2:
            total = total + self.model.odd(torch.ones(5)).sum()
        if self.model.training:
            self.change(self, self.number)
        return Loss(total, batch.num_tokens - batch.size)

    def validated(self, number: int) -> tuple[float, int]:
        loss = self.loss(self.batch(1000 + number))
        return float(loss.total), loss.count

    def measured(self, each: Each) -> dict[str, float]:
        total, count = map(sum, zip(*each(self.validated, VALIDATED), strict=True))
        return {"loss": total / count}

    def describe(self, batch: Batch) -> str:
        return f"{batch.size} texts"


class Told(Silent):
    """Calls a hook after each update."""

    def __init__(self, hook: Callable[[int], object]) -> None:
        self.hook = hook

    def advance(self, step: int, loss: float) -> None:
        self.hook(step)


def group(
    folder: Path,
    size: int,
    config: TrainConfig,
    *,
    hook: Callable[[int, int], object] = lambda rank, step: None,
    change: Callable[[Copying, int], object] = lambda task, number: None,
    wait: Callable[[list[int]], object] = lambda processes: None,
) -> list[dict[str, Any]]:
    """The end of each rank: its code, and its outcome or its error."""
    folder.mkdir(exist_ok=True)

    def work(world: World) -> None:
        task = Copying(change)
        ending: dict[str, Any] = {}
        try:
            told = Told(lambda step: hook(world.rank, step))
            outcome = fit(task, config, folder, resume=True, progress=told, world=world, accepted=["train.sharding"])
            ending = asdict(outcome)
            if not outcome.interrupted:
                expected = read_tensors(folder / "model.safetensors")
                own = dict(task.model.named_parameters())
                ending["as written"] = all(torch.equal(expected[name], own[name].detach()) for name in own)
        except FoveateError as error:
            ending = {"error": str(error), "kind": type(error).__name__, "shared": error.shared}
            raise
        finally:
            (folder / f"rank-{world.rank}.json").write_text(json.dumps(ending))

    processes = fork_world(size, work)
    wait(processes)
    codes = ends(processes)
    reports = [json.loads((folder / f"rank-{rank}.json").read_text() or "{}") for rank in range(size)]
    return [{"code": code, **ending} for code, ending in zip(codes, reports, strict=True)]


def loss_of(folder: Path) -> float:
    """The validation loss of the weights that a run folder offers for use, in this process alone."""
    task = Copying()
    restore_model(task.model, load_weights(folder)[0], source=folder)
    task.model.eval()
    with torch.no_grad():
        return task.validate()["loss"]


def descend(parameters: Iterable[nn.Parameter]) -> None:
    """Moves parameters along their gradients."""
    with torch.no_grad():
        for parameter in parameters:
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad


def loss_on(model: Any, number: int) -> Tensor:
    """A model's loss on a batch of three texts of five tokens, in odd batches also that of repeated tokens."""
    texts = Batch.of(torch.randint(2, 11, (3, 5), generator=torch.Generator().manual_seed(number)).tolist())
    against = UnlikelihoodConfig(weight=0.5 * (number % 2), ngram=1)
    if isinstance(model, LanguageModel):
        return loss_of_text(model, LanguageModelTaskConfig(unlikelihood=against), texts) / 20
    return loss_of_words(model, TranslateConfig(label_smoothing=0.0, unlikelihood=against), texts, texts) / 20


def distances(folder: Path) -> dict[str, float]:
    """For each model and way to divide it, the largest distance between its weights and those of a whole model after a
    step along the gradient of four batches, two in each of two processes.
    """

    def work(world: World) -> None:
        answers = {}
        for name, make in MODELS.items():
            for sharding in ("moments", "full"):
                torch.manual_seed(0)
                whole, divided = make(), make()
                divided.load_state_dict(whole.state_dict())
                held = Shards(divided, world, sharding)
                parameters = [rows for _, rows in held.named()]
                summation = held.summation(parameters, "fast", 4)
                for number in (0, 1):
                    summation.begin(last=number == 1)
                    loss_on(divided, 2 * world.rank + number).backward()
                summation.finish()
                descend(parameters)
                for number in range(4):
                    loss_on(whole, number).backward()
                descend(whole.parameters())
                reached = held.whole()
                if world.is_first:
                    pairs = ((reached[name], weight.detach()) for name, weight in whole.named_parameters())
                    answers[f"{name} {sharding}"] = max(float((one - other).abs().max()) for one, other in pairs)
        if world.is_first:
            (folder / "distances.json").write_text(json.dumps(answers))

    assert not any(ends(fork_world(2, work)))
    answers: dict[str, float] = json.loads((folder / "distances.json").read_text())
    return answers


def laws(folder: Path) -> dict[str, Any]:
    """What happened in each experiment, by name."""
    results: dict[str, Any] = {"ends": {}, "rows": {}, "loss": {}, "files": {}, "distances": distances(folder)}
    full, moments = replace(CONFIG, sharding="full"), replace(CONFIG, sharding="moments")
    reduction.BUCKET = 300  # several buckets, not one

    def note(name: str, size: int, config: TrainConfig, **options: Any) -> None:
        (folder / name).mkdir(exist_ok=True)
        for rank in range(size):
            (folder / name / f"rank-{rank}.json").write_text("")
        results["ends"].setdefault(name, []).append(group(folder / name, size, config, **options))
        log = (folder / name / "metrics.jsonl").read_text().splitlines()
        results["rows"][name] = [json.loads(line) for line in log]
        saved = sorted((folder / name / "checkpoints").iterdir())
        results["files"][name] = [sorted(file.name for file in path.iterdir()) for path in saved]
        results["loss"].setdefault(name, []).append(loss_of(folder / name) if saved else None)

    def stop(at: int) -> Callable[[int, int], object]:
        return lambda rank, step: os.kill(os.getpid(), signal.SIGTERM) if (rank, step) == (0, at) else None

    for name, size, config in (
        ("alone", 1, CONFIG),
        ("replicate", 2, CONFIG),
        ("full", 2, full),
        ("moments", 2, moments),
    ):
        note(name, size, config)
    note("chain", 2, full, hook=stop(3))
    note("chain", 1, full, hook=stop(5))
    note("chain", 2, CONFIG, hook=stop(6))
    note("chain", 3, moments, hook=stop(8))
    note("chain", 3, full)

    note("alone in bfloat16", 1, replace(CONFIG, precision="bfloat16"))
    note("full in bfloat16", 2, replace(full, precision="bfloat16"))

    def without_space(rank: int, step: int) -> None:
        if (rank, step) == (1, 5):
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))

    note("full-disk", 2, full, hook=without_space)

    write_state = Checkpoints.write_state

    def end_inside(self: Checkpoints, draft: str, step: int, state: Any) -> None:
        write_state(self, draft, step, state)
        if step == 6:
            os.kill(os.getpid(), signal.SIGKILL)

    Checkpoints.write_state = end_inside  # type: ignore[method-assign]
    note("killed", 2, full)
    Checkpoints.write_state = write_state  # type: ignore[method-assign]
    results["draft"] = [path.name for path in (folder / "killed" / "checkpoints").glob(".tmp-*")]
    note("killed", 2, full)

    def look_outside(task: Copying, number: int) -> None:
        if number == 1:  # the second rank's
            task.model.decoder[0].feedforward(torch.ones(1, BLOCK.model_dim))

    note("outside", 2, full, change=look_outside)

    def hang(task: Copying, number: int) -> None:
        if number == 16:  # the second rank's batch in the sixth update
            time.sleep(60)

    def end_late(processes: list[int]) -> None:
        os.waitid(os.P_PID, processes[0], os.WEXITED | os.WNOWAIT)
        os.kill(processes[1], signal.SIGKILL)

    note("hanging", 2, replace(full, stall_seconds=2.0), change=hang, wait=end_late)
    return results


if __name__ == "__main__":
    torch.set_num_threads(1)
    machine.use(replace(machine.current(), packed_rows=1))  # validations prepare weights, which updates change
    fit(Copying(), replace(CONFIG, steps=1), Path(sys.argv[1], "warm"), progress=Silent())
    print(json.dumps(laws(Path(sys.argv[1]))))
