"""Foveate's Transformer as an engine, with the machine switches its own tuning step would put in force."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import torch
from contract import PAD, Rows, Size, TraineeModule
from safetensors.torch import load_file
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))

from foveate import machine
from foveate.data.batch import Batch
from foveate.decode import BeamConfig, GreedyConfig, decode
from foveate.models.marian import from_marian
from foveate.models.transformer import Transformer, TransformerConfig
from foveate.nn.position_vector import SinusoidalConfig
from foveate.nn.precision import set_precision
from foveate.nn.transformer_block import BlockConfig
from foveate.tasks.translate.engine import ENGINES, Engine, EngineName


def config(size: Size) -> TransformerConfig:
    """The published (post-norm) Transformer, all three vocabulary matrices shared, Marian's layout of positions."""
    block = BlockConfig(
        model_dim=size.model_dim,
        num_heads=size.heads,
        feedforward_dim=size.feedforward_dim,
        norm="post",
        dropout=size.dropout,
    )
    return TransformerConfig(
        block=block,
        encoder_layers=size.layers,
        decoder_layers=size.layers,
        position=SinusoidalConfig(layout="blocks"),
        share="all",
    )


class Ours(TraineeModule):
    """The loss of the translation task, on batches made the way it makes them."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.size = size
        self.model: Transformer = config(size).build(size.vocab, size.vocab)

    def forward(self, sources: Rows, targets: Rows) -> Tensor:
        target = Batch.of(targets)
        loss = self.model.loss(Batch.of(sources), target, label_smoothing=self.size.label_smoothing)
        return loss / (target.num_tokens - target.size)


def trainee(size: Size) -> TraineeModule:
    return Ours(size)


_chosen: list[machine.Tuning] = []


@contextmanager
def switches() -> Iterator[None]:
    """Within: the switches that `tune` chose, once. They are global, and the peers must not run under them."""
    if not _chosen:
        _chosen.append(machine.tune())
    machine.use(_chosen[0])
    try:
        yield
    finally:
        machine.use(machine.Tuning(allocator=_chosen[0].allocator))


class Decode:
    """Greedy and beam search over a Transformer."""

    def __init__(self, model: Transformer) -> None:
        self.model = model.eval()

    @torch.inference_mode()
    def __call__(self, sources: Rows, beam: int, max_new_tokens: int) -> list[list[int]]:
        settings = (
            GreedyConfig(max_length=max_new_tokens) if beam == 1 else BeamConfig(beam=beam, max_length=max_new_tokens)
        )
        state = self.model.start(Batch.of(sources), beam)
        found = decode(self.model, state, sentences=len(sources), config=settings)
        return [[token for token in hypotheses[0].tokens if token != PAD] for hypotheses in found]


class Exported:
    """The same model in an engine that it is exported to, as `foveate translate --engine` runs it."""

    def __init__(self, model: Transformer, engine: EngineName) -> None:
        self.engine = Engine(model.eval(), engine)

    @torch.inference_mode()
    def __call__(self, sources: Rows, beam: int, max_new_tokens: int) -> list[list[int]]:
        # The task's limit, twice the source and ten, is beyond what these sentences take.
        settings = (
            GreedyConfig(max_length=max_new_tokens) if beam == 1 else BeamConfig(beam=beam, max_length=max_new_tokens)
        )
        found = self.engine.decode(sources, range(len(sources)), settings)
        return [[token for token in hypotheses[0].tokens if token != PAD] for hypotheses in found]


def translator(folder: Path, precision: str, threads: int) -> Decode | Exported:
    """The weights of a Hugging Face Marian in our model; `precision` may name another engine."""
    settings = json.loads((folder / "config.json").read_text())
    model = from_marian(settings, load_file(folder / "model.safetensors"))
    if precision in ENGINES:
        return Exported(model, cast(EngineName, precision))
    set_precision(model, precision)
    return Decode(model)
