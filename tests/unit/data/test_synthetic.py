"""Synthetic pairs follow their rule and their seed."""

import pytest

from foveate.data.synthetic import synthetic


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
