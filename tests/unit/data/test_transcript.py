"""Texts of recordings, and the store of recordings with texts: nothing is dropped without a report."""

from pathlib import Path

import numpy as np
import pytest

from foveate.data.feature import Vector, VectorReader
from foveate.data.parallel import ParallelData
from foveate.data.reader import Example
from foveate.data.tokeniser import BOS, EOS, CharacterTokeniser
from foveate.data.transcript import TextConfig, prepare_transcripts, transcribed
from foveate.errors import DataError
from foveate.nn.embed import Vectors

LETTERS = CharacterTokeniser.train(["abc "])


def example(line: int, length: int, text: str) -> Example:
    return Example(line, Vector(f"{line}.npy", np.eye(length, 2, dtype=np.float32)), text)


def prepared(folder: Path, examples: list[Example], **options: int) -> tuple[ParallelData, str]:
    rows = VectorReader().learn(examples)
    limits = {"max_length": 50, "max_text": 20, **options}
    data, report = prepare_transcripts(
        folder / "data", examples, rows, LETTERS, what="recordings", room=lambda length: -(-length // 4), **limits
    )
    return data, str(report)


def test_texts_are_kept_as_written_unless_a_change_is_asked_for() -> None:
    assert TextConfig().form("  Deux,\u00a0 trois\u0301 ") == "Deux, troiś"
    assert TextConfig(lowercase=True, remove=",'").form("L'Un, DEUX") == "l un deux"
    assert TextConfig(lowercase=True).form("\u03aa\u0301") == "\u0390"
    assert str(TextConfig()) == "Texts are read as written, capitals and punctuation included"
    assert str(TextConfig(lowercase=True, remove="?")) == "Texts are read in small letters and without '?'"


@pytest.mark.parametrize("text", ["", "  ", "...", "-- !"])
def test_a_text_without_letters_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(DataError, match=r"clips.tsv:7: the text .* of 7.npy has no letter and no digit"):
        list(transcribed([example(7, 3, text)], TextConfig(), "clips.tsv"))


def test_a_text_that_a_change_empties_is_shown_as_it_was() -> None:
    with pytest.raises(DataError, match=r"the text 'a b' \(read as ''\)"):
        list(transcribed([example(1, 3, "a b")], TextConfig(remove="ab"), "clips.tsv"))
    assert [one.label for one in transcribed([example(1, 3, "1 2")], TextConfig(), "clips.tsv")] == ["1 2"]


def test_recordings_are_stored_beside_their_texts(tmp_path: Path) -> None:
    data, report = prepared(tmp_path, [example(1, 20, "ab c"), example(3, 8, "a")])
    assert report == "All 2 recordings are used."
    batch = data.batch([1, 0])
    assert batch.source.features.shape == (2, 20, 2)
    assert batch.target.ids.tolist() == [
        [BOS, *LETTERS.encode("a"), EOS, 0, 0, 0],
        [BOS, *LETTERS.encode("ab c"), EOS],
    ]
    assert data.lines.tolist() == [1, 3]
    data.require(Vectors(2), LETTERS)


def test_what_is_left_out_is_reported_by_line(tmp_path: Path) -> None:
    examples = [
        example(1, 20, "ab"),
        example(2, 51, "ab"),
        example(3, 50, "abc" * 7),
        example(4, 8, "aa"),  # two outputs: two equal letters need a blank between them
        example(5, 8, "ab"),
        example(6, 20, "xay"),
    ]
    data, report = prepared(tmp_path, examples)
    assert report == (
        "3 of 6 recordings are used. More than 50 vectors (the longest has 51): line 2. Texts of more than 20 tokens: "
        "line 3. More text than CTC can write in the time of the recording: line 4. 28.6 % of the tokens are unknown: "
        "'x', 'y'."
    )
    assert data.lines.tolist() == [1, 5, 6]


def test_stored_rows_are_checked_against_the_input_and_the_tokeniser(tmp_path: Path) -> None:
    data, _ = prepared(tmp_path, [example(1, 20, "ab")])
    with pytest.raises(DataError, match="vectors of 2 numbers, but 3 are needed"):
        data.require(Vectors(3), LETTERS)
    with pytest.raises(DataError, match="made with another tokeniser"):
        data.require(Vectors(2), CharacterTokeniser.train(["xyz"]))
    with pytest.raises(DataError, match="made with another tokeniser"):
        data.require(LETTERS, LETTERS)
