"""Weights in fewer bits: near what they were, exact products, and the same bits in every reader."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor

from foveate.light.weight import NotSupportedError, read_weights
from foveate.storage.checkpoint import load_weights, read_final, save_final
from foveate.storage.manifest import DamagedError, file_digest, write_json
from foveate.storage.rounded_weight import Quantised, Stored, rounded, widened


def weights(seed: int, size: float) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = {"table": (9, 17), "kernel": (3, 4, 5), "narrow": (5, 15), "bias": (40,), "table.scale": (2, 16)}
    drawn = {name: torch.randn(shape, generator=generator) * 10**size for name, shape in sizes.items()}
    drawn["table"][4] = 0.0
    step = Quantised.of(drawn["table"]).scales[5]
    ties = step * (torch.arange(100, 116) + 0.5)
    drawn["table"][5] = torch.cat([step[None] * 127, torch.nextafter(ties, ties.sign() * torch.inf)])
    return {**drawn, "count": torch.arange(64, dtype=torch.int8).view(2, 32)}


@settings(max_examples=50)
@given(seed=st.integers(0, 10_000), size=st.floats(-34, 36))
def test_no_number_is_off_by_more_than_half_a_step_and_rounding_again_changes_nothing(seed: int, size: float) -> None:
    weight = weights(seed, size)["table"]
    quantised = Quantised.of(weight)
    exact = quantised.values.double() * quantised.scales.double()[:, None]
    assert torch.equal(quantised.weight().double(), exact)
    assert ((weight.double() - exact).abs() <= quantised.scales.double()[:, None] / 2).all()
    again = Quantised.of(quantised.weight())
    assert torch.equal(again.values, quantised.values)
    assert torch.equal(again.scales, quantised.scales)
    assert quantised.values.abs().amax(1).tolist() == [127 * bool(row.any()) for row in weight]


@pytest.mark.parametrize("stored", ["", "bfloat16", "int8"])
def test_every_reader_has_the_same_bits(stored: Stored, tmp_path: Path) -> None:
    tensors = weights(3, -1)
    floats = {name: tensor for name, tensor in tensors.items() if name != "count"}
    save_final(tmp_path, floats, {"weights": "checkpoint of step 9"}, stored=stored)
    ours, description = load_weights(tmp_path)
    theirs = read_weights((tmp_path / "model.safetensors").read_bytes(), stored)
    assert ours.keys() == theirs.keys() == floats.keys()
    for name, tensor in ours.items():
        assert tensor.dtype == torch.float32
        np.testing.assert_array_equal(theirs[name].view(np.int32), tensor.numpy().view(np.int32))
    changed = {name for name, tensor in floats.items() if not torch.equal(tensor, ours[name])}
    assert changed == {"": set(), "bfloat16": {*floats}, "int8": {"table", "kernel", "table.scale"}}[stored]
    assert description == "checkpoint of step 9" + (f", rounded to {stored}" if stored else "")
    final = read_final(tmp_path)
    assert final
    assert final.description == description
    second = rounded(widened(rounded(tensors, stored), stored), stored)
    for name, tensor in rounded(tensors, stored).items():
        assert torch.equal(second[name], tensor)


def test_whole_numbers_with_a_name_of_scales_are_not_mistaken_for_a_weight() -> None:
    tensors = {"a": torch.ones(2, 16), "a.scales": torch.full((2,), 3.0), "b": torch.ones(2, 16, dtype=torch.int8)}
    back = widened(rounded(tensors, "int8"), "int8")
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items())


def test_int8_takes_a_quarter() -> None:
    table = {"table": torch.randn(100, 400)}
    assert sum(part.nbytes for part in rounded(table, "int8").values()) == 100 * 404


def test_numbers_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match=r"table has numbers that are not finite, which int8 cannot represent"):
        rounded({"table": torch.full((2, 16), torch.nan)}, "int8")


@pytest.mark.parametrize("scales", [torch.ones(3), torch.ones(2, 1), torch.ones(2, dtype=torch.float64), None])
def test_scales_that_do_not_fit_are_damage(scales: Tensor | None, tmp_path: Path) -> None:
    parts = {"w": torch.ones(2, 16, dtype=torch.int8)} | ({} if scales is None else {"w.scales": scales})
    save_file(parts, tmp_path / "model.safetensors")
    digest = file_digest(tmp_path / "model.safetensors")
    write_json(tmp_path / "model.json", {"format": 1, "sha256": digest, "stored": "int8"})
    with pytest.raises(NotSupportedError):
        read_weights((tmp_path / "model.safetensors").read_bytes(), "int8")
    if scales is None:  # whole numbers, as some models have; a weight would not fit its model
        assert load_weights(tmp_path)[0]["w"].dtype == torch.int8
        return
    with pytest.raises(DamagedError, match=r"model\.safetensors cannot be read: w\.scales are .* for 2 rows of w"):
        load_weights(tmp_path)


def test_a_type_that_this_version_does_not_know_is_refused(tmp_path: Path) -> None:
    save_final(tmp_path, {"w": torch.ones(2, 16)}, {})
    described = json.loads((tmp_path / "model.json").read_text("utf-8"))
    write_json(tmp_path / "model.json", {**described, "stored": "int4"})
    with pytest.raises(DamagedError, match=r"model\.json.*stored.*int4.*bfloat16"):
        load_weights(tmp_path)
    for other in ("int4", ["int8"], None):
        with pytest.raises(NotSupportedError, match="weights are stored as"):
            read_weights((tmp_path / "model.safetensors").read_bytes(), other)


def test_a_type_is_read_only_where_it_is_declared(tmp_path: Path) -> None:
    for stored, others in (("bfloat16", ("", "int8")), ("int8", ("", "bfloat16"))):
        save_file(rounded({"w": torch.ones(2, 16)}, stored), tmp_path / "file")  # type: ignore[arg-type]
        for other in others:
            with pytest.raises(NotSupportedError, match="w has the type"):
                read_weights((tmp_path / "file").read_bytes(), other)
