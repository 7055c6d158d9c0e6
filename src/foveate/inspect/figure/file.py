"""Alignments written to files, the kind chosen by the file's name."""

from pathlib import Path

from foveate.errors import DataError, UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.figure.block import terminal
from foveate.inspect.figure.document import pdf
from foveate.inspect.figure.raster import png
from foveate.inspect.figure.vector import svg

KINDS = {
    ".svg": "a picture whose text stays text, in any script",
    ".pdf": "the same for papers, in the letters of western Europe",
    ".png": "a picture of pixels, ASCII labels only",
    ".txt": "blocks as in the terminal",
    ".pharaoh": "the hard links, `source-target` pairs",
}


def write(alignment: Alignment, path: str | Path, *, title: str | None = None) -> Path:
    """Write the alignment as `.svg`, `.pdf`, `.png`, `.txt` (blocks) or `.pharaoh` (hard links), by the name's ending.

    Raises `UsageError` for any other ending, naming these, and `DataError` when the file cannot be written.
    """
    path = Path(path)
    content = _content(alignment, path, title)
    try:
        path.write_bytes(content)
    except OSError as error:
        raise DataError(
            f"{path}: cannot write the alignment: {error.strerror}. Choose a folder that exists and is yours."
        ) from error
    return path


def _content(alignment: Alignment, path: Path, title: str | None) -> bytes:
    match path.suffix.lower():
        case ".svg":
            return svg(alignment, title=title).encode()
        case ".pdf":
            return pdf(svg(alignment, title=title).encode())
        case ".png":
            return png(alignment, title=title)
        case ".txt":
            return (terminal(alignment) + "\n").encode()
        case ".pharaoh":
            return (alignment.pharaoh() + "\n").encode()
        case suffix:
            choices = "; ".join(f"{kind} ({what})" for kind, what in KINDS.items())
            raise UsageError(
                f"{path}: an alignment is not written as {suffix or 'a file without ending'!r}. Choose {choices}."
            )
