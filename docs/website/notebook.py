"""Notebooks of the lessons, from the files that the site is made of."""

import re
from pathlib import Path

import nbformat
from myst_nb.core.read import read_myst_markdown_notebook
from myst_parser.config.main import MdParserConfig
from staging import LESSONS, ROOT

FOLDER = "notebooks"
"""The folder of the site with the notebooks, beside those of the languages."""
_ADMONITION = re.compile(r"^:::\{admonition\} ([^\n]*)\n(?::[^\n]*\n)*(.*?)\n:::$", re.MULTILINE | re.DOTALL)
_PAGE = re.compile(r"\]\(([^):]+)\.md\)")


def write(site: Path) -> None:
    """Write a notebook for each lesson that has cells."""
    folder = site / FOLDER
    folder.mkdir(parents=True)
    lessons = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / LESSONS).glob("*.md"))}
    lessons = {name: text for name, text in lessons.items() if "{code-cell}" in text}
    for name, text in lessons.items():
        notebook = read_myst_markdown_notebook(text, MdParserConfig(), add_source_map=False)
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                cell.source = _plain(cell.source, set(lessons))
        nbformat.validate(notebook)
        nbformat.write(notebook, folder / f"{name}.ipynb")


def _plain(text: str, lessons: set[str]) -> str:
    """Markdown for Jupyter, which knows neither directives nor pages of this site by their sources."""

    def link(match: re.Match[str]) -> str:
        page = match.group(1)
        return f"]({page}.ipynb)" if page in lessons else f"](../en/{_normal(page)}.html)"

    return _PAGE.sub(link, _ADMONITION.sub(r"<details><summary>\1</summary>\n\n\2\n\n</details>", text))


def _normal(page: str) -> str:
    return (Path("/") / LESSONS / page).resolve().relative_to("/").as_posix()
