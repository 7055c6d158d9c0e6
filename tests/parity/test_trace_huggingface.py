"""Recorded weights of tiny random models of the transformers library are those of its eager attention."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    BartConfig,
    BartModel,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    LongformerConfig,
    LongformerModel,
    MarianConfig,
    MarianMTModel,
    MistralConfig,
    MistralModel,
    T5Config,
    T5Model,
    ViTConfig,
    ViTModel,
    WhisperConfig,
    WhisperModel,
)

from foveate.errors import UsageError
from foveate.hugging_face import attend
from foveate.inspect import Track, read_trace, write_trace
from foveate.inspect.hugging_face import record

SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 24}
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
}
T5 = {
    "vocab_size": 50,
    "d_model": 16,
    "d_kv": 4,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
PADDED = torch.tensor([[1] * 9, [1] * 5 + [0] * 4])


def ids(length: int = 9) -> torch.Tensor:
    return torch.randint(3, 50, (2, length))


def bert() -> tuple[Any, dict[str, Any]]:
    return BertModel(BertConfig(**SMALL)), {"input_ids": ids(), "attention_mask": PADDED}


def gpt2() -> tuple[Any, dict[str, Any]]:
    config = GPT2Config(vocab_size=50, n_embd=16, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2)
    return GPT2LMHeadModel(config), {"input_ids": ids()}


def gpt2_padded_left() -> tuple[Any, dict[str, Any]]:
    model, inputs = gpt2()
    return model, {**inputs, "attention_mask": PADDED.flip(1)}


def llama() -> tuple[Any, dict[str, Any]]:
    return LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2)), {"input_ids": ids()}


def mistral() -> tuple[Any, dict[str, Any]]:
    """A sliding window of four keys."""
    return MistralModel(MistralConfig(**SMALL, num_key_value_heads=2, sliding_window=4)), {"input_ids": ids()}


def bart() -> tuple[Any, dict[str, Any]]:
    return BartModel(BartConfig(**TWO_SIDES)), {
        "input_ids": ids(),
        "attention_mask": PADDED,
        "decoder_input_ids": ids(6),
    }


def marian() -> tuple[Any, dict[str, Any]]:
    return MarianMTModel(MarianConfig(**TWO_SIDES)), {"input_ids": ids(), "decoder_input_ids": ids(6)}


def t5() -> tuple[Any, dict[str, Any]]:
    return T5Model(T5Config(**T5)), {"input_ids": ids(), "attention_mask": PADDED, "decoder_input_ids": ids(6)}


def vit() -> tuple[Any, dict[str, Any]]:
    sizes = {name: size for name, size in SMALL.items() if name != "vocab_size"}
    return ViTModel(ViTConfig(**sizes, image_size=8, patch_size=2)), {"pixel_values": torch.randn(2, 3, 8, 8)}


def whisper() -> tuple[Any, dict[str, Any]]:
    config = WhisperConfig(**TWO_SIDES, num_mel_bins=8, max_source_positions=20, bos_token_id=1)
    return WhisperModel(config), {"input_features": torch.randn(2, 8, 40), "decoder_input_ids": ids(6)}


MODELS = (bert, gpt2, gpt2_padded_left, llama, mistral, bart, marian, t5, vit, whisper)


@pytest.mark.parametrize("made", MODELS, ids=lambda made: made.__name__)
@torch.no_grad()
def test_recorded_weights_are_those_of_eager_attention(made: Callable[[], tuple[Any, dict[str, Any]]]) -> None:
    model, inputs = made()
    model = model.eval()
    plain = model(**inputs)[0]
    with record(model) as seen:
        answer = model(**inputs)[0]
    assert torch.equal(answer, plain)
    assert seen.difference is not None
    assert seen.difference <= 1e-6
    weights = eager(model, inputs)
    assert len(seen.records) == len(weights)
    for example in range(2):
        trace = seen.trace(example=example, stored="float32")
        for site in trace.sites:
            theirs = weights[site.name][example]
            for head in range(site.heads):
                mine, visible = site.weights(head)
                rows = slice(None) if visible is None else visible.any(1)
                assert (mine - theirs[head])[rows].abs().max() <= 1e-6, site.name


def eager(model: Any, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """What every attention module of the library returns under its own eager attention, by the module's name."""
    kept: dict[str, torch.Tensor] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(module: Any, given: Any, output: Any) -> None:
            for part in output if isinstance(output, tuple) else ():
                if (
                    torch.is_tensor(part)
                    and part.dim() == 4
                    and torch.allclose(part.sum(-1), torch.ones(()), atol=1e-4)
                ):
                    kept[name] = part

        return hook

    before = model.config._attn_implementation
    leaves = [(name, module) for name, module in model.named_modules() if _attends(module)]
    hooks = [module.register_forward_hook(keep(name)) for name, module in leaves]
    model.set_attn_implementation("eager")
    model(**inputs)
    model.set_attn_implementation(before)
    for hook in hooks:
        hook.remove()
    return kept


def _attends(module: Any) -> bool:
    """Whether a module holds projections itself, and not a module that does."""
    names = {name for name, _ in module.named_children()}
    return bool(names & {"q_proj", "query", "q", "c_attn"})


@torch.no_grad()
def test_windows_grouped_heads_and_relative_bias_are_named_in_the_formula() -> None:
    model, inputs = mistral()
    with record(model.eval()) as seen:
        model(**inputs)
    site = seen.trace().sites[0]
    assert (site.heads, site.kv_heads) == (4, 2)
    assert site.visibility["native"] == {"left": 3, "right": 0}
    model, inputs = t5()
    with record(model.eval()) as seen:
        model(**inputs)
    trace = seen.trace(example=1)
    kinds = [(site.kind, site.query, site.key) for site in trace.sites]
    assert kinds.count(("cross", "target", "source")) == kinds.count(("self", "target", "target")) == 2
    assert all(
        site.bias == {"kind": "distance", "first": 1 - site.queries} for site in trace.sites if site.kind == "self"
    )
    assert trace.sites[0].tensors["real"].tolist() == [True] * 5 + [False] * 4


@torch.no_grad()
def test_generation_adds_a_row_for_every_step() -> None:
    model, _ = gpt2()
    with record(model.eval(), values=True) as seen:
        said = model.generate(ids(5)[:1], max_new_tokens=4, min_new_tokens=4, do_sample=False, pad_token_id=0)
    length = said.shape[1] - 1
    assert [tuple(each.query.shape) for each in seen.records] == [(1, 4, length, 4)] * 2
    with record(model) as whole:
        model(said[:, :-1])
    for mine, right in zip(seen.trace().sites, whole.trace().sites, strict=True):
        assert mine.visibility == right.visibility
        assert torch.allclose(mine.weights(1)[0], right.weights(1)[0], atol=2e-3)


@torch.no_grad()
def test_the_model_is_left_as_it_was() -> None:
    model, inputs = bart()
    model.eval()
    with record(model):
        model(**inputs)
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    assert {config._attn_implementation for config in configs.values()} == {"sdpa"}
    assert not model._forward_hooks


@torch.no_grad()
def test_a_recorded_model_is_a_trace_like_any_other(tmp_path: Path) -> None:
    model, inputs = bert()
    with record(model.eval()) as seen:
        model(**inputs)
    labels = Track.of_pieces(["[CLS]", *"abcdefg", "[SEP]"])
    trace = read_trace(write_trace(seen.trace({"source": labels}), tmp_path / "bert.trace"))
    assert trace.pedigree.model == "BertModel"
    assert trace.pedigree.dtype == "float32"
    assert trace.pedigree.configuration is not None
    assert (trace.pedigree.configuration["model_type"], trace.pedigree.configuration["hidden_size"]) == ("bert", 16)
    assert trace.pedigree.rounding is not None
    assert 0 < trace.pedigree.rounding < 1e-3
    assert trace.sites[1].layer == 1
    assert torch.allclose(trace.sites[0].weights(0)[0].sum(1), torch.ones(9), atol=1e-6)


def test_a_model_that_attends_here_is_recorded_as_ours_are() -> None:
    model, _ = bert()
    attend(model)
    with pytest.raises(UsageError, match="is recorded as any of ours is"), record(model):
        pass


def test_a_model_that_does_not_pass_the_interface_is_refused_by_name() -> None:
    model = LongformerModel(LongformerConfig(**SMALL, attention_window=4))
    with pytest.raises(UsageError, match="The attention of longformer does not pass"), record(model):
        pass


@torch.no_grad()
def test_what_eager_attention_does_otherwise_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from foveate.inspect.hugging_face import recording_interface as interface

    noted = interface.noted

    def wrong(*arguments: Any) -> Any:
        from dataclasses import replace

        found = noted(*arguments)
        return replace(found, scaling=2 * found.scaling)

    monkeypatch.setattr(interface, "noted", wrong)
    model, inputs = bert()
    with pytest.raises(UsageError, match="differ from those of its eager attention"), record(model.eval()):
        model(**inputs)


def test_a_long_padded_input_beside_an_encoder_s_output_is_checked(tmp_path: Path) -> None:
    """Inputs that are not tokens have a length, too, so that nothing is cut for the comparison."""
    torch.manual_seed(0)
    model = BartModel(BartConfig(**TWO_SIDES, max_position_embeddings=128)).eval()
    tokens, mask = torch.randint(5, 49, (2, 100)), torch.ones(2, 100, dtype=torch.long)
    mask[1, :10] = 0
    seen = model.encoder(tokens, attention_mask=mask)
    with record(model) as recording:
        model(encoder_outputs=seen, attention_mask=mask, decoder_input_ids=tokens[:, :7])
    assert recording.difference < 1e-5


def test_a_comparison_that_fails_leaves_the_model_in_training(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = BertModel(BertConfig(**SMALL)).train()

    def fail(*args: Any) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr("foveate.inspect.hugging_face.eager_check._forward", fail)
    with pytest.raises(RuntimeError, match="no memory"), record(model):
        model(torch.randint(5, 49, (2, 9)))
    assert model.training
