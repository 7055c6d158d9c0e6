"""Switches that `foveate doctor --calibrate` measured on this machine: a file in the user's cache."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path

import torch

from foveate import native
from foveate.machine.switch import Tuning

VERSION = 2
"""Raised when a switch means something else: what was kept before is then not used."""


def own_file() -> Path:
    """Where this machine's switches lie: another torch, thread count, processor or GPU has others."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    identity = f"{native.processor()}{gpu}\n{torch.__version__}\n{torch.get_num_threads()}\n{native.in_use()}"
    return _folder() / f"tuning-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"


def keep(tuning: Tuning) -> Path:
    """Keep the switches for this machine; returns the file."""
    file = own_file()
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)  # compiled kernels, which lie there too, ask for it
    partial = file.with_suffix(f".{os.getpid()}")
    header = {"version": VERSION, "torch": torch.__version__, "threads": torch.get_num_threads()}
    partial.write_text(json.dumps({**header, **asdict(tuning)}) + "\n", encoding="utf-8")
    partial.replace(file)
    return file


def kept() -> Tuning | None:
    """The switches that were kept for this machine; None where there are none, or a file that cannot be read."""
    if not any(_folder().glob("tuning-*.json")):
        return None  # without asking which compiler there is
    try:
        content = json.loads(own_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
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
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser(), "foveate")
