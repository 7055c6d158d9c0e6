"""A run in several processes makes the updates of one process, and all of its processes begin and end together."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

GROUP = Path(__file__).with_name("world_group.py")
VALIDATED = 5
"""Batches of a validation in `kill_and_resume`."""
STALL = 2.0
"""`train.stall_seconds` of the experiments with a process that stands still."""


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """What happened in each experiment of `world_group`, and what its processes wrote to standard error."""
    path = os.pathsep.join(path for path in sys.path if path)
    variables = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, str(GROUP), str(tmp_path_factory.mktemp("worlds"))]
    done = subprocess.run(words, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(**json.loads(done.stdout), stderr=done.stderr)


def same(endings: list[dict[str, Any]], *names: str) -> None:
    """All ranks ended with the same values."""
    for name in names:
        assert len({json.dumps(ending[name]) for ending in endings}) == 1, name


@pytest.mark.parametrize("other", ["exact-2", "exact-3", "chain"])
def test_exact_sums_give_the_same_bits_in_any_world_and_through_changing_ones(
    worlds: SimpleNamespace, other: str
) -> None:
    assert worlds.traces[other] == worlds.traces["exact-1"]


@pytest.mark.parametrize("name", ["exact-2", "exact-3", "fast-2", "time"])
def test_all_ranks_have_the_final_weights_and_end_at_the_same_step(worlds: SimpleNamespace, name: str) -> None:
    endings = worlds.ends[name]
    assert {ending["code"] for ending in endings} == {0}
    same(endings, "step", "sum", "stopped_because", "best")


@pytest.mark.parametrize("size", [1, 2, 3])
def test_each_rank_computes_its_batches_of_a_validation(worlds: SimpleNamespace, size: int) -> None:
    shares = [ending["validated"] for ending in worlds.ends[f"exact-{size}"]]
    assert shares == [list(range(rank, VALIDATED, size)) for rank in range(size)]


def test_all_ranks_raise_the_error_of_one_ranks_validation(worlds: SimpleNamespace) -> None:
    endings = worlds.ends["validation"]
    assert [ending["error"] for ending in endings] == ["Batch 3 cannot be read."] * 2
    same(endings, "kind", "shared", "code")


def test_fast_sums_differ_by_rounding_alone(worlds: SimpleNamespace) -> None:
    values = {name: worlds.traces[name]["value"] for name in ("exact-1", "fast-1", "fast-2")}
    assert values == pytest.approx(dict.fromkeys(values, values["exact-1"]), abs=2e-6)
    sums = [worlds.ends[name][0]["sum"] for name in values]
    assert sums == pytest.approx([sums[0]] * 3, abs=1e-4)


def test_a_signal_to_one_rank_stops_all_at_the_same_step(worlds: SimpleNamespace) -> None:
    endings = worlds.ends["chain-3"]
    assert all(ending["interrupted"] for ending in endings)
    same(endings, "step", "sum")
    assert endings[0]["step"] in (7, 8)


def test_another_world_is_noted_where_it_changes_last_bits(worlds: SimpleNamespace) -> None:
    (note,) = worlds.ends["fast-changed"][0]["notes"]
    assert note.startswith("The checkpoint was made by 2 processes, this run has 1")
    assert not worlds.ends["chain-2"][0]["notes"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("too-many", "2 processes cannot share the 1 batch of an update"),
        ("settings", r"rank 1 \(.*\): train.seed is 1, rank 0 has 0"),
        ("settings", r"rank 1 \(.*\): train.schedule.decay is not set, rank 0 has 0.7"),
        ("other-metrics", "different metrics: accuracy, odd, and accuracy, even. With several processes"),
        ("more-metrics", "different metrics: accuracy, odd, and accuracy. With several processes"),
        ("data", r"rank 1 \(.*\): the data's SHA-256 is [0-9a-f]{16}, rank 0 has"),
    ],
)
def test_processes_that_do_not_fit_are_refused_before_the_first_step(
    worlds: SimpleNamespace, name: str, words: str
) -> None:
    endings = worlds.ends[name]
    assert {ending["kind"] for ending in endings} == {"UsageError"}
    assert re.search(words, endings[0]["error"])
    same(endings, "error", "shared")


@pytest.mark.parametrize(
    ("name", "words"), [("not-a-number", "the loss is nan"), ("too-large", 'train.reduction = "exact" adds entries')]
)
def test_a_batch_of_another_rank_that_is_not_finite_is_named_by_all(
    worlds: SimpleNamespace, name: str, words: str
) -> None:
    endings = worlds.ends[name]
    assert endings[0]["error"].startswith("At step 4 ")
    assert words in endings[0]["error"]
    assert "sums like [5, 8, 4, 4]." in endings[0]["error"]  # batch 13 is the second rank's
    same(endings, "error", "kind", "shared")


def test_a_full_disk_of_the_first_rank_stops_all(worlds: SimpleNamespace) -> None:
    endings = worlds.ends["full-disk"]
    assert endings[0]["kind"] == "SetupError"
    assert "step-00000012 cannot be written" in endings[0]["error"]
    same(endings, "error", "kind", "code")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stopped_rank_is_named_in_time(worlds: SimpleNamespace, rank: int) -> None:
    assert worlds.ends[f"rank-{rank}-stopped"][1 - rank]["code"] == 5
    assert f"Rank {rank} of 2 has not answered for 2 seconds" in worlds.stderr
    assert vars(worlds)[f"rank-{rank}-stopped-for"] < 10 * STALL


def test_ranks_that_were_all_stopped_go_on_together(worlds: SimpleNamespace) -> None:
    assert {ending["code"] for ending in worlds.ends["all-stopped"]} == {0}


def test_a_rank_that_hangs_is_named(worlds: SimpleNamespace) -> None:
    assert worlds.ends["hanging"][0]["code"] == 5
    assert "Rank 1 of 2 has been at an update for 2 seconds while the others wait" in worlds.stderr


def test_a_rank_that_the_first_one_has_left_ends_although_it_waits_for_nothing(worlds: SimpleNamespace) -> None:
    assert worlds.left == [0, 5]
    assert "Rank 0 of 2 has ended, or its machine is gone." in worlds.stderr


def test_ranks_killed_at_random_moments_resume_in_other_worlds_to_the_same_end(worlds: SimpleNamespace) -> None:
    assert "2 kills" in worlds.kills
    assert "Different from one process left alone: nothing." in worlds.kills
