"""Writes alignments to files in the format of the file's name."""

from pathlib import Path
from typing import Any

from foveate.errors import DataError, UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.figure.pdf import pdf
from foveate.inspect.figure.raster import DPI, png
from foveate.inspect.figure.scale import Scale
from foveate.inspect.figure.text_block import terminal
from foveate.inspect.figure.vector import svg

KINDS = {
    ".svg": "a vector picture with text in any script",
    ".pdf": "a vector picture with embedded fonts, for papers",
    ".png": "a picture of pixels",
    ".txt": "text blocks as in the terminal",
    ".pharaoh": "the hard links, `source-target` pairs",
}


def write(
    alignment: Alignment,
    path: str | Path,
    *,
    title: str | None = None,
    names: tuple[str, str] = ("source", "target"),
    scale: Scale = "linear",
    dpi: int | float = DPI,
) -> Path:
    """Write the alignment as `.svg`, `.pdf`, `.png`, `.txt` (blocks) or `.pharaoh` (hard links), by its ending.
    `dpi` is the resolution of a PNG.

    Raises `UsageError`, which lists the endings, for another ending, and `DataError` if the file cannot be written.
    """
    path = Path(path)
    content = _content(alignment, path, {"title": title, "names": names, "scale": scale}, dpi)
    written(path, content, "alignment")
    return path


def written(path: Path, content: bytes, what: str) -> None:
    """Write a file. Raises DataError with the reason if this fails."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise DataError(
            f"{path}: cannot write the {what}: {error.strerror}. Choose a folder that exists and is yours."
        ) from error


def _content(alignment: Alignment, path: Path, look: dict[str, Any], dpi: int | float) -> bytes:
    match path.suffix.lower():
        case ".svg":
            return svg(alignment, **look).encode()
        case ".pdf":
            return pdf(svg(alignment, **look).encode())
        case ".png":
            return png(alignment, **look, dpi=dpi)
        case ".txt":
            return (terminal(alignment) + "\n").encode()
        case ".pharaoh":
            return (alignment.pharaoh() + "\n").encode()
        case suffix:
            choices = "; ".join(f"{kind} ({what})" for kind, what in KINDS.items())
            raise UsageError(
                f"{path}: an alignment is not written as {suffix or 'a file without ending'!r}. Choose {choices}."
            )
