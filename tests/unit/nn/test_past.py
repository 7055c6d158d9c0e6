"""What a decoder keeps between two tokens: keys and values, or one sum where attention is by a kernel."""

import pytest
import torch

from foveate.attention import AnyMechanismConfig, AttentionConfig, Positions, record, window
from foveate.attention.efficient import LinearConfig, PerformerConfig
from foveate.attention.visibility import Window
from foveate.data.batch import Batch
from foveate.models import GPTConfig, TransformerConfig
from foveate.models.language_model import LanguageModel
from foveate.nn import BlockConfig, SinusoidalConfig
from foveate.nn.clock import Clock
from foveate.nn.multihead import KeyValue, MultiHeadAttention
from foveate.nn.past import Summed, no_past, past_of, selected, with_room

KERNELS = {"linear": LinearConfig(), "performer": PerformerConfig(num_features=8)}
VOCAB = 13


@pytest.fixture(params=KERNELS.values(), ids=KERNELS.keys())
def kernel(request: pytest.FixtureRequest) -> AnyMechanismConfig:
    return request.param


def gpt(mechanism: AnyMechanismConfig) -> LanguageModel:
    torch.manual_seed(0)
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, norm="pre", decoder_attention=mechanism)
    return GPTConfig(block=block, num_layers=2, position=SinusoidalConfig()).build(VOCAB).double().eval()


@torch.no_grad()
def test_generation_by_a_kernel_keeps_as_much_after_a_thousand_tokens_as_after_one(kernel: AnyMechanismConfig) -> None:
    model, sizes = gpt(kernel), set()
    state = model.start(Batch.of([[2]]))
    for _ in range(1000):
        state, _ = model.step(state, torch.tensor([5]))
        assert all(isinstance(past, Summed) and past.stored is None for past in state.pasts)
        sizes.add(sum(past.total.total.numel() + past.total.shift.numel() for past in state.pasts))
    assert len(sizes) == 1
    whole = model(Batch.of([[2, *[5] * 1000]]))[-1]
    torch.testing.assert_close(model.step(state, torch.tensor([5]))[1][0], model(Batch.of([[2, *[5] * 1001]]))[-1])
    assert whole.isfinite().all()


@torch.no_grad()
def test_a_translators_decoder_keeps_sums_too(kernel: AnyMechanismConfig) -> None:
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=12, decoder_attention=kernel)
    model = TransformerConfig(block=block, encoder_layers=1, decoder_layers=2).build(VOCAB, VOCAB).eval()
    state = model.start(Batch.of([[5, 6, 2], [4, 2]]), beam=3)
    for _ in range(40):
        state, _ = model.step(state, torch.full((6,), 7))
    assert all(isinstance(past, Summed) and past.total.total.shape[0] == 6 for past in state.cache)


@torch.no_grad()
def test_what_is_generated_can_be_looked_at_and_looking_changes_no_bit(kernel: AnyMechanismConfig) -> None:
    model, text = gpt(kernel), [2, 5, 6, 7, 8, 3, 4, 4, 9]
    logits = []
    for looking in (False, True):
        with record(model if looking else torch.nn.Identity()) as recording:
            state, rows = model.start(Batch.of([text[:3]])), []
            for token in text[3:]:
                state, last = model.step(state, torch.tensor([token]))
                rows.append(last)
        logits.append(torch.cat(rows))
    assert torch.equal(*logits)
    with record(model) as whole:
        model(Batch.of([text]))
    for name in ("blocks.0.attention.attention", "blocks.1.attention.attention"):
        expected = whole[name].weights()
        stepped = torch.cat(
            [part.weights()[..., : len(text)] for part in recording if part.name == name and part.shape[3] > 3], 2
        )
        torch.testing.assert_close(stepped, expected[:, :, 3:])


@torch.no_grad()
def test_a_recording_that_begins_in_the_middle_is_refused_with_what_to_do(kernel: AnyMechanismConfig) -> None:
    model = gpt(kernel)
    state = model.start(Batch.of([[2, 5]]))
    with record(model), pytest.raises(ValueError, match=r"keeps a sum instead of keys.*inside `with record"):
        model.step(state, torch.tensor([4]))
    with record(torch.nn.Identity()):  # a recording of something else
        model.step(state, torch.tensor([4]))


def test_weights_that_are_dropped_need_keys(kernel: AnyMechanismConfig) -> None:
    attention = MultiHeadAttention(query_dim=8, num_heads=2, attention=kernel, dropout=0.5)
    attention.attention.visibility = gpt(kernel).blocks[0].attention.attention.visibility
    assert not isinstance(no_past(attention, 3), Summed)
    assert isinstance(no_past(attention.eval(), 3), Summed)


def test_other_attentions_keep_keys_and_values_with_room() -> None:
    attention = MultiHeadAttention(query_dim=8, num_heads=2, attention=AttentionConfig())
    key, value = torch.randn(2, 3, 2, 5, 4)
    past = past_of(attention, KeyValue(key, value), beam=2)
    assert isinstance(past, torch.Tensor)
    assert past.shape == (2, 6, 2, 16, 4)
    assert torch.equal(past[0, 1::2, :, :5], key)
    assert with_room(past, Clock(15)) is past
    assert with_room(past, Clock(16)).shape[3] == 32
    assert torch.equal(selected(past, torch.tensor([4]))[1, 0, :, :5], value[2])


@torch.no_grad()
def test_a_step_asks_a_rule_once_for_all_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, ask = [], Window.__call__

    def listening(rule: Window, at: Positions) -> torch.Tensor:
        calls.append(rule)
        return ask(rule, at)

    model = gpt(AttentionConfig(visibility=window(left=3, right=0)))
    state, _ = model.step(model.start(Batch.of([[2, 3, 4, 5, 6]])), torch.tensor([5]))  # and chooses its paths
    monkeypatch.setattr(Window, "__call__", listening)
    _, logits = model.step(state, torch.tensor([7]))
    assert len(calls) == 1
    torch.testing.assert_close(logits[0], model(Batch.of([[2, 3, 4, 5, 6, 5, 7]]))[-1])
