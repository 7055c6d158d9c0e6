"""Reading text: strict about encoding and counts, exact about where a fault is."""

import gzip
import io
import lzma
import os
from pathlib import Path

import pytest

from foveate.data.text import Pair, normalise, read_lines, read_pairs
from foveate.errors import DataError, UsageError


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def refusal(path: Path | str, *more: Path | str, **options: object) -> str:
    with pytest.raises(DataError) as caught:
        list(read_pairs(path, *more, **options) if more or options else read_lines(path))
    return str(caught.value)


def test_only_newlines_end_lines(tmp_path: Path) -> None:
    text = "one\u2028still one\x0b\x0c\x1c\x85\r\ntwo\rstill two\n\nfour"
    path = written(tmp_path / "a.txt", text.encode())
    assert list(read_lines(path)) == ["one\u2028still one\x0b\x0c\x1c\x85", "two\rstill two", "", "four"]


def test_a_byte_order_mark_does_not_belong_to_the_text(tmp_path: Path) -> None:
    assert list(read_lines(written(tmp_path / "a.txt", b"\xef\xbb\xbfone\n"))) == ["one"]


def test_lines_are_in_normal_form_c(tmp_path: Path) -> None:
    assert list(read_lines(written(tmp_path / "a.txt", "cafe\u0301\n".encode()))) == ["caf\u00e9"]


def test_packed_files_are_unpacked(tmp_path: Path) -> None:
    for name, pack in (("a.gz", gzip.compress), ("a.xz", lzma.compress)):
        assert list(read_lines(written(tmp_path / name, pack(b"one\ntwo\n")))) == ["one", "two"]


def test_standard_input_is_read_and_left_open(monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(b"one\r\ntwo"))
    monkeypatch.setattr("sys.stdin", stdin)
    assert list(read_lines("-")) == ["one", "two"]
    assert not stdin.buffer.closed
    monkeypatch.setattr("sys.stdin", None)  # as Python has it for `foveate … <&-`
    with pytest.raises(DataError, match="Standard input is closed"):
        list(read_lines("-"))


def test_a_missing_file_gets_the_nearest_names(tmp_path: Path) -> None:
    for name in ("train.en", "train.fr", "notes"):
        (tmp_path / name).touch()
    assert refusal(tmp_path / "trian.en") == (
        f"{tmp_path}/trian.en: there is no such file. Similar names are: train.en, train.fr."
    )
    assert refusal(tmp_path / "zzz") == (
        f"{tmp_path}/zzz: there is no such file. The folder {tmp_path} has: notes, train.en, train.fr."
    )
    assert refusal(tmp_path / "data" / "train.en") == (
        f"{tmp_path}/data/train.en: there is no such file, and its folder is missing too; {tmp_path} exists."
    )
    (tmp_path / "empty").mkdir()
    assert refusal(tmp_path / "empty" / "a") == f"{tmp_path}/empty/a: there is no such file; its folder is empty."


def test_a_relative_missing_file_is_named_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "train.en").touch()
    monkeypatch.chdir(tmp_path)
    assert refusal("train.em") == "train.em: there is no such file. Similar names are: train.en."


def test_a_folder_instead_of_a_file_is_refused(tmp_path: Path) -> None:
    assert refusal(tmp_path) == f"{tmp_path} cannot be read: Is a directory."


def test_a_wrong_byte_is_named_with_line_offset_and_cure(tmp_path: Path) -> None:
    path = written(tmp_path / "train.fr", b"un\ncaf\xe9\n")
    assert refusal(path) == (
        f"{path}:2: byte 0xE9 at offset 6 is not UTF-8. If it is WINDOWS-1252, convert it: "
        f"iconv -f WINDOWS-1252 -t UTF-8 {path} > converted.txt"
    )
    path = written(tmp_path / "train.fr.gz", gzip.compress(b"caf\xe9\n"))
    assert refusal(path) == (
        f"{path}:1: byte 0xE9 at offset 3 is not UTF-8. If it is WINDOWS-1252, convert it: "
        f"gzip -dc {path} | iconv -f WINDOWS-1252 -t UTF-8 > converted.txt"
    )


def test_utf_16_is_recognised_with_and_without_its_mark(tmp_path: Path) -> None:
    path = written(tmp_path / "a.txt", "one\n".encode("utf-16"))
    assert refusal(path) == (
        f"{path}:1: byte 0xFF at offset 0 is not UTF-8. If it is UTF-16, convert it: "
        f"iconv -f UTF-16 -t UTF-8 {path} > converted.txt"
    )
    path = written(tmp_path / "a.txt", "one\n".encode("utf-16-le"))
    assert refusal(path) == (
        f"{path}:1: a zero byte at offset 1: the text is not UTF-8. If it is UTF-16, convert it: "
        f"iconv -f UTF-16 -t UTF-8 {path} > converted.txt"
    )


def test_an_encoded_surrogate_is_a_wrong_byte(tmp_path: Path) -> None:
    assert ":1: byte 0xED at offset 1 is not UTF-8." in refusal(written(tmp_path / "a.txt", b"a\xed\xb3\xa9\n"))


def test_a_damaged_packed_file_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(os.urandom(2000))
    path = written(tmp_path / "a.gz", b"plain text\n")
    assert refusal(path) == (
        f"{path} cannot be unpacked: Not a gzipped file (b'pl'). Fetch or compress the file again."
    )
    path = written(tmp_path / "b.gz", packed[:-40])
    assert refusal(path).endswith("Fetch or compress the file again.") or "is not UTF-8" in refusal(path)
    path = written(tmp_path / "a.xz", lzma.compress(b"one\ntwo\n" * 100)[:-30])
    assert refusal(path) == (
        f"{path} cannot be unpacked: Compressed file ended before the end-of-stream marker was reached. "
        "Fetch or compress the file again."
    )


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "bomb.xz", lzma.compress(b"a" * (20 << 20), preset=0))
    assert refusal(path) == f"{path}:1: the line is longer than 16 MiB. Is it a text file?"


def test_a_lone_surrogate_is_refused_with_its_place() -> None:
    with pytest.raises(DataError) as caught:
        normalise("a\ud800", "pairs.txt:7")
    assert str(caught.value) == (
        "pairs.txt:7: character 2 of the text is half a character (the lone surrogate U+D800). The text was cut or "
        "decoded wrongly: decode it again as UTF-8."
    )


def test_two_files_make_pairs_line_by_line(tmp_path: Path) -> None:
    source, target = written(tmp_path / "a", b"one\ntwo\n"), written(tmp_path / "b", b"un\ndeux")
    assert list(read_pairs(source, target)) == [Pair(1, "one", "un"), Pair(2, "two", "deux")]


def test_a_table_beside_another_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\tun\n\ntwo\tdeux\n")
    (tmp_path / "b").write_text("un\n\ndeux\n")
    for files in (("a", "b"), ("b", "a")):
        with pytest.raises(DataError, match=f"{tmp_path / 'a'}:1: the line has a tab, as pairs in one file do"):
            list(read_pairs(*(tmp_path / name for name in files)))
    (tmp_path / "a").write_text("\none\tun\n\ntwo\tdeux\n")
    with pytest.raises(DataError, match=":2: the line has a tab"):
        list(read_pairs(tmp_path / "a", tmp_path / "b"))


@pytest.mark.parametrize(
    ("source", "target"),
    [("one\ttab\ntwo\n", "un\ndeux\n"), ("a\tb\n", "x\ty\n"), ("\tmenu\n", "\tle menu\n"), ("a\t\n", "x\n")],
)
def test_lines_with_tabs_may_stand_in_two_files(source: str, target: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(source)
    (tmp_path / "b").write_text(target)
    pairs = list(read_pairs(tmp_path / "a", tmp_path / "b"))
    assert [(pair.source, pair.target) for pair in pairs] == list(
        zip(source.splitlines(), target.splitlines(), strict=True)
    )


@pytest.mark.parametrize(("lines", "others"), [(3, 1), (1, 3), (0, 2), (2, 0)])
def test_unequal_line_counts_are_both_named(tmp_path: Path, lines: int, others: int) -> None:
    source, target = written(tmp_path / "a", b"x\n" * lines), written(tmp_path / "b", b"y\n" * others)
    assert refusal(source, target) == (
        f"{source} has {lines} lines but {target} has {others}. Line n of one must be the partner of line n of the "
        "other: find the missing or additional line."
    )


def test_columns_of_one_file_make_pairs(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", b"k1\tone\tun\tx\n\nk2\ttwo\t\n")
    assert list(read_pairs(path, columns=(2, 1))) == [Pair(1, "un", "one"), Pair(2, "", ""), Pair(3, "", "two")]


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tsv", b"one\tun\ntwo deux\n")
    assert refusal(path, columns=(0, 1)) == (
        f"{path}:2: the line has 1 column but column 1 (counted from 0) is required. "
        "Columns have a tab between them; give two files if source and target are in separate files."
    )


def test_impossible_requests_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        list(read_pairs("-", "-"))
    assert str(caught.value) == (
        "Source and target cannot both be standard input. Send tab-separated columns, and give no target."
    )
    with pytest.raises(UsageError) as caught:
        list(read_pairs("-", columns=(-1, 0)))
    assert str(caught.value) == "columns = [-1, 0]: columns are counted from 0, the leftmost."
