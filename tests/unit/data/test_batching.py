"""The plan of batches: messages, padding on a realistic spread of lengths, and sentences about itself."""

import numpy as np
import pytest

from foveate.data.batching import BatchPlan, groups
from foveate.errors import DataError
from foveate.interruption import interruptible


def realistic(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Sentence lengths with a long tail; targets somewhat longer than their sources."""
    generator = np.random.default_rng(seed)
    source = np.clip(generator.lognormal(2.8, 0.6, count), 2, 120).astype(np.int64)
    return source, np.clip(source * generator.lognormal(0.1, 0.2, count), 3, 140).astype(np.int64)


def test_little_of_a_batch_is_padding() -> None:
    source, target = realistic(20_000)
    plan = BatchPlan(source, target, max_tokens=4096, seed=0)
    assert plan.padding_fraction < 0.1
    fewest = (source + target).sum() / plan.max_tokens
    assert plan.steps_per_epoch < fewest / 0.8


def test_one_long_pair_does_not_make_all_batches_small() -> None:
    lengths = np.full(1000, 10)
    lengths[500] = 1000
    plan = BatchPlan(lengths, lengths, max_tokens=2000, seed=0)
    assert plan.steps_per_epoch == 11
    assert plan.padding_fraction == 0


def test_the_plan_describes_itself() -> None:
    plan = BatchPlan(np.array([2, 4] * 500), np.array([4, 4] * 500), max_tokens=4000, seed=0)
    assert str(plan) == "1,000 pairs in 2 batches of up to 4,000 tokens, 12.5 % padding"


def test_a_pair_that_no_batch_can_hold_is_named() -> None:
    source, target = np.array([3, 1200, 2]), np.array([3, 900, 2])
    with pytest.raises(DataError) as caught:
        BatchPlan(source, target, max_tokens=2000, seed=0)
    assert str(caught.value) == (
        "Example 1 (counted from 0) has 1,200 source and 900 target tokens, 2,100 in all; a batch has room for 2,000. "
        "Raise max_tokens, or lower max_length to leave such pairs out."
    )
    with pytest.raises(DataError) as caught:
        BatchPlan(source, target, max_tokens=2000, seed=0, lines=np.array([1, 7, 8]))
    assert str(caught.value).startswith("The pair of line 7 has 1,200 source")


def test_pairs_that_only_have_room_alone_are_batches_of_one() -> None:
    plan = BatchPlan(np.array([41, 39]), np.array([39, 41]), max_tokens=80, seed=0)
    assert sorted(plan.examples(step).tolist() for step in range(plan.steps_per_epoch)) == [[0], [1]]


def test_no_pairs_make_no_plan() -> None:
    nothing = np.array([], dtype=np.int64)
    with pytest.raises(DataError) as caught:
        BatchPlan(nothing, nothing, max_tokens=100, seed=0)
    assert str(caught.value) == ("There are no pairs for batches. See the report on the lines that were left out.")


def test_the_same_pairs_do_not_always_meet() -> None:
    source, target = realistic(5000)
    plan = BatchPlan(source, target, max_tokens=4096, seed=0)
    epochs = []
    for epoch in range(2):
        steps = range(epoch * plan.steps_per_epoch, (epoch + 1) * plan.steps_per_epoch)
        epochs.append({frozenset(plan.examples(step).tolist()) for step in steps})
    assert len(epochs[0] & epochs[1]) < 0.1 * plan.steps_per_epoch


def test_steps_in_any_order_give_the_same_batches() -> None:
    plan, other = (BatchPlan(*realistic(2000), max_tokens=1024, seed=7) for _ in range(2))
    steps = np.random.default_rng(0).permutation(3 * plan.steps_per_epoch)[:40].tolist()
    expected = {step: plan.examples(step).tolist() for step in sorted(steps)}
    assert all(other.examples(step).tolist() == expected[step] for step in steps)


def test_before_each_group_the_caller_is_asked() -> None:
    """Texts of a long request are read a group at a time, as long as somebody waits for them."""
    questions, read = 0, list[list[int]]()

    def third() -> None:
        nonlocal questions
        questions += 1
        if questions == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError), interruptible(third):
        read += groups([5, 5, 0, 5, 5, 5], budget=5)
    with interruptible(lambda: None):
        assert list(groups([5, 5, 0, 5, 5, 5], budget=10)) == [[0, 1], [3, 4], [5]]
    assert (questions, read) == (3, [[0], [1]])
