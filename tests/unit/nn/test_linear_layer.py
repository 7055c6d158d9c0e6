"""Packed weights are weights: nothing but speed may change."""

import copy
import pickle
from collections.abc import Iterator

import pytest
import torch

from foveate import machine
from foveate.nn import MultiHeadAttention
from foveate.nn.linear_layer import Linear, packs

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


@pytest.fixture(autouse=True)
def packing() -> Iterator[None]:
    before = machine.use(machine.Tuning(packed_rows=1))
    yield
    machine.use(before)


@pytest.fixture
def layer() -> Linear:
    return Linear(8, 12)


def plain(layer: Linear, x: torch.Tensor) -> torch.Tensor:
    return x @ layer.weight.T + layer.bias


def test_weights_are_packed_in_inference_and_for_enough_rows_only(layer: Linear) -> None:
    x = torch.randn(3, 8)
    assert not packs(x, layer.weight)
    with torch.no_grad():
        assert packs(x, layer.weight)
        assert not packs(x.double(), layer.weight.double())
        machine.use(machine.Tuning(packed_rows=4))
        assert not packs(x, layer.weight)
        machine.use(machine.Tuning(packed_rows=0))
        assert not packs(x, layer.weight)


def test_a_packed_weight_gives_the_same_product(layer: Linear) -> None:
    for shape in ((3, 8), (2, 5, 8)):
        x = torch.randn(shape)
        with torch.no_grad():
            torch.testing.assert_close(layer(x), plain(layer, x), **CLOSE)


def test_bfloat16_is_packed_only_where_onednn_can(layer: Linear, monkeypatch: pytest.MonkeyPatch) -> None:
    """On processors with AVX2 alone, `foveate translate --precision bfloat16 --align` ended in an error of torch."""
    short, x = layer.bfloat16(), torch.randn(4, layer.in_features).bfloat16()
    with torch.no_grad():
        assert layer(x).dtype == torch.bfloat16  # on this processor, whatever it can
        monkeypatch.setattr("foveate.machine.multiplies_bfloat16", lambda: False)
        assert not packs(x, short.weight)
        assert packs(x.float(), short.weight.float())


@torch.no_grad()
def test_a_weight_that_changes_is_packed_again(layer: Linear) -> None:
    x = torch.randn(3, 8)
    layer(x)
    layer.weight.mul_(2)
    torch.testing.assert_close(layer(x), plain(layer, x), **CLOSE)
    layer.load_state_dict(Linear(8, 12).state_dict())
    torch.testing.assert_close(layer(x), plain(layer, x), **CLOSE)


@torch.no_grad()
def test_a_weight_that_is_replaced_is_packed_again_even_at_the_same_address(layer: Linear) -> None:
    x = torch.randn(3, 8)
    for _ in range(20):
        layer(x)
        values = torch.randn(12, 8).numpy().tobytes()
        layer.weight = None  # its memory is free, and the next tensor of this size may well get it
        layer.weight = torch.nn.Parameter(torch.frombuffer(bytearray(values), dtype=torch.float32).view(12, 8).clone())
        torch.testing.assert_close(layer(x), plain(layer, x), **CLOSE)


@torch.no_grad()
def test_copies_pack_their_own_weights(layer: Linear) -> None:
    x = torch.randn(3, 8)
    expected = layer(x)
    twins = (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)))
    layer.weight.zero_()
    for twin in twins:
        torch.testing.assert_close(twin(x), expected, **CLOSE)


@torch.no_grad()
def test_self_attention_projects_through_one_packed_weight() -> None:
    layer, x = MultiHeadAttention(query_dim=8, num_heads=2, num_kv_heads=1, bias=True), torch.randn(2, 5, 8)
    output = layer(x)
    machine.use(machine.Tuning())
    torch.testing.assert_close(output, layer(x), **CLOSE)


def test_a_checkpoint_does_not_contain_packed_weights(layer: Linear) -> None:
    with torch.no_grad():
        layer(torch.randn(3, 8))
    assert set(layer.state_dict()) == {"weight", "bias"}
