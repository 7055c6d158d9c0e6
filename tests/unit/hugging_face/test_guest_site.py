"""Mechanisms of ours in the place of a model's attentions."""

import copy
import pickle
import sys
from typing import Any

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    Gemma2Config,
    Gemma2Model,
    LlamaConfig,
    LlamaForCausalLM,
    LongformerConfig,
    LongformerModel,
    T5Config,
    T5EncoderModel,
)

from foveate.attention import (
    AlibiConfig,
    Attention,
    AttentionConfig,
    General,
    GeneralConfig,
    Sparsemax,
    causal,
    padding,
    record,
    window,
)
from foveate.attention.efficient import LinformerConfig, PerformerConfig
from foveate.errors import SetupError, UsageError
from foveate.hugging_face import Guest, Standing, attend, register, release, sites_of
from foveate.inspect import Trace, observe
from foveate.inspect.ablation import switched_off

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 24}
PADDED = torch.tensor([[1] * 9, [1] * 5 + [0] * 4])
NEAR = AttentionConfig(visibility=window(left=1, right=1))


@pytest.fixture
def bert() -> Any:
    return BertModel(BertConfig(**SMALL, initializer_range=0.3)).eval()


@pytest.fixture
def llama() -> Any:
    return LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2, initializer_range=0.3)).eval()


@pytest.fixture
def ids() -> torch.Tensor:
    return torch.randint(3, 50, (2, 9))


@torch.no_grad()
def test_layers_attend_by_what_is_named_and_the_others_stay(bert: Any, ids: torch.Tensor) -> None:
    plain = bert(ids, output_attentions=True).attentions if bert.set_attn_implementation("eager") is None else None
    guests = attend(bert, {"*": NEAR, "*.2.*": AttentionConfig(normaliser=Sparsemax()), "*.0.*": AttentionConfig()})
    assert list(guests) == [f"encoder.layer.{layer}.attention.self" for layer in range(3)]
    first, second, third = bert(ids, attention_mask=PADDED, output_attentions=True).attentions
    assert plain is not None
    torch.testing.assert_close(first[0], plain[0][0], atol=1e-6, rtol=0)
    far = (torch.arange(9)[:, None] - torch.arange(9)).abs() > 1
    assert second[:, :, far].max() == 0
    assert second[1, :, :, 5:].max() == 0
    assert (third[0] == 0).any()
    torch.testing.assert_close(third[0].sum(-1), torch.ones(4, 9))


@torch.no_grad()
def test_a_window_that_reaches_everything_changes_nothing(llama: Any, ids: torch.Tensor) -> None:
    expected = llama(ids).logits
    attend(llama, AttentionConfig(visibility=window(left=100, right=100)))
    torch.testing.assert_close(llama(ids).logits, expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_a_mechanism_keeps_its_window_when_decoding_with_a_cache(llama: Any, ids: torch.Tensor) -> None:
    attend(llama, AttentionConfig(visibility=window(left=2, right=0), bias=AlibiConfig()))
    settings: dict[str, Any] = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    assert torch.equal(llama.generate(ids, **settings), llama.generate(ids, **settings, use_cache=False))


def test_weights_of_a_mechanism_are_the_models_and_learn(bert: Any, ids: torch.Tensor) -> None:
    before = set(bert.state_dict())
    attend(bert, {"*.1.*": AttentionConfig(score=GeneralConfig())})
    added = set(bert.state_dict()) - before
    assert added == {"encoder.layer.1.attention.self.foveate.score.weight"}
    bert(ids).last_hidden_state.square().sum().backward()
    assert bert.get_parameter(*added).grad.abs().max() > 0
    release(bert)
    assert set(bert.state_dict()) == before
    assert bert.config._attn_implementation == "sdpa"


def test_an_attention_of_ones_own_is_the_first_layers_and_the_others_learn_copies(bert: Any, ids: torch.Tensor) -> None:
    mine = Attention(General(query_dim=4, key_dim=4))
    guests = [guest for guest in attend(bert, mine).values() if isinstance(guest, Guest)]
    weights = [weight for guest in guests for weight in guest.score.parameters()]
    assert len(weights) == len(guests) > 1
    assert weights[0] is next(mine.score.parameters())
    assert len({weight.data_ptr() for weight in weights}) == len(weights)
    assert all(torch.equal(weight, weights[0]) for weight in weights)
    bert(ids).last_hidden_state.square().sum().backward()
    assert all(weight.grad is not None for weight in weights)
    assert not torch.equal(weights[0].grad, weights[1].grad)


@pytest.mark.parametrize("config", [PerformerConfig(), LinformerConfig(max_length=16, projected_length=4)], ids=str)
def test_other_formulas_attend_with_padding_and_learn(bert: Any, ids: torch.Tensor, config: Any) -> None:
    attend(bert, config)
    hidden = bert(ids, attention_mask=PADDED).last_hidden_state
    alone = bert(ids[1:, :5]).last_hidden_state
    torch.testing.assert_close(hidden[1:, :5], alone, atol=1e-4, rtol=0)
    hidden.sum().backward()


def test_other_formulas_refuse_what_they_cannot_honour(ids: torch.Tensor) -> None:
    sizes = {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4}
    biased = T5EncoderModel(T5Config(**sizes)).eval()
    attend(biased, PerformerConfig())
    with pytest.raises(UsageError, match=r"T5Attention has floats added to its scores.* PerformerAttention does"):
        biased(ids)


def test_a_cap_is_kept_or_refused(ids: torch.Tensor) -> None:
    capped = Gemma2Model(Gemma2Config(**SMALL, num_key_value_heads=2, head_dim=4)).eval()
    attend(capped, AttentionConfig(score=GeneralConfig()))
    with pytest.raises(UsageError, match="caps its scores at 50, and General is another score"):
        capped(ids)


def test_a_pattern_without_a_match_is_reported(bert: Any) -> None:
    with pytest.raises(UsageError, match=r"No attention matches 'encoder.layers.\*'"):
        attend(bert, {"encoder.layers.*": NEAR})
    assert not any(isinstance(module, Guest) for module in bert.modules())


def test_a_model_without_the_interface_is_refused() -> None:
    model = LongformerModel(LongformerConfig(**SMALL, attention_window=4))
    assert not sites_of(model)
    with pytest.raises(UsageError, match="The attention of longformer does not use"):
        attend(model)


def test_a_missing_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SetupError, match=r"pip install 'foveate\[hf\]'"):
        register()


@torch.no_grad()
def test_masks_that_callers_make_are_honoured(bert: Any, ids: torch.Tensor) -> None:
    bert.set_attn_implementation("eager")
    visible = (torch.rand(2, 1, 9, 9) > 0.5) | torch.eye(9).bool()
    floats = torch.where(visible, torch.randn(2, 1, 9, 9), torch.finfo(torch.float32).min)
    expected = bert(ids, attention_mask=floats).last_hidden_state
    attend(bert)
    torch.testing.assert_close(bert(ids, attention_mask=floats).last_hidden_state, expected, atol=1e-5, rtol=0)
    bools = bert(ids, attention_mask=visible).last_hidden_state
    bert.set_attn_implementation("sdpa")
    torch.testing.assert_close(bools, bert(ids, attention_mask=visible).last_hidden_state, atol=1e-5, rtol=0)


@torch.no_grad()
def test_recordings_traces_and_switches_know_the_sites(bert: Any, ids: torch.Tensor) -> None:
    attend(bert, {"*.1.*": AttentionConfig(normaliser=Sparsemax(), bias=AlibiConfig())})
    with record(bert) as recording:
        weights = bert(ids, attention_mask=PADDED, output_attentions=True).attentions
    assert [each.name for each in recording] == [f"encoder.layer.{layer}.attention.self.foveate" for layer in range(3)]
    for each, expected in zip(recording, weights, strict=True):
        torch.testing.assert_close(each.weights(), expected, atol=1e-6, rtol=0)
    with observe(bert) as observed:
        plain = bert(ids, attention_mask=PADDED).last_hidden_state
    assert observed.difference is not None
    assert observed.difference < 1e-6
    site = Trace.of(observed, stored="float32").sites[1]
    assert site.formula.startswith("sparsemax")
    torch.testing.assert_close(site.weights(2)[0], weights[1][0, 2], atol=1e-6, rtol=0)
    assert "value" in site.tensors
    with switched_off(bert, heads=[("encoder.layer.2.attention.self.foveate", head) for head in range(4)]):
        without = bert(ids, attention_mask=PADDED).last_hidden_state
    assert not torch.allclose(plain, without)
    assert torch.equal(plain, bert(ids, attention_mask=PADDED).last_hidden_state)


@torch.no_grad()
def test_a_model_with_guests_can_be_copied_and_pickled(bert: Any, ids: torch.Tensor) -> None:
    attend(bert, NEAR)
    expected = bert(ids).last_hidden_state
    for other in (copy.deepcopy(bert), pickle.loads(pickle.dumps(bert))):
        with record(other) as recording:
            assert torch.equal(other(ids).last_hidden_state, expected)
        assert len(recording) == 3


@torch.no_grad()
def test_a_plan_tells_the_path(llama: Any, ids: torch.Tensor) -> None:
    guests = attend(llama, AttentionConfig(visibility=window(left=64, right=0)))
    guest = guests["model.layers.0.self_attn"]
    assert isinstance(guest, Guest)
    query, key = torch.randn(1, 4, 2048, 8), torch.randn(1, 2, 2048, 8)
    plan = guest.plan(query, key, at=Standing.between(2048, 2048, rule=causal() & padding()))
    assert plan.chosen != "materialised"
    assert "ScaledDot + window(left=64, right=0) & padding() + Softmax" in str(plan)


def test_dropout_is_ours_in_training(bert: Any, ids: torch.Tensor) -> None:
    attend(bert)
    bert.train()
    assert not torch.equal(bert(ids).last_hidden_state, bert(ids).last_hidden_state)
