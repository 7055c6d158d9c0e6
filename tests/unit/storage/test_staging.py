"""Remote files, read through a file system of fsspec that is in memory."""

import gzip
import hashlib
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from foveate.data.text import read_lines, read_pairs
from foveate.errors import DataError, SetupError
from foveate.storage import staging
from foveate.tasks.translate.pair import DataConfig, Pairs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FOVEATE_STAGED", str(tmp_path / "staged"))
    return tmp_path / "staged"


@pytest.fixture
def remote(home: Path) -> Iterator[Any]:
    """A folder of a file system in memory: a function that writes a file and returns its address."""
    folder, system = f"/{uuid.uuid4().hex}", fsspec.filesystem("memory")

    def write(name: str, content: bytes) -> str:
        system.pipe_file(f"{folder}/{name}", content)
        return f"memory:/{folder}/{name}"

    yield write
    system.rm(folder, recursive=True)


def test_a_remote_file_is_copied_once_and_again_when_it_changes(
    remote: Any, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    address = remote("train.en", b"a\nb\n")
    for _ in range(2):
        assert list(read_lines(address)) == ["a", "b"]
    assert capsys.readouterr().err.count("Copying") == 1
    digest = hashlib.sha256(b"a\nb\n").hexdigest()
    assert (home / digest / "train.en").read_bytes() == b"a\nb\n"
    remote("train.en", b"c\n")
    assert list(read_lines(address)) == ["c"]
    assert not list(home.glob(".tmp-*"))


def test_a_copy_that_was_changed_is_fetched_again_where_a_digest_is_asked_for(remote: Any, home: Path) -> None:
    address, digest = remote("train.en", b"a\n"), hashlib.sha256(b"a\n").hexdigest()
    assert list(read_lines(f"{address}#sha256={digest}")) == ["a"]
    (home / digest / "train.en").write_bytes(b"b\n")
    assert list(read_lines(f"{address}#sha256={digest}")) == ["a"]


def test_endings_say_how_to_unpack(remote: Any) -> None:
    assert list(read_lines(remote("train.en.gz", gzip.compress(b"a\nb\n")))) == ["a", "b"]


def test_a_folder_stands_for_its_files_in_order(remote: Any) -> None:
    for number in (3, 1, 2):
        address = remote(f"part-{number}.tsv", f"{number}\tx\n".encode())
    folder = address.rpartition("/")[0] + "/"
    assert [pair.source for pair in read_pairs(folder)] == ["1", "2", "3"]
    assert [pair.line for pair in read_pairs(folder)] == [1, 2, 3]


def test_the_name_of_a_file_is_that_of_its_path() -> None:
    for address in ("https://host/a/train.en.gz", "https://host/train.en.gz?path=a/b", "https://host/train.en.gz/?x"):
        assert staging._name(address) == "train.en.gz"
    assert staging._name("https://") == "https:"


def test_a_digest_in_the_address_is_checked(remote: Any) -> None:
    address, digest = remote("train.en", b"a\n"), hashlib.sha256(b"a\n").hexdigest()
    assert list(read_lines(f"{address}#sha256={digest}")) == ["a"]
    remote("train.en", b"b\n")
    with pytest.raises(DataError, match=f"but the address asks for {digest}"):
        list(read_lines(f"{address}#sha256={digest}"))


def test_an_error_names_the_address_and_the_line(remote: Any) -> None:
    address = remote("train.en", b"a\n\xff\n")
    with pytest.raises(DataError, match=f"{address}:2: byte 0xFF at offset 2 is not UTF-8"):
        list(read_lines(address))


def test_addresses_that_cannot_be_read_are_refused(remote: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match=r"memory://nowhere/train\.en does not exist"):
        list(read_lines("memory://nowhere/train.en"))
    with pytest.raises(DataError, match="Protocol not known: nonsense"):
        list(read_lines("nonsense://train.en"))
    with pytest.raises(DataError, match="the address of a folder"):
        list(read_lines(f"memory://nowhere/#sha256={'0' * 64}"))
    for digest in ("", "00", "g" * 64):
        with pytest.raises(DataError, match="a SHA-256 has 64 digits"):
            list(read_lines(f"memory://nowhere/train.en#sha256={digest}"))
    address = remote("train.en", b"a\n")
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(SetupError, match=r"pip install 'foveate\[remote\]'"):
        list(read_lines(address))


def test_an_interrupted_copy_is_not_a_copy(remote: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = remote("train.en", b"a\n" * 100)
    monkeypatch.setattr(staging, "CHUNK", 10)
    read = staging._read

    def failing(source: Any, name: str) -> bytes:
        if source.tell() > 50:
            raise KeyboardInterrupt
        return read(source, name)

    monkeypatch.setattr(staging, "_read", failing)
    with pytest.raises(KeyboardInterrupt):
        list(read_lines(address))
    assert [path for path in home.rglob("*") if path.is_file()] == []
    monkeypatch.setattr(staging, "_read", read)
    assert len(list(read_lines(address))) == 100


def test_two_files_may_be_copied_at_once(remote: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by containers that share the folder of copies and have the same process number."""
    addresses = remote("train.en", b"a\n" * 100), remote("valid.en", b"b\n" * 10)
    monkeypatch.setattr(staging, "CHUNK", 10)
    read, others = staging._read, list[str]()

    def interrupted(source: Any, name: str) -> bytes:
        if name == addresses[0] and source.tell() == 50:
            others.extend(read_lines(addresses[1]))
        return read(source, name)

    monkeypatch.setattr(staging, "_read", interrupted)
    assert list(read_lines(addresses[0])) == ["a"] * 100
    assert others == ["b"] * 10
    for address, lines in zip(addresses, (["a"] * 100, ["b"] * 10), strict=True):
        assert list(read_lines(address)) == lines


def test_a_copy_that_ends_early_is_refused(remote: Any, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = remote("train.en", b"a\n" * 100)
    monkeypatch.setattr(staging, "CHUNK", 10)
    read = staging._read
    monkeypatch.setattr(staging, "_read", lambda source, name: b"" if source.tell() > 50 else read(source, name))
    with pytest.raises(DataError, match="has 200 bytes, but 60 arrived"):
        list(read_lines(address))
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_pairs_of_remote_files_have_an_origin_that_follows_their_content(remote: Any) -> None:
    lines = "".join(f"a{number}\tb\n" for number in range(20))
    data = DataConfig(source=remote("train.tsv", lines.encode()))
    pairs = Pairs(data, 0)
    assert len(list(pairs("train"))) + len(list(pairs("valid"))) == 20
    before = pairs.origin("train")
    assert Pairs(data, 0).origin("train") == before
    remote("train.tsv", lines.replace("b", "c").encode())
    assert Pairs(data, 0).origin("train") != before
