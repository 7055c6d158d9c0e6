"""A Sphinx extension: a trace that a lesson's cell shows becomes a page of the viewer in a frame.

In a notebook a trace shows itself as a frame with the whole page in an attribute. On the site the page becomes a
file, which all languages share. The frame opens it with the view that the cell's metadata `look` names, in the language
of the lesson, and a link below opens it with tabs and choices.
"""

import hashlib
import re
from html import escape, unescape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.locale import _

_FRAME = re.compile(r'<iframe [^>]*\bsrcdoc="([^"]*)"[^>]*></iframe>')
FOLDER = "frames"
"""The folder of the site with the viewer's pages, beside those of the languages."""


def _unpack(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "html":
        return
    for raw in doctree.findall(nodes.raw):
        match = _FRAME.search(raw.astext())
        if match is None:
            continue
        page = unescape(match.group(1)).encode("utf-8")
        folder = Path(app.outdir).parent / FOLDER
        folder.mkdir(exist_ok=True)
        name = f"{docname.rsplit('/', 1)[-1]}-{hashlib.sha256(page).hexdigest()[:12]}.html"
        (folder / name).write_bytes(page)
        raw.replace_self(_frame(app, docname, name, _look(raw)))


def _frame(app: Sphinx, docname: str, name: str, look: str) -> nodes.raw:
    up = "../" * (app.builder.get_target_uri(docname).count("/") + 1)
    hash_ = "&".join(part for part in (look, f"language={app.config.language[:2]}") if part)
    source = escape(f"{up}{FOLDER}/{name}#{hash_}", quote=True)
    alone = f"{source}{escape('&')}embed=1"
    title = escape(app.builder.env.titles[docname].astext(), quote=True)
    html = f'<iframe class="viewer" sandbox="allow-scripts" loading="lazy" src="{alone}" title="{title}"></iframe>'
    html += f'<p class="whole"><a href="{source}" target="_blank">{escape(_("Open with all controls"))}</a></p>'
    return nodes.raw("", html, format="html")


def _look(raw: nodes.raw) -> str:
    node = raw.parent
    while node is not None:
        if "cell_metadata" in getattr(node, "attributes", {}):
            return node["cell_metadata"].get("look", "")
        node = node.parent
    return ""


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", _unpack)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
