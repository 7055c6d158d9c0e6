"""What is told on a terminal is text, and nothing that the terminal would obey."""

import io
import sys

import pytest

from foveate.voice import plain, shown, tell

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
