"""The planner's estimates, and the calibration that makes them."""

import math
from pathlib import Path as File
from random import Random

import pytest
import torch

from foveate import machine
from foveate.attention import Attention, calibration, planner, probe
from foveate.attention.calibration import Sample, fit
from foveate.attention.paths import PATHS
from foveate.attention.visibility import causal, padding


@pytest.mark.parametrize("tiles", [False, True], ids=["without AMX", "with AMX"])
def test_every_path_has_default_rates_for_each_number_type_and_mode(
    tiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("foveate.native.has_tiles", lambda: tiles)
    monkeypatch.setattr(planner, "default_rates", planner.default_rates.__wrapped__)
    for path in PATHS:
        for dtype in ("float32", "bfloat16"):
            for mode in ("inference", "training"):
                if path.name != "flex":  # which refuses on CPUs
                    numbers = planner.default_rates()[f"{path.name} {dtype} {mode}"]
                    assert (len(numbers) - len(planner.FEATURES)) % (planner.PLACE + 1) == 0


def test_rates_are_found_again_from_the_times_they_make() -> None:
    torch.manual_seed(0)
    truth = [2e-4, 0.0, 1e-6, 3e-9, 0.0, 1e-9, 2e-9]
    drawn = (torch.rand(60, 7) * torch.tensor([0.0, 50.0, 500.0, 1e6, 1e8, 1e6, 1e5])).tolist()
    samples = [
        Sample(
            number,
            "product float32 inference",
            (1.0, *rest[1:]),
            (1.0,) * planner.PLACE,
            sum(r * f for r, f in zip(truth, (1.0, *rest[1:]), strict=True)),
        )
        for number, rest in enumerate(drawn)
    ]
    found = fit(samples)
    assert found.error < 1e-6
    assert found.rates["product float32 inference"][: len(truth)] == pytest.approx(truth, rel=1e-3, abs=1e-12)


def test_rates_are_never_negative() -> None:
    somewhere = (1.0,) * planner.PLACE
    samples = [Sample(n, "a", (1.0, float(n), 0.0, 0.0, 0.0, 0.0, 0.0), somewhere, 1.0 / n) for n in range(1, 20)]
    assert min(fit(samples).rates["a"][: len(planner.FEATURES)]) >= 0


def test_errors_of_the_sums_are_known_by_size() -> None:
    """Twice as slow as any sum of features for wide matrices, as kernels are past the cache."""
    sizes = [(float(n % 12), 1.0, 1.0, 1.0, 1.0, 1.0) for n in range(48)]
    samples = [
        Sample(n, "a", (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), size, 1.0 if size[0] < 6 else 2.0)
        for n, size in enumerate(sizes)
    ]
    rates = fit(samples).rates["a"]
    small, large = (planner.estimate(rates, samples[0].features, (at, 1.0, 1.0, 1.0, 1.0, 1.0)) for at in (1.0, 10.0))
    assert (small, large) == pytest.approx((1.0, 2.0), rel=0.1)


def test_a_slow_moment_of_the_machine_is_no_property_of_a_path() -> None:
    """Both paths of every third case are measured while something else takes half of the machine."""
    samples = []
    for n in range(60):
        slower, much, at = (2.0 if n % 3 == 0 else 1.0), 1.0 + n % 7, (math.log2(1.0 + n % 7), *[1.0] * 5)
        samples += [
            Sample(n, name, (0.0, much, 0.0, 0.0, 0.0, 0.0, 0.0), at, slower * much * rate)
            for name, rate in (("a", 1.0), ("b", 1.2))
        ]
    assert fit(samples).error < 0.12


def test_a_calibration_is_kept_and_found_again(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert not calibration.use_kept()
    found = calibration.calibrate(patience=1.0)
    assert found.samples > 0
    file = calibration.save(found)
    assert file.is_relative_to(tmp_path)
    assert calibration.use_kept()
    assert machine.current().rates.keys() == found.rates.keys()


def test_a_kept_calibration_of_another_version_is_left_alone(tmp_path: File, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    calibration.own_file().parent.mkdir(parents=True, exist_ok=True)
    calibration.own_file().write_text('{"features": ["calls"], "rates": {}}')
    assert not calibration.use_kept()
    calibration.own_file().write_text("half a file")
    assert not calibration.use_kept()


def test_scaling_keeps_every_rate_and_changes_them_path_by_path() -> None:
    calibration.scale()
    assert machine.current().rates.keys() == planner.default_rates().keys()


def test_a_choice_is_made_anew_when_the_rates_change() -> None:
    x, attention = torch.randn(1, 2, 40, 8), Attention(visibility=causal())
    for fast in ("sdpa", "product", "sdpa"):
        rates = {f"{path.name} float32 inference": [float(path.name != fast)] + [0.0] * 6 for path in PATHS}
        machine.use(machine.Tuning(rates=rates))
        assert attention.plan(x, x).chosen == fast


def test_rates_of_a_gpu_stand_beside_those_of_the_cpu() -> None:
    assert planner.rate_key("sdpa", torch.float16, training=True, device="cuda") == "cuda sdpa bfloat16 training"
    elsewhere, here = torch.empty(1, 1, 2, 4, device="meta"), torch.zeros(1, 1, 2, 4)
    assert planner.rates_of("sdpa", elsewhere, training=False) == planner.ASSUMED["other"]
    rates = {"sdpa float32 inference": [1.0] * 7, "meta sdpa float32 inference": [2.0] * 7}
    machine.use(machine.Tuning(rates=rates))
    assert planner.rates_of("sdpa", here, training=False) == [1.0] * 7
    assert planner.rates_of("sdpa", elsewhere, training=False) == [2.0] * 7


def test_a_gpu_is_measured_on_what_the_cpu_is_and_on_more() -> None:
    assert set(map(str, probe.other_kinds("cpu"))) < set(map(str, probe.other_kinds("cuda")))

    def largest(device: str) -> float:
        rng = Random(1)
        return max(math.prod(probe.drawn(rng, device)[0]) for _ in range(300))

    assert largest("cpu") < probe.MOST["cpu"][0] < largest("cuda")


def test_a_case_lies_where_it_is_asked_to() -> None:
    case = probe.case((2, 1, 3, 5, 4), padding(), torch.float32, False, "additive", device="meta")
    parts = (*case.inputs, *case.attention.parameters(), case.at.query, case.at.real)
    assert {part.device.type for part in parts if part is not None} == {"meta"}


def test_calibrations_of_two_devices_are_kept_together() -> None:
    cpu = calibration.Calibration({"sdpa float32 inference": [1.0] * 7}, 3, 0.1)
    gpu = calibration.Calibration({"cuda sdpa float32 inference": [1e-9] * 6}, 5, 0.2)
    both = calibration.joined(cpu, gpu)
    assert both.rates.keys() == {*cpu.rates, *gpu.rates}
    assert (both.samples, both.error) == (8, 0.2)
