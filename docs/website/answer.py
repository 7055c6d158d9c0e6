"""A Sphinx extension: an admonition of the class `dropdown` is closed until the reader opens it."""

from html import escape
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


class answer(nodes.General, nodes.Element):  # noqa: N801
    """An answer with its title, as a node of docutils, whose names are those of their classes."""


def _fold(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "html":  # translators need the title
        return
    for admonition in list(doctree.findall(nodes.admonition)):
        if "dropdown" in admonition["classes"]:
            title, *body = admonition.children
            admonition.replace_self(answer("", *body, title=title.astext()))


def _begin(writer: Any, node: answer) -> None:
    writer.body.append(f'<details class="answer"><summary>{escape(node["title"])}</summary>')


def _end(writer: Any, node: answer) -> None:
    writer.body.append("</details>")


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_node(answer, html=(_begin, _end))
    app.connect("doctree-resolved", _fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
