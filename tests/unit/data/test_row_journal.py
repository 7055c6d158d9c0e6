"""Texts are prepared like pairs: by any number of processes, and on after kill -9, with the same bytes."""

import json
import os
import pickle
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from foveate.config import build
from foveate.data import block_encoding, row_journal, row_writer
from foveate.data.block_encoding import Encoder
from foveate.data.label import Labels
from foveate.data.labelled import LabelledText, Tagged, TextRows
from foveate.data.labelled_encoding import LabelledEncoder
from foveate.data.labelled_report import LabelledReport
from foveate.data.line_encoding import LineEncoder, SegmentEncoder
from foveate.data.pair_report import LeftOut
from foveate.data.row_journal import write_rows
from foveate.data.sentence_encoding import SentenceEncoder, numbered
from foveate.data.text_pair import Segmented
from foveate.data.tokeniser import UNKNOWN, CharacterTokeniser, WordTokeniser
from foveate.data.word import form_row
from foveate.errors import DataError, UsageError
from foveate.tasks.classify.task import ClassifyConfig
from foveate.tasks.tag.task import TagConfig

COUNT = 500
LETTERS, WORDS = CharacterTokeniser.train(["abc d"]), WordTokeniser.train(["ab c d d w0 w0"], min_count=1)
TEXTS = [("ab c d", "", "abc", "d d d d d d", "?a")[number % 5] * (number % 3) for number in range(COUNT)]


def labelled(*names: str) -> LabelledEncoder:
    labels = Labels(names)
    return LabelledEncoder(
        rows=TextRows(LETTERS), labels=labels, what="texts", max_length=9, path="a.tsv", lenient=True
    )


def unknown(words: Sequence[str]) -> int:
    return WORDS.encode(" ".join(words)).count(UNKNOWN)


def sentence(number: int, text: str) -> Tagged:
    """A sentence of three words at most, one of them new in every seventh, with a tag that nobody knows in some."""
    words = (*text.split()[:2], f"w{number // 7}")[number % 11 == 0 :]
    return Tagged(number, words, tuple("AB?"[(number % 50 == 0) * 2] for _ in words))


ENCODERS: dict[str, tuple[Encoder[Any], Callable[[int, str], Any]]] = {
    "lines": (LineEncoder(LETTERS), lambda number, text: text),
    "segments": (SegmentEncoder(LETTERS, 7), lambda number, text: Segmented(number, (text, "a") if text else ())),
    "texts": (
        labelled("kind 0", "kind 1", "kind 2"),
        lambda number, text: LabelledText(number, text, f"kind {number % 3 + (number % 50 == 0)}"),
    ),
    "sentences": (
        SentenceEncoder(
            form=partial(form_row, words=WORDS, spelling=LETTERS),
            measure=len,
            unknown=unknown,
            digests={"words": WORDS.digest()},
            labels=Labels("AB"),
            max_length=2,
            path="a.txt",
            lenient=True,
        ),
        sentence,
    ),
}


BY_TWO = ("sentences",)
"""Encoders that also run in two processes: those whose rows depend on the rows before."""


def examples(name: str, last: int = COUNT) -> Iterator[Any]:
    """The examples of an encoder; asking for those after the last one kills the process."""
    stream = _stream(name, last)
    return numbered(stream) if name == "sentences" else stream


def _stream(name: str, last: int) -> Iterator[Any]:
    for number, text in enumerate(TEXTS, start=1):
        if number > last:
            os.kill(os.getpid(), signal.SIGKILL)
        yield ENCODERS[name][1](number, text)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_encoding, "BLOCK", 16)
    monkeypatch.setattr(row_journal, "INTERVAL", 64)
    monkeypatch.setattr(row_writer, "CHUNK", 100)


@pytest.mark.parametrize("name", ENCODERS)
def test_blocks_processes_and_kills_change_no_byte(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = ENCODERS[name][0]
    report = write_rows(tmp_path / "whole", examples(name), encoder)
    assert report.total == COUNT
    process = os.fork()
    if process == 0:
        write_rows(tmp_path / "killed", examples(name, last=333), encoder, origin="here")
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL
    with row_journal.RowJournal.open(tmp_path / "killed", encoder, "here") as begun:
        assert 333 - 64 - 16 <= begun.report.total <= 333
    assert write_rows(tmp_path / "killed", examples(name), encoder, origin="here") == report
    monkeypatch.setattr(block_encoding, "BLOCK", 7)
    assert write_rows(tmp_path / "seven", examples(name), encoder) == report
    assert write_rows(tmp_path / "pickled", examples(name), pickle.loads(pickle.dumps(encoder))) == report
    if name in BY_TWO:
        assert write_rows(tmp_path / "two", examples(name), encoder, processes=2) == report
    folders = [path for path in tmp_path.iterdir() if path.name != "whole"]
    assert len(folders) == 3 + (name in BY_TWO)
    assert all(content(folder) == content(tmp_path / "whole") for folder in folders)


def test_another_encoder_does_not_go_on_with_these_rows(tmp_path: Path) -> None:
    texts = [encoder for name, (encoder, _) in ENCODERS.items() if name == "texts"]
    for encoder in (*texts, labelled("kind 2", "kind 1", "kind 0")):
        with pytest.raises(ZeroDivisionError):
            write_rows(tmp_path / "train", _broken(), encoder, origin="here")
        state = json.loads((tmp_path / ".rows-of-train" / "journal.json").read_text())
        assert state["report"]["total"] <= 400
    write_rows(tmp_path / "train", examples("texts"), texts[0], origin="here")
    write_rows(tmp_path / "whole", examples("texts"), texts[0])
    assert content(tmp_path / "train") == content(tmp_path / "whole")


def _broken() -> Iterator[Any]:
    yield from islice(examples("texts"), 400)
    raise ZeroDivisionError


def test_reports_add_up() -> None:
    parts = [
        LabelledReport(
            what="texts", total=9, max_length=5, empty=LeftOut(1, (number,)), remarks={"odd": LeftOut(1, (2,))}
        )
        for number in (1, 8)
    ]
    whole = parts[0] + parts[1]
    assert (whole.total, whole.empty, whole.remarks) == (18, LeftOut(2, (1, 8)), {"odd": LeftOut(2, (2, 2))})


def test_most_labels_that_nobody_knows_are_refused(tmp_path: Path) -> None:
    texts = [LabelledText(number, "ab", f"kind {number}") for number in range(4)]
    assert write_rows(tmp_path / "half", texts[:2], labelled("kind 0")).checked().used == 1
    report = write_rows(tmp_path / "train", texts, labelled("kind 0"))
    with pytest.raises(DataError, match=r"a\.tsv:1: the label 'kind 1' is not in the training data"):
        report.checked()


@pytest.mark.parametrize(
    "config",
    [TagConfig, ClassifyConfig],
)
def test_processes_are_refused_where_they_would_do_nothing(config: type[Any]) -> None:
    with pytest.raises(UsageError, match=r"data\.processes"):
        build(config, {"data": {"data": "a.tsv", "processes": 2}, "reader": {"kind": "vector"}})
