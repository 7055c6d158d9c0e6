"""Native kernels are compiled once, cached safely, and their absence always has a reason."""

import ctypes
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from foveate import native
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
    (folder / "short.cpp").write_text('#define VECTORS_OF_THIS_PROCESSOR\n#include "prelude.h"\n' + KERNEL)
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
    made = built.stat().st_mtime_ns
    native.forget()
    assert native.load(package, "kernel.cpp").library is not None
    assert [file.name for file in cache.iterdir()] == [built.name]
    assert built.stat().st_mtime_ns == made


@pytest.mark.parametrize("file", ["kernel.cpp", "short.cpp"])
def test_exp_is_that_of_double_precision_and_keeps_what_is_not_a_number(cache: Path, package: str, file: str) -> None:
    library = native.load(package, file).library
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


def test_a_compiler_is_named_with_its_number() -> None:
    assert str(compiler.Compiler("/usr/bin/g++", "g++ (Debian 12.2.0-14) 12.2.0")) == "g++ 12.2.0"
    assert str(compiler.Compiler("/usr/bin/c++", "c++ (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0")) == "c++ 13.3.0"
    assert str(compiler.Compiler("/usr/bin/clang++", "Ubuntu clang version 18.1.3 (1)")) == "clang++ 18.1.3"


def test_the_state_is_one_line(cache: Path) -> None:
    assert native.state().startswith("in use (")
    assert "\n" not in native.state()
