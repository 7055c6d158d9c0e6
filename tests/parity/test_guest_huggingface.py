"""Models of the transformers library whose attention runs here give what their eager attention gives."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BertConfig,
    BertForMaskedLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    GptOssConfig,
    GptOssForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    MistralConfig,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
    ViTConfig,
    ViTForImageClassification,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from foveate.hugging_face import attend, register

TOLERANCE = 1e-5
"""Of logits of a few units, float32."""
SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
DECODER = {**SMALL, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
TWO_SIDES = {
    "vocab_size": 50,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
    "init_std": 0.3,
}
WIDE = {"initializer_range": 0.3}
RIGHT = torch.tensor([[1] * 9, [1] * 5 + [0] * 4])
LEFT = RIGHT.flip(1)
Made = tuple[Any, dict[str, Any]]


def ids(length: int = 9) -> Tensor:
    return torch.randint(3, 50, (2, length))


def bert() -> Made:
    return BertForMaskedLM(BertConfig(**SMALL, **WIDE)), {"input_ids": ids(), "attention_mask": RIGHT}


def gpt2() -> Made:
    config = GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2, **WIDE)
    return GPT2LMHeadModel(config), {"input_ids": ids(), "attention_mask": LEFT}


def llama() -> Made:
    return LlamaForCausalLM(LlamaConfig(**DECODER, **WIDE)), {"input_ids": ids(), "attention_mask": LEFT}


def packed() -> Made:
    """Two sequences in each row, told by positions that begin again."""
    model, _ = mistral()
    return model, {
        "input_ids": ids(),
        "position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4]] * 2),
        "use_cache": False,
    }


def mistral() -> Made:
    """A sliding window of four keys."""
    model = MistralForCausalLM(MistralConfig(**DECODER, **WIDE, sliding_window=4))
    return model, {"input_ids": ids(), "attention_mask": LEFT}


def gemma2() -> Made:
    """Scores capped, every second layer a sliding window."""
    config = Gemma2Config(
        **DECODER, **WIDE, head_dim=4, sliding_window=4, attn_logit_softcapping=0.7, query_pre_attn_scalar=4
    )
    return Gemma2ForCausalLM(config), {"input_ids": ids(), "attention_mask": LEFT}


def gpt_oss() -> Made:
    """A sink in each head."""
    config = GptOssConfig(**DECODER, **WIDE, head_dim=4, num_local_experts=2, num_experts_per_tok=1, sliding_window=4)
    model = GptOssForCausalLM(config)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.sinks.copy_(torch.randn(4))
    return model, {"input_ids": ids(), "attention_mask": LEFT}


def bart() -> Made:
    model = BartForConditionalGeneration(BartConfig(**TWO_SIDES))
    return model, {"input_ids": ids(), "attention_mask": RIGHT, "decoder_input_ids": ids(6)}


def marian() -> Made:
    model = MarianMTModel(MarianConfig(**TWO_SIDES))
    return model, {"input_ids": ids(), "attention_mask": RIGHT, "decoder_input_ids": ids(6)}


def t5() -> Made:
    sizes = {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4}
    model = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0, pad_token_id=0))
    for block in (model.encoder.block[0], model.decoder.block[0]):
        nn.init.normal_(block.layer[0].SelfAttention.relative_attention_bias.weight)
    return model, {"input_ids": ids(), "attention_mask": RIGHT, "decoder_input_ids": ids(6)}


def vit() -> Made:
    sizes = {name: size for name, size in SMALL.items() if name != "vocab_size"}
    model = ViTForImageClassification(ViTConfig(**sizes, **WIDE, image_size=8, patch_size=2, num_labels=5))
    return model, {"pixel_values": torch.randn(2, 3, 8, 8)}


def whisper() -> Made:
    config = WhisperConfig(**TWO_SIDES, num_mel_bins=8, max_source_positions=20, bos_token_id=1)
    config.suppress_tokens = config.begin_suppress_tokens = None
    return WhisperForConditionalGeneration(config), {
        "input_features": torch.randn(2, 8, 40),
        "decoder_input_ids": ids(6),
    }


MODELS = (bert, gpt2, llama, packed, mistral, gemma2, gpt_oss, bart, marian, t5, vit, whisper)
each_model = pytest.mark.parametrize("made", MODELS, ids=lambda made: made.__name__)


def pair(made: Callable[[], Made]) -> tuple[Any, Any, dict[str, Any]]:
    """A model with the library's eager attention, and its twin with ours."""
    theirs, inputs = made()
    theirs = theirs.eval()
    ours = copy.deepcopy(theirs)
    theirs.set_attn_implementation("eager")
    ours.set_attn_implementation(register())
    return theirs, ours, inputs


def real(logits: Tensor, inputs: dict[str, Any]) -> Tensor:
    """What stands at real tokens; padding attends to nothing here, and to everything alike there."""
    mask = inputs.get("attention_mask")
    if mask is None or logits.shape[:2] != mask.shape:
        return logits
    return logits[mask.bool()]


@each_model
@torch.no_grad()
def test_logits_are_those_of_eager_attention(made: Callable[[], Made]) -> None:
    theirs, ours, inputs = pair(made)
    expected, found = theirs(**inputs).logits, ours(**inputs).logits
    assert expected.std() > 0.01
    torch.testing.assert_close(real(found, inputs), real(expected, inputs), atol=TOLERANCE, rtol=0)


@each_model
def test_gradients_are_those_of_eager_attention(made: Callable[[], Made]) -> None:
    theirs, ours, inputs = pair(made)
    for model in (theirs, ours):
        real(model(**inputs).logits, inputs).square().mean().backward()
    expected = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        other = expected[name].grad
        if other is None:
            assert parameter.grad is None
        else:
            scale = max(1.0, float(other.abs().max()))
            torch.testing.assert_close(parameter.grad / scale, other / scale, atol=TOLERANCE, rtol=0, msg=name)


@pytest.mark.parametrize(
    "made", [gpt2, llama, mistral, gemma2, gpt_oss, bart, marian, t5, whisper], ids=lambda made: made.__name__
)
@pytest.mark.parametrize("beams", [1, 3])
@torch.no_grad()
def test_generate_says_the_same(made: Callable[[], Made], beams: int) -> None:
    theirs, ours, inputs = pair(made)
    given = {name: part for name, part in inputs.items() if name != "decoder_input_ids"}
    settings = {"max_new_tokens": 12, "do_sample": False, "num_beams": beams, "pad_token_id": 0}
    said = [model.generate(**given, **settings) for model in (theirs, ours)]
    assert torch.equal(*said)


@each_model
@torch.no_grad()
def test_weights_that_are_asked_for_are_those_of_eager_attention(made: Callable[[], Made]) -> None:
    theirs, ours, inputs = pair(made)
    expected, found = (model(**inputs, output_attentions=True) for model in (theirs, ours))
    kinds = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    compared = 0
    for kind in kinds:
        for own, other in zip(getattr(found, kind, None) or (), getattr(expected, kind, None) or (), strict=True):
            rows = own.sum(-1) > 0.0
            torch.testing.assert_close(own[rows], other[rows], atol=1e-6, rtol=0)
            compared += 1
    assert compared >= 2


@pytest.mark.parametrize("made", [bert, llama, mistral, t5], ids=lambda made: made.__name__)
@torch.no_grad()
def test_sites_with_names_run_the_same(made: Callable[[], Made]) -> None:
    theirs, ours, inputs = pair(made)
    attend(ours)
    expected, found = theirs(**inputs).logits, ours(**inputs).logits
    torch.testing.assert_close(real(found, inputs), real(expected, inputs), atol=TOLERANCE, rtol=0)
    assert ours.state_dict().keys() == theirs.state_dict().keys()


@pytest.mark.parametrize("made", [bert, llama, mistral, t5], ids=lambda made: made.__name__)
def test_long_texts_are_the_same_by_whatever_path(made: Callable[[], Made]) -> None:
    theirs, ours, _ = pair(made)
    long = ids(300)
    inputs = {"input_ids": long, "attention_mask": (torch.arange(300) < torch.tensor([[300], [210]])).long()}
    if made is t5:
        inputs["decoder_input_ids"] = ids(150)
    found, expected = (real(model(**inputs).logits, inputs) for model in (ours, theirs))
    torch.testing.assert_close(found, expected, atol=TOLERANCE, rtol=0)
    for logits in (found, expected):
        logits.square().mean().backward()
    others = dict(theirs.named_parameters())
    for name, parameter in ours.named_parameters():
        if parameter.grad is not None:
            scale = max(1.0, float(others[name].grad.abs().max()))
            torch.testing.assert_close(parameter.grad / scale, others[name].grad / scale, atol=TOLERANCE, rtol=0)
