"""What a user has after `pip install`: this package and what it depends on, without the tools of its developers."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNNING = "-c 'import sys; from foveate.cli import main; sys.exit(main())'"
SERVER = Path(__file__).with_name("command_server.py")


def requirements(*extras: str) -> list[Requirement]:
    """What pyproject.toml asks for, with the extras."""
    optional = SETTINGS["optional-dependencies"]
    named = [*SETTINGS["dependencies"], *(line for extra in extras for line in optional[extra])]
    return [Requirement(line) for line in named]


def installed(*extras: str) -> dict[str, Distribution]:
    """The distributions that pip would install beside foveate, by their names in lower case."""
    found: dict[str, Distribution] = {}
    waiting = [(requirement, frozenset[str]()) for requirement in requirements(*extras)]
    while waiting:
        requirement, wanted = waiting.pop()
        wanted = frozenset(requirement.extras)
        marker = requirement.marker
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in found or name == "foveate" or (marker and not marker.evaluate({"extra": ""})):
            continue
        try:
            found[name] = distribution(requirement.name)
        except PackageNotFoundError:
            continue  # this machine's torch may come without the libraries of a GPU
        for line in found[name].requires or ():
            needed = Requirement(line)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                waiting.append((needed, frozenset(needed.extras)))
    return found


def _entries(distributions: Iterable[Distribution]) -> Iterator[Path]:
    """The files and folders at the top of site-packages that belong to distributions."""
    for each in distributions:
        tops = {file.parts[0] for file in each.files or () if file.parts and file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            yield Path(str(each.locate_file(top)))


def site(folder: Path, *extras: str) -> Path:
    """A folder of packages that holds what `pip install 'foveate[extras]'` brings, as links."""
    folder.mkdir(parents=True)
    for entry in set(_entries(installed(*extras).values())):
        (folder / entry.name).symlink_to(entry)
    package = Path(os.environ.get("FOVEATE_PACKAGE") or ROOT / "src", "foveate")
    (folder / "foveate").symlink_to(package)
    return folder


def environment(site: Path, binaries: Path, running: str = RUNNING) -> dict[str, str]:
    """The variables of a shell in which `foveate` and `python` see the packages of that folder, and no others.

    `foveate` is what Python does with the arguments `running`.
    """
    binaries.mkdir(exist_ok=True)
    for name, rest in (("python", ""), ("foveate", running)):
        program = binaries / name
        # -S: without the packages that are installed beside the tests.
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -S {rest} "$@"\n')
        program.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "PYTHONPATH": str(site), "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}


@contextlib.contextmanager
def server(variables: dict[str, str]) -> Iterator[str]:
    """What `foveate` is in `environment` if a process with these variables, which has imported torch, runs commands."""
    # A temporary folder of its own: the path of a socket may have about 100 bytes.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listening:
        path = Path(folder, "socket")
        listening.bind(str(path))
        listening.listen()
        descriptor = listening.fileno()
        process = subprocess.Popen(
            # -P: without the folder of that program.
            [sys.executable, "-S", "-P", SERVER, "serve", str(descriptor)],
            env=variables,
            pass_fds=[descriptor],
            start_new_session=True,
        )
        listening.close()  # whoever asks a server that has died is refused
        try:
            yield f"{SERVER} ask {path}"
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def shell(command: str, variables: dict[str, str], folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
    )
