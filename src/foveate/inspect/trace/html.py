"""Writes a trace as one self-contained HTML file: the viewer, a worker that computes tiles, and the numbers.

The trace cannot contain markup: all its bytes, including labels, are compressed and encoded in base64.
"""

import base64
import json
import re
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from foveate.errors import SetupError, UsageError
from foveate.inspect.trace.site import Site
from foveate.inspect.trace.track import encodable

POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; worker-src blob:; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
PARTS = ("index.html", "viewer.js", "viewer.css", "worker.js")
ROOT = '<div id="foveate" data-api="api/">'
LINK, SCRIPT = '<link rel="stylesheet" href="viewer.css">', '<script defer src="viewer.js"></script>'
"""The part of the server's page that a standalone page replaces."""
START = (
    'const packed=Uint8Array.from(atob(document.getElementById("viewer").textContent),c=>c.charCodeAt(0));'
    'new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text()'
    '.then(text=>document.head.append(Object.assign(document.createElement("script"),{textContent:text})))'
)
"""Unpacks the viewer, whose text is three times as long as its compressed bytes."""
ALIGNED = 8
_NAMES = {"float16": "F16", "float32": "F32", "int32": "I32", "uint8": "U8", "bool": "BOOL"}


@runtime_checkable
class Sites(Protocol):
    """The parts of a trace that a page contains."""

    @property
    def sites(self) -> tuple[Site, ...]: ...

    @property
    def title(self) -> str: ...

    def header(self) -> dict[str, Any]: ...


def standalone(
    trace: Sites, *, title: str | None = None, header: Mapping[str, Any] | None = None, beside: Sites | None = None
) -> str:
    """The standalone page; without a title, with that of the trace; entries of `header` join those of the trace. With
    `beside`, the trace of another model for the same text, both are told one above the other and compared.

    Raises UsageError for a site that only Python can evaluate, SetupError without the viewer.
    """
    for site in (*trace.sites, *(beside.sites if beside else ())):
        if site.native is None and "visible" not in site.tensors:
            raise UsageError(
                f"{site.title}: who sees whom is a rule ({site.visibility['code']}) over a map too large to keep pair "
                "by pair, and a page by itself cannot evaluate it. Select other sites or fewer rows, or open the trace "
                "with `foveate look TRACE`, whose server can."
            )
    template, viewer, style, worker = (part(name) for name in PARTS)
    payloads = {"trace": packed(trace, header), **({"beside": packed(beside)} if beside else {})}
    trace_ = "".join(
        f'<script type="application/octet-stream" id="{name}">{base64.b64encode(payload).decode()}</script>'
        for name, payload in payloads.items()
    )
    worker = f'<script type="text/plain" id="worker">{_script(worker)}</script>'
    viewer = (
        f'<script type="application/octet-stream" id="viewer">{base64.b64encode(deflated(viewer.encode())).decode()}'
    )
    html = _inlined(template, style, f"{trace_}{worker}{viewer}</script><script>{START}</script>")
    name = encodable(escape(title or trace.title))
    return re.sub("<title>.*?</title>", lambda _: f"<title>{name}</title>", html, count=1)


def live_page() -> str:
    """The page without numbers, which requests them through the port of its frame."""
    template, viewer, style, _ = (part(name) for name in PARTS)
    framed = template.replace(ROOT, '<div id="foveate" data-port="">')
    return _inlined(framed, style, f"<script>{_script(viewer)}</script>")


def _inlined(template: str, style: str, scripts: str) -> str:
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    return template.replace(LINK, f"{policy}<style>{_style(style)}</style>").replace(SCRIPT, scripts)


def packed(trace: Sites, header: Mapping[str, Any] | None = None) -> bytes:
    """The header's length, the header as JSON, and the tensors, compressed as raw deflate."""
    return deflated(stream(trace, header))


def stream(trace: Sites, header: Mapping[str, Any] | None = None) -> bytes:
    """A 32-bit length, the JSON `{trace, tensors}`, and the tensors, with offsets relative to the end of the JSON."""
    entries, parts, offset = [], [], 0
    for number, site in enumerate(trace.sites):
        for name, tensor in site.tensors.items():
            array = tensor.contiguous().numpy()
            raw = array.tobytes() + b"\0" * (-array.nbytes % ALIGNED)
            entries.append(
                {"site": number, "name": name, "dtype": _NAMES[array.dtype.name], "shape": list(array.shape),
                 "offset": offset, "length": array.nbytes}
            )  # fmt: skip
            parts.append(raw)
            offset += len(raw)
    text = json.dumps(
        {"trace": {**trace.header(), **(header or {})}, "tensors": entries}, ensure_ascii=False, allow_nan=False
    ).encode()
    text += b" " * (-(4 + len(text)) % ALIGNED)
    return b"".join([struct.pack("<I", len(text)), text, *parts])


def numbers(trace: Sites, site: int) -> bytes:
    """All numbers of one site, as `stream` writes them, for a page that computes with them."""
    return stream(_Numbers(trace.title, {**trace.header(), "sequences": {}}, (trace.sites[site],)))


@dataclass(frozen=True)
class _Numbers:
    title: str
    whole: Mapping[str, Any]
    sites: tuple[Site, ...]

    def header(self) -> dict[str, Any]:
        return {**self.whole, "sites": [site.header() for site in self.sites]}


def deflated(content: bytes) -> bytes:
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    return compressor.compress(content) + compressor.flush()


def static_folder() -> Path:
    """The folder of the built viewer."""
    return Path(str(files("foveate"))) / "serve" / "static"


def part(name: str) -> str:
    """A file of the built viewer. Raises SetupError if it is not built."""
    path = static_folder() / name
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise SetupError(
            f"The viewer is not built: {path} is missing. Build it with `npm ci && npm run build` in viewer/, or "
            "install a released package, which contains it."
        ) from None


def _script(source: str) -> str:
    """Script text in which nothing ends the element early."""
    return source.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _style(source: str) -> str:
    return source.replace("</style", "<\\/style")
