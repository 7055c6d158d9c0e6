"""Classifiers of pictures give the same numbers in ONNX Runtime, from pixels."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch import nn

from foveate.attention import (
    AttentionConfig,
    GridGaussianConfig,
    GridRotary,
    dilated,
    global_tokens,
    neighbourhood,
    window,
)
from foveate.data.batch import Batch
from foveate.errors import UsageError
from foveate.export import save_onnx
from foveate.models import BERTConfig, ClassifierConfig, PictureCNNConfig, ResNetConfig, ViTConfig
from foveate.nn import (
    BlockConfig,
    CNNEncoderConfig,
    FirstPoolingConfig,
    MaxPoolingConfig,
    MeanPoolingConfig,
    Patches,
    RNNEncoderConfig,
    TransformerEncoderConfig,
)
from foveate.nn.grid_position import NoGridPositionConfig, SinusoidalGridConfig

PATCHES = Patches(size=3, channels=2, grid=(3, 5))
LOGITS = 1e-5  # absolute, of logits of about one: rounding of float32 sums
FIRST = FirstPoolingConfig()


def vit(*, position: Any = None, **attention: Any) -> ViTConfig:
    block = BlockConfig(
        model_dim=16, num_heads=2, feedforward_dim=20, norm="pre", activation="gelu",
        encoder_attention=AttentionConfig(**attention),
    )  # fmt: skip
    return ViTConfig(block=block, num_layers=2, **({} if position is None else {"position": position}))


SMALL = BlockConfig(model_dim=16, num_heads=2, feedforward_dim=20, norm="pre")
NEAR = neighbourhood(columns=5, reach=1, first=1)
CLASSIFIERS = {
    "ViT": ClassifierConfig(encoder=vit(), pooling=FIRST),
    "DeiT": ClassifierConfig(encoder=vit(), pooling=FirstPoolingConfig(count=2)),
    "ViT with sines": ClassifierConfig(encoder=vit(position=SinusoidalGridConfig())),
    "ViT with angles and windows": ClassifierConfig(
        encoder=vit(
            position=NoGridPositionConfig(),
            transforms=(GridRotary(columns=5, first=1),),
            bias=GridGaussianConfig(columns=5, first=1),
        ),
        pooling=FIRST,
    ),
    "ViT of near patches": ClassifierConfig(
        encoder=vit(
            visibility=neighbourhood(columns=5, reach=(1, 2)),
            transforms=(GridRotary(columns=5, layout="halves"),),
            bias=GridGaussianConfig(columns=5),
        ),
        pooling=MeanPoolingConfig(),
    ),
    "ViT of a class token and near patches": ClassifierConfig(
        encoder=vit(visibility=NEAR | global_tokens(1)), pooling=FIRST
    ),
    "ViT of near patches and two others": ClassifierConfig(
        encoder=vit(visibility=(NEAR | global_tokens([0, 7])) & ~(window(left=0, right=3) & ~global_tokens([15]))),
        pooling=FIRST,
    ),
    "ViT whose class token sees nothing": ClassifierConfig(encoder=vit(visibility=NEAR), pooling=FIRST),
    "ViT of everything but itself": ClassifierConfig(encoder=vit(visibility=~window(left=0, right=0)), pooling=FIRST),
    "Transformer over patches": ClassifierConfig(encoder=TransformerEncoderConfig(block=SMALL), embedding_dim=12),
    "LSTM over patches": ClassifierConfig(encoder=RNNEncoderConfig(hidden_dim=8), embedding_dim=12),
    "convolution over patches": ClassifierConfig(encoder=CNNEncoderConfig(hidden_dim=8), embedding_dim=12),
    "CNN": ClassifierConfig(encoder=PictureCNNConfig(channels=(8, 12)), pooling=MaxPoolingConfig()),
    "ResNet": ClassifierConfig(encoder=ResNetConfig(channels=(8, 12), blocks=2)),
    "ResNet with batch norm": ClassifierConfig(
        encoder=ResNetConfig(channels=(4, 6), blocks=1, norm="batch"), pooling=MeanPoolingConfig()
    ),
}


def shaken(config: ClassifierConfig) -> Any:
    """A model whose norms, positions and running statistics are not those of the beginning."""
    torch.manual_seed(0)
    model = config.build(PATCHES, 4)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    for weight in model.parameters():
        weight.data.add_(0.1 * torch.randn_like(weight))
    return model.eval()


def pictures(count: int) -> tuple[np.ndarray, Batch]:
    """Pixels, and the batch of the same pictures."""
    pixels = torch.randn(count, 9, 15, 2, generator=torch.Generator().manual_seed(count))
    squares = pixels.unfold(1, 3, 3).unfold(2, 3, 3).permute(0, 1, 2, 4, 5, 3).reshape(count, 15, 18)
    places = torch.cartesian_prod(torch.arange(3), torch.arange(5)).expand(count, -1, -1)
    return pixels.numpy(), Batch(squares, torch.full((count,), 15), places=places)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_picture_is_classified_alike_alone_and_among_others(name: str, tmp_path: Path) -> None:
    model = shaken(CLASSIFIERS[name])
    save_onnx(model, tmp_path)
    session = onnxruntime.InferenceSession((tmp_path / "model.onnx").read_bytes(), providers=["CPUExecutionProvider"])
    assert [each.name for each in session.get_inputs()] == ["pixels"]
    for count in (1, 3):
        pixels, batch = pictures(count)
        outputs = dict(
            zip([each.name for each in session.get_outputs()], session.run(None, {"pixels": pixels}), strict=True)
        )
        with torch.no_grad():
            expected = model(batch).numpy()
        np.testing.assert_allclose(outputs["logits"], expected, atol=LOGITS, rtol=1e-5)
        if "weights" in outputs:
            np.testing.assert_allclose(outputs["weights"].sum(-1), 1.0, atol=1e-6)


def test_what_has_no_graph_is_refused_with_the_reason(tmp_path: Path) -> None:
    far = NEAR | ~(global_tokens(1) & dilated(left=2, right=2, step=2))
    with pytest.raises(UsageError, match=r"layer 0: its visibility contains dilated\(.*\), which has no"):
        save_onnx(shaken(ClassifierConfig(encoder=vit(visibility=far), pooling=FIRST)), tmp_path)
    with pytest.raises(UsageError, match=r"its input is Patches\(.*\), but graphs support only ids and vectors"):
        save_onnx(ClassifierConfig(encoder=BERTConfig(block=SMALL, num_layers=1)).build(PATCHES, 4).eval(), tmp_path)
