import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveate.tasks import TASKS
from foveate.tasks.side import FEWEST, chosen_lengths, grouped, measured_lengths


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_measured_by_what_it_has(name: str) -> None:
    side = TASKS[name].side
    assert set(TASKS[name].tests) <= set(TASKS[name].files)
    assert side.lower <= set(side.metrics())


@given(st.lists(st.integers(1, 300), min_size=1, max_size=400))
def test_every_length_is_in_one_group_and_groups_are_few(lengths: list[int]) -> None:
    groups = grouped(lengths)
    assert sorted(number for numbers in groups.values() for number in numbers) == list(range(len(lengths)))
    assert len(groups) <= 9
    ends = chosen_lengths(lengths)
    assert ends == sorted(set(ends))
    assert ends[-1] == max(lengths)


def test_groups_have_enough_examples_to_be_shown() -> None:
    groups = grouped([3] * 30 + [7] * 2 + [13] * 40 + [38])
    assert all(len(numbers) >= FEWEST for numbers in groups.values())


def test_lengths_that_are_asked_for_are_kept_and_the_rest_is_added() -> None:
    assert chosen_lengths([1, 5, 9, 30], [4, 8, 50]) == [4, 8, 30]


def test_single_words_are_measured_by_their_letters() -> None:
    assert measured_lengths(["attention", "look", "see it"]) == ([9, 4, 6], "characters")
    assert measured_lengths(["I saw", "a saw", "x"]) == ([2, 2, 1], "words")
