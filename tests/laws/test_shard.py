"""Laws of batches in shards: those of batches, and shards one after the other."""

import tempfile
import tracemalloc
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.data.batching import BatchPlan
from foveate.data.block import BlockPlan
from foveate.data.shard_plan import ShardPlan, plan_of
from foveate.data.store import RowStore, TokenStore
from foveate.errors import DataError

MAX_TOKENS = 60
PAIRS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=120)
SEEDS = st.integers(-5, 2**70)
SHARDS = st.integers(1, 40)


def stored(pairs: list[tuple[int, int]]) -> tuple[TokenStore, TokenStore]:
    """Rows of these lengths; the files stay mapped when their names are gone."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = (
            TokenStore.write(Path(folder) / str(side), ([7] * pair[side] for pair in pairs), "") for side in (0, 1)
        )
        return source, target


def plan(pairs: list[tuple[int, int]], shard: int, seed: int) -> ShardPlan:
    source, target = stored(pairs)
    return ShardPlan(source, target, shard=shard, max_tokens=MAX_TOKENS, seed=seed)


@settings(max_examples=25)
@given(PAIRS, SHARDS, SEEDS, st.integers(0, 3))
def test_an_epoch_is_a_permutation_of_the_pairs_within_the_budget(
    pairs: list[tuple[int, int]], shard: int, seed: int, epoch: int
) -> None:
    shards = plan(pairs, shard, seed)
    steps = range(epoch * shards.steps_per_epoch, (epoch + 1) * shards.steps_per_epoch)
    batches = [shards.examples(step) for step in steps]
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(pairs)))
    source, target = np.array(pairs).T
    assert all(0 < len(rows) * (source[rows].max() + target[rows].max()) <= MAX_TOKENS for rows in batches)


@settings(max_examples=25)
@given(PAIRS, SHARDS, SEEDS, st.lists(st.integers(0, 1000), min_size=1, max_size=5))
def test_the_order_is_a_pure_function_of_seed_and_step(
    pairs: list[tuple[int, int]], shard: int, seed: int, steps: list[int]
) -> None:
    before = plan(pairs, shard, seed)
    for step in steps:
        before.examples(step)
    assert before.examples(steps[0]).tolist() == plan(pairs, shard, seed).examples(steps[0]).tolist()


@settings(max_examples=25)
@given(PAIRS, SHARDS, SEEDS)
def test_shards_are_read_one_after_the_other(pairs: list[tuple[int, int]], shard: int, seed: int) -> None:
    shards = plan(pairs, shard, seed)
    bounds = shards._bounds
    sizes = np.diff(bounds)
    assert sizes.max() <= shard
    assert sizes.max() - sizes.min() <= 1
    places = [np.searchsorted(bounds, shards.examples(step), side="right") for step in range(shards.steps_per_epoch)]
    assert all(len(set(place.tolist())) == 1 for place in places)
    order = [number for number, _ in groupby(int(place[0]) for place in places)]
    assert sorted(order) == list(range(1, shards.num_shards + 1))


def test_every_epoch_and_every_seed_has_another_order() -> None:
    pairs = [(length % 9 + 1, length % 7 + 1) for length in range(100)]
    orders = set[tuple[int, ...]]()
    within = set[tuple[int, ...]]()
    for seed in (0, 1):
        shards = plan(pairs, 10, seed)
        for epoch in (0, 1):
            steps = range(epoch * shards.steps_per_epoch, (epoch + 1) * shards.steps_per_epoch)
            rows = np.concatenate([shards.examples(step) for step in steps]).tolist()
            orders.add(tuple(number for number, _ in groupby(row // 10 for row in rows)))
            within.add(tuple(row for row in rows if row // 10 == 3))
    assert len(orders) == len(within) == 4


@settings(max_examples=25)
@given(PAIRS, SEEDS)
def test_pairs_that_fit_one_shard_have_the_order_of_a_batch_plan(pairs: list[tuple[int, int]], seed: int) -> None:
    source, target = stored(pairs)
    one = plan_of(source, target, max_tokens=MAX_TOKENS, seed=seed, shard=len(pairs))
    assert isinstance(one, BatchPlan)
    usual = BatchPlan(*np.array(pairs).T, max_tokens=MAX_TOKENS, seed=seed)
    assert [one.examples(step).tolist() for step in range(2 * one.steps_per_epoch)] == [
        usual.examples(step).tolist() for step in range(2 * usual.steps_per_epoch)
    ]
    assert isinstance(
        plan_of(source, target, max_tokens=MAX_TOKENS, seed=seed, shard=len(pairs) - 1 or 1), ShardPlan
    ) is (len(pairs) > 1)


def test_no_step_needs_the_lengths_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def lengths_between(store: RowStore, start: int, stop: int) -> np.ndarray:
        assert stop - start <= 10
        return np.diff(store._offsets[start : stop + 1])

    source, target = stored([(3, 4)] * 95)
    monkeypatch.setattr(RowStore, "lengths", None)
    monkeypatch.setattr(RowStore, "lengths_between", lengths_between)
    shards = plan_of(source, target, max_tokens=MAX_TOKENS, seed=0, shard=10)
    assert isinstance(shards, ShardPlan)
    assert sorted(row for step in range(shards.steps_per_epoch) for row in shards.examples(step)) == list(range(95))


def test_a_pair_without_room_is_named_by_its_line() -> None:
    source, target = stored([(3, 4)] * 30 + [(50, 11)] + [(3, 4)] * 30)
    with pytest.raises(DataError, match="The pair of line 131 has 50 source and 11 target tokens"):
        ShardPlan(source, target, shard=7, max_tokens=MAX_TOKENS, seed=0, lines=np.arange(101, 162))


@settings(max_examples=50)
@given(st.integers(2, 900), st.integers(1, 9), st.integers(1, 5), SHARDS, SEEDS, st.integers(0, 2))
def test_blocks_of_an_epoch_are_read_shard_by_shard(
    tokens: int, length: int, rows: int, shard: int, seed: int, epoch: int
) -> None:
    blocks = BlockPlan(num_tokens=tokens, length=length, rows=rows, seed=seed, shard=shard)
    steps = range(epoch * blocks.steps_per_epoch, (epoch + 1) * blocks.steps_per_epoch)
    starts = [blocks.starts(step) for step in steps]
    places = (np.array(starts) - min(map(min, starts))) // blocks.length
    assert len(set(places.ravel().tolist())) == places.size == blocks.rows * len(steps)
    assert max(map(max, starts)) + blocks.length < tokens
    alone = BlockPlan(num_tokens=tokens, length=length, rows=rows, seed=seed, shard=shard)
    assert (alone.starts(steps[-1]) == starts[-1]).all()
    if blocks.num_rows == places.size:  # otherwise some rows are left out, perhaps the first one
        size = max(shard // blocks.rows, 1) * blocks.rows
        visits = [number for number, _ in groupby((places // size)[:, 0].tolist())]
        assert all(len(set(batch.tolist())) == 1 for batch in places // size)
        assert len(visits) == len(set(visits)) == -(-blocks.num_rows // size)


def test_no_step_of_blocks_needs_the_order_of_all_rows() -> None:
    peaks = []
    for tokens in (50_000, 500_000):
        tracemalloc.start()
        blocks = BlockPlan(num_tokens=tokens, length=5, rows=10, seed=0, shard=1_000)
        for step in range(0, blocks.steps_per_epoch, 50):
            blocks.starts(step)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


def test_blocks_of_one_shard_have_the_order_of_earlier_versions() -> None:
    usual, small = (BlockPlan(num_tokens=99, length=4, rows=3, seed=5, shard=shard) for shard in (None, 24))
    assert [usual.starts(step).tolist() for step in (0, 9)] == [small.starts(step).tolist() for step in (0, 9)]
    generator = np.random.default_rng([5, 1])
    offset = int(generator.integers(4))
    assert usual.starts(7).tolist() == sorted((offset + 4 * generator.permutation(23)[:3]).tolist())
