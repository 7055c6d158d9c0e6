"""Writes alignments, gazes and times to files in the format of the file's name."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveate.errors import SetupError, UsageError
from foveate.inspect.alignment import Alignment
from foveate.inspect.figure.gaze_figure import gaze_svg, view_svg
from foveate.inspect.figure.pdf import pdf
from foveate.inspect.figure.raster import DPI, png, rasterised
from foveate.inspect.figure.scale import Scale
from foveate.inspect.figure.text_block import terminal
from foveate.inspect.figure.time_figure import time_svg
from foveate.inspect.figure.time_strip import strip
from foveate.inspect.figure.vector import svg
from foveate.inspect.time_alignment import TimeAlignment

if TYPE_CHECKING:  # pictures of alignments do not need torch
    from foveate.inspect.trace.media import Picture
    from foveate.inspect.trace.sound import Sound

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

    Raises `UsageError`, which lists the endings, for another ending, and `SetupError` if the file cannot be written.
    """
    path = Path(path)
    content = _content(alignment, path, {"title": title, "names": names, "scale": scale}, dpi)
    written(path, content, "alignment")
    return path


TIMES = {
    ".TextGrid": "Praat's intervals, a tier for words and one for letters",
    ".ctm": "NIST's times of words",
    ".json": "the times of words and letters",
    ".svg": "a vector picture with text in any script",
    ".pdf": "a vector picture with embedded fonts, for papers",
    ".png": "a picture of pixels",
    ".txt": "bars as in the terminal",
}


def write_times(
    alignment: TimeAlignment,
    path: str | Path,
    *,
    sound: "Sound | None" = None,
    picture: "Picture | None" = None,
    title: str | None = None,
    dpi: int | float = DPI,
) -> Path:
    """Write a time alignment as `.TextGrid`, `.ctm`, `.json`, `.svg`, `.pdf`, `.png` or `.txt` (bars), by its ending.
    Pictures contain the sound and the spectrogram if they are given.

    Raises `UsageError`, which lists the endings, for another ending, and `SetupError` if the file cannot be written.
    """
    path = Path(path)
    ending = next((each for each in TIMES if each.lower() == path.suffix.lower()), None)
    texts = {".TextGrid": alignment.text_grid, ".ctm": alignment.ctm, ".json": alignment.json}
    if ending is None:
        choices = "; ".join(f"{kind} ({what})" for kind, what in TIMES.items())
        raise UsageError(
            f"{path}: times are not written as {path.suffix or 'a file without ending'!r}. Choose {choices}."
        )
    if ending in texts:
        content = texts[ending]().encode()
    elif ending == ".txt":
        content = (strip(alignment) + "\n").encode()
    else:
        drawing = time_svg(alignment, sound=sound, picture=picture, title=title)
        content = _drawn(drawing, path, title or alignment.name, dpi)
    written(path, content, "times")
    return path


PICTURES = (".svg", ".pdf", ".png")
"""The endings of pictures; alignments are written by the others of `KINDS`."""


def write_gaze(
    alignment: Alignment,
    path: str | Path,
    *,
    picture: "Picture | None" = None,
    title: str | None = None,
    dpi: int | float = DPI,
) -> Path:
    """Write where each word of a caption looks as `.svg`, `.pdf` or `.png`, by the file's ending. See `gaze_svg`.

    Raises `UsageError` for another ending, for an alignment that `gaze_svg` refuses, and for a picture that a PDF does
    not take; `SetupError` if the file cannot be written.
    """
    return _pictured(gaze_svg(alignment, picture=picture, title=title), path, title, dpi)


def write_view(
    alignment: Alignment,
    path: str | Path,
    *,
    picture: "Picture | None" = None,
    title: str = "",
    dpi: int | float = DPI,
) -> Path:
    """Write where queries look in a picture as `.svg`, `.pdf` or `.png`, by the file's ending. See `view_svg`.

    Raises as `write_gaze` does.
    """
    return _pictured(view_svg(alignment, picture=picture, title=title), path, title, dpi)


def _pictured(drawing: str, path: str | Path, title: str | None, dpi: int | float) -> Path:
    path = Path(path)
    if path.suffix.lower() not in PICTURES:
        raise UsageError(f"{path}: a gaze is written as {', '.join(PICTURES)}.")
    written(path, _drawn(drawing, path, title or "Gaze", dpi), "gaze")
    return path


def write_drawing(
    drawing: str,
    text: str,
    path: str | Path,
    *,
    title: str,
    what: str = "graph",
    json: str | None = None,
    dpi: int | float = DPI,
) -> Path:
    """Write a drawing, such as of a graph, as `.svg`, `.pdf` or `.png`, its lines of text as `.txt`, or its numbers as
    `.json` if they are given, by the file's ending.

    Raises `UsageError`, which lists the endings, for another ending, and `SetupError` if the file cannot be written.
    """
    path = Path(path)
    texts = {".txt": text} | ({} if json is None else {".json": json})
    endings = {kind: KINDS[kind] for kind in PICTURES} | {".txt": "its numbers as text"}
    endings |= {} if json is None else {".json": "all numbers"}
    if path.suffix.lower() not in endings:
        choices = "; ".join(f"{kind} ({what})" for kind, what in endings.items())
        raise UsageError(
            f"{path}: a {what} is not written as {path.suffix or 'a file without ending'!r}. Choose {choices}."
        )
    ending = path.suffix.lower()
    content = f"{texts[ending]}\n".encode() if ending in texts else _drawn(drawing, path, title, dpi)
    written(path, content, what)
    return path


def written(path: Path, content: bytes, what: str) -> None:
    """Write a file. Raises SetupError with the reason if this fails."""
    try:
        path.write_bytes(content)
    except OSError as error:
        raise SetupError(
            f"{path}: cannot write the {what}: {error.strerror}. Choose a folder that exists and is yours."
        ) from error


def _drawn(drawing: str, path: Path, title: str, dpi: int | float) -> bytes:
    """A drawing in the format of the ending: .svg, .pdf or .png."""
    match path.suffix.lower():
        case ".svg":
            return drawing.encode()
        case ".pdf":
            return pdf(drawing.encode())
        case _:
            return rasterised(drawing, dpi=dpi, details={"Title": title})


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
