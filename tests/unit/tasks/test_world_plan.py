"""The plan of several processes, against figures that are worked out by hand."""

import dataclasses
from typing import Any

import pytest
from torch import nn

from foveate.cli import plan as command
from foveate.errors import UsageError
from foveate.models import TransformerConfig
from foveate.tasks.run_plan import Costs, Probe
from foveate.tasks.world_plan import DEVICES, WorldPlan, summing

TRANSLATOR, FLOPS = 65_000_000, 381e6
"""Parameters of the translator of Vaswani et al. 2017, and its arithmetic for each target token of WMT."""


def costs(tokens: int, parameters: int = TRANSLATOR, seconds: float = 2.0) -> Costs:
    probe = Probe(model=nn.Linear(1, 1), loss=lambda: None, vocabulary="", batch="", tokens=tokens, unit="tokens")
    return Costs(probe=probe, parameters=parameters, flops=FLOPS * tokens, seconds=seconds, sites=())


def planned(processes: int, batch: int, reduction: str, **others: Any) -> WorldPlan:
    """A plan for this many tokens in a global batch, one plan batch for each process."""
    settings = {"tokens": 2.5e9, "device": DEVICES["h200"], "accumulate": processes, **others}
    return WorldPlan(costs=costs(batch // processes), processes=processes, reduction=reduction, **settings)


@pytest.mark.parametrize(
    ("processes", "batch", "reduction", "millions"),
    [
        # 7.5 ms to launch kernels, and 2 · 7/8 · 520 MB / 360 GB/s = 2.5 ms
        (8, 25_000, "exact", 2.51),
        (8, 25_000, "fast", 2.85),
        # 25,000 · 381 MFLOP / 297 TFLOP/s = 32.1 ms
        (8, 200_000, "exact", 5.79),
        (8, 200_000, "fast", 6.00),
        # 8.0 ms, and 2.5 ms within a machine and again over the network
        (64, 400_000, "exact", 30.6),
        (1, 25_000, "fast", 0.78),
    ],
)
def test_speeds_of_a_translator(processes: int, batch: int, reduction: str, millions: float) -> None:
    plan = planned(processes, batch, reduction)
    assert plan.tokens_per_second / 1e6 == pytest.approx(millions, rel=0.01)
    assert plan.hours() == pytest.approx(2.5e9 / plan.tokens_per_second / 3600)


def test_one_process_takes_the_time_of_its_batches() -> None:
    plan = WorldPlan(costs=costs(1000), processes=1, accumulate=3, reduction="exact", tokens=30_000.0)
    # Seconds in which a gradient becomes whole numbers, and those of the optimiser.
    whole, update = 65e6 * 0.5e-9, 65e6 * 1.1e-9
    assert (plan.updates, plan.sum_seconds) == (10, 0.0)
    assert plan.hours() == pytest.approx(10 * (3 * (2.0 + whole) + update) / 3600)
    fast = dataclasses.replace(plan, reduction="fast")
    assert fast.hours() == pytest.approx(10 * (3 * 2.0 + update) / 3600)
    assert "32.5 ms to become whole numbers" in str(plan)
    assert "whole numbers" not in str(fast)


def test_the_busiest_process_sets_the_time() -> None:
    hours = [planned(processes, 8_000, "exact", accumulate=6).batches for processes in (1, 2, 3, 4, 5, 6)]
    assert hours == [6, 3, 2, 2, 2, 1]


def test_processes_that_share_cores_take_longer() -> None:
    here = {"costs": costs(1000), "accumulate": 4, "reduction": "fast", "tokens": 1e6}
    alone, crowded = (WorldPlan(processes=4, cores=cores, **here) for cores in (4, 2))
    assert crowded.batch_seconds() == 2 * alone.batch_seconds() == 4.0


@pytest.mark.parametrize("name", DEVICES)
def test_sums_take_longer_between_machines_and_twice_as_long_exactly(name: str) -> None:
    device = DEVICES[name]
    seconds = [summing(TRANSLATOR, processes, "fast", device) for processes in (1, 2, 8, 16, 64)]
    assert seconds[0] == 0
    assert seconds == sorted(set(seconds))
    assert summing(TRANSLATOR, 16, "exact", device) == 2 * seconds[3]
    least, usual, most = device.used
    plan = planned(8, 400_000, "fast", device=device)
    assert plan.hours(least) > plan.hours(usual) == plan.hours() > plan.hours(most)


def test_memory_and_checkpoints_count_every_parameter() -> None:
    plan = planned(8, 8_000, "exact")
    assert plan.memory == (16 + 8) * TRANSLATOR
    assert dataclasses.replace(plan, processes=1, accumulate=1).memory == 16 * TRANSLATOR
    assert dataclasses.replace(plan, processes=1, reduction="fast").memory == 16 * TRANSLATOR
    size, seconds = plan.checkpoint
    assert (size, seconds) == (12 * TRANSLATOR, pytest.approx(0.78 + 0.78 / 1.85))


def test_divided_models_take_less_memory_and_send_more() -> None:
    whole = planned(8, 8_000, "fast", accumulate=16)
    moments, full = (dataclasses.replace(whole, sharding=sharding) for sharding in ("moments", "full"))
    assert [plan.memory / TRANSLATOR for plan in (whole, moments, full)] == [16 + 4, 8 + 12 / 8, 16 / 8]
    assert moments.sum_seconds == whole.sum_seconds
    assert full.sum_seconds == 3 * whole.sum_seconds  # half of a sum three times, for each of two batches
    assert dataclasses.replace(full, processes=1).memory == 16 * TRANSLATOR
    assert "weights twice and gradients for each batch" in str(full)


def test_more_processes_than_batches_are_refused() -> None:
    with pytest.raises(UsageError, match=r"9 processes share the 8 batches .* --set train.accumulate=9"):
        planned(9, 90_000, "exact", accumulate=8)


def test_help_names_all_devices() -> None:
    assert tuple(sorted(DEVICES)) == command.DEVICES


def test_the_arithmetic_of_a_step_is_that_of_the_formula() -> None:
    """Six times the weights that multiply a token, once for each source and target token; attention adds little."""
    from torch.utils.flop_counter import FlopCounterMode

    from foveate.nn.loss import cross_entropy
    from foveate.tasks.run_plan import made_up

    width, inner, layers, vocab, rows, length = 64, 128, 2, 100, 3, 7
    config = TransformerConfig(encoder_layers=layers, decoder_layers=layers)
    block = dataclasses.replace(config.block, model_dim=width, num_heads=4, feedforward_dim=inner)
    model = dataclasses.replace(config, block=block).build(vocab, vocab)
    source, target = made_up(rows, length, vocab), made_up(rows, length + 1, vocab)
    with FlopCounterMode(display=False) as counter:
        cross_entropy(model(source, target), model.predicted(target)).backward()
    encoder = 4 * width**2 + 2 * width * inner
    decoder = 8 * width**2 + 2 * width * inner
    formula = 6 * (layers * (encoder + decoder) + width * vocab)
    assert counter.get_total_flops() / (rows * length) == pytest.approx(formula, rel=0.15)
