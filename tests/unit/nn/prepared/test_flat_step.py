"""A decoder's whole step in one kernel: the teacher-forced logits, whatever the block, and nothing else."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from foveate.attention import causal, padding, record
from foveate.data.batch import Batch
from foveate.decode import BeamConfig, decode
from foveate.models import Transformer, TransformerConfig
from foveate.nn import BlockConfig, LearnedConfig, SinusoidalConfig
from foveate.nn.feedforward import ACTIVATIONS, FeedForward
from foveate.nn.linear_layer import Linear
from foveate.nn.multihead import MultiHeadAttention
from foveate.nn.prepared import flat_block
from foveate.nn.prepared.flat_step import COMPILED, DecoderStep
from foveate.nn.prepared.kernel_weight import panels

SOURCES = [[5, 6, 7, 8, 2], [9, 2], [4, 4, 10, 2] * 5]
TARGET = [1, 7, 8, 9, 10, 11, 6, 5, 4, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 2]
"""Longer than one step of the cache."""
VOCAB = 77
"""Not a multiple of what the kernel takes at a time."""
DESIGNS = {
    "post": TransformerConfig(block=BlockConfig(model_dim=64, num_heads=2, feedforward_dim=96)),
    "pre, gelu": TransformerConfig(
        block=BlockConfig(model_dim=64, num_heads=4, feedforward_dim=32, norm="pre", activation="gelu"),
        position=LearnedConfig(max_length=40),
        share="none",
    ),
    "wide enough for threads": TransformerConfig(
        block=BlockConfig(model_dim=256, num_heads=4, feedforward_dim=512), encoder_layers=1, decoder_layers=1
    ),
    "pre, silu, output bias": TransformerConfig(
        block=BlockConfig(model_dim=32, num_heads=1, feedforward_dim=48, norm="pre", activation="silu", bias=False),
        position=SinusoidalConfig(layout="blocks"),
        output_bias=True,
    ),
}


def built(design: str = "post", dtype: torch.dtype = torch.float32) -> Transformer:
    torch.manual_seed(0)
    model = DESIGNS[design].build(VOCAB, VOCAB).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:  # biases and norms, which start as zeros and ones
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.to(dtype)


@torch.no_grad()
def stepped(model: Transformer, beam: int = 1) -> Tensor:
    """The logits after every word of the target, for every row."""
    state, logits = model.start(Batch.of(SOURCES), beam), []
    for time, word in enumerate(TARGET[:-1]):
        state, last = model.step(state, torch.full((len(SOURCES) * beam,), word))
        logits.append(last.float())
        if time == 3:  # the hypotheses of a sentence are all the same, so their order must not matter
            rows = torch.arange(len(SOURCES) * beam).view(-1, beam).flip(1)
            state = model.select(state, rows.flatten())
    return torch.stack(logits, 1)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every whole step."""
    calls: list[int] = []
    call = DecoderStep.__call__

    def spy(self: DecoderStep, token: Tensor, *arguments: object, **keywords: object) -> Tensor:
        calls.append(len(token))
        return call(self, token, *arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(DecoderStep, "__call__", spy)
    return calls


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("beam", [1, 2, 3, 7])
@torch.no_grad()
def test_every_step_gives_the_teacher_forced_logits(design: str, beam: int, calls: list[int]) -> None:
    model, rows = built(design), len(SOURCES) * beam
    expected = model(Batch.of(SOURCES), Batch.of([TARGET] * len(SOURCES))).view(len(SOURCES), -1, VOCAB)
    torch.testing.assert_close(stepped(model, beam), expected.repeat_interleave(beam, 0), atol=1e-5, rtol=1e-5)
    assert calls == [rows] * (len(TARGET) - 1) * (flat_block.kernels() is not None)


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("design", DESIGNS)
def test_in_bfloat16_it_errs_no_more_than_the_blocks_do(design: str, monkeypatch: pytest.MonkeyPatch) -> None:
    exact, model = stepped(built(design), 7), built(design, torch.bfloat16)
    ours = stepped(model, 7)
    monkeypatch.setattr("foveate.models.transformer_kernel.WholeStep.of", lambda *_: None)
    assert (ours - exact).norm() <= 1.1 * (stepped(model, 7) - exact).norm()


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("design", ["post", "wide enough for threads"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_do_not_depend_on_their_company_nor_on_threads(design: str, dtype: torch.dtype) -> None:
    model = built(design, dtype)
    alone = stepped(model)
    torch.set_num_threads(2)
    for beam in (2, 3, 7):
        assert torch.equal(stepped(model, beam)[::beam], alone)


def test_another_default_dtype_changes_no_logit(doubles: Callable[[], Any]) -> None:
    model = built()
    logits = stepped(model)
    with doubles():
        assert torch.equal(stepped(model), logits)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_panels_hold_every_weight_once_and_zeros_for_what_is_missing(dtype: torch.dtype) -> None:
    library = flat_block.kernels()
    if library is not None:
        weight = torch.arange(1, 1 + 70 * 4).view(70, 4).to(dtype)
        packed = panels(weight, library)
        assert packed.numel() == -(-70 // library.panel_width()) * library.panel_width() * 4
        assert torch.equal(packed[packed > 0].sort().values, weight.flatten())
        pair = library.panel_pair() if dtype is torch.bfloat16 else 1
        assert torch.equal(packed[: 2 * pair], weight[:2, :pair].flatten())


@torch.no_grad()
def test_a_changed_weight_is_seen_and_a_copy_has_its_own() -> None:
    model = built()
    twin, before = copy.deepcopy(model), stepped(model)
    twin.target_embedding.weight.mul_(1.5)
    assert torch.equal(stepped(model), before)
    changed = twin(Batch.of(SOURCES), Batch.of([TARGET] * len(SOURCES))).view(len(SOURCES), -1, VOCAB)
    torch.testing.assert_close(stepped(twin), changed, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("design", DESIGNS)
def test_looking_changes_no_bit_and_sees_what_the_blocks_see(design: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = built(design)
    unwatched = stepped(model)
    with record(model) as recording:
        assert torch.equal(stepped(model), unwatched)
    monkeypatch.setattr("foveate.models.transformer_kernel.WholeStep.of", lambda *_: None)
    with record(model) as expected:
        stepped(model)
    assert len(recording) == len(expected) > 0
    for ours, theirs in zip(recording, expected, strict=True):
        torch.testing.assert_close(ours.weights(), theirs.weights(), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_tokens_may_lie_anywhere_in_memory_and_have_any_type() -> None:
    model, words = built(), torch.tensor([[4, 9], [5, 9], [6, 9]])
    state = model.start(Batch.of(SOURCES))
    _, expected = model.step(state, words[:, 0].clone())
    for tokens in (words[:, 0], words[:, 0].int()):
        _, logits = model.step(state, tokens)
        assert torch.equal(logits, expected)


@torch.no_grad()
def test_a_token_that_the_model_does_not_know_is_refused() -> None:
    model = built()
    state = model.start(Batch.of(SOURCES))
    with pytest.raises(IndexError):
        model.step(state, torch.tensor([1, VOCAB, 1]))


@torch.no_grad()
def test_what_the_kernel_cannot_step_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    model = built()
    blocks = model.start(Batch.of(SOURCES)).flat
    assert blocks is not None
    table = model.target_embedding.weight.detach()
    if flat_block.kernels() is not None:
        assert DecoderStep.refuses(blocks, table, table) == ""
        assert "float64" in DecoderStep.refuses(blocks, table.double(), table)
        assert "multiples" in DecoderStep.refuses(blocks, table[:, :20], table)
        assert "precision" in DecoderStep.refuses(blocks, table, table.bfloat16())
    monkeypatch.setattr("foveate.nn.prepared.flat_step.kernels", lambda: None)
    assert "compiled" in DecoderStep.refuses(blocks, table, table)


def test_every_activation_is_in_the_kernel() -> None:
    assert set(COMPILED) == set(ACTIVATIONS)


def pruned(part: str) -> Transformer:
    """A model with a part whose shape is not that of the configuration."""
    model = built()
    attention = MultiHeadAttention(query_dim=64, num_heads=2, head_dim=16, bias=True, visibility=causal(), kind="self")
    cross = MultiHeadAttention(query_dim=64, num_heads=4, head_dim=16, bias=True, visibility=padding(), kind="cross")
    encoder = MultiHeadAttention(query_dim=64, num_heads=2, head_dim=16, bias=True, visibility=padding(), kind="self")
    if part == "feed-forward":
        model.decoder[1].feedforward = FeedForward(64, 2048)
    elif part == "feed-forward of the encoder":
        model.encoder[1].feedforward = FeedForward(64, 2048)
    elif part == "self-attention":
        model.decoder[0].attention = attention
    elif part == "cross-attention":
        model.decoder[0].cross_attention = cross
    elif part == "self-attention of the encoder":
        model.encoder[0].attention = encoder
    elif part == "key without bias":
        model.decoder[0].attention.key = Linear(64, 64, bias=False)
    return model.eval()


@pytest.mark.parametrize(
    "part",
    [
        *("feed-forward", "feed-forward of the encoder", "self-attention", "cross-attention"),
        *("self-attention of the encoder", "key without bias"),
    ],
)
@torch.no_grad()
def test_a_part_of_another_shape_is_computed_as_it_is(part: str) -> None:
    model = pruned(part)
    steps = stepped(model, beam=2)
    whole = torch.stack([model(Batch.of([source]), Batch.of([TARGET])) for source in SOURCES])
    torch.testing.assert_close(steps[::2], whole.view(len(SOURCES), len(TARGET) - 1, VOCAB), rtol=1e-4, atol=1e-4)
    again = decode(model, model.start(Batch.of(SOURCES), 2), sentences=3, config=BeamConfig(beam=2, max_length=9))
    assert len(again) == 3
