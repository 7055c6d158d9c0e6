"""An encoder in one kernel: the memory that its modules give, whatever the block, for each sentence as alone."""

import contextlib
import random
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from foveate.attention import record
from foveate.data.batch import Batch
from foveate.models import Transformer, TransformerConfig
from foveate.nn import BlockConfig, LearnedConfig
from foveate.nn.prepared import flat_block
from foveate.nn.prepared.flat_encoder import EncoderPass, FlatEncoderBlock

VOCAB = 77
LENGTHS = (5, 1, 33, 150, 16, 70)
"""More than are encoded together, and one sentence that alone is."""
DESIGNS = {
    "post": TransformerConfig(block=BlockConfig(model_dim=64, num_heads=2, feedforward_dim=96)),
    "pre, gelu": TransformerConfig(
        block=BlockConfig(model_dim=64, num_heads=4, feedforward_dim=32, norm="pre", activation="gelu"),
        position=LearnedConfig(max_length=160),
        encoder_layers=2,
    ),
    "pre, silu, no bias": TransformerConfig(
        block=BlockConfig(model_dim=48, num_heads=1, feedforward_dim=80, norm="pre", activation="silu", bias=False),
        encoder_layers=1,
        decoder_layers=1,
    ),
    "wide enough for threads": TransformerConfig(
        block=BlockConfig(model_dim=256, num_heads=4, feedforward_dim=512), encoder_layers=1, decoder_layers=1
    ),
}
pytestmark = pytest.mark.skipif(flat_block.kernels() is None, reason="needs a C++ compiler")


def built(design: str = "post", dtype: torch.dtype = torch.float32) -> Transformer:
    torch.manual_seed(0)
    model = DESIGNS[design].build(VOCAB, VOCAB).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.to(dtype)


def sources() -> list[list[int]]:
    draw = random.Random(1)
    return [[draw.randrange(3, VOCAB) for _ in range(length)] for length in LENGTHS]


@torch.no_grad()
def memory(model: Transformer, rows: list[list[int]]) -> Tensor:
    """[keys or values of every layer, sentences, heads, places, dim]"""
    return torch.stack([part for layer in model.start(Batch.of(rows)).memory for part in layer]).float()


@torch.no_grad()
def by_modules(model: Transformer, rows: list[list[int]]) -> Tensor:
    encoded, packing = model.encode(Batch.of(rows).widened(16))
    pairs = [block.cross_attention.remember(encoded, packing=packing) for block in model._decoder]
    return torch.stack([part for pair in pairs for part in pair])


@pytest.mark.parametrize("design", DESIGNS)
def test_the_memory_errs_no_more_than_that_of_the_modules_and_is_zero_at_padding(
    design: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, calls = built(design), 0
    call = EncoderPass.__call__

    def spy(*arguments: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        return call(*arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(EncoderPass, "__call__", spy)
    ours, theirs, exact = memory(model, sources()), by_modules(model, sources()), by_modules(model.double(), sources())
    assert calls == 1
    # The kernel adds in one order, whatever the company, where a library may add in blocks.
    assert (ours - exact).norm() <= 2 * (theirs - exact).norm()
    padding = torch.tensor([[place >= length for place in range(ours.shape[3])] for length in LENGTHS])
    assert ours.masked_select(padding[:, None, :, None]).count_nonzero() == 0


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("design", ["post", "wide enough for threads"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_sentence_does_not_depend_on_its_company_nor_on_threads(design: str, dtype: torch.dtype) -> None:
    model, rows = built(design, dtype), sources()
    alone = [memory(model, [row])[:, 0, :, : len(row)] for row in rows]
    torch.set_num_threads(2)
    for order in (range(len(rows)), reversed(range(len(rows))), (2, 4, 5)):
        numbers = list(order)
        together = memory(model, [rows[number] for number in numbers])
        for place, number in enumerate(numbers):
            assert torch.equal(together[:, place, :, : len(rows[number])], alone[number])


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("design", DESIGNS)
def test_in_bfloat16_it_errs_no_more_than_the_modules_do(design: str) -> None:
    exact, model = by_modules(built(design), sources()), built(design, torch.bfloat16)
    ours, theirs = memory(model, sources()), by_modules(model, sources())
    assert (ours - exact).norm() <= 1.1 * (theirs - exact).norm()


@torch.no_grad()
def test_a_recording_sees_what_the_modules_see_in_every_layer_and_sentence() -> None:
    model, batch = built("pre, gelu"), Batch.of(sources()).widened(16)
    with record(model) as fast:
        model.start(batch)
    with record(model) as slow:
        model.encode(batch)
    layers = list(zip(fast.of_kind("self"), slow.of_kind("self"), strict=True))
    assert len(layers) == 2
    for ours, theirs in layers:
        for sentence, length in enumerate(LENGTHS):
            mine, other = (each.weights()[sentence, :, :length, :length] for each in (ours, theirs))
            torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_another_default_dtype_changes_neither_memory_nor_recording(doubles: Callable[[], Any]) -> None:
    model, batch, answers = built("pre, gelu"), Batch.of(sources()), []
    for within in (contextlib.nullcontext, doubles):
        with within(), record(model) as recording:
            memory = model.start(batch).memory
        answers.append([*(part for layer in memory for part in layer), *(each.query for each in recording)])
    for one, other in zip(*answers, strict=True):
        assert torch.equal(one, other)


def test_a_hooked_or_changed_block_is_run_itself() -> None:
    model, rows = built(), sources()
    before = memory(model, rows)
    handle = model.encoder[1].feedforward.register_forward_hook(lambda module, inputs, output: 2 * output)
    torch.testing.assert_close(memory(model, rows), by_modules(model, rows), atol=1e-6, rtol=1e-6)
    assert not torch.allclose(memory(model, rows), before)
    handle.remove()
    assert torch.equal(memory(model, rows), before)
    with torch.no_grad():
        model.encoder[0].attention.key.weight.mul_(1.5)
    torch.testing.assert_close(memory(model, rows), by_modules(model, rows), atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_what_the_kernel_cannot_encode_has_a_reason() -> None:
    model = built()
    step = model.start(Batch.of(sources())).whole
    assert step is not None
    blocks = [block for block in map(FlatEncoderBlock.of, model.encoder) if block is not None]
    assert EncoderPass.refuses(blocks, model._decoder, step) == ""
    assert "no blocks" in EncoderPass.refuses([], model._decoder, step)
    other = [block for block in map(FlatEncoderBlock.of, built("pre, gelu").encoder) if block is not None]
    assert "different heads" in EncoderPass.refuses(other, model._decoder, step)
    assert "differ in their heads" in EncoderPass.refuses([*blocks, *other], model._decoder, step)
    half = [block for block in map(FlatEncoderBlock.of, built(dtype=torch.bfloat16).encoder) if block is not None]
    assert "precision" in EncoderPass.refuses(half, model._decoder, step)


def test_nothing_is_left_of_an_encoder_that_is_prepared_anew() -> None:
    model = built()
    with torch.no_grad():
        _, step, encoding = model.prepared()
        assert encoding is not None
        copies = [weakref.ref(weight) for weight in vars(encoding)["_alive"] if isinstance(weight, Tensor)]
        model.encoder[0].feedforward.expand.weight.mul_(2)
        del encoding
        assert model.prepared().whole is step
    assert copies
    assert not any(copy() is not None for copy in copies)
