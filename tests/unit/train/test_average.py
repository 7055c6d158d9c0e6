import pytest
import torch

from foveate.train.average import average


def test_the_average_is_the_mean_rounded_once() -> None:
    weights = [{"w": torch.randn(5, generator=torch.Generator().manual_seed(seed))} for seed in range(3)]
    mean = torch.stack([entry["w"].double() for entry in weights]).mean(0).float()
    assert torch.equal(average(weights)["w"], mean)


def test_inputs_are_left_as_they_were() -> None:
    weights = [{"w": torch.zeros(2, dtype=torch.float64)}, {"w": torch.ones(2, dtype=torch.float64)}]
    average(weights)
    assert weights[0]["w"].tolist() == [0, 0]


def test_counters_are_taken_from_the_last() -> None:
    mean = average([{"n": torch.tensor(1)}, {"n": torch.tensor(4)}])
    assert mean["n"].item() == 4


def test_nothing_has_no_average() -> None:
    with pytest.raises(ValueError, match="nothing to average"):
        average([])
