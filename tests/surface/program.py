"""The Python of a page, as a program that type checkers read.

    python tests/surface/program.py FOLDER     # a program for each page, and the settings of pyright: see `make types`

The pages of mechanisms are not among them: their sessions import nothing, and run as doctests of the modules they are
taken from.
"""

import doctest
import json
import re
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / "docs/python.md"
WHOLE = {ROOT / "README.md", PYTHON}
MECHANISMS = ROOT / "docs/mechanisms"
SETTINGS = {
    "extraPaths": [str(ROOT / "src")],
    "pythonVersion": "3.11",
    "typeCheckingMode": "standard",
    "reportUnusedExpression": "none",  # a session shows values
}
EXCERPT = "# pyright: reportUndefinedVariable=false\n"
"""Pages other than these may assume that the reader has a model."""
_BLOCK = re.compile(r"^([ ]*)```python\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


def program(page: Path) -> str:
    """All Python blocks of a page, one after the other; of sessions with `>>>` what is typed."""
    parts = []
    for _, block in _BLOCK.findall(page.read_text(encoding="utf-8")):
        code = textwrap.dedent(block)
        if code.lstrip().startswith(">>>"):
            code = "".join(example.source for example in doctest.DocTestParser().get_examples(code))
        parts.append(code)
    return "\n".join(parts)


def pages() -> list[Path]:
    """The pages that have Python."""
    every = [*ROOT.glob("*.md"), *(page for part in ("docs", "examples") for page in ROOT.glob(f"{part}/**/*.md"))]
    return sorted(page for page in every if page.parent != MECHANISMS and program(page))


def write(folder: Path) -> None:
    """The programs of all pages, as files of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "pyrightconfig.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
    for page in pages():
        name = page.relative_to(ROOT).with_suffix("").as_posix().replace("/", "-")
        code = program(page) if page in WHOLE else EXCERPT + program(page)
        (folder / f"{name}.py").write_text(code, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
