"""What is told on a terminal is text, and nothing that the terminal would obey."""

import io
import sys

import pytest

from foveate.voice import plain, shown, tell, watched

NASTY = "a\x1b[2J\x07\r\x9b31mb\u202ec\ud800\u2028\x00"
ESCAPED = "a\\x1b[2J\\x07\\r\\x9b31mb\\u202ec\\ud800\\u2028\\x00"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_a_terminal_would_obey_is_shown_as_an_escape() -> None:
    assert plain(NASTY) == ESCAPED


@pytest.mark.parametrize("text", ["", "line\nline\tcolumn", "می\u200cخواهم 注意力 e\u0301 …", "👩\u200d💻", r"C:\x1b"])
def test_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


def test_errors_and_notes_are_printed_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    tell(NASTY)
    assert capsys.readouterr().err == f"{ESCAPED}\n"


def test_what_a_model_writes_is_plain_on_a_terminal_and_as_it_is_in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    assert shown(NASTY) == NASTY
    monkeypatch.setattr(sys, "stdout", Terminal())
    assert shown(NASTY) == ESCAPED


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_a_line_on_the_terminal_counts_things_after_the_first_second() -> None:
    screen, times = Screen(), iter([0.0, 0.5, 1.1, 1.15, 2.0])
    assert list(watched("abcd", "letters", stream=screen, clock=lambda: next(times))) == list("abcd")
    clear = "\r\x1b[2K"
    bars = "[#####...............]", "[###############.....]"
    first, last = "1 of 4 letters  1.1 seconds each  0:03 left", "3 of 4 letters  2 per second  0:01 left"
    assert screen.getvalue() == f"{clear}{bars[0]}  {first}{clear}{bars[1]}  {last}{clear}"


def test_things_without_a_known_number_have_no_bar() -> None:
    screen, times = Screen(), iter([0.0, 0.5, 1.5])
    assert list(watched((one for one in "ab"), "letters", stream=screen, clock=lambda: next(times))) == ["a", "b"]
    assert screen.getvalue() == "\r\x1b[2K1 letters  1.5 seconds each\r\x1b[2K"


def test_a_pipe_has_a_line_each_half_minute() -> None:
    pipe, times = io.StringIO(), iter([0.0, 20.0, 31.0, 60.0, 62.0])
    assert list(watched("abcd", "letters", stream=pipe, clock=lambda: next(times))) == list("abcd")
    assert (
        pipe.getvalue()
        == "1 of 4 letters  31.0 seconds each  1:33 left\n3 of 4 letters  20.7 seconds each  0:21 left\n"
    )


def test_quick_work_and_pipes_show_no_counts() -> None:
    screen, pipe = Screen(), io.StringIO()
    for stream, seconds in ((screen, 0.1), (pipe, 9.0)):
        times = iter([0.0, seconds, seconds])
        assert list(watched("ab", "letters", stream=stream, clock=lambda times=times: next(times))) == ["a", "b"]
        assert stream.getvalue() == ""
