"""ViT and DeiT of Hugging Face, with random weights: the same logits here, both ways."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from foveate.data.batch import Batch
from foveate.errors import DataError, UsageError
from foveate.models import Classifier, ClassifierConfig, PictureCNNConfig, ViTConfig
from foveate.models.vit_hugging_face import read_vit, read_vit_encoder, write_vit
from foveate.nn import FirstPoolingConfig, Patches
from foveate.nn.grid_position import SinusoidalGridConfig

TOLERANCE = {"atol": 1e-5, "rtol": 1e-5}
SIZES: dict[str, Any] = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 36,
    "image_size": [8, 12],
    "patch_size": 4,
    "num_labels": 5,
    "hidden_act": "gelu",
}
MODELS = {
    "ViT": (transformers.ViTConfig, transformers.ViTForImageClassification),
    "DeiT": (transformers.DeiTConfig, transformers.DeiTForImageClassification),
    "DeiT with a teacher": (transformers.DeiTConfig, transformers.DeiTForImageClassificationWithTeacher),
}
GUESTS = pytest.mark.parametrize("kind", MODELS)


def guest(kind: str, **settings: Any) -> Any:
    config, model = MODELS[kind]
    torch.manual_seed(0)
    built = model(config(**{**SIZES, **settings})).eval()
    for weight in built.parameters():  # theirs begin at zero in part, and so small that nothing attends
        nn.init.normal_(weight, std=0.3)
    return built


def pictures(count: int = 3, channels: int = 3, rows: int = 8, columns: int = 12) -> Tensor:
    return torch.rand(count, channels, rows, columns, generator=torch.Generator().manual_seed(1)) * 2 - 1


def batch(pictures: Tensor, size: int = 4) -> Batch:
    count, _, height, width = pictures.shape
    rows, columns = height // size, width // size
    squares = pictures.unfold(2, size, size).unfold(3, size, size)  # count channels rows columns size size
    values = squares.permute(0, 2, 3, 4, 5, 1).reshape(count, rows * columns, -1).contiguous()
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).expand(count, -1, -1)
    return Batch(values, torch.full((count,), rows * columns), places=places)


@GUESTS
@torch.no_grad()
def test_a_folder_of_theirs_has_their_logits_here(kind: str, tmp_path: Path) -> None:
    theirs = guest(kind)
    theirs.save_pretrained(tmp_path / "theirs")
    ours = read_vit(tmp_path / "theirs")
    expected = theirs(pictures()).logits
    assert expected.std(0).min() > 0.001
    torch.testing.assert_close(ours(batch(pictures())), expected, **TOLERANCE)
    assert not ours.training


@GUESTS
@torch.no_grad()
def test_a_folder_of_ours_has_our_logits_there(kind: str, tmp_path: Path) -> None:
    guest(kind).save_pretrained(tmp_path / "theirs")
    ours = read_vit(tmp_path / "theirs")
    for weight in ours.parameters():
        weight.add_(0.1 * torch.randn_like(weight))
    names = ["ant", "bee", "cat", "dog", "eel"]
    write_vit(ours, tmp_path / "ours", labels=names)
    theirs = MODELS[kind][1].from_pretrained(tmp_path / "ours").eval()
    logits = ours(batch(pictures()))
    torch.testing.assert_close(theirs(pictures()).logits, logits, **TOLERANCE)
    assert list(theirs.config.id2label.values()) == names
    assert torch.equal(read_vit(tmp_path / "ours")(batch(pictures())), logits)


@torch.no_grad()
def test_a_model_of_ours_for_grey_squares_is_read_there(tmp_path: Path) -> None:
    patches = Patches(size=4, channels=1, grid=(2, 2))
    config = ClassifierConfig(encoder=ViTConfig(num_layers=1), pooling=FirstPoolingConfig())
    ours = config.build(patches, 3).eval()
    write_vit(ours, tmp_path / "ours")
    theirs = transformers.AutoModelForImageClassification.from_pretrained(tmp_path / "ours").eval()
    grey = pictures(channels=1, rows=8, columns=8)
    torch.testing.assert_close(theirs(grey).logits, ours(batch(grey)), **TOLERANCE)


@pytest.mark.parametrize("kind", [transformers.ViTModel, transformers.DeiTModel])
@torch.no_grad()
def test_a_bare_encoder_has_their_vectors(kind: Any, tmp_path: Path) -> None:
    theirs = kind(kind.config_class(**SIZES)).eval()
    theirs.save_pretrained(tmp_path / "bare")
    hidden, packing = read_vit_encoder(tmp_path / "bare").encode(batch(pictures()))
    torch.testing.assert_close(packing.unpack(hidden), theirs(pictures()).last_hidden_state, **TOLERANCE)
    with pytest.raises(DataError, match="no classifier of pictures"):
        read_vit(tmp_path / "bare")


@torch.no_grad()
def test_positions_for_another_size_are_interpolated_as_theirs(tmp_path: Path) -> None:
    theirs = guest("ViT", image_size=8)  # theirs resizes squares only
    theirs.save_pretrained(tmp_path / "theirs")
    ours = read_vit(tmp_path / "theirs")
    ours.encoder = ours.encoder.resized((4, 5))  # type: ignore[operator]
    larger = pictures(rows=16, columns=20)
    expected = theirs(larger, interpolate_pos_encoding=True).logits
    torch.testing.assert_close(ours(batch(larger)), expected, **TOLERANCE)


def altered(folder: Path, tmp_path: Path, change: Any) -> Path:
    """A copy of a folder with other settings or tensors."""
    config = json.loads((folder / "config.json").read_text())
    tensors = load_file(folder / "model.safetensors")
    change(config, tensors)
    other = tmp_path / "altered"
    other.mkdir()
    (other / "config.json").write_text(json.dumps(config))
    save_file(tensors, other / "model.safetensors", {"format": "pt"})
    return other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda config, tensors: config.update(model_type="beit"), "model_type='beit', and this reads vit and deit"),
        (lambda config, tensors: config.update(qkv_bias=False), "qkv_bias=False, which this model does not support"),
        (lambda config, tensors: config.update(patch_size=5), "which patch_size=5 does not divide"),
        (lambda config, tensors: config.update(image_size="big"), "must be one or two whole numbers"),
        (lambda config, tensors: config.update(image_size=[12, 12]), "position embeddings have shape"),
        (lambda config, tensors: config.update(num_attention_heads=5), "describes no model that can be built"),
        (lambda config, tensors: tensors.pop("vit.layernorm.bias"), "The weights lack norm.bias"),
        (lambda config, tensors: tensors.pop("vit.embeddings.cls_token"), "The weights lack embeddings.cls_token"),
        (lambda config, tensors: tensors.update(extra=torch.ones(1)), "hold unknown tensors: extra"),
    ],
)
def test_a_folder_that_is_not_such_a_model_is_refused(change: Any, message: str, tmp_path: Path) -> None:
    guest("ViT").save_pretrained(tmp_path / "theirs")
    with pytest.raises(DataError, match=message):
        read_vit(altered(tmp_path / "theirs", tmp_path, change))


def built(**settings: Any) -> Classifier:
    settings = {"encoder": ViTConfig(num_layers=1), "pooling": FirstPoolingConfig(), **settings}
    return ClassifierConfig(**settings).build(Patches(size=2, channels=1, grid=(2, 2)), 3)


def test_a_model_of_another_shape_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match='with the encoder "vit" and the pooling "first"'):
        write_vit(built(encoder=PictureCNNConfig()), tmp_path / "out")
    with pytest.raises(ValueError, match="this model differs"):
        write_vit(built(encoder=ViTConfig(position=SinusoidalGridConfig())), tmp_path / "out")
    with pytest.raises(ValueError, match="The model has 3 labels, but 2 names are given"):
        write_vit(built(), tmp_path / "out", labels=["a", "b"])
    (tmp_path / "out").mkdir()
    with pytest.raises(UsageError, match="already exists"):
        write_vit(built(), tmp_path / "out")
