"""Switches: chosen by rules, measured when asked, kept in a file."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, fields
from pathlib import Path

import pytest
import torch

from foveate import machine
from foveate.errors import SetupError
from foveate.machine import Processor, Tuning
from foveate.machine.measure import onednn_is_exact
from foveate.machine.switch_rule import WIDE

GOOD = {"version": 2, **asdict(Tuning())}


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    before = machine.use(Tuning())
    yield
    machine.use(before)


def test_the_default_is_torch_as_it_comes() -> None:
    assert machine.current() == Tuning(onednn_matmul=False, allocator=False)


def test_use_returns_what_was_in_force_and_putting_that_back_restores_it() -> None:
    mine = Tuning(onednn_matmul=True, packed_rows=8)
    before = machine.use(mine)
    assert machine.current() == mine
    assert machine.use(before) == mine
    assert machine.current() == before
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"


def test_switches_are_measured_when_asked_and_keep_float32_exact() -> None:
    tuning = machine.measured()
    assert machine.current() == tuning
    assert tuning.packed_rows in (0, 1, 8, 32)
    require_float32()


def test_rules_keep_float32_exact() -> None:
    assert machine.tune() == machine.current()
    require_float32()


def require_float32() -> None:
    a, b = torch.randn(200, 300), torch.randn(300, 100)
    exact = a.double() @ b.double()
    assert ((a @ b).double() - exact).abs().max() <= 1e-5 * exact.abs().max()


def test_nothing_is_measured_when_a_machine_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*works: object, **settings: object) -> None:
        raise AssertionError("a race")

    monkeypatch.setattr("foveate.machine.measure.race", refuse)
    machine.tune()
    with pytest.raises(AssertionError, match="a race"):
        machine.measured()


def test_every_switch_is_chosen_by_a_rule_with_a_reason() -> None:
    switches = [field.name for field in fields(Tuning)]
    for vendor in ("AuthenticAMD", "GenuineIntel", "HygonGenuine", ""):
        for flags in (frozenset[str](), frozenset({"avx2"}), frozenset({*WIDE, "amx_bf16"})):
            chosen = machine.choices(Processor(vendor=vendor, flags=flags))
            assert [choice.switch for choice in chosen] == switches
            assert all(choice.why for choice in chosen)


def test_a_processor_that_would_multiply_float32_in_bfloat16_does_not() -> None:
    """Under that switch oneDNN takes tile registers for float32 where a processor has them."""
    tiles = Processor(vendor="AuthenticAMD", flags=frozenset({*WIDE, "amx_bf16"}))
    assert not machine.by_rules(tiles).onednn_matmul
    plain = Processor(vendor="AuthenticAMD", flags=frozenset(WIDE))
    assert machine.by_rules(plain).onednn_matmul == onednn_is_exact()  # this machine's: it may have tile registers


def test_processors_without_wide_registers_multiply_by_torchs_default() -> None:
    """Where torch may not use bfloat16 its switch has no effect, and packed weights gain nothing."""
    narrow = Processor(vendor="AuthenticAMD", flags=frozenset({"avx2"}))
    assert machine.by_rules(narrow) == Tuning(allocator=machine.by_rules(narrow).allocator)


def test_a_library_that_is_less_exact_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Processor(vendor="AuthenticAMD", flags=frozenset(WIDE))
    monkeypatch.setattr("foveate.machine.measure._through_onednn", lambda a, b: (a.bfloat16() @ b.bfloat16()).float())
    assert not machine.by_rules(plain).onednn_matmul


def test_denormal_numbers_become_zero_on_intels_processors_only() -> None:
    assert machine.by_rules(Processor(vendor="GenuineIntel")).flush_denormals
    assert not machine.by_rules(Processor(vendor="AuthenticAMD")).flush_denormals


def test_what_was_kept_wins_over_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    mine = Tuning(packed_rows=32)
    machine.keep(mine)
    assert machine.tune() == machine.kept() == mine


def test_what_was_kept_with_rates_of_attention_paths_is_still_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As before paths were chosen by rules."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine.own_file().parent.mkdir()
    machine.own_file().write_text(json.dumps({**GOOD, "packed_rows": 8, "rates": {"sdpa float32 training": [1.0]}}))
    assert machine.kept() == Tuning(packed_rows=8)


def test_a_user_without_a_home_folder_gets_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("os.path.expanduser", str)  # as where the system has no entry for the user
    assert machine.kept() is None
    with pytest.raises(SetupError, match="Set XDG_CACHE_HOME"):
        machine.keep(Tuning())


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(SetupError, match=rf"{tmp_path}/file/foveate/tuning-.* cannot be written: Not a directory"):
        machine.keep(Tuning())


DAMAGED = [
    "half a file",
    "[" * 100_000,
    "[]",
    '{"version": 1}',
    '{"version": 2}',
    json.dumps({**GOOD, "packed_rows": "8"}),
    json.dumps({**GOOD, "packed_rows": -1}),
    json.dumps({**GOOD, "packed_rows": True}),
    json.dumps({**GOOD, "allocator": 1}),
]


def test_a_kept_file_that_is_damaged_or_of_another_version_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    machine.own_file().parent.mkdir()
    machine.own_file().write_text(json.dumps(GOOD))
    assert machine.kept() == Tuning()
    for text in DAMAGED:
        machine.own_file().write_text(text)
        assert machine.kept() is None, text[:200]


@pytest.mark.parametrize("threads", [1, 2])
def test_denormal_numbers_become_zero_in_every_thread_and_come_back(threads: int) -> None:
    before, tiny = torch.get_num_threads(), torch.full((500_000,), 1e-39)
    torch.set_num_threads(threads)
    try:
        for on in (True, False):
            machine.use(Tuning(flush_denormals=on))
            assert bool(((tiny * 0.5 == 0) == on).all())
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("slow", [True, False])
def test_denormal_numbers_are_made_zero_where_they_are_slow(monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    raced = machine.race

    def race(*works: Callable[[], object], **settings: float) -> list[float]:
        built = [work() for work in works]
        tiny = [isinstance(one, torch.Tensor) and 0 < float(one.abs().max()) < 1e-38 for one in built]
        return [1.0 + slow * is_tiny for is_tiny in tiny] if any(tiny) else raced(*works, **settings)

    monkeypatch.setattr("foveate.machine.measure.race", race)
    assert machine.measured().flush_denormals == slow


def test_tuning_draws_no_random_numbers_of_ours() -> None:
    """How many it draws depends on the clock: a model initialised afterwards would, too."""
    torch.manual_seed(5)
    expected = torch.randn(3)
    torch.manual_seed(5)
    machine.tune()
    machine.measured()
    assert torch.equal(torch.randn(3), expected)


def test_a_longer_measurement_has_more_rounds() -> None:
    calls: list[int] = []
    machine.race(lambda: calls.append(1))
    few = len(calls)
    machine.race(lambda: calls.append(1), patience=0.05)
    assert few > 1
    assert len(calls) > 2 * few


def test_a_tuning_says_what_is_on() -> None:
    on = Tuning(onednn_matmul=True, allocator=True, packed_rows=8)
    assert str(on) == (
        "float32 products: oneDNN; allocator: large tensors keep their pages; packed weights in inference: from 8 rows "
        "on; denormal numbers: kept"
    )
    assert str(Tuning()).startswith("float32 products: torch's default; allocator: system default; packed weights in ")


MANY_SHAPES = """
import torch
from foveate import machine
from foveate.nn.linear_layer import packed_product, packed_weight
machine.tune()
torch.set_num_threads(1)
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
weight = packed_weight(torch.zeros(512, 256))  # these go to oneDNN on every processor
for rows in range(1, 501):
    packed_product(torch.zeros(rows, 256), weight, None)
    if rows == 100:
        before = resident()
print(resident() - before)
"""


def growth(**limits: str) -> float:
    """The memory in MB that 400 shapes take."""
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    environment = {name: value for name, value in os.environ.items() if name not in names} | limits
    command = [sys.executable, "-c", MANY_SHAPES]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read as Linux writes it")
def test_products_of_many_shapes_do_not_fill_the_memory() -> None:
    """With the libraries' own limits these shapes take 0.3 GB."""
    usual = growth(ONEDNN_PRIMITIVE_CACHE_CAPACITY="1024", LRU_CACHE_CAPACITY="1024")
    assert growth() < usual / 2


FREED = """
import torch
from foveate import machine
from foveate.machine.memory import resident
machine.use(machine.Tuning(allocator=True))
times = iter((0.0, 1.0, 100.0, 100.0, 101.0))
reserve = machine.Reserve(clock=lambda: next(times))

def worked():
    blocks = [(torch.ones(20_000), torch.ones(10)) for _ in range(2_000)]
    return [small for _, small in blocks]

begun = resident()
pinned = worked()
print((resident() - begun) >> 20, reserve.release(idle=False), (resident() - begun) >> 20)
print(reserve.release(idle=False), (resident() - begun) >> 20)
pinned += worked()
print(reserve.release(idle=True), (resident() - begun) >> 20, reserve.release(idle=True))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is read as Linux writes it")
def test_a_process_that_rests_gives_back_what_its_computations_freed() -> None:
    """Small blocks stand between 150 MB of large ones, so that the end of the heap stays in use."""
    result = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    seldom, later, resting = result.stdout.splitlines()
    most, released, left = seldom.split()
    assert (int(most) > 140, released, int(left) > 140) == (True, "False", True), "it has just begun"
    released, left = later.split()
    assert (released, int(left) < 20) == ("True", True), "it never rests, and was not asked for a minute"
    released, left, again = resting.split()
    assert (released, int(left) < 20, again) == ("True", True, "False")
