"""Rows of frames become shorter by a factor: by the formula, with no influence of padding or of other rows."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foveate.config import build
from foveate.errors import UsageError
from foveate.models import RecogniserConfig
from foveate.nn.packing import Packing
from foveate.nn.subsampling import (
    AnySubsamplingConfig,
    PlaneSubsamplingConfig,
    PyramidConfig,
    Subsampling,
    SubsamplingConfig,
    shorter,
)

WIDTH = 6
CONFIGS: dict[str, AnySubsamplingConfig] = {
    "projection": SubsamplingConfig(factor=1, hidden_dim=5),
    "convolution 2": SubsamplingConfig(factor=2, hidden_dim=5),
    "convolution 4": SubsamplingConfig(factor=4, hidden_dim=5, width=5),
    "convolution 8 narrow": SubsamplingConfig(factor=8, hidden_dim=5, width=1),
    "plane 1": PlaneSubsamplingConfig(factor=1, hidden_dim=5),
    "plane 2": PlaneSubsamplingConfig(factor=2, hidden_dim=5, maps=3),
    "plane 4 with deltas": PlaneSubsamplingConfig(factor=4, hidden_dim=5, maps=3, spectra=2),
    "pyramid 1": PyramidConfig(factor=1, hidden_dim=3),
    "pyramid 4": PyramidConfig(factor=4, hidden_dim=3),
    "pyramid 4 forwards": PyramidConfig(factor=4, hidden_dim=3, cell="gru", bidirectional=False),
}
each = pytest.mark.parametrize("name", CONFIGS)


def built(name: str) -> Subsampling:
    torch.manual_seed(0)
    return CONFIGS[name].build_for(WIDTH).double().eval()


def frames(*lengths: int, padding: int = 0, garbage: float = math.nan) -> tuple[Tensor, Packing]:
    """Padded random rows, with `garbage` as padding."""
    generator = torch.Generator().manual_seed(1)
    x = torch.full((len(lengths), max(lengths) + padding, WIDTH), garbage, dtype=torch.float64)
    for row, length in zip(x, lengths, strict=True):
        row[:length] = torch.randn(length, WIDTH, dtype=torch.float64, generator=generator)
    return x, Packing(torch.tensor(lengths), x.shape[1])


@each
@settings(deadline=None, max_examples=15)
@given(lengths=st.lists(st.integers(0, 21), min_size=1, max_size=4), padding=st.integers(0, 5))
def test_a_row_gets_the_same_vectors_alone_as_in_a_padded_batch(name: str, lengths: list[int], padding: int) -> None:
    layer = built(name)
    x, packing = frames(*lengths, padding=padding)
    together, after = layer(x, packing=packing)
    assert after.lengths.tolist() == [math.ceil(length / layer.factor) for length in lengths]
    assert together.shape == (len(lengths), after.length, layer.output_dim)
    for number, length in enumerate(lengths):
        alone, one = layer(x[number : number + 1, :length], packing=Packing(torch.tensor([length]), length))
        torch.testing.assert_close(together[number, : one.length], alone[0], rtol=0, atol=1e-12)
        assert not together[number, one.length :].any()


@each
def test_rows_without_frames_leave_the_gradients_of_the_others(name: str) -> None:
    layer, gradients = built(name), []
    for lengths in ((0, 7, 0, 2, 10, 0), (7, 2, 10)):
        x, packing = frames(*lengths)
        x.requires_grad_()
        (layer(packing.pack(x), packing=packing)[0] ** 2).sum().backward()
        assert x.grad is not None
        assert not x.grad[packing.lengths == 0].any()
        gradients.append([x.grad[packing.lengths > 0], *(weight.grad for weight in layer.parameters())])
        layer.zero_grad()
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@each
def test_packed_frames_get_the_same_vectors_as_padded_ones(name: str) -> None:
    layer = built(name)
    x, packing = frames(7, 2, 10, padding=3)
    padded, after = layer(x, packing=packing)
    packed, same = layer(packing.pack(x), packing=packing)
    assert same.lengths.tolist() == after.lengths.tolist()
    torch.testing.assert_close(packed, after.pack(padded), rtol=0, atol=0)


@each
def test_a_vector_depends_on_frames_up_to_its_look_ahead(name: str) -> None:
    layer, length = built(name), 32
    x, packing = frames(length)
    x.requires_grad_(True)
    for part in layer.modules():
        if isinstance(part, torch.nn.Linear | torch.nn.Conv2d) and part.bias is not None:
            torch.nn.init.constant_(part.bias, 9.0)  # no relu is zero
    y, _ = layer(x, packing=packing)
    for place, vector in enumerate(y[0]):
        (grad,) = torch.autograd.grad(vector.sum(), x, retain_graph=True)
        read = grad[0].abs().sum(-1).nonzero().flatten()
        last = length - 1 if layer.look_ahead is None else min(place * layer.factor + layer.look_ahead, length - 1)
        assert int(read[-1]) == last, place


def test_a_convolution_is_that_of_torch() -> None:
    layer = built("convolution 2")
    x, packing = frames(9)
    y, _ = layer(x, packing=packing)
    assert isinstance(layer.layers, torch.nn.ModuleList)
    (first,) = layer.layers
    weight = first.weight.unflatten(1, (3, WIDTH)).mT
    expected = torch.nn.functional.conv1d(x.mT, weight, first.bias, stride=2, padding=1).relu().mT
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)


def test_a_plane_shares_its_weights_over_frequency() -> None:
    layer = built("plane 2")
    x, packing = torch.zeros(1, 8, WIDTH, dtype=torch.float64), Packing(torch.tensor([8]), 8)
    x[0, 2, 2] = 1.0
    layer.project = torch.nn.Identity()
    here = layer(x, packing=packing)[0].unflatten(-1, (3, -1))
    there = layer(x.roll(2, -1), packing=packing)[0].unflatten(-1, (3, -1))
    torch.testing.assert_close(here[..., :2], there[..., 1:], rtol=0, atol=1e-12)


def test_the_length_of_the_longest_row_decides_the_padding_only() -> None:
    assert shorter(torch.tensor([1, 8, 9]), 8).tolist() == [1, 1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"factor": 3}, "factor must be one of 1, 2, 4, 8, 16, 32, 64, got 3"),
        ({"factor": 0}, "factor must be one of"),
        ({"width": 4}, "width must be odd"),
        ({"kind": "pyramid", "dropout": 1.5}, "dropout"),
        ({"kind": "plane", "maps": 0}, "maps"),
    ],
)
def test_impossible_settings_are_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(RecogniserConfig, {"subsampling": settings})


def test_a_plane_needs_whole_spectra() -> None:
    with pytest.raises(ValueError, match=r"A frame of 40 numbers does not divide into spectra=3"):
        PlaneSubsamplingConfig(spectra=3).build_for(40)
