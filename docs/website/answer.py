"""A Sphinx extension: an admonition of the class `dropdown` is closed until the reader opens it."""

from html import escape

from docutils import nodes
from sphinx.application import Sphinx


def _fold(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    if app.builder.format != "html":
        return
    for admonition in list(doctree.findall(nodes.admonition)):
        if "dropdown" in admonition["classes"]:
            title, *body = admonition.children
            begin = f'<details class="answer"><summary>{escape(title.astext())}</summary>'
            admonition.replace_self(
                [nodes.raw("", begin, format="html"), *body, nodes.raw("", "</details>", format="html")]
            )


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("doctree-resolved", _fold)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
