"""The planner's estimates, and the calibration that makes them."""

import math
from functools import cache
from pathlib import Path as File
from random import Random

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from foveate import machine
from foveate.attention import AdditiveConfig, Attention, Positions, calibration, planner, probe
from foveate.attention.calibration import Sample, fit
from foveate.attention.paths import PATHS, MaterialisedPath
from foveate.attention.paths.pairwise import unavailable
from foveate.attention.visibility import Visibility, causal, everything, padding


@pytest.fixture(params=[False, True], ids=["without AMX", "with AMX"])
def default_rates(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Those of either processor, in force; whether it has tiles."""
    monkeypatch.setattr("foveate.native.has_tiles", lambda: request.param)
    monkeypatch.setattr(planner, "default_rates", cache(planner.default_rates.__wrapped__))
    return bool(request.param)


@pytest.mark.usefixtures("default_rates")
def test_every_path_has_default_rates_for_each_number_type_and_mode() -> None:
    for path in PATHS:
        for dtype in ("float32", "bfloat16"):
            for mode in ("inference", "training"):
                if path.name != "flex":  # which refuses on CPUs
                    numbers = planner.default_rates()[f"{path.name} {dtype} {mode}"]
                    assert (len(numbers) - len(planner.FEATURES)) % (planner.PLACE + 1) == 0


@pytest.mark.usefixtures("default_rates")
@pytest.mark.skipif(bool(unavailable()), reason="no compiler")
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(("batch", "keys", "hidden"), [(68, 40, 256), (5, 40, 256), (20, 30, 128), (68, 30, 512)])
def test_a_decoders_step_takes_the_additive_kernel(batch: int, keys: int, hidden: int, training: bool) -> None:
    """One query over keys whose features are kept, as in the default recurrent translator."""
    score = AdditiveConfig().build(query_dim=hidden, key_dim=2 * hidden)
    query = torch.zeros(batch, 1, 1, hidden, requires_grad=training)
    memory = torch.zeros(batch, 1, keys, 2 * hidden)
    at = Positions.of(1, keys, key_lengths=torch.full((batch,), keys))
    with torch.set_grad_enabled(training):
        assert Attention(score, visibility=padding()).plan(query, memory, at=at).chosen == "additive"


LONG = [(4, 1, 4096, everything()), (4, 1, 4096, padding()), (1, 1, 8192, everything()), (1, 8, 4096, everything())]


@pytest.mark.usefixtures("default_rates")
@pytest.mark.parametrize(("batch", "heads", "length", "rule"), LONG, ids=str)
def test_long_sequences_train_by_the_fused_kernel(batch: int, heads: int, length: int, rule: Visibility) -> None:
    x = torch.zeros(batch, heads, length, 64, requires_grad=True)
    at = Positions.of(length, length, key_lengths=torch.full((batch,), length))
    assert Attention(visibility=rule).plan(x, x, at=at).chosen == "sdpa"


def test_plain_torch_is_doubted_where_nobody_measured_and_nowhere_else() -> None:
    rates = [1.0, *[0.0] * 6, *[1.0] * planner.PLACE, 0.0]
    near, far = (planner.estimate(rates, [1.0, *[0.0] * 6], [at] * planner.PLACE, planner.DOUBTED) for at in (1.0, 9.0))
    assert near == pytest.approx(1.0, rel=0.02)
    assert far == pytest.approx(math.exp(planner.DOUBTED))


class Named(MaterialisedPath):
    """A path that only says that it ran."""

    def __init__(self, name: str, ran: list[str]) -> None:
        self.name, self.ran = name, ran

    def run(self, *given: object, **named: object) -> Tensor:
        self.ran.append(self.name)
        return super().run(*given, **named)  # type: ignore[arg-type]


@pytest.mark.parametrize("learning", ["query", "value", "features", "weights", None])
def test_a_backward_pass_is_reckoned_with_wherever_it_ends(learning: str | None) -> None:
    seconds = {"for": [0.0] * 7, "against": [1.0] + [0.0] * 6}
    rates = {"a float32 training": "for", "b float32 training": "against"}
    rates |= {"a float32 inference": "against", "b float32 inference": "for"}
    machine.use(machine.Tuning(rates={name: seconds[which] for name, which in rates.items()}))
    ran: list[str] = []
    score = AdditiveConfig().build(query_dim=4, key_dim=4).requires_grad_(learning == "weights")
    attention = Attention(score, paths=(Named("a", ran), Named("b", ran)))
    query, key, value, features = torch.randn(4, 1, 1, 3, 4)
    for name, tensor in (("query", query), ("value", value), ("features", features)):
        tensor.requires_grad_(learning == name)
    attention.run(query, key, value, key_features=features)
    with torch.no_grad():
        attention.run(query, key, value, key_features=features)
    assert ran == ["b" if learning is None else "a", "b"]


@pytest.mark.skipif(bool(unavailable()), reason="no compiler")
def test_a_choice_that_was_made_while_operations_were_counted_holds_no_longer() -> None:
    """Kernels of ours cannot be written into a traced program; outside of one they run again."""
    attention, x = Attention(visibility=causal()), torch.randn(2, 2, 20, 16)
    rates = {f"{path.name} float32 inference": [float(path.name != "short")] + [0.0] * 6 for path in PATHS}
    machine.use(machine.Tuning(rates=rates))
    with FlopCounterMode(display=False):
        attention.run(x, x, x)
        assert attention.plan(x, x).chosen != "short"
    assert attention.plan(x, x).chosen == "short"
    with FlopCounterMode(display=False):
        assert attention.plan(x, x).chosen != "short"


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
    assert machine.kept() is None
    found = calibration.calibrate(patience=1.0)
    assert found.samples > 0
    file = machine.keep(machine.Tuning(packed_rows=8, rates=found.rates))
    assert file.is_relative_to(tmp_path)
    assert machine.tune().rates.keys() == found.rates.keys()
    assert machine.current().packed_rows == 8


def test_a_kept_rate_has_the_numbers_that_the_planner_reads() -> None:
    """Whoever changes the features raises `VERSION` beside `NUMBERS`, so that kept rates are not read as others."""
    assert len(planner.FEATURES) == planner.PLACE + 1 == machine.file.NUMBERS
    assert all(machine.file.is_rates(list(rates)) for rates in planner.default_rates().values())


def test_what_an_additive_score_makes_of_the_keys_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes every path the same, and would hide in what they differ."""
    case = probe.case((2, 1, 1, 5, 16), padding(), torch.float32, True, "additive")
    jobs = [case.run(path) for path in case.accepting()]
    monkeypatch.setattr(type(case.attention.score), "key_features", None)
    for job in jobs:
        job()
    assert len(jobs) >= 2
    assert all(weight.grad is None for weight in case.attention.parameters())


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
