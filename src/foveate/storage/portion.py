"""Tensors in several safetensors files, each with some rows of every tensor.

A file's header says where its rows begin, in the words of `torch.distributed.checkpoint`, whose
`HuggingFaceStorageReader` reads these files too. torch's usual checkpoints pickle this information.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from foveate.storage.manifest import DamagedError
from foveate.storage.tensor import read_tensors, write_tensors

PLACES, BEGINNING = "DCP_SHARDING_INFO", "saved_offsets"
"""Keys of torch's headers."""


@dataclass(frozen=True, eq=False)
class Portion:
    """Rows of a tensor of the size `whole`, from row `first`; `rows` is the tensor itself if it has no axis."""

    rows: Tensor
    first: int
    whole: torch.Size

    @property
    def last(self) -> int:
        """The number of the row after the last."""
        return self.first + len(self.rows) if self.whole else 1

    @classmethod
    def all_of(cls, tensor: Tensor) -> "Portion":
        return cls(tensor, 0, tensor.shape)


def portion_name(name: str, number: int, count: int) -> str:
    """
    >>> portion_name("model.safetensors", 0, 4)
    'model-00001-of-00004.safetensors'
    """
    stem, _, suffix = name.rpartition(".")
    return f"{stem}-{number + 1:05d}-of-{count:05d}.{suffix}"


def write_portions(path: Path, portions: Mapping[str, Portion]) -> None:
    """Writes a safetensors file of those portions that have rows. Raises OSError."""
    filled = {name: portion for name, portion in portions.items() if portion.last > portion.first}
    places = {
        name: {BEGINNING: [portion.first, *[0] * (len(portion.whole) - 1)] if portion.whole else []}
        for name, portion in filled.items()
    }
    rows = {name: portion.rows for name, portion in filled.items()}
    write_tensors(path, rows, {PLACES: json.dumps(places), "DCP_VERSION": "1.0", "format": "pt"})


@dataclass(frozen=True)
class Piece:
    """The place of a tensor's rows from `first` to before `last` in a file."""

    file: Path
    first: int
    last: int
    shape: tuple[int, ...]


class TensorFiles:
    """The tensors of one file, or of all files of `portion_name`, read by rows."""

    def __init__(self, path: Path) -> None:
        """`path` is the name of one file with all tensors, which may be absent where there are portions."""
        self.path = path
        self.files = [path] if path.exists() else _portions(path)
        self._open: dict[Path, Any] = {}
        self._pieces: dict[str, list[Piece]] = {}
        for file in self.files:
            for name, piece in self._pieces_of(file):
                self._pieces.setdefault(name, []).append(piece)
        for name, pieces in self._pieces.items():
            pieces.sort(key=lambda piece: piece.first)
            end = 0
            for piece in pieces:
                if piece.first != end or piece.shape[1:] != pieces[0].shape[1:]:
                    raise DamagedError(f"{piece.file} does not fit the other files: rows of {name} are missing.")
                end = piece.last

    def __iter__(self) -> Any:
        return iter(self._pieces)

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of values and of tensors."""
        return sum(self.shape(name).numel() for name in self._pieces), len(self._pieces)

    def shape(self, name: str) -> torch.Size:
        """The size of a tensor as a whole."""
        pieces = self._pieces[name]
        return torch.Size((pieces[-1].last, *pieces[0].shape[1:]) if pieces[0].shape else ())

    def rows(self, name: str, first: int, last: int) -> Tensor:
        """The rows of a tensor from `first` to before `last`; a tensor without axes as it is."""
        pieces = self._pieces[name]
        if not pieces[0].shape:
            tensor: Tensor = self._opened(pieces[0].file).get_tensor(name)
            return tensor.clone()
        parts = [
            self._opened(piece.file).get_slice(name)[max(first, piece.first) - piece.first : last - piece.first]
            for piece in pieces
            if piece.first < last and first < piece.last
        ] or [self._opened(pieces[0].file).get_slice(name)[:0]]
        return torch.cat(parts) if len(parts) > 1 else parts[0].clone()

    def whole(self) -> dict[str, Tensor]:
        """All tensors."""
        if self.files == [self.path]:
            return read_tensors(self.path)
        return {name: self.rows(name, 0, pieces[-1].last) for name, pieces in self._pieces.items()}

    def _opened(self, file: Path) -> Any:
        if file not in self._open:
            try:
                if not file.is_file():
                    raise FileNotFoundError
                self._open[file] = safe_open(file, "pt")
            except FileNotFoundError:
                raise DamagedError(f"{file} is missing.") from None
            except (OSError, SafetensorError) as error:
                raise DamagedError(f"{file} cannot be read as safetensors: {error}.") from None
        return self._open[file]

    def _pieces_of(self, file: Path) -> Sequence[tuple[str, Piece]]:
        content = self._opened(file)
        pieces = []
        try:
            places = json.loads((content.metadata() or {}).get(PLACES, "{}"))
            for name in content.keys():  # noqa: SIM118
                shape = tuple(content.get_slice(name).get_shape())
                first = int(places[name][BEGINNING][0]) if shape and name in places else 0
                pieces.append((name, Piece(file, first, first + shape[0] if shape else 1, shape)))
        except (ValueError, TypeError, LookupError) as error:
            raise DamagedError(f"{file} does not say where its rows begin: {error!r}.") from None
        return pieces


def _portions(path: Path) -> list[Path]:
    """The files of `portion_name` for this path; the path itself if there are none."""
    files = sorted(path.parent.glob(f"{path.stem}-*-of-*{path.suffix}"))
    expected = [path.with_name(portion_name(path.name, number, len(files))) for number in range(len(files))]
    if files != expected:
        raise DamagedError(f"{path.parent} has some files of {path.name} only: {', '.join(f.name for f in files)}.")
    return files or [path]
