"""Parallel data: every pair is stored whole or reported."""

import os
import shutil
import signal
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pytest

from foveate.data import block_encoding, pair_encoding, row_journal, row_writer
from foveate.data.pair_report import LeftOut, Report
from foveate.data.parallel import ParallelData, prepare
from foveate.data.text import Pair
from foveate.data.tokeniser import BOS, EOS, CharacterTokeniser, SentencePieceTokeniser, WordTokeniser
from foveate.errors import DataError, UsageError

SOURCE = CharacterTokeniser.train(["abc"])
TARGET = WordTokeniser.train(["A B C"])


def prepared(folder: Path, pairs: list[tuple[str, str]], max_length: int = 4) -> tuple[ParallelData, Report]:
    numbered = (Pair(line, *pair) for line, pair in enumerate(pairs, start=1))
    return prepare(folder / "train", numbered, SOURCE, TARGET, max_length=max_length)


def test_sources_end_and_targets_begin_and_end(tmp_path: Path) -> None:
    data, report = prepared(tmp_path, [("ab", "A B"), ("c", "C")])
    assert [row.tolist() for row in data.source] == [[4, 5, EOS], [6, EOS]]
    assert [row.tolist() for row in data.target] == [[BOS, 4, 5, EOS], [BOS, 6, EOS]]
    assert data.lines.tolist() == [1, 2]
    assert str(report) == "All 2 pairs are used."
    assert (data.source.tokeniser_digest, data.target.tokeniser_digest) == (SOURCE.digest(), TARGET.digest())
    data.verify()


def test_a_batch_is_made_of_the_examples_asked_for(tmp_path: Path) -> None:
    data, _ = prepared(tmp_path, [("ab", "A B"), ("c", "C"), ("abc", "A B C")])
    batch = data.batch([2, 1])
    assert batch.source.ids.tolist() == [[4, 5, 6, EOS], [6, EOS, 0, 0]]
    assert batch.target.ids.tolist() == [[BOS, 4, 5, 6, EOS], [BOS, 6, EOS, 0, 0]]
    assert batch.examples == (2, 1)


def test_empty_and_long_pairs_are_left_out_and_named_never_cut(tmp_path: Path) -> None:
    pairs = [
        ("a", "A"),
        ("", "A"),
        ("abca", "A"),
        ("  ", "A"),
        ("abc", "A B C"),
        ("a", " "),
        ("a", "A B C A B"),
        ("x", "A"),
    ]
    data, report = prepared(tmp_path, pairs)
    assert data.lines.tolist() == [1, 5, 8]
    assert str(report) == (
        "3 of 8 pairs are used. 3 have an empty side: lines 2, 4 and 6. 2 have a side of more than 4 tokens "
        "(the longest has 6): lines 3 and 7. 20.0 % of the source tokens are unknown."
    )


def test_many_lines_are_counted_and_the_first_named(tmp_path: Path) -> None:
    data, report = prepared(tmp_path, [("", "A")] * 1007)
    assert len(data) == 0
    assert str(report) == (
        "None of 1,007 pairs are used. 1,007 have an empty side: lines 1, 2, 3, 4, 5 and 1,002 more."
    )


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        (
            Report(total=1234, max_length=9, empty=LeftOut(2, (8, 9))),
            "1,232 of 1,234 pairs are used. 2 have an empty side: lines 8 and 9.",
        ),
        (
            Report(total=2, max_length=9, too_long=LeftOut(1, (2,)), longest=12),
            "1 of 2 pairs is used. 1 has a side of more than 9 tokens (the longest has 12): line 2.",
        ),
        (
            Report(total=3, max_length=9, source_tokens=99_999, source_unknown=1, target_tokens=50, target_unknown=25),
            "All 3 pairs are used. Less than 0.1 % of the source tokens and 50.0 % of the target tokens are unknown.",
        ),
    ],
)
def test_a_report_prints_as_sentences(report: Report, sentence: str) -> None:
    assert str(report) == sentence


def test_prepared_data_opens_again(tmp_path: Path) -> None:
    data, _ = prepared(tmp_path, [("ab", "A B"), ("c", "C")])
    again = ParallelData.open(tmp_path / "train")
    assert [row.tolist() for row in again.source] == [row.tolist() for row in data.source]
    assert len(again) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["train"]


def test_data_and_tokenisers_must_belong_together(tmp_path: Path) -> None:
    data, _ = prepared(tmp_path, [("ab", "A B")])
    data.require(SOURCE, TARGET)
    with pytest.raises(DataError) as caught:
        data.require(SOURCE, WordTokeniser.train(["A B"]))
    assert str(caught.value) == (
        f"{tmp_path}/train/target was made with another tokeniser: its digest differs. Prepare the data again, or "
        "restore the tokeniser it was made with."
    )


def test_prepared_data_that_is_missing_or_mixed_is_named(tmp_path: Path) -> None:
    prepared(tmp_path, [("ab", "A B"), ("c", "C")])
    folder = tmp_path / "train"
    shutil.rmtree(folder / "target")
    prepare(tmp_path / "other", [Pair(1, "a", "A")], SOURCE, TARGET, max_length=9)
    (tmp_path / "other" / "target").rename(folder / "target")
    with pytest.raises(DataError) as caught:
        ParallelData.open(folder)
    assert str(caught.value) == (
        f"{folder} is damaged: it has 2 sources, 1 targets and 2 line numbers. Prepare the data again."
    )
    with pytest.raises(DataError) as caught:
        ParallelData.open(tmp_path / "valid")
    assert str(caught.value) == (
        f"{tmp_path}/valid does not exist, but should contain prepared data. Run the training command again."
    )


def test_links_of_other_pairs_are_named(tmp_path: Path) -> None:
    tokeniser = WordTokeniser.train(["a b"])
    for name, lines in (("one", 1), ("two", 2)):
        pairs = [Pair(line, "a", "b") for line in range(1, lines + 1)]
        data, _ = prepare(tmp_path / name, pairs, tokeniser, tokeniser, max_length=9, links=lambda *_: [(0, 0)])
        links = data.batch([0, 0]).links
        assert links is not None
        assert links.tolist() == [[0, 0, 0], [1, 0, 0]]
    shutil.rmtree(tmp_path / "two" / "links")
    shutil.copytree(tmp_path / "one" / "links", tmp_path / "two" / "links")
    with pytest.raises(DataError, match="has 2 sources and links of 1 pairs"):
        ParallelData.open(tmp_path / "two")


PIECES = SentencePieceTokeniser.train([f"ab c{n} d" for n in range(200)], vocab_size=320)


def many(count: int) -> Iterator[Pair]:
    """Pairs, of them some empty and some too long."""
    for line in range(1, count + 1):
        yield Pair(line, "" if line % 7 == 0 else f"ab c{line % 200} d", "A B C " * (line % 11))


class Diagonal:
    """Links of the first tokens."""

    def __call__(self, pair: Pair, source: Sequence[int], target: Sequence[int]) -> list[tuple[int, int]]:
        if pair.line == 999_999:
            raise DataError(f"{pair.line}: it lacks links")
        return [(place, place) for place in range(min(len(source), len(target)))]


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def made(folder: Path, pairs: Iterator[Pair], origin: str = "", **settings: Any) -> tuple[dict[str, bytes], Report]:
    """The bytes of all files."""
    settings = {"max_length": 25, "links": Diagonal(), **settings}
    _, report = prepare(folder, pairs, PIECES, TARGET, origin=origin, **settings)
    return content(folder), report


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_encoding, "BLOCK", 16)
    monkeypatch.setattr(row_journal, "INTERVAL", 64)
    monkeypatch.setattr(row_writer, "CHUNK", 100)


@pytest.mark.usefixtures("small")
def test_any_number_of_processes_writes_the_same_bytes(tmp_path: Path) -> None:
    one = made(tmp_path / "1", many(500), links=None)
    assert len(one[0]) == 9
    for processes in (2, 3):
        assert made(tmp_path / str(processes), many(500), links=None, processes=processes) == one


def test_blocks_of_any_size_have_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = made(tmp_path / "whole", many(500))
    for block in (1, 7, 499, 501):
        monkeypatch.setattr(block_encoding, "BLOCK", block)
        assert made(tmp_path / str(block), many(500)) == whole


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("last", [3, 80, 144, 333, 480])
def test_a_killed_preparation_goes_on(last: int, tmp_path: Path) -> None:
    """The process dies by kill -9 when it asks for a pair; pairs that are on the disk are not encoded again."""
    process = os.fork()
    if process == 0:
        made(tmp_path / "train", dying(last), origin="pairs")
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL
    assert not (tmp_path / "train").exists()
    journal = row_journal.RowJournal
    with journal.open(tmp_path / "train", pair_encoding.PairEncoder(PIECES, TARGET, 25, Diagonal()), "pairs") as begun:
        assert last - 64 - 16 <= begun.report.total <= last
        assert begun.report.total % 16 == 0
    assert made(tmp_path / "train", many(500), origin="pairs") == made(tmp_path / "whole", many(500))
    assert {path.name for path in tmp_path.iterdir()} == {"train", "whole"}


def dying(last: int) -> Iterator[Pair]:
    for pair in many(500):
        if pair.line > last:
            os.kill(os.getpid(), signal.SIGKILL)
        yield pair


@pytest.mark.usefixtures("small")
def test_pairs_of_another_origin_are_prepared_from_the_beginning(tmp_path: Path) -> None:
    def broken() -> Iterator[Pair]:
        yield from islice(many(500), 300)
        raise DataError("line 301")

    for origin in ("one", ""):
        with pytest.raises(DataError, match="line 301"):
            made(tmp_path / "train", broken(), origin=origin)
        assert (tmp_path / ".rows-of-train").exists() is True
    others = [Pair(pair.line, "d", "C") for pair in many(400)]
    assert made(tmp_path / "train", iter(others), origin="two") == made(tmp_path / "whole", iter(others))


@pytest.mark.usefixtures("small")
def test_a_second_process_cannot_prepare_the_same_data_at_once(tmp_path: Path) -> None:
    def second(begun: Iterator[Pair]) -> Iterator[Pair]:
        for pair in begun:
            if pair.line == 480:
                with pytest.raises(UsageError, match="Another process is preparing"):
                    made(tmp_path / "train", many(500), origin="pairs")
            yield pair

    assert made(tmp_path / "train", second(many(500)), origin="pairs") == made(tmp_path / "whole", many(500))
    assert {path.name for path in tmp_path.iterdir()} == {"train", "whole"}


@pytest.mark.usefixtures("small")
def test_a_damaged_journal_is_not_used(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="lacks links"):
        made(tmp_path / "train", chain(islice(many(500), 300), [Pair(999_999, "ab", "A")]), origin="one")
    (tmp_path / ".rows-of-train" / "journal.json").write_text("{")
    assert made(tmp_path / "train", many(500), origin="one") == made(tmp_path / "whole", many(500))


def test_an_error_in_another_process_is_the_same_error(tmp_path: Path) -> None:
    halves = chain(many(20), [Pair(21, "\ud800", "A")])
    with pytest.raises(DataError, match="half a character"):
        made(tmp_path / "train", halves, links=None, processes=2)
    assert list(tmp_path.iterdir()) == []
