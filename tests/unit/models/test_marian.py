"""What is refused when a Marian folder is read; parity with Hugging Face is tests/parity/test_marian.py."""

from typing import Any

import pytest
import torch
from torch import Tensor

from foveate.errors import DataError
from foveate.models.marian import MODULES, configuration, from_marian

CONFIG: dict[str, Any] = {
    "model_type": "marian",
    "vocab_size": 7,
    "d_model": 4,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 6,
    "decoder_ffn_dim": 6,
    "activation_function": "swish",
    "scale_embedding": True,
}


@pytest.fixture
def tensors() -> dict[str, Tensor]:
    result = {"model.shared.weight": torch.randn(7, 4), "final_logits_bias": torch.randn(1, 7)}
    for stack in ("encoder", "decoder"):
        for module in MODULES.values():
            if stack == "encoder" and module.startswith("encoder_attn"):
                continue
            rows, columns = {"fc1": (6, 4), "fc2": (4, 6)}.get(module, (4, 4))
            shape = (4,) if "norm" in module else (rows, columns)
            result[f"model.{stack}.layers.0.{module}.weight"] = torch.randn(shape)
            result[f"model.{stack}.layers.0.{module}.bias"] = torch.randn(rows)
    return result


def test_one_matrix_serves_both_vocabularies_and_the_output(tensors: dict[str, Tensor]) -> None:
    model = from_marian(CONFIG, tensors)
    assert model.source_embedding is model.target_embedding
    assert torch.equal(model.target_embedding.weight, tensors["model.shared.weight"])
    assert torch.equal(model.output_bias, tensors["final_logits_bias"][0])
    assert not model.training


def test_copies_of_tied_matrices_and_the_sinusoidal_table_may_be_in_the_file(tensors: dict[str, Tensor]) -> None:
    table = from_marian(CONFIG, tensors).position(torch.arange(9))
    copies = {"lm_head.weight": tensors["model.shared.weight"], "model.encoder.embed_positions.weight": table}
    from_marian(CONFIG, tensors | copies)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "bart"},
            "Marian config.json has model_type='bart', which this model does not support; it needs 'marian'.",
        ),
        (
            {"scale_embedding": False},
            "Marian config.json has scale_embedding=False, which this model does not support; it needs True.",
        ),
        (
            {"normalize_before": True},
            "Marian config.json has normalize_before=True, which this model does not support; it needs false.",
        ),
        (
            {"decoder_ffn_dim": 8},
            "Marian config.json has decoder_ffn_dim=8, which this model does not support; it needs 6.",
        ),
        (
            {"activation_function": "tanh"},
            "Marian config.json has activation_function='tanh', which this model does not support; it needs "
            "relu, gelu, gelu_new, gelu_pytorch_tanh, silu, swish.",
        ),
        (
            {"tie_word_embeddings": False},
            "Marian config.json has tie_word_embeddings=False, which this model does not support; it needs "
            "true when share_encoder_decoder_embeddings is.",
        ),
        (
            {"d_model": None},
            "config.json lacks 'd_model'. Pass the config.json that belongs to the weights.",
        ),
    ],
)
def test_settings_of_other_architectures_are_refused_by_name(change: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as refusal:
        configuration(CONFIG | change)
    assert str(refusal.value) == message


def test_missing_tensors_are_named(tensors: dict[str, Tensor]) -> None:
    del tensors["model.shared.weight"]
    with pytest.raises(DataError) as refusal:
        from_marian(CONFIG, tensors)
    assert str(refusal.value) == (
        "Marian weights lack model.shared.weight. Check that config.json and model.safetensors come from one folder, "
        "and that it holds a translation model."
    )


def test_tensors_that_would_be_lost_are_named(tensors: dict[str, Tensor]) -> None:
    extra = {f"model.encoder.layers.1.fc{n}.weight": torch.randn(1) for n in range(5)}
    with pytest.raises(DataError) as refusal:
        from_marian(CONFIG, tensors | extra)
    assert str(refusal.value) == (
        "Marian weights hold unknown tensors: model.encoder.layers.1.fc0.weight, model.encoder.layers.1.fc1.weight, "
        "model.encoder.layers.1.fc2.weight and 2 more. Check that config.json and model.safetensors come from one "
        "folder, and that it holds a translation model."
    )


def test_a_tensor_of_another_shape_is_named(tensors: dict[str, Tensor]) -> None:
    with pytest.raises(DataError) as refusal:
        from_marian(CONFIG, tensors | {"model.shared.weight": torch.randn(8, 4)})
    assert str(refusal.value) == (
        "Marian tensor model.shared.weight has shape (8, 4), but config.json makes it (7, 4). The two files belong to "
        "different models: take both from one folder."
    )


def test_a_trained_position_table_is_refused(tensors: dict[str, Tensor]) -> None:
    with pytest.raises(DataError) as refusal:
        from_marian(CONFIG, tensors | {"model.decoder.embed_positions.weight": torch.randn(9, 4)})
    assert str(refusal.value) == (
        "Marian tensor model.decoder.embed_positions.weight is not the sinusoidal table. "
        "Learned positions cannot be read into this model."
    )
