"""Finds problems of the finished site: links that lead nowhere, requests to other hosts, lessons that are too large."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

from staging import LANGUAGES, LESSONS

LARGEST = 1_000_000
"""Bytes of a lesson with its frames."""
_LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}


class Page(HTMLParser):
    """The links, the loaded files and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {name: value for name, value in attrs if value is not None}
        self.anchors.update(named[name] for name in ("id", "name") if name in named)
        if tag in _LOADED and _LOADED[tag] in named:
            self.loads.add(named[_LOADED[tag]])
        if tag == "a" and "href" in named:
            self.links.add(named["href"])


def problems(site: Path) -> Iterator[str]:
    """A sentence for each problem."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html")) if path.parent.name != "frames"}
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for address in sorted(page.loads):
            if _is_elsewhere(address):
                yield f"{name} loads {address} from another host"
        for address in sorted(page.loads | page.links):
            if not _is_elsewhere(address):
                yield from _missing(address, path, pages, str(name))
    for language in LANGUAGES:
        for path in sorted((site / language / LESSONS).glob("*.html")):
            frames = [path.parent / urldefrag(load).url for load in pages[path.resolve()].loads if "/frames/" in load]
            size = sum(file.stat().st_size for file in (path, *frames))
            if size > LARGEST:
                yield f"{path.relative_to(site)} and its frames have {size / 1e6:.2f} MB, more than {LARGEST / 1e6:.0f}"


def _missing(address: str, path: Path, pages: dict[Path, Page], name: str) -> Iterator[str]:
    file, anchor = urldefrag(address)
    target = (path.parent / unquote(file.partition("?")[0])).resolve() if file else path
    if not target.exists():
        yield f"{name} links to {address}, which does not exist"
    elif anchor and target in pages and unquote(anchor) not in pages[target].anchors:
        yield f"{name} links to {address}, but that page has no such anchor"


def _is_elsewhere(address: str) -> bool:
    return address.startswith(("http:", "https:", "//", "mailto:", "data:", "javascript:"))
