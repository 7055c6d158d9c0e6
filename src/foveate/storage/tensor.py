"""Reads and writes tensors in safetensors files, which contain numbers and names, but no code."""

import errno
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from foveate.storage.manifest import DamagedError


def write_tensors(path: Path, tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file with the mode of the umask (safetensors alone uses 0600). Raises OSError."""
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(_apart(tensors), path, dict(metadata or {}) or None)
    except SafetensorError as error:  # safetensors wraps the system's error
        raise OSError(errno.ENOSPC if "No space left" in str(error) else errno.EIO, str(error)) from error
    path.chmod(mode)


def _apart(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors without shared memory, which the format does not allow."""
    apart: dict[str, torch.Tensor] = {}
    places: set[int] = set()
    for name, tensor in tensors.items():
        whole = tensor.detach().contiguous()
        place = whole.untyped_storage().data_ptr()
        apart[name] = whole.clone() if place in places else whole
        places.add(place)
    return apart


def read_tensors(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, copied from the mapped file into memory."""
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is not a regular file")
        return {name: tensor.clone() for name, tensor in load_file(path).items()}
    except FileNotFoundError:
        raise DamagedError(f"{path} is missing.") from None
    except (OSError, SafetensorError) as error:
        raise DamagedError(f"{path} cannot be read as safetensors: {error}.") from None
