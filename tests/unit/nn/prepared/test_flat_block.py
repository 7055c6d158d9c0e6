"""The flat decoding step in float32, with its kernel and without: the teacher-forced logits, row by row."""

import pytest
import torch
from torch import Tensor

from foveate.data.batch import Batch
from foveate.models import Transformer, TransformerConfig
from foveate.nn import BlockConfig
from foveate.nn.clock import Clock
from foveate.nn.multihead import KeyValue
from foveate.nn.prepared import flat_block

SOURCES = [[5, 6, 7, 8, 2], [9, 2], [4, 4, 10, 2] * 5]
TARGET = [1, 7, 8, 9, 10, 11, 6, 5, 4, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2]
"""Longer than one step of the cache."""


def built(dtype: torch.dtype) -> Transformer:
    torch.manual_seed(0)
    block = BlockConfig(model_dim=64, num_heads=2, feedforward_dim=64)
    return TransformerConfig(block=block, encoder_layers=1, decoder_layers=2).build(13, 13).eval().to(dtype)


@torch.no_grad()
def stepped(model: Transformer, beam: int = 1) -> Tensor:
    """The logits after every word of the target, for every row."""
    state, logits = model.start(Batch.of(SOURCES), beam), []
    for time, word in enumerate(TARGET[:-1]):
        state, last = model.step(state, torch.full((len(SOURCES) * beam,), word))
        logits.append(last)
        if time == 3:  # the hypotheses of a sentence are all the same, so their order must not matter
            rows = torch.arange(len(SOURCES) * beam).view(-1, beam).flip(1)
            state = model.select(state, rows.flatten())
    return torch.stack(logits, 1)


@pytest.mark.skipif(flat_block.kernels() is None, reason="needs a C++ compiler")
def test_contexts_are_rounded_to_the_nearest_bfloat16_and_ties_to_even() -> None:
    """Every other mean of two whole numbers of 8 bits lies in the middle between two numbers of bfloat16."""
    value = torch.randint(128, 256, (64, 1, 2, 16), generator=torch.Generator().manual_seed(0)).bfloat16()
    memory, cache = KeyValue(torch.zeros_like(value), value), torch.zeros(2, 64, 1, 16, 16, dtype=torch.bfloat16)
    sight = flat_block.Sight(memory, torch.full((64,), 2), cache, clock=Clock(), step=1)
    context = sight.of_memory(torch.zeros(64, 1, 16, dtype=torch.bfloat16), memory, 1.0)
    assert torch.equal(context, value.float().mean(2).bfloat16().flatten(1))


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("beam", [1, 3])
@torch.no_grad()
def test_every_step_gives_the_teacher_forced_logits(beam: int, kernel: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not kernel:
        monkeypatch.setattr(flat_block, "kernels", lambda: None)
    model = built(torch.float32)
    expected = model(Batch.of(SOURCES), Batch.of([TARGET] * len(SOURCES))).view(len(SOURCES), -1, 13)
    torch.testing.assert_close(stepped(model, beam), expected.repeat_interleave(beam, 0), atol=1e-5, rtol=1e-5)


def test_in_bfloat16_the_kernel_errs_no_more_than_products_do(monkeypatch: pytest.MonkeyPatch) -> None:
    exact, model = stepped(built(torch.float32)), built(torch.bfloat16)
    ours = stepped(model)
    monkeypatch.setattr(flat_block, "kernels", lambda: None)
    theirs = stepped(model)
    assert (ours - exact).norm() <= 1.1 * (theirs - exact).norm()


@torch.no_grad()
def test_a_step_sees_neither_padding_nor_the_free_room_of_the_cache() -> None:
    model = built(torch.float32)
    state = model.start(Batch.of(SOURCES))
    state, _ = model.step(state, torch.tensor([1, 1, 1]))
    clean = model.select(state, torch.arange(3))
    for layer, cache in zip(state.memory, state.cache, strict=True):
        layer.key[1, :, 2:], layer.value[1, :, 2:], cache[:, :, :, 1:] = torch.nan, torch.nan, torch.nan
    word = torch.tensor([4, 5, 6])
    if flat_block.kernels() is not None:
        assert torch.equal(model.step(state, word)[1], model.step(clean, word)[1])
