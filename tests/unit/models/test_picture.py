"""Encoders of pictures: ViT, CNN and ResNet by their formulas, alone and in batches, and their refusals."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, gelu, layer_norm, max_pool2d, scaled_dot_product_attention

from foveate.attention import AttentionConfig, GridGaussianConfig, GridRotary, global_tokens, neighbourhood, record
from foveate.attention.efficient import LinformerConfig
from foveate.config import build
from foveate.data.batch import Batch
from foveate.data.row import Row
from foveate.models import CaptionerConfig, ClassifierConfig, PictureCNNConfig, ResNetConfig, ViTConfig
from foveate.models.convolution import Convolution, GridNetwork
from foveate.models.vit import ViT
from foveate.nn import BlockConfig, FirstPoolingConfig, MaxPoolingConfig, MeanPoolingConfig, Patches
from foveate.nn.grid_position import NoGridPositionConfig, SinusoidalGridConfig

PATCHES = Patches(size=2, channels=3, grid=(3, 5))
LABELS = 4
FIRST = FirstPoolingConfig()


def block(**settings: Any) -> BlockConfig:
    attention = AttentionConfig(**settings)
    return BlockConfig(
        model_dim=16, num_heads=2, feedforward_dim=20, norm="pre", activation="gelu", dropout=0.0,
        encoder_attention=attention,
    )  # fmt: skip


NEAR = neighbourhood(columns=5, reach=1, first=1) | global_tokens(1)
ROTARY, WINDOW = GridRotary(columns=5, first=1), GridGaussianConfig(columns=5, first=1)
CLASSIFIERS = {
    "ViT": ClassifierConfig(encoder=ViTConfig(block=block(), num_layers=2), pooling=FIRST),
    "ViT, attention pooling": ClassifierConfig(encoder=ViTConfig(block=block(), num_layers=1)),
    "ViT, sines": ClassifierConfig(
        encoder=ViTConfig(block=block(), num_layers=1, position=SinusoidalGridConfig()), pooling=MeanPoolingConfig()
    ),
    "ViT, near patches": ClassifierConfig(
        encoder=ViTConfig(
            block=block(visibility=NEAR, transforms=(ROTARY,), bias=WINDOW),
            num_layers=2,
            position=NoGridPositionConfig(),
        ),
        pooling=FIRST,
    ),
    "DeiT": ClassifierConfig(encoder=ViTConfig(block=block(), num_layers=1), pooling=FirstPoolingConfig(count=2)),
    "CNN": ClassifierConfig(encoder=PictureCNNConfig(channels=(6, 8), convolutions=1), pooling=MaxPoolingConfig()),
    "ResNet": ClassifierConfig(encoder=ResNetConfig(channels=(8, 12), blocks=1)),
    "ResNet, batch norm": ClassifierConfig(
        encoder=ResNetConfig(channels=(8, 12), blocks=1, norm="batch"), pooling=MeanPoolingConfig()
    ),
}
WHOLE = pytest.mark.parametrize("config", CLASSIFIERS.values(), ids=CLASSIFIERS.keys())


UNREAD = ("key.bias", "blocks.1.attention.attention.bias.offset", "blocks.1.attention.attention.bias.log_focus")
"""Softmax does not see a bias of keys; of the last layer only the class token is read, which has no place."""


def row(seed: int, patches: Patches = PATCHES) -> Row:
    values = np.random.default_rng(seed).normal(size=(patches.count, patches.width)).astype(np.float32)
    return Row(values, places=np.indices(patches.grid).reshape(2, -1).T)


def model_of(config: ClassifierConfig, patches: Patches = PATCHES) -> Any:
    torch.manual_seed(0)
    model = config.build(patches, LABELS)
    for module in model.modules():  # running statistics that differ from those of any batch
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    return model.eval()


@WHOLE
@torch.no_grad()
def test_a_picture_is_classified_alone_as_among_others_and_beside_padding(config: Any) -> None:
    model, rows = model_of(config), [row(seed) for seed in range(5)]
    together = model(Batch.of(rows))
    assert together.std(0).min() > 1e-4
    for number, one in enumerate(rows):
        torch.testing.assert_close(model(Batch.of([one]))[0], together[number], atol=1e-5, rtol=1e-5)
    widened = Batch.of(rows).widened(8)
    widened.values[:, PATCHES.count :] = torch.nan
    torch.testing.assert_close(model(widened), together, atol=1e-5, rtol=1e-5)


@WHOLE
def test_gradients_of_a_picture_do_not_reach_the_others(config: Any) -> None:
    model, batch = model_of(config), Batch.of([row(0), row(1)])
    values = batch.values.requires_grad_()
    (gradient,) = torch.autograd.grad(model(batch)[0].square().sum(), values)
    assert gradient[0].abs().max() > 0
    assert not gradient[1].any()


@WHOLE
def test_every_weight_learns(config: Any) -> None:
    model = model_of(config).train()
    model(Batch.of([row(seed) for seed in range(3)])).square().sum().backward()
    idle = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert [name for name in idle if not name.endswith(UNREAD)] == []


@torch.no_grad()
def test_a_vit_is_that_of_the_paper() -> None:
    """Equations 1 to 4 of Dosovitskiy et al. 2021, written with torch's functions."""
    model = model_of(CLASSIFIERS["ViT"])
    encoder, values = model.encoder, torch.from_numpy(row(3).values)
    position = torch.cat([torch.zeros(1, 16), encoder.position.weight])
    x = torch.cat([encoder.class_token, encoder.project(values)]) + position
    for one in encoder.blocks:
        own = one.attention
        inner = layer_norm(x, (16,), *parts(one.attention_residual.norm), 1e-6)
        heads = [layer(inner).unflatten(-1, (2, 8)).transpose(0, 1)[None] for layer in (own.query, own.key, own.value)]
        x = x + own.output(scaled_dot_product_attention(*heads)[0].transpose(0, 1).flatten(1))
        inner = layer_norm(x, (16,), *parts(one.feedforward_residual.norm), 1e-6)
        x = x + one.feedforward.contract(gelu(one.feedforward.expand(inner)))
    logits = model.output(layer_norm(x, (16,), *parts(encoder.norm), 1e-6)[0])
    torch.testing.assert_close(model(Batch.of([row(3)]))[0], logits, atol=1e-6, rtol=1e-5)


def parts(norm: Any) -> tuple[Tensor, Tensor]:
    return norm.weight, norm.bias


def normed(convolution: Any, x: Tensor, stride: int = 1) -> Tensor:
    own = convolution.norm
    x = conv2d(x, convolution.convolution.weight, stride=stride, padding=convolution.convolution.padding)
    x = (x - own.running_mean[:, None, None]) / (own.running_var[:, None, None] + 1e-5).sqrt()
    return x * own.weight[:, None, None] + own.bias[:, None, None]


@torch.no_grad()
def test_a_cnn_is_that_of_its_equation() -> None:
    encoder = PictureCNNConfig(channels=(4, 6), convolutions=2, norm="batch").build_encoder(PATCHES).eval()
    for weight in encoder.parameters():
        nn.init.normal_(weight, std=0.5)
    layers = (module for module in encoder.network if isinstance(module, Convolution))
    x = PATCHES.picture(Batch.of([row(1)]).values)
    for _ in range(2):
        for _ in range(2):
            x = normed(next(layers), x).relu()
        x = max_pool2d(x, 2, ceil_mode=True)
    hidden, packing = encoder.encode(Batch.of([row(1)]))
    torch.testing.assert_close(packing.unpack(hidden)[0], x[0].flatten(1).T, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_residual_block_is_that_of_the_paper() -> None:
    model = model_of(CLASSIFIERS["ResNet, batch norm"])
    x = PATCHES.picture(Batch.of([row(1)]).values)
    first, _, one, two = model.encoder.network
    x = normed(first, x).relu()
    x = (x + normed(one.second, normed(one.first, x).relu())).relu()
    x = (normed(two.shortcut, x, 2) + normed(two.second, normed(two.first, x, 2).relu())).relu()
    hidden, packing = model.encoder.encode(Batch.of([row(1)]))
    assert model.encoder.grid == (3, 5)
    torch.testing.assert_close(packing.unpack(hidden)[0], x[0].flatten(1).T, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("grid", [(3, 5), (4, 4), (5, 3)])
@pytest.mark.parametrize("encoder", [PictureCNNConfig(channels=(4, 4, 4)), ResNetConfig(channels=(4, 4, 4), blocks=1)])
@torch.no_grad()
def test_each_output_has_its_place_on_two_axes(grid: tuple[int, int], encoder: Any) -> None:
    """What changes in one corner of a picture changes the output there, and not in the opposite corner."""
    patches = Patches(size=16, channels=1, grid=grid)
    torch.manual_seed(0)
    model = replace(encoder, norm="batch").build_encoder(patches).eval()
    assert isinstance(model, GridNetwork)
    one = row(0, patches)
    other = replace(one, values=one.values.copy())
    other.values[-1] += 1.0  # the patch at the lower right
    hidden, packing = model.encode(Batch.of([one, other]))
    changes = packing.unpack(hidden).diff(dim=0)[0].abs().amax(-1)
    changes = changes.unflatten(0, model.grid)
    assert changes[-1, -1] > 0
    assert not changes[0].any()
    assert not changes[:, 0].any()
    assert model.places().shape == (model.grid[0] * model.grid[1], 2)


@torch.no_grad()
def test_a_part_of_a_picture_keeps_its_places() -> None:
    """A ViT reads some of the patches, in any order, by their places; rules and angles on the grid follow them."""
    model, whole = model_of(CLASSIFIERS["ViT, near patches"]), row(2)
    order = torch.randperm(PATCHES.count).numpy()
    shuffled = Row(whole.values[order], places=whole.places[order])  # type: ignore[index]
    torch.testing.assert_close(model(Batch.of([shuffled])), model(Batch.of([whole])), atol=1e-5, rtol=1e-5)
    some = order[:6]
    parts = [Row(whole.values[some], places=whole.places[some]), whole]  # type: ignore[index]
    torch.testing.assert_close(model(Batch.of(parts))[0], model(Batch.of(parts[:1]))[0], atol=1e-5, rtol=1e-5)


def test_near_patches_and_the_class_token_are_seen() -> None:
    model = model_of(CLASSIFIERS["ViT, near patches"])
    with record(model) as recording, torch.no_grad():
        model(Batch.of([row(0)]))
    weights = recording.records[0].weights()[0, 0]
    assert (weights[0] > 0).all()
    assert (weights[:, 0] > 0).all()
    near = (weights[1:, 1:][0] > 0).unflatten(0, PATCHES.grid)
    assert near.int().tolist() == [[1, 1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]]


@torch.no_grad()
def test_a_vit_for_another_size_has_interpolated_positions() -> None:
    encoder = ViTConfig(block=block(), num_layers=1, class_tokens=1).build_encoder(PATCHES).eval()
    larger = encoder.resized((6, 10))
    same = encoder.resized(PATCHES.grid)
    batch = Batch.of([row(0)])
    assert torch.equal(same.encode(batch)[0], encoder.encode(batch)[0])
    table = encoder.position.weight.T.unflatten(1, PATCHES.grid)[None]
    expected = nn.functional.interpolate(table, (6, 10), mode="bicubic", align_corners=False)[0].flatten(1).T
    torch.testing.assert_close(larger.position.weight, expected)
    hidden, packing = larger.encode(Batch.of([row(0, replace(PATCHES, grid=(6, 10)))]))
    assert packing.lengths.tolist() == [61]
    assert hidden.isfinite().all()
    assert larger.project.weight.data_ptr() != encoder.project.weight.data_ptr()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_vit_for_another_size_keeps_the_type_of_its_weights_and_those_that_do_not_learn(dtype: torch.dtype) -> None:
    encoder = ViTConfig(block=block(), num_layers=1, class_tokens=1).build_encoder(PATCHES).to(dtype).eval()
    encoder.project.requires_grad_(False)
    larger = encoder.resized((6, 10))
    assert {parameter.dtype for parameter in larger.parameters()} == {dtype}
    frozen = [name for name, parameter in larger.named_parameters() if not parameter.requires_grad]
    assert frozen == ["project.weight", "project.bias"]
    assert not larger.training


def test_pictures_of_another_size_are_refused_in_words() -> None:
    larger = Batch.of([row(0, replace(PATCHES, grid=(4, 5)))])
    with pytest.raises(ValueError, match=r"positions for 3 × 5 patches, but the picture has 4 × 5.*model\.resized"):
        model_of(CLASSIFIERS["ViT"])(larger)
    with pytest.raises(ValueError, match="built for whole pictures of 3 × 5 patches"):
        model_of(CLASSIFIERS["CNN"])(larger)
    part = Row(row(0).values[:5], places=row(0).places[:5])  # type: ignore[index]
    with pytest.raises(ValueError, match="choose a ViT, which reads parts of pictures"):
        model_of(CLASSIFIERS["ResNet"])(Batch.of([part]))
    with pytest.raises(ValueError, match="needs the places of patches"):
        model_of(CLASSIFIERS["ViT"])(Batch.of([row(0).values]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ViTConfig(class_tokens=3), "class_tokens must be 0, 1 or 2, got 3"),
        (lambda: ViTConfig(norm_epsilon=0.0), "norm_epsilon must be more than 0"),
        (lambda: PictureCNNConfig(channels=()), "channels must have a width for each stage"),
        (lambda: ResNetConfig(channels=(8, 0)), r"channels\[1\] must be at least 1"),
        (
            lambda: ClassifierConfig(encoder=ViTConfig(class_tokens=1)),
            'encoder.class_tokens=1 needs the pooling "first"',
        ),
        (
            lambda: ClassifierConfig(encoder=ViTConfig(class_tokens=0), pooling=FIRST),
            "encoder.class_tokens=0 is less than pooling.count=1",
        ),
        (
            lambda: ViT(ViTConfig(block=block(visibility=neighbourhood(columns=4, reach=1))), PATCHES),
            "counts the patches of another grid: this one has columns=5, and its first patch stands at first=0",
        ),
        (
            lambda: ViT(ViTConfig(block=block(transforms=(GridRotary(columns=5),)), class_tokens=1), PATCHES),
            "stands at first=1, after as many class tokens",
        ),
        (lambda: CLASSIFIERS["ViT"].build(9, 2), "A ViT reads the patches of pictures, and this input is Tokens"),
        (lambda: CLASSIFIERS["CNN"].build(9, 2), "A CNN over pictures reads the patches of pictures"),
    ],
)
def test_what_does_not_go_together_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_a_configuration_names_the_encoders_and_their_positions() -> None:
    settings = {"encoder": {"kind": "vit", "position": "sinusoidal"}, "pooling": {"kind": "first", "count": 2}}
    config = build(ClassifierConfig, settings, where="test:")
    assert config.encoder == ViTConfig(position=SinusoidalGridConfig())
    assert config.build(PATCHES, LABELS).encoder.class_tokens == 2
    assert build(ClassifierConfig, {"encoder": "picture_cnn"}, where="").encoder == PictureCNNConfig()
    assert build(ClassifierConfig, {"encoder": "resnet"}, where="").encoder == ResNetConfig()


@pytest.mark.parametrize(
    ("pooling", "class_tokens"), [(MeanPoolingConfig(), 0), (FIRST, 1), (FirstPoolingConfig(count=2), 2)]
)
def test_a_limit_of_the_attention_leaves_room_for_the_class_tokens_that_the_pooling_reads(
    pooling: Any, class_tokens: int
) -> None:
    attention = LinformerConfig(max_length=15 + class_tokens)
    encoder = ViTConfig(block=replace(block(), encoder_attention=attention), num_layers=1)
    config = ClassifierConfig(encoder=encoder, pooling=pooling)
    assert config.positions == config.build(PATCHES, LABELS).max_length == 15
    named = replace(config, encoder=replace(encoder, class_tokens=class_tokens))
    assert named.positions == named.build(PATCHES, LABELS).max_length == 15
    captioner = CaptionerConfig(encoder=encoder)
    assert captioner.positions == captioner.build(PATCHES, LABELS).encoder.max_length == 15 + class_tokens


def test_a_published_vit_has_its_number_of_weights() -> None:
    """ViT-Tiny of DeiT for 224 × 224: 5,717,416 with 1,000 labels, where its class token has a position of its own."""
    patches = Patches(size=16, channels=3, grid=(14, 14))
    model = ClassifierConfig(encoder=ViTConfig.tiny(), pooling=FIRST).build(patches, 1000)
    assert model.parameter_count() == 5_717_416 - 192


def test_patches_are_folded_as_they_were_cut() -> None:
    picture = torch.arange(2 * 3 * 6 * 10.0).reshape(2, 3, 6, 10)
    squares = picture.permute(0, 2, 3, 1).reshape(2, 3, 2, 5, 2, 3).transpose(2, 3).reshape(2, 15, 12)
    assert torch.equal(PATCHES.picture(squares), picture)
    assert torch.equal(PATCHES.picture(squares[0]), picture[0])
    with pytest.raises(ValueError, match="A picture of 3 × 5 patches has 15 rows of 12 numbers, but these are 14"):
        PATCHES.picture(squares[:, :14])
