"""Files and folders appear whole or not at all, and what cannot be written is said in one sentence."""

import errno
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from foveate.errors import SetupError, UsageError
from foveate.storage import draft
from foveate.storage.draft import (
    TEMPORARY,
    disk_errors,
    draft_folder,
    remove_drafts,
    remove_stale,
    replace_file,
    write_file,
    write_output,
)


def fill(target: Path, text: str) -> None:
    with draft_folder(target) as folder:
        (folder / "a.txt").write_text(text)


def fill_in_part(target: Path) -> None:
    with draft_folder(target) as folder:
        (folder / "a.txt").write_text("ne")
        raise KeyboardInterrupt


def test_a_folder_appears_with_all_of_its_files(tmp_path: Path) -> None:
    with draft_folder(tmp_path / "deep" / "data") as folder:
        (folder / "a.txt").write_text("a")
        assert not (tmp_path / "deep" / "data").exists()
    assert [path.name for path in (tmp_path / "deep").rglob("*")] == ["data", "a.txt"]


def test_an_interrupted_folder_leaves_what_was_there(tmp_path: Path) -> None:
    fill(tmp_path / "data", "old")
    with pytest.raises(KeyboardInterrupt):
        fill_in_part(tmp_path / "data")
    assert (tmp_path / "data" / "a.txt").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def never(one: Path, other: Path) -> bool:
    return False


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_replacement_cut_anywhere_leaves_the_old_folder_or_the_new_one(
    exchanges: bool,
    tmp_path: Path,
    run_until_call: Callable[[Callable[[], object], int], bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fill(tmp_path / "one", "")
    fill(tmp_path / "other", "")
    if not exchanges:
        monkeypatch.setattr(draft, "_exchanged", never)
    elif not draft._exchanged(tmp_path / "one", tmp_path / "other"):
        pytest.skip("this disk exchanges no names in one step")
    number, died, results = 0, True, set()
    while died:
        number += 1
        here = tmp_path / str(number)
        fill(here / "data", "old")
        died = run_until_call(lambda here=here: fill(here / "data", "new"), number)
        assert not exchanges or (here / "data").exists(), "at every moment"
        remove_stale(here)
        assert [path.name for path in here.iterdir()] == ["data"]
        results.add((here / "data" / "a.txt").read_text())
    assert results == {"old", "new"}


def test_a_replaced_folder_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(mode=0o700)
    for text in ("old", "new"):
        fill(tmp_path / "data", text)
        assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "a.txt").read_text() == "new"


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_link_is_replaced_and_not_what_it_leads_to(
    exchanges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:
        monkeypatch.setattr(draft, "_exchanged", never)
    fill(tmp_path / "other", "theirs")
    for name, leads_to in (("data", "other"), ("dangling", "nowhere")):
        (tmp_path / name).symlink_to(leads_to)
        fill(tmp_path / name, "new")
        assert not (tmp_path / name).is_symlink()
        assert (tmp_path / name / "a.txt").read_text() == "new"
    assert (tmp_path / "other" / "a.txt").read_text() == "theirs"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "data", "other"]


def test_the_present_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "data", "old")
    monkeypatch.chdir(tmp_path / "data")
    for target in (Path(), Path("..")):
        with pytest.raises(UsageError, match="is the folder that you are in, or one above it"):
            fill(target, "new")
    assert (tmp_path / "data" / "a.txt").read_text() == "old"


def test_everything_is_flushed_before_the_name_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[str] = []
    fsync = os.fsync

    def spy(descriptor: int) -> None:
        flushed.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        assert (tmp_path / "data").exists() == (flushed[-1] == tmp_path.name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    fill(tmp_path / "data", "new")
    assert flushed == ["a.txt", f".tmp-data-{os.getpid()}", tmp_path.name]


def test_a_file_is_replaced_entirely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "best.json"
    write_file(path, b"old")

    def broken(temporary: Path) -> None:
        temporary.write_text("ne")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        replace_file(path, broken)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1_500_000}))
    with pytest.raises(SetupError) as caught, draft_folder(tmp_path / "data"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(caught.value) == (
        f"The disk is full: 1.5 MB are free at {tmp_path}. Free some space or choose another folder; "
        "earlier files are unchanged."
    )
    with (
        pytest.raises(SetupError, match=r"2\.0 MB are needed, 1\.5 MB are free"),
        draft_folder(tmp_path / "b", size=2_000_000),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_refuses_is_named_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError) as caught, draft_folder(tmp_path / "file" / "run" / "data"):
        pass
    assert str(caught.value) == (
        f"{tmp_path}/file/run/data cannot be written: Not a directory. Check the folder or choose another; "
        "earlier files are unchanged."
    )


def test_other_errors_pass_through(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), disk_errors(tmp_path):
        raise ZeroDivisionError


def test_threads_that_write_one_file_leave_one_of_their_contents(tmp_path: Path) -> None:
    def write(number: int) -> None:
        for _ in range(20):
            write_file(tmp_path / "a.txt", str(number).encode() * 100)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    content = (tmp_path / "a.txt").read_bytes()
    assert content in {str(number).encode() * 100 for number in range(4)}
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


def test_what_killed_processes_left_of_a_file_is_removed(tmp_path: Path) -> None:
    ours = [f"{TEMPORARY}a.txt-12", f"{TEMPORARY}a.txt-12-0123456789ab"]
    others = ["a.txt", f"{TEMPORARY}a.txt-b-12", f"{TEMPORARY}b.txt-12"]
    for name in (*ours, *others):
        (tmp_path / name).touch()
    remove_drafts(tmp_path / "a.txt")
    assert {path.name for path in tmp_path.iterdir()} == set(others)


def test_an_output_behind_a_link_or_in_a_pipe_goes_where_they_lead(tmp_path: Path) -> None:
    (tmp_path / "old.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("old.txt")
    write_output(tmp_path / "link.txt", b"new")
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "old.txt").read_text() == "new"
    os.mkfifo(tmp_path / "pipe")
    descriptor = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_output(tmp_path / "pipe", b"through")
    assert os.read(descriptor, 100) == b"through"
    os.close(descriptor)
    assert (tmp_path / "pipe").is_fifo()
    read, write = os.pipe()
    write_output(Path(f"/proc/self/fd/{write}"), b"as /dev/stdout")  # resolved, it names nothing
    assert os.read(read, 100) == b"as /dev/stdout"
    os.close(read)
    os.close(write)
