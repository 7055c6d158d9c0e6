"""Inputs are answered in order; a bad one is reported, counted, and does not end the others."""

import argparse
from collections.abc import Iterator, Sequence

import pytest

from foveate.data.audio import AudioReader, AudioRows
from foveate.errors import DataError, UsageError
from foveate.tasks.intake import Intake, Later, intake


def things(name: str) -> Iterator[str]:
    if name.startswith("folder"):
        yield from ("a", "bad", "b")
        return
    if name == "missing":
        raise DataError("missing: there is no such file.")
    yield name


def upper(some: Sequence[str]) -> list[str]:
    if "bad" in some:
        raise DataError("bad is damaged.")
    return [one.upper() for one in some]


@pytest.mark.parametrize("together", [1, 2, 64])
def test_what_cannot_be_read_is_reported_and_the_rest_is_answered(
    together: int, capsys: pytest.CaptureFixture[str]
) -> None:
    intake = Intake("transcribe", ["x", "missing", "folder", "y"], things)
    assert intake.several
    with pytest.raises(DataError, match=r"^2 of 6 inputs could not be read; the reasons are above\.$"):
        list(intake.answers(upper, together=together))
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["foveate transcribe: missing: there is no such file.", "foveate transcribe: bad is damaged."]


@pytest.mark.parametrize("together", [1, 4])
def test_answers_stand_in_the_order_of_the_names(together: int) -> None:
    answers = Intake("classify", ["x", "missing", "folder"], things).answers(upper, together=together)
    assert [next(answers)[1] for _ in range(5)] == ["X", None, "A", None, "B"]


@pytest.mark.parametrize("together", [1, 2, 3, 64])
def test_the_number_of_a_thing_is_its_place_among_all_whoever_its_neighbours_are(together: int) -> None:
    def number(some: Sequence[str], numbers: Sequence[int]) -> list[tuple[str, int]]:
        return list(zip(upper(some), numbers, strict=True))

    answers = Intake("caption", ["x", "missing", "folder", "y"], things).numbered(number, together=together)
    numbered = [next(answers)[1] for _ in range(6)]
    assert numbered == [("X", 0), None, ("A", 2), None, ("B", 4), ("Y", 5)]


@pytest.mark.parametrize(("name", "message"), [("missing", "no such file"), ("bad", "is damaged")])
def test_the_error_of_a_thing_alone_is_that_of_the_command(
    name: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match=message):
        list(Intake("tag", [name], things).answers(upper))
    assert capsys.readouterr().err == ""


def test_what_waits_for_its_turn_is_read_after_what_stands_before_it() -> None:
    order = []

    def read(name: str) -> Iterator[Later]:
        yield Later(lambda: order.append(name) or name)  # type: ignore[func-returns-value]

    for thing, _ in Intake("transcribe", ["a", "b"], read).answers(upper):
        order.append(f"answered {thing}")
    assert order == ["a", "answered a", "b", "answered b"]


def test_a_usage_error_ends_the_command() -> None:
    def refuse(some: Sequence[str]) -> list[str]:
        raise UsageError("not like this")

    with pytest.raises(UsageError, match="not like this"):
        list(Intake("tag", ["x", "y"], things).answers(refuse))


@pytest.mark.parametrize("whole", [True, False])
def test_standard_input_that_is_closed_is_an_error_in_words(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = AudioRows(settings=AudioReader(rate=8_000, bands=4), mean=(0.0,) * 4, deviation=(1.0,) * 4)
    arguments = argparse.Namespace(command="transcribe", inputs=[], rate=None)
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(DataError, match=r"^standard input is closed\. Name a file"):
        list(intake(rows, arguments, sound=True, whole=whole).answers(lambda some: [str(one) for one in some]))
