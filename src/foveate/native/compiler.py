"""Compiles a C++ file and loads the library, or loads it from the cache."""

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import signal
import subprocess
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from foveate.native import cache

FLAGS = (
    "-std=c++17",
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-ffp-contract=fast",
    "-Wno-psabi",
    "-shared",
    "-fPIC",
)
"""-ffast-math is not among them, because kernels must distinguish NaN and infinity from numbers."""
SECONDS = 20
"""A compiler that takes longer is hanging. On a busy machine, compiling a kernel gets more time."""


class CompilationError(Exception):
    """The reason why a kernel cannot be compiled or loaded."""


@dataclass(frozen=True)
class Kernels:
    """A loaded library, or None with the reason."""

    library: ctypes.CDLL | None
    reason: str = ""


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler of this machine."""

    command: str
    version: str

    def __str__(self) -> str:
        number = re.search(r"\d+(\.\d+)+", re.sub(r"\(.*?\)", "", self.version))
        return f"{Path(self.command).name} {number[0] if number else ''}".strip()


@functools.cache
def load(package: str, name: str) -> Kernels:
    """The kernels of the C++ file `name` in `package`, compiled on the first use on this machine."""
    try:
        return Kernels(_loaded(_source(package, name), Path(name).stem))
    except CompilationError as problem:
        _failed[name] = str(problem)
        return Kernels(None, str(problem))


_failed: dict[str, str] = {}
"""The files that this process could not load, with the reasons."""


def forget() -> None:
    """Check the environment and the compilers again; libraries in use stay loaded."""
    for function in (load, _compiler, _for_this_processor, _obstacle):
        function.cache_clear()
    _failed.clear()
    _hanging.clear()
    cache.forget()


def in_use() -> bool:
    """Whether kernels run on this machine."""
    return not _obstacle()


def state() -> str:
    """One line for `foveate doctor`: "in use (g++ 12.2.0, AVX-512)" with the files that failed, or the reason."""
    if problem := _obstacle():
        return f"not in use ({problem}); plain torch runs instead"
    failures = "".join(f"; but not {name}: {problem}" for name, problem in _failed.items())
    caching = "" if cache.cache().folder else f"; compiled again in every process, because {cache.cache().reason}"
    return f"in use ({', '.join([str(_compiler()), *_registers()])}){caching}{failures}"


@functools.cache
def _obstacle() -> str:
    """Why kernels cannot run on this machine; empty if they can."""
    try:
        _probe()
    except CompilationError as problem:
        return str(problem)
    return ""


def _probe() -> ctypes.CDLL:
    """A library without kernels, for testing the compiler."""
    return _loaded(_prelude(), "probe")


@functools.cache
def _compiler() -> Compiler:
    if os.environ.get("FOVEATE_NATIVE") == "0":
        raise CompilationError("FOVEATE_NATIVE=0")
    if platform.system() == "Windows":
        raise CompilationError("kernels do not support Windows")
    names = [name for name in (os.environ.get("CXX"), "c++", "g++", "clang++") if name]
    for name in names:
        command = shutil.which(name)
        if command is None:
            continue
        try:
            answer = _ask(command, "--version")
        except CompilationError:
            continue
        if answer.returncode == 0:
            return Compiler(command, answer.stdout.splitlines()[0] if answer.stdout else "")
    raise CompilationError(f"no C++ compiler: none of {', '.join(names)} runs")


def _source(package: str, name: str) -> str:
    """The file with the headers of its package that it includes, after the prelude or with it where it is included."""
    text = _text(package, name)
    lines = [] if '#include "prelude.h"\n' in text else [_prelude(), f'#line 1 "{name}"\n']
    for number, line in enumerate(text.splitlines(keepends=True), start=1):
        header = re.fullmatch(r'#include "(\w+\.h)"\n', line)
        if header is None:
            lines.append(line)
        else:
            included = _prelude() if header[1] == "prelude.h" else _text(package, header[1])
            lines += [f'#line 1 "{header[1]}"\n', included, f'#line {number + 1} "{name}"\n']
    return "".join(lines)


def _text(package: str, name: str) -> str:
    return (resources.files(package) / name).read_text(encoding="utf-8")


def _prelude() -> str:
    return _text("foveate.native", "prelude.h")


def _loaded(source: str, stem: str) -> ctypes.CDLL:
    """The library of this source, for this compiler and processor."""
    compiler = _compiler()
    flags = [*FLAGS, *map(" ".join, _FOR_THIS_PROCESSOR)]
    identity = "\0".join([source, *flags, compiler.command, compiler.version, processor()])
    name = f"{stem}-{hashlib.sha256(identity.encode()).hexdigest()[:32]}"
    if (library := cache.find(name)) is not None:
        try:
            return _open(library)
        except CompilationError:  # for example on a disk mounted with noexec
            return _open(_compiled(compiler, source, name))
    library = _compiled(compiler, source, name)
    try:
        return _open(cache.keep(library, name))
    except CompilationError:
        return _open(library)


def _compiled(compiler: Compiler, source: str, name: str) -> Path:
    """A new library in a private folder of this process."""
    try:
        folder = cache.workplace() / name
        folder.mkdir(exist_ok=True)
        text, library = folder / "kernel.cpp", folder / "kernel.so"
        text.write_text(source, encoding="utf-8")
    except OSError as problem:
        raise CompilationError(f"the temporary folder is not writable: {problem}") from None
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    arguments = (*_for_this_processor(compiler), str(text), "-o", str(library))
    process = _run(compiler, *arguments, seconds=SECONDS * min(busy, 6.0), temporary=folder)
    if process.returncode or not library.exists():
        lines = process.stderr.strip().splitlines() or ["without a message"]
        raise CompilationError(f"{compiler} failed: {next((line for line in lines if 'error' in line), lines[0])}")
    return library


_FOR_THIS_PROCESSOR = (("-march=native", "-mprefer-vector-width=512"), ("-march=native",), ("-mcpu=native",))
"""The first flags that the compiler accepts are used. The test compiles an empty file, because an error in a kernel is
not an unknown flag."""


@functools.cache
def _for_this_processor(compiler: Compiler) -> tuple[str, ...]:
    for flags in _FOR_THIS_PROCESSOR:
        if _run(compiler, *flags, "-S", "-x", "c++", os.devnull, "-o", "-").returncode == 0:
            return flags
    return ()


def _run(compiler: Compiler, *arguments: str, **how: Any) -> "subprocess.CompletedProcess[str]":
    return _ask(compiler.command, *FLAGS, *arguments, **how)


_hanging: set[str] = set()
"""Compilers that did not answer; they are not called again."""


def _ask(
    command: str, *arguments: str, seconds: float | None = None, temporary: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run a compiler and return its result. A compiler that hangs is killed with its children."""
    if command in _hanging:
        raise CompilationError(f"{command} did not answer")
    seconds = SECONDS if seconds is None else seconds
    environment = os.environ if temporary is None else os.environ | {"TMPDIR": str(temporary)}
    try:
        process = subprocess.Popen(
            [command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=environment,
            start_new_session=True,
        )
    except OSError as problem:
        raise CompilationError(f"{command} cannot be run: {problem}") from None
    try:
        out, err = process.communicate(timeout=seconds)
    except BaseException as problem:  # Ctrl-C does not reach processes in another session
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=1)
        if not isinstance(problem, subprocess.TimeoutExpired):
            raise
        _hanging.add(command)
        raise CompilationError(f"{command} did not answer in {seconds:.3g} seconds") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def _open(library: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library))
    except OSError as problem:
        raise CompilationError(f"cannot load {library}: {problem}") from None


@functools.cache
def processor() -> str:
    """The properties that -march=native depends on, because machines may share a home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    described = {line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}
    return "\n".join([platform.machine(), platform.processor(), *sorted(described)])


def has_tiles() -> bool:
    """Whether the processor has tile registers (AMX), for products in bfloat16 and int8."""
    return "amx_bf16" in processor().split()


def _registers() -> list[str]:
    flags = set(processor().split())
    names = (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("asimd", "NEON"), ("sse2", "SSE2"))
    return [name for flag, name in names if flag in flags][:1] + ["AMX"] * bool(_probe().uses_tiles())
