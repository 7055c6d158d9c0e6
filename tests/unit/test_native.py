"""Native kernels are compiled once, cached safely, and their absence always has a reason."""

import ctypes
import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from foveate import native
from foveate.native import cache as storage
from foveate.native import compiler

KERNEL = """
extern "C" void exponentials(const float* x, float* y, int64_t count, int64_t threads) {
    parallel(count / LANES, threads, [&](int64_t task) { store(y + task * LANES, exp(load(x + task * LANES))); });
}
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("FOVEATE_NATIVE", raising=False)
    native.forget()
    yield tmp_path / "foveate" / "native"
    native.forget()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    folder = tmp_path / "kernels_of_a_test"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "kernel.cpp").write_text(KERNEL)
    (folder / "second.cpp").write_text(KERNEL)
    (folder / "broken.cpp").write_text("this is not C++")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "kernels_of_a_test"
    sys.modules.pop("kernels_of_a_test", None)


def exponentials(x: torch.Tensor, library: ctypes.CDLL) -> torch.Tensor:
    y = torch.empty_like(x)
    library.exponentials(native.address(x), native.address(y), ctypes.c_int64(x.numel()), native.threads())
    return y


def test_a_kernel_is_compiled_once_and_found_again(cache: Path, package: str) -> None:
    first = native.load(package, "kernel.cpp")
    assert first.library is not None, first.reason
    (built,) = cache.glob("kernel-*.so")
    modified = built.stat().st_mtime_ns
    native.forget()
    assert native.load(package, "kernel.cpp").library is not None
    assert [file.name for file in cache.iterdir()] == [built.name]
    assert built.stat().st_mtime_ns == modified


def test_exp_is_that_of_double_precision_and_keeps_what_is_not_a_number(cache: Path, package: str) -> None:
    library = native.load(package, "kernel.cpp").library
    assert library is not None
    x = torch.linspace(-87.2, 88.7, 16 * 4096)
    exact = x.double().exp()
    assert ((exponentials(x, library) - exact).abs() / exact).max() < 3e-7
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), -1e30, 1e30, 0.0, 89.0, -104.0] * 2)
    expected = torch.tensor([float("nan"), float("inf"), 0.0, 0.0, float("inf"), 1.0, float("inf"), 0.0] * 2)
    assert torch.equal(exponentials(special, library).nan_to_num(nan=-1.0), expected.nan_to_num(nan=-1.0))


def test_a_file_that_does_not_compile_says_so_and_leaves_nothing(cache: Path, package: str) -> None:
    kernels = native.load(package, "broken.cpp")
    assert kernels.library is None
    assert "failed" in kernels.reason
    assert "broken.cpp:1" in kernels.reason
    assert list(cache.iterdir()) == []


def test_a_mistake_that_only_this_processors_flags_bring_out_is_not_hidden_by_weaker_flags(
    cache: Path, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "_FOR_THIS_PROCESSOR", (("-DPICKY",), ("-DWEAKER",)))
    native.forget()
    (tmp_path / package / "picky.cpp").write_text(f"#ifdef PICKY\n#error only here\n#endif\n{KERNEL}")
    kernels = native.load(package, "picky.cpp")
    assert kernels.library is None
    assert "only here" in kernels.reason
    assert native.state().startswith("in use (")
    assert "; but not picky.cpp: " in native.state()
    assert "only here" in native.state()


def test_flags_that_the_compiler_does_not_know_are_left_out(
    cache: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiler, "_FOR_THIS_PROCESSOR", (("-march=of-tomorrow",), ("--no-such-flag",)))
    native.forget()
    assert native.load(package, "kernel.cpp").library is not None
    assert native.in_use()


def test_kernels_can_be_turned_off(cache: Path, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOVEATE_NATIVE", "0")
    native.forget()
    assert native.load(package, "kernel.cpp") == native.Kernels(None, "FOVEATE_NATIVE=0")
    assert not native.in_use()
    assert native.state() == "not in use (FOVEATE_NATIVE=0); plain torch runs instead"
    assert not cache.exists()


def test_without_a_compiler_the_reason_names_those_sought(
    cache: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(cache))
    monkeypatch.setenv("CXX", "no-such-compiler")
    native.forget()
    kernels = native.load(package, "kernel.cpp")
    assert kernels.library is None
    assert kernels.reason == "no C++ compiler: none of no-such-compiler, c++, g++, clang++ runs"


def test_a_cache_that_cannot_be_written_is_replaced_by_a_temporary_folder(cache: Path, package: str) -> None:
    cache.parent.write_text("a file where the folder should be")
    kernels = native.load(package, "kernel.cpp")
    assert kernels.library is not None, kernels.reason


def test_processes_that_compile_at_once_do_not_disturb_each_other(cache: Path, package: str, tmp_path: Path) -> None:
    program = f"from foveate import native; assert native.load({package!r}, 'kernel.cpp').library"
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    running = [subprocess.Popen([sys.executable, "-c", program], env=environment) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    (built,) = cache.iterdir()
    assert built.stat().st_mode & stat.S_IRUSR


@pytest.fixture
def built(cache: Path, package: str) -> Path:
    """A library in the cache, which this process has not loaded yet."""
    assert native.load(package, "kernel.cpp").library is not None
    (library,) = cache.glob("kernel-*.so")
    renew(library, library.read_bytes())
    native.forget()
    return library


def renew(path: Path, content: bytes) -> None:
    """Another file of this name: the one that is there may be in use."""
    path.unlink()
    path.write_bytes(content)
    path.chmod(0o600)


def loaded_from(package: str) -> Path:
    library = native.load(package, "kernel.cpp").library
    assert library is not None
    x = torch.zeros(16)
    assert exponentials(x, library).sum() == 16
    return Path(library._name)


def test_what_is_kept_is_the_users_alone(built: Path) -> None:
    assert stat.S_IMODE(built.stat().st_mode) == 0o600
    assert [stat.S_IMODE(folder.stat().st_mode) for folder in (built.parent, built.parent.parent)] == [0o700, 0o700]


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "none of ours"])
def test_a_damaged_library_is_compiled_anew_without_a_word(
    damage: str, built: Path, package: str, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = built.read_bytes()
    flipped = bytes([*whole[:5000], whole[5000] ^ 1, *whole[5001:]])
    renew(built, {"cut": whole[:4097], "empty": b"", "flipped": flipped, "none of ours": b"#!/bin/sh"}[damage])
    assert loaded_from(package) == built
    assert built.read_bytes() == whole
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("exposure", ["a mode", "a second name", "a link"])
def test_a_library_that_others_may_have_changed_is_compiled_anew(
    exposure: str, built: Path, package: str, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere.so"
    if exposure == "a mode":
        built.chmod(0o620)
    elif exposure == "a second name":
        elsewhere.hardlink_to(built)
    else:
        built.rename(elsewhere)
        built.symlink_to(elsewhere)
    before = built.lstat()
    assert loaded_from(package) == built
    after = built.lstat()  # a file system may give the number of what is gone to the next file
    assert (after.st_ino, after.st_ctime_ns) != (before.st_ino, before.st_ctime_ns)
    assert not built.is_symlink()


def expose(built: Path, exposure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, home = built.parent, built.parents[2]
    if exposure == "everybody may write":
        folder.chmod(0o777)
    elif exposure == "a group may write one above":
        folder.parent.chmod(0o770)
    elif exposure == "everybody may write far above":
        home.parent.chmod(0o777)
    elif exposure == "a link":
        folder.rename(home / "native")
        folder.symlink_to(home / "native")
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)


@pytest.mark.parametrize(
    ("exposure", "reason"),
    [
        ("everybody may write", "others may write to "),
        ("a group may write one above", "others may write to "),
        ("everybody may write far above", "others may write to "),
        ("a link", " is a link"),
        ("somebody else's", " belongs to somebody else"),
    ],
)
def test_nothing_is_loaded_from_a_cache_where_others_could_have_planted_it(
    exposure: str, reason: str, built: Path, package: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "above" / "cache"))
    (tmp_path / "above").mkdir(mode=0o700)
    (tmp_path / "above" / "cache").mkdir(mode=0o700)
    built = built.rename(tmp_path / "above" / "cache" / built.name)
    (tmp_path / "above" / "cache" / "foveate" / "native").mkdir(parents=True)
    (tmp_path / "above" / "cache" / "foveate").chmod(0o700)
    (tmp_path / "above" / "cache" / "foveate" / "native").chmod(0o700)
    built = built.rename(tmp_path / "above" / "cache" / "foveate" / "native" / built.name)
    mark = tmp_path / "mark"
    evil = f'#include <cstdio>\n__attribute__((constructor)) static void run() {{ std::fopen("{mark}", "w"); }}'
    (tmp_path / "evil.cpp").write_text(evil)
    subprocess.run(["c++", "-shared", "-fPIC", tmp_path / "evil.cpp", "-o", tmp_path / "evil.so"], check=True)
    content = (tmp_path / "evil.so").read_bytes()
    name = built.name.rpartition("-")[0]
    renew(built, content)
    planted = built.rename(built.with_name(f"{name}-{storage._digest(content)}.so"))
    assert storage.find(name) == planted  # or else the planted library would fail for a reason of its own
    native.forget()
    expose(planted, exposure, monkeypatch)
    library = loaded_from(package)
    assert library.parents[1] == storage.workplace()
    assert stat.S_IMODE(storage.workplace().stat().st_mode) == 0o700
    assert not mark.exists()
    assert "; compiled again in every process, because " in native.state()
    assert reason in native.state()


def test_folders_above_the_cache_may_be_like_the_systems_temporary_one(built: Path, package: str) -> None:
    built.parents[2].chmod(0o1777)
    assert loaded_from(package) == built


@pytest.mark.parametrize("trouble", ["full", "nowhere", "relative", "read only"])
def test_a_cache_that_keeps_nothing_costs_a_compilation_and_nothing_else(
    trouble: str, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def read_only(path: str, flags: int, *mode: int, **how: int) -> int:
        if flags & os.O_CREAT and str(path).startswith(str(tmp_path)):
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(path, flags, *mode, **how)

    opened = os.open
    monkeypatch.setenv("XDG_CACHE_HOME", "cache" if trouble == "relative" else str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    if trouble == "full":
        monkeypatch.setattr(os, "fsync", full)
    elif trouble == "read only":
        monkeypatch.setattr(os, "open", read_only)
    else:
        monkeypatch.setenv("HOME", "")
    if trouble == "nowhere":
        monkeypatch.delenv("XDG_CACHE_HOME")
    native.forget()
    assert loaded_from(package).parents[1] == storage.workplace()
    assert not list(tmp_path.rglob(".new-*"))
    assert not list(tmp_path.rglob("cache/**/*.so"))
    native.forget()


def test_a_private_folder_is_gone_when_its_process_is(cache: Path, package: str, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    cache.parent.write_text("a file where the folder should be")
    program = f"from foveate import native; assert native.load({package!r}, 'kernel.cpp').library"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "TMPDIR": str(temporary)}
    assert subprocess.run([sys.executable, "-c", program], env=environment).returncode == 0
    assert list(temporary.iterdir()) == []


HANGING = """#!/bin/sh
{unless}
sleep 1000 &
echo $! >> {pids}
wait
"""


@pytest.mark.parametrize("answers", [False, True])
def test_a_compiler_that_hangs_is_ended_with_its_children_and_asked_once(
    answers: bool, cache: Path, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pids, hanging = tmp_path / "pids", tmp_path / "hanging"
    unless = 'test "$1" = --version && echo "hanging 1.0" && exit 0' if answers else ""
    hanging.write_text(HANGING.format(unless=unless, pids=pids))
    hanging.chmod(0o700)
    monkeypatch.setenv("CXX", str(hanging))
    # Other compilers, which are asked next if the first has no version, need time on a busy machine.
    monkeypatch.setattr(compiler, "SECONDS", 0.5 if answers else 3)
    native.forget()
    first, second = native.load(package, "kernel.cpp"), native.load(package, "second.cpp")
    if answers:
        assert first.library is None
        assert first.reason == f"{hanging} did not answer in 0.5 seconds"
        assert second.reason == f"{hanging} did not answer"
        assert native.state().startswith(f"not in use ({hanging} did not answer)")
    else:
        monkeypatch.setattr(compiler, "SECONDS", 60)
        assert native.state().startswith("in use (")
    (child,) = pids.read_text().split()
    state = Path(f"/proc/{child}/stat")
    for _ in range(1000):  # until the system has done it
        ended = not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"
        if ended:
            break
        os.sched_yield()
    assert ended


def test_a_compiler_is_named_with_its_number() -> None:
    assert str(compiler.Compiler("/usr/bin/g++", "g++ (Debian 12.2.0-14) 12.2.0")) == "g++ 12.2.0"
    assert str(compiler.Compiler("/usr/bin/c++", "c++ (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0")) == "c++ 13.3.0"
    assert str(compiler.Compiler("/usr/bin/clang++", "Ubuntu clang version 18.1.3 (1)")) == "clang++ 18.1.3"


def test_the_state_is_one_line(cache: Path) -> None:
    assert native.state().startswith("in use (")
    assert "\n" not in native.state()


def test_a_cache_from_which_nothing_can_be_loaded_does_not_stop_the_first_process(
    cache: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk mounted with noexec."""
    opened = compiler._open

    def refused(library: Path) -> ctypes.CDLL:
        if library.is_relative_to(cache):
            raise compiler.CompilationError("cannot load it")
        return opened(library)

    monkeypatch.setattr(compiler, "_open", refused)
    for _ in range(2):
        assert native.load(package, "kernel.cpp").library is not None
        native.forget()


def test_the_private_folder_outlives_a_fork_and_is_made_again(
    cache: Path, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = storage.workplace()
    child = subprocess.run(
        [sys.executable, "-c", FORK], env={**os.environ, "XDG_CACHE_HOME": str(cache)}, capture_output=True, text=True
    )
    assert child.stdout == "True False", child.stderr
    shutil.rmtree(folder)
    assert native.load(package, "second.cpp").library is not None
    assert storage.workplace() != folder


FORK = """
import os, sys
from foveate.native import cache

folder = cache.workplace()
if (child := os.fork()) == 0:
    sys.exit(0)
os.waitpid(child, 0)
print(folder.is_dir(), cache.workplace() != folder, end="")
"""
