"""A trace as one HTML file that needs nothing: the viewer, a worker that computes tiles, and the numbers.

Nothing of the trace is ever markup: its bytes are compressed and written in base64, labels included.
"""

import base64
import json
import struct
import zlib
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from foveate.errors import SetupError, UsageError
from foveate.inspect.trace.trace import Trace

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
PARTS = ("viewer.js", "viewer.css", "worker.js")
ALIGNED = 8
_NAMES = {"float16": "F16", "float32": "F32", "int32": "I32", "uint8": "U8", "bool": "BOOL"}


def standalone(trace: Trace, *, title: str = "What the model attended to") -> str:
    """The page. Raises UsageError for a site that only Python can evaluate, SetupError without the built viewer."""
    for site in trace.sites:
        if site.native is None and "visible" not in site.tensors:
            raise UsageError(
                f"{site.name}: who sees whom is a rule ({site.visibility['code']}) over a map too large to keep pair "
                "by pair, and a page by itself cannot evaluate it. Select other sites or fewer rows, or open the trace "
                "with `foveate look TRACE`, whose server can."
            )
    viewer, style, worker = (_part(name) for name in PARTS)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{style.replace("</style", "")}</style>
</head>
<body>
<div id="viewer"></div>
<script type="text/plain" id="worker">{_script(worker)}</script>
<script type="application/octet-stream" id="trace">{base64.b64encode(packed(trace)).decode()}</script>
<script type="module">{_script(viewer)}</script>
</body>
</html>
"""


def packed(trace: Trace) -> bytes:
    """Length and JSON of the header, then the tensors, compressed as raw deflate."""
    return deflated(stream(trace))


def stream(trace: Trace) -> bytes:
    """A 32-bit length, the JSON `{trace, tensors}`, and tensors that each begin at a multiple of eight bytes."""
    arrays = [
        (number, name, tensor.contiguous().numpy())
        for number, site in enumerate(trace.sites)
        for name, tensor in site.tensors.items()
    ]
    header = trace.header()
    size = 0
    while True:  # offsets count from the start, so they depend on the length of their own text
        listed = _listed(arrays, 4 + size)
        text = json.dumps({"trace": header, "tensors": listed}, ensure_ascii=False, allow_nan=False).encode()
        padded = text + b" " * (-(4 + len(text)) % ALIGNED)
        if len(padded) == size:
            break
        size = len(padded)
    body = bytearray(struct.pack("<I", len(padded)) + padded)
    for entry, (_, _, array) in zip(listed, arrays, strict=True):
        body += b"\0" * (entry["offset"] - len(body))
        body += array.tobytes()
    return bytes(body)


def deflated(content: bytes) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    return compressor.compress(content) + compressor.flush()


def _listed(arrays: list[tuple[int, str, np.ndarray]], begin: int) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for number, name, array in arrays:
        begin += -begin % ALIGNED
        kind = _NAMES[array.dtype.name]
        entries.append(
            {"site": number, "name": name, "dtype": kind, "shape": list(array.shape), "offset": begin,
             "length": array.nbytes}
        )  # fmt: skip
        begin += array.nbytes
    return entries


def static_folder() -> Path:
    """Where the built viewer is."""
    return Path(str(files("foveate"))) / "serve" / "static"


def _part(name: str) -> str:
    path = static_folder() / name
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SetupError(
            f"The viewer is not built: {path} is missing. Build it with `npm ci && npm run build` in viewer/, or "
            "install a released package, which carries it."
        ) from None


def _script(source: str) -> str:
    """Script text in which nothing ends the element early."""
    return source.replace("</script", "<\\/script").replace("<!--", "<\\!--")
