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
    assert screen.getvalue() == f"{clear}1 letters  1 per second{clear}3 letters  2 per second{clear}"


def test_quick_work_and_pipes_show_no_counts() -> None:
    screen, pipe = Screen(), io.StringIO()
    for stream, seconds in ((screen, 0.1), (pipe, 9.0)):
        times = iter([0.0, seconds, seconds])
        assert list(watched("ab", "letters", stream=stream, clock=lambda times=times: next(times))) == ["a", "b"]
        assert stream.getvalue() == ""
