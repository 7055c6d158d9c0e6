"""Switches that `foveate doctor --calibrate` measured on this machine: a file in the user's cache."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

import torch

from foveate import native
from foveate.errors import SetupError
from foveate.machine.switch import Tuning

VERSION = 2
"""Increased when the meaning of a switch changes, so that older files are ignored."""


def own_file() -> Path:
    """The file with the switches for this processor, GPU, version of torch and number of threads."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    identity = f"{native.processor()}{gpu}\n{torch.__version__}\n{torch.get_num_threads()}\n{native.in_use()}"
    return _folder() / f"tuning-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"


def keep(tuning: Tuning) -> Path:
    """Store the switches for this machine; return the file. Raises SetupError if it cannot be written."""
    file = own_file()
    partial = file.with_suffix(f".{os.getpid()}")
    header = {"version": VERSION, "torch": torch.__version__, "threads": torch.get_num_threads()}
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # required by the compiled kernels in this folder
        partial.write_text(json.dumps({**header, **asdict(tuning)}) + "\n", encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        raise SetupError(
            f"{file} cannot be written: {error.strerror or error}. Set XDG_CACHE_HOME to a folder for caches that can."
        ) from error
    return file


def kept() -> Tuning | None:
    """The stored switches for this machine; None without a readable file."""
    try:
        if not any(_folder().glob("tuning-*.json")):
            return None  # without starting the compiler
        content = json.loads(own_file().read_text(encoding="utf-8"))
    except (SetupError, OSError, ValueError, RecursionError):
        return None
    return _read(content)


def _read(content: object) -> Tuning | None:
    """A tuning from the content of a file, if each switch has its type."""
    if not isinstance(content, Mapping) or content.get("version") != VERSION:
        return None
    switches = {field.name: content.get(field.name) for field in fields(Tuning)}
    rows = switches["packed_rows"]
    on = [value for name, value in switches.items() if name != "packed_rows"]
    if type(rows) is not int or rows < 0 or not all(isinstance(value, bool) for value in on):
        return None
    return Tuning(**switches)  # type: ignore[arg-type]


def _folder() -> Path:
    """The folder of caches. Raises SetupError for a user without a home folder."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "foveate")
    except RuntimeError:
        raise SetupError(
            "This user has no home folder to keep what was measured in. Set XDG_CACHE_HOME to a folder for caches."
        ) from None
