"""A model of the transformers library is taken over only where it gives the same numbers, or is left as it was."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import (
    BartConfig,
    BartForSequenceClassification,
    BertConfig,
    BertForMaskedLM,
    BertLMHeadModel,
    CLIPConfig,
    CLIPModel,
    DeepseekV4Config,
    DeepseekV4ForCausalLM,
    GPT2Config,
    GPT2ForSequenceClassification,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    MistralConfig,
    MistralForCausalLM,
    PatchTSTConfig,
    PatchTSTModel,
    Qwen2MoeConfig,
    Qwen2MoeForCausalLM,
    ViTConfig,
    ViTModel,
    Wav2Vec2Config,
    Wav2Vec2Model,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from foveate.attention import AttentionConfig, window
from foveate.errors import UsageError
from foveate.hugging_face import Guest, agreement, attend, interface, mask, sites_of

SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
SMALL = {"vocab_size": 50, **SIZES, "initializer_range": 0.3}
DECODER = {**SMALL, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
TWO_SIDES = {
    "vocab_size": 50,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "pad_token_id": 0,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "init_std": 0.3,
}
LOOKING = {**SIZES, "image_size": 8, "patch_size": 4}


def bert() -> Any:
    return BertForMaskedLM(BertConfig(**SMALL))


def mistral(sliding_window: int = 4096) -> Any:
    return MistralForCausalLM(MistralConfig(**DECODER, sliding_window=sliding_window))


def crossing() -> Any:
    return BertLMHeadModel(BertConfig(**SMALL, is_decoder=True, add_cross_attention=True))


def clip() -> Any:
    text = {**SMALL, "bos_token_id": 1, "eos_token_id": 2}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=LOOKING, projection_dim=16))


def llava() -> Any:
    text, sight = LlamaConfig(**DECODER), {"model_type": "clip_vision_model", **LOOKING}
    return LlavaForConditionalGeneration(LlavaConfig(vision_config=sight, text_config=text, image_token_index=5))


def bart() -> Any:
    return BartForSequenceClassification(BartConfig(**TWO_SIDES))


def unpadded_gpt2() -> Any:
    sizes = {"vocab_size": 50, "n_embd": 16, "n_layer": 2, "n_head": 4, "bos_token_id": 1, "eos_token_id": 2}
    return GPT2ForSequenceClassification(GPT2Config(**sizes))


def vit() -> Any:
    return ViTModel(ViTConfig(**LOOKING))


def whisper() -> Any:
    return WhisperForConditionalGeneration(
        WhisperConfig(**TWO_SIDES, num_mel_bins=8, max_source_positions=20, bos_token_id=1)
    )


def wav2vec2() -> Any:
    sizes = {"conv_dim": (8, 8), "conv_stride": (20, 16), "conv_kernel": (20, 16), "num_feat_extract_layers": 2}
    return Wav2Vec2Model(Wav2Vec2Config(**SIZES, **sizes, num_conv_pos_embeddings=4, num_conv_pos_embedding_groups=2))


def deepseek(kind: str = "compressed_sparse_attention") -> Any:
    low = {"q_lora_rank": 16, "o_lora_rank": 8, "qk_rope_head_dim": 8, "head_dim": 8, "index_head_dim": 8}
    experts = {"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
    return DeepseekV4ForCausalLM(
        DeepseekV4Config(
            **{**DECODER, "num_key_value_heads": 1},
            **{**low, "max_position_embeddings": 512},
            **experts,
            sliding_window=5,
            layer_types=[kind] * 2,
        )
    )


def patches() -> Any:
    sizes = {"num_input_channels": 2, "context_length": 16, "patch_length": 4, "patch_stride": 4, "d_model": 16}
    return PatchTSTModel(PatchTSTConfig(**sizes, num_attention_heads=4, num_hidden_layers=2, ffn_dim=24))


def facts(model: Any) -> tuple[Any, ...]:
    """All that must not change: weights, modes, parts, and which attention every configuration names."""
    weights = {name: (each.dtype, each.data_ptr(), each.clone()) for name, each in model.state_dict().items()}
    modes = {name: module.training for name, module in model.named_modules()}
    configs = [module.config._attn_implementation for module in model.modules() if hasattr(module, "config")]
    windows = [getattr(module.config, "sliding_window", 0) for module in model.modules() if hasattr(module, "config")]
    hooks = {name: len(part._forward_hooks) for name, part in model.named_modules() if not isinstance(part, Guest)}
    return weights, modes, configs, windows, hooks


def same(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    weights, others = one[0], other[0]
    return one[1:] == other[1:] and all(
        weights[name][:2] == others[name][:2] and torch.equal(weights[name][2], others[name][2])
        for name in weights | others
    )


@pytest.mark.parametrize(
    "make",
    [bert, mistral, crossing, clip, llava, bart, unpadded_gpt2, vit, whisper, wav2vec2],
    ids=lambda make: make.__name__,
)
def test_every_attention_of_a_model_is_compared(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model, reached = make().train(), set[str]()
    noise, run = torch.get_rng_state(), agreement.Noting.run

    def noting(self: Any, *tensors: Any, **others: Any) -> Any:
        reached.update(name for name, module in sites_of(model).items() if module._modules.get("foveate") is self)
        return run(self, *tensors, **others)

    monkeypatch.setattr(agreement.Noting, "run", noting)
    before = facts(model)
    assert attend(model).keys() == reached
    assert torch.equal(torch.get_rng_state(), noise)
    after = facts(model)
    assert same((before[0], *before[3:]), (after[0], *after[3:]))
    assert all(part.training for part in model.modules())


@pytest.mark.parametrize("kind", ["compressed_sparse_attention", "heavily_compressed_attention"])
def test_deepseek_v4_is_refused_and_left_as_it_was(kind: str) -> None:
    model = deepseek(kind).train()
    before, noise = facts(model), torch.get_rng_state()
    with pytest.raises(UsageError, match=r"DeepseekV4ForCausalLM gives other results .* differ by [\d.]+%"):
        attend(model)
    assert same(before, facts(model))
    assert torch.equal(torch.get_rng_state(), noise)


def test_a_model_is_refused_whatever_mechanism_it_is_to_get() -> None:
    with pytest.raises(UsageError, match="gives other results"):
        attend(deepseek(), AttentionConfig(visibility=window(left=3, right=0)))


@pytest.mark.parametrize("make", [bert, mistral, crossing, bart, llava], ids=lambda make: make.__name__)
def test_a_fault_in_masks_is_found(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def standing(query: Any, key: Any, mask: Any, looks_back: bool) -> Any:
        return right(query, key, None, looks_back)

    right = interface._standing
    monkeypatch.setattr(interface, "_standing", standing)
    model = make()
    before = facts(model)
    with pytest.raises(UsageError, match="gives other results with attention of ours: on a small padded batch"):
        attend(model)
    assert same(before, facts(model))


def test_a_fault_in_windows_longer_than_the_batch_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mask, "window", lambda left, right: window(left=left + 1, right=right))
    monkeypatch.setattr(mask, "_agrees", lambda *_: True)
    model = mistral(4096)
    before = facts(model)
    with pytest.raises(UsageError, match="on windows of a few tokens"):
        attend(model)
    assert same(before, facts(model))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_types_are_compared_in_float32_and_keep_their_bits(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    dtypes: set[torch.dtype] = set()
    run = agreement.Noting.run

    def noting(self: Any, query: Any, *tensors: Any, **others: Any) -> Any:
        dtypes.add(query.dtype)
        return run(self, query, *tensors, **others)

    monkeypatch.setattr(agreement.Noting, "run", noting)
    model = bert().to(dtype)
    before = facts(model)[0]
    attend(model)
    assert dtypes == {torch.float32}
    assert same((before,), (facts(model)[0],))
    monkeypatch.setattr(agreement, "AFFORDABLE", 0)
    attend(model)
    assert dtypes == {torch.float32, dtype}


def test_inputs_that_are_not_known_are_asked_for() -> None:
    model = patches()
    with pytest.raises(
        UsageError, match=r"PatchTSTModel could not be compared with ours: foveate knows no small batch of past_values"
    ):
        attend(model)
    with pytest.raises(UsageError, match="PatchTSTModel does not accept these inputs"):
        attend(model, inputs={"past_values": torch.randn(2, 3, 2)})
    assert len(attend(model, inputs={"past_values": torch.randn(2, 16, 2)})) == 2


def test_attentions_that_no_batch_reaches_are_named() -> None:
    model = llava()
    with pytest.warns(UserWarning, match=r"2 of 4 attentions of LlavaFor.* did not run on the batch.*vision"):
        attend(model, inputs={"input_ids": torch.randint(6, 50, (2, 7))})


def test_weights_that_are_not_loaded_are_asked_for() -> None:
    with torch.device("meta"):
        model = bert()
    with pytest.raises(UsageError, match="has no weights yet"):
        attend(model)


@torch.no_grad()
def test_a_model_that_names_a_window_of_nothing_and_asks_for_none_attends_here() -> None:
    experts = {"num_experts": 4, "moe_intermediate_size": 24, "shared_expert_intermediate_size": 24}
    model = Qwen2MoeForCausalLM(Qwen2MoeConfig(**DECODER, **experts)).eval()
    assert model.config.sliding_window == 0
    ids = torch.randint(3, 50, (2, 9))
    expected = model(ids).logits
    attend(model)
    torch.testing.assert_close(model(ids).logits, expected, atol=1e-5, rtol=0)


def test_patterns_may_leave_the_heads_prefix_out() -> None:
    near = AttentionConfig(visibility=window(left=1, right=1))
    model = bert()
    guests = attend(model, {"encoder.layer.1.*": near})
    assert [str(each.visibility) for each in guests.values()] == ["everything()", "window(left=1, right=1)"]
    with pytest.raises(UsageError, match=r"No attention matches 'encoder\.layer\.7"):
        attend(model, {"encoder.layer.7.*": near})
