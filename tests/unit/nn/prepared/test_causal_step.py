"""A language model's whole step in one kernel: the teacher-forced logits and the searches of the layers themselves."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from foveate.attention import AlibiConfig, AttentionConfig, record
from foveate.data.batch import Batch
from foveate.decode import BeamConfig, GreedyConfig, SampleConfig, beam_size, decode
from foveate.models.gpt import GPT, GPTConfig
from foveate.models.gpt_kernel import CausalStep
from foveate.nn import BlockConfig, LearnedConfig, SinusoidalConfig
from foveate.nn.prepared import flat_block
from foveate.nn.prepared.decoder_run import DecoderRun
from foveate.nn.prepared.flat_step import DecoderStep

VOCAB = 77
"""Not a multiple of what the kernel takes at a time."""
TEXT = [2, 5, 6, 7, 8, 3, 9, 4, 4, 10, 11, 12, 76, 4, 5, 6, 7, 8, 9, 10, 4, 5, 6, 3]
"""Longer than one step of the cache."""
DESIGNS = {
    "pre, gelu_tanh": GPTConfig(
        block=BlockConfig(model_dim=64, num_heads=4, feedforward_dim=80, norm="pre", activation="gelu_tanh"),
        num_layers=2,
        position=LearnedConfig(max_length=60),
    ),
    "post, relu, untied": GPTConfig(
        block=BlockConfig(model_dim=32, num_heads=1, feedforward_dim=48), num_layers=2, tied=False
    ),
    "pre, gelu, no bias": GPTConfig(
        block=BlockConfig(model_dim=32, num_heads=2, feedforward_dim=32, norm="pre", activation="gelu", bias=False),
        num_layers=1,
        position=SinusoidalConfig(),
    ),
    "pre, silu, wide heads": GPTConfig(
        block=BlockConfig(model_dim=128, num_heads=1, feedforward_dim=96, norm="pre", activation="silu"), num_layers=1
    ),
}
pytestmark = pytest.mark.skipif(flat_block.kernels() is None, reason="needs a C++ compiler")


def built(design: str = "pre, gelu_tanh", dtype: torch.dtype = torch.float32) -> GPT:
    torch.manual_seed(0)
    model = DESIGNS[design].build(VOCAB).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.to(dtype)


@torch.no_grad()
def stepped(model: GPT, rows: int = 1, prompt: int = 0) -> Tensor:
    """The logits after every token of the text from number `prompt` on, for every row."""
    state, logits = model.start(Batch.of([TEXT[:prompt]] * rows)), []
    for time, token in enumerate(TEXT[prompt:]):
        state, last = model.step(state, torch.full((rows,), token))
        logits.append(last.float())
        if time == 3:  # all rows are the same, so their order must not matter
            state = model.select(state, torch.arange(rows).flip(0))
    return torch.stack(logits, 1)


@pytest.fixture
def layers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Turns the kernel off."""
    return lambda: monkeypatch.setattr(CausalStep, "of", lambda *_: None)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of every step of the kernel."""
    calls, call = list[int](), DecoderStep.__call__

    def spy(self: DecoderStep, token: Tensor, *arguments: object, **keywords: object) -> Tensor:
        calls.append(len(token))
        return call(self, token, *arguments, **keywords)  # type: ignore[arg-type]

    monkeypatch.setattr(DecoderStep, "__call__", spy)
    return calls


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize(("rows", "prompt"), [(1, 0), (3, 5), (7, 17)])
@torch.no_grad()
def test_every_step_gives_the_teacher_forced_logits(design: str, rows: int, prompt: int, calls: list[int]) -> None:
    model = built(design)
    expected = model(Batch.of([TEXT]))[prompt:].expand(rows, -1, -1)
    torch.testing.assert_close(stepped(model, rows, prompt), expected, atol=1e-5, rtol=1e-5)
    assert calls == [rows] * (len(TEXT) - prompt)


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("design", DESIGNS)
def test_in_bfloat16_it_errs_no_more_than_the_layers_do(design: str, layers: Any) -> None:
    exact, model = stepped(built(design), 7), built(design, torch.bfloat16)
    ours = stepped(model, 7)
    layers()
    assert (ours - exact).norm() <= 1.1 * (stepped(model, 7) - exact).norm()


@pytest.mark.parametrize("design", DESIGNS)
def test_in_int8_it_is_as_near_to_float32_as_the_layers_in_int8_are(design: str, layers: Any) -> None:
    exact, model = stepped(built(design), 2), built(design)
    model.use_int8()
    ours = stepped(model, 2)
    layers()
    theirs = stepped(model, 2)
    assert not torch.equal(theirs, exact)
    assert (ours - exact).norm() <= 1.1 * (theirs - exact).norm() <= 0.05 * exact.norm()
    model.use_int8(False)
    torch.testing.assert_close(stepped(model, 2), exact, atol=1e-5, rtol=1e-5)


@pytest.mark.usefixtures("registers")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_do_not_depend_on_their_company(dtype: torch.dtype) -> None:
    model = built(dtype=dtype)
    alone = stepped(model)
    for rows in (2, 7, 20):
        assert torch.equal(stepped(model, rows), alone.expand(rows, -1, -1))


SEARCHES: list[Any] = [
    GreedyConfig(max_length=20),
    GreedyConfig(max_length=20, min_length=9, forbid=(4, 9)),
    BeamConfig(max_length=20, beam=4, num_best=3, min_length=5),
    BeamConfig(max_length=20, beam=3, no_repeat_ngram=2),
    SampleConfig(max_length=20, seed=1, top_p=0.9),
]
PROMPTS = [TEXT[:6], TEXT[:1], TEXT[3:20]]


@torch.no_grad()
def searched(model: GPT, config: Any) -> list[Any]:
    """The hypotheses after prompts of several lengths."""
    state = model.start(Batch.of(PROMPTS), beam_size(config))
    return [each for best in decode(model, state, sentences=3, config=config, begin=5, end=3) for each in best]


@pytest.mark.parametrize("config", SEARCHES)
@pytest.mark.parametrize("design", ["pre, gelu_tanh", "post, relu, untied"])
def test_searches_find_what_they_find_by_the_layers(design: str, config: Any, layers: Any) -> None:
    model = built(design)
    ours = searched(model, config)
    layers()
    for mine, other in zip(ours, searched(model, config), strict=True):
        assert (mine.tokens, mine.finished) == (other.tokens, other.finished)
        assert mine.log_probability == pytest.approx(other.log_probability, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("config", SEARCHES[:3])
def test_greedy_and_beam_searches_do_not_return_to_python(config: Any, calls: list[int]) -> None:
    searched(built(), config)
    assert not calls


@torch.no_grad()
def test_a_run_that_the_model_has_no_positions_for_or_too_little_memory_is_stepped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, config = built(), GreedyConfig(max_length=30)
    state = model.start(Batch.of([TEXT[:20]] * 2))
    assert model.begin_run(state, 40, 1) is not None
    assert model.begin_run(state, 41, 1) is None
    assert model.begin_run(state, 40, 2) is None, "rows of one sentence are alike only if they began together"
    expected = searched(model, config)
    monkeypatch.setattr("foveate.models.gpt.LARGEST", DecoderRun.bytes(model._kernel.of(model), 3, 20))  # type: ignore[arg-type]
    assert searched(model, config) == expected


@pytest.mark.parametrize("design", DESIGNS)
def test_looking_changes_no_bit_and_sees_what_the_layers_see(design: str, layers: Any) -> None:
    model = built(design)
    unwatched = stepped(model, 2)
    with record(model) as recording:
        assert torch.equal(stepped(model, 2), unwatched)
    layers()
    with record(model) as expected:
        stepped(model, 2)
    assert len(recording) == len(expected) > 0
    for ours, theirs in zip(recording, expected, strict=True):
        torch.testing.assert_close(ours.weights(), theirs.weights(), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_changed_weight_is_seen_and_a_copy_has_its_own() -> None:
    model = built()
    twin, before = copy.deepcopy(model), stepped(model)
    twin.blocks[1].feedforward.expand.weight.mul_(1.5)  # type: ignore[union-attr, operator]
    assert torch.equal(stepped(model), before)
    torch.testing.assert_close(stepped(twin)[0], twin(Batch.of([TEXT])), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_rows_that_come_and_go_stay_with_the_kernel(calls: list[int]) -> None:
    model, now = built(), torch.tensor([4, 5, 6])
    state = model.join(model.start(Batch.of([TEXT[:5], TEXT[:3]])), model.start(Batch.of([TEXT[:9]])))
    state, _ = model.step(model.select(state, torch.tensor([2, 0, 1])), now)
    state, _ = model.step(model.reorder(state, torch.tensor([0, 2])), now[:2])
    state, logits = model.step(model.extend(state, torch.tensor([[7, 8], [7, 8]])), now[:2])
    assert calls == [3, 2, 2]
    for row, text in enumerate(([*TEXT[:9], 4, 4, 7, 8, 4], [*TEXT[:3], 6, 5, 7, 8, 5])):
        torch.testing.assert_close(logits[row], model(Batch.of([text]))[-1], atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_token_that_the_model_does_not_know_is_refused() -> None:
    model = built()
    with pytest.raises(IndexError):
        model.step(model.start(Batch.of([[2, 5]] * 3)), torch.tensor([1, VOCAB, 1]))


class _Louder(GPT):
    def logits(self, hidden: Tensor) -> Tensor:
        return 2 * super().logits(hidden)


@torch.no_grad()
def test_what_the_kernel_cannot_step_has_a_reason_and_is_stepped_by_the_layers(calls: list[int]) -> None:
    config = DESIGNS["pre, gelu_tanh"]
    assert built().step_refusal() == ""
    alibi = AttentionConfig(bias=AlibiConfig())
    hooked = built()
    hooked.blocks[1].feedforward.register_forward_hook(lambda module, inputs, output: 2 * output)  # type: ignore[union-attr]
    doubled = built()
    doubled.norm.register_forward_hook(lambda module, inputs, output: 2 * output)
    with torch.inference_mode():
        uncounted = built()
    models = {
        "the last norm is of another class, or has hooks": doubled,
        "inference tensors": uncounted,
        "float64": built(dtype=torch.float64),
        "multiples of 16": replace(config, block=replace(config.block, model_dim=40)).build(VOCAB),
        "layer 0 is not one of softmax": replace(config, block=replace(config.block, decoder_attention=alibi)).build(
            VOCAB
        ),
        "layer 1 is not one of softmax": hooked,
        "computes logits in a way of its own": _Louder(config, VOCAB),
    }
    for reason, model in models.items():
        model.eval()
        assert reason in model.step_refusal()
        expected = model(Batch.of([TEXT])).float()
        torch.testing.assert_close(stepped(model)[0], expected, atol=1e-5, rtol=1e-5)
    assert not calls
