"""Synthetic pairs follow their rule and their seed."""

import statistics
from collections import Counter
from collections.abc import Callable

import pytest

from foveate.data.synthetic import LIST_TOKENS, SHAPES, Labelled, curves, list_operations, opinions, shapes, synthetic


@pytest.mark.parametrize(("rule", "answer"), [("copy", list), ("reverse", lambda drawn: drawn[::-1]), ("sort", sorted)])
def test_targets_follow_the_rule(rule: str, answer: object) -> None:
    for pair in synthetic(rule, 50, shortest=2, longest=6, separator=" "):
        symbols = pair.source.split(" ")
        assert 2 <= len(symbols) <= 6
        assert pair.target.split(" ") == answer(symbols)


def test_the_seed_decides() -> None:
    assert list(synthetic("copy", 20, seed=3)) == list(synthetic("copy", 20, seed=3))
    assert list(synthetic("copy", 20, seed=3)) != list(synthetic("copy", 20, seed=4))
    assert [pair.line for pair in synthetic("copy", 3)] == [1, 2, 3]


def test_all_symbols_and_lengths_occur() -> None:
    pairs = list(synthetic("sort", 300, symbols=("x", "yy"), longest=3, separator="|"))
    assert {len(pair.source.split("|")) for pair in pairs} == {1, 2, 3}
    assert {symbol for pair in pairs for symbol in pair.source.split("|")} == {"x", "yy"}


CLASSIFIED = {
    "list_operations": (lambda count, seed: list_operations(count, seed=seed, shortest=20, longest=60), 10),
    "opinions": (lambda count, seed: opinions(count, seed=seed, longest=200), 2),
    "shapes": (lambda count, seed: shapes(count, seed=seed, side=16, levels=8), 10),
    "curves": (lambda count, seed: curves(count, seed=seed, side=16, length=0.8), 2),
}


@pytest.mark.parametrize("name", CLASSIFIED)
def test_labelled_sequences_follow_their_seed_and_cover_their_classes(name: str) -> None:
    make, classes = CLASSIFIED[name]
    examples = list(make(200, 1))
    assert examples[:20] == list(make(20, 1))
    assert examples[:20] != list(make(20, 2))
    assert all(isinstance(example, Labelled) and min(example.ids) >= 1 for example in examples)
    counts = Counter(example.label for example in examples)
    assert set(counts) == set(range(classes))
    assert max(counts.values()) < 200 * 3 / classes


def value(tokens: list[str]) -> int:
    """The value of a list operation, read from its end with a stack."""
    stack: list[object] = []
    operations: dict[str, Callable[[list[int]], int]] = {
        "[MIN": min,
        "[MAX": max,
        "[MED": lambda values: int(statistics.median(values)),
        "[SM": lambda values: sum(values) % 10,
    }
    for token in reversed(tokens):
        if token not in operations:
            stack.append(int(token) if token.isdigit() else token)
            continue
        inner = []
        while stack[-1] != "]":
            inner.append(stack.pop())
        stack[-1] = operations[token](inner)
    (result,) = stack
    return result


def test_a_list_operation_has_its_value_and_its_length() -> None:
    for example in list_operations(100, shortest=20, longest=60):
        assert 20 <= len(example.ids) <= 60
        assert value([LIST_TOKENS[id - 1] for id in example.ids]) == example.label


def test_opinions_can_be_counted() -> None:
    from foveate.data.synthetic.opinion import BAD, GOOD

    for example in opinions(100, longest=300):
        text = bytes(id - 1 for id in example.ids).decode()
        assert len(text) <= 300
        balance = 0
        for sentence in text.split("."):
            verdict = any(word in sentence for word in GOOD) - any(word in sentence for word in BAD)
            balance += -verdict if "not at all" in sentence else verdict
        assert (balance > 0) == example.label
        assert balance != 0


def test_pictures_have_as_many_pixels_as_asked() -> None:
    assert all(len(example.ids) == 144 for example in shapes(10, side=12))
    assert all(len(example.ids) == 144 for example in curves(10, side=12, length=0.8))
    assert len(SHAPES) == 10
