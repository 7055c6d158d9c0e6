"""A Sphinx extension: links between the languages of the site, and the direction of their scripts."""

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from staging import LANGUAGES, LESSONS

RIGHT_TO_LEFT = {"fa"}


def _link_to_english(app: Sphinx, doctree: nodes.document) -> None:
    """Translated lessons link to the pages of the manual, which exist in English only."""
    here = app.env.current_document.docname
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("refdomain") == "doc" and node["reftarget"] not in app.env.found_docs:
            target = f"{_up(here)}en/{node['reftarget']}.html"
            node.replace_self(nodes.reference("", "", *node.children, refuri=target, internal=False))


def _up(pagename: str) -> str:
    """The way from a page to the folder of the languages."""
    return "../" * (pagename.count("/") + 1)


def _context(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: Any) -> None:
    everywhere = pagename == "index" or pagename.startswith(f"{LESSONS}/")
    up = _up(pagename)
    page = f"{pagename if everywhere else 'index'}.html"
    context["languages"] = [
        (code, name, f"{up}{code}/{page}", code == app.config.language) for code, name in LANGUAGES.items()
    ]
    context["site_root"] = up
    path = Path(app.srcdir) / f"{pagename}.md"
    cells = pagename.startswith(f"{LESSONS}/") and "{code-cell}" in path.read_text(encoding="utf-8")
    context["notebook"] = f"{up}notebooks/{path.stem}.ipynb" if cells else None


def _direct(app: Sphinx, exception: Exception | None) -> None:
    """No theme of Sphinx sets the direction of a page."""
    if exception is None and app.builder.format == "html":
        direction = "rtl" if app.config.language in RIGHT_TO_LEFT else "ltr"
        begin = f'<html class="no-js" lang="{app.config.language.replace("_", "-")}" dir="{direction}"'
        for path in Path(app.outdir).rglob("*.html"):
            text = path.read_text(encoding="utf-8")
            path.write_text(re.sub(r'<html class="no-js" lang="[^"]*"', begin, text, count=1), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-read", _link_to_english)
    app.connect("html-page-context", _context)
    app.connect("build-finished", _direct)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
