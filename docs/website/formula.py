"""A Sphinx extension: formulas become MathML while the site is built, so that pages need neither scripts nor fonts."""

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

_LIMITS = re.compile(r"<msubsup>(<mo>&#x02211;</mo>.*?)</msubsup>")


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(convert(node.astext(), display="inline"))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    formula = _LIMITS.sub(r"<munderover>\1</munderover>", convert(node.astext(), display="block"))
    writer.body.append(f'<div class="formula" tabindex="0">{formula}</div>')
    raise nodes.SkipNode


def _same_in_all_languages(app: Sphinx, doctree: nodes.document) -> None:
    for formula in doctree.findall(nodes.math_block):
        formula["translatable"] = False


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.connect("doctree-read", _same_in_all_languages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
