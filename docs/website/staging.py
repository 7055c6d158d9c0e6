"""Collects the sources of the site: pages of the repository, at their places, and what they link to."""

import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LESSONS, LOCALE = "docs/lessons", ROOT / "docs/locale"
LANGUAGES = {"en": "English", "fa": "فارسی", "ru": "Русский", "zh_CN": "中文"}
PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "LICENSE")
CONTENTS = ("docs/mechanisms/README.md", f"{LESSONS}/README.md")
"""Pages that list the pages beside them: the site adds these, in the order of their links, to its navigation."""
_LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)|<img src=\"([^\":]+)\"")


def version() -> str:
    text = (ROOT / "src/foveate/__init__.py").read_text(encoding="utf-8")
    match = re.search(r'^__version__ = "(.+)"$', text, re.MULTILINE)
    assert match is not None
    return match.group(1)


def stage(folder: Path) -> None:
    """Copy the pages and every file that they link to, at its place in the repository."""
    files = {ROOT / name for name in PAGES} | {path for path in (ROOT / "docs").rglob("*.md") if path.parent != HERE}
    queue = [path for path in files if path.suffix == ".md"]
    while queue:
        page = queue.pop()
        for link in _links(page):
            path = (page.parent / link).resolve()
            if path.is_file() and path not in files:
                files.add(path)
                if path.suffix == ".md":
                    queue.append(path)
    staged = {folder / path.relative_to(ROOT): path for path in files}
    staged[folder / "index.md"] = ROOT / "docs/website/index.md"
    for target, path in staged.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        content = path.read_bytes()
        if str(target.relative_to(folder)) in CONTENTS:
            content += _navigation(path).encode("utf-8")
        target.write_bytes(content)


def _links(page: Path) -> list[str]:
    return ["".join(groups) for groups in _LINK.findall(page.read_text(encoding="utf-8"))]


def _navigation(page: Path) -> str:
    names = [
        link.removesuffix(".md") for link in dict.fromkeys(_links(page)) if "/" not in link and link.endswith(".md")
    ]
    return "\n```{toctree}\n:hidden:\n" + "\n".join(names) + "\n```\n"
