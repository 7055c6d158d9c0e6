"""A command, a task or an option that is spelt almost right is refused with the right spelling."""

from typing import Any

import pytest


@pytest.mark.parametrize("words", [("translat",), ("train", "translte", "--out", "run")])
def test_misspelt_commands_and_tasks_get_a_suggestion(foveate: Any, words: tuple[str, ...]) -> None:
    said = foveate(*words)
    assert said.code == 2
    assert said.err.endswith(" Did you mean 'translate'?\n")


def test_an_unknown_option_is_refused_by_its_command(foveate: Any) -> None:
    said = foveate("train", "translate", "--sorce", "a.txt", "--out", "run")
    assert said.code == 2
    assert said.err.startswith("usage: foveate train ")
    assert said.err.endswith("train: error: unrecognized arguments: --sorce a.txt. Did you mean '--source'?\n")


def test_an_option_like_no_other_gets_no_guess(foveate: Any) -> None:
    assert foveate("resume", "run", "--frob", "a=b").err.endswith("unrecognized arguments: --frob a=b.\n")


def test_a_missing_trace_is_named(foveate: Any) -> None:
    assert "nowhere.trace is neither a folder here" in foveate("look", "nowhere.trace").err
