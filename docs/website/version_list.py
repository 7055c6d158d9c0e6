"""Lists the versions of the site that lie side by side in a folder, for the choice of a version on every page.

    python docs/website/version_list.py FOLDER          # after a version was added or removed by hand

The list is a script and not JSON, because browsers do not let pages that are opened from a disk read other files.
"""

import json
import sys
from pathlib import Path

from packaging.version import InvalidVersion, Version

FIRST_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Foveate</title>
<script>location.replace("{newest}/index.html");</script>
<a href="{newest}/index.html">Foveate {newest}</a></html>
"""


def versions(site: Path) -> list[str]:
    """The names of the folders with a version, the newest first. Releases are newer than their candidates."""
    names = [path.parents[1].name for path in site.glob("*/en/index.html") if _parsed(path.parents[1].name)]
    return sorted(names, key=Version, reverse=True)


def write(site: Path) -> None:
    """Write the list of versions with their pages, and a first page that leads to the newest version.

    Raises ValueError for a folder without a version.
    """
    names = versions(site)
    if not names:
        raise ValueError(f"{site} has no version of the site. Build one: python docs/website/build_site.py")
    pages = {name: sorted(path.relative_to(site / name).as_posix() for path in _pages(site / name)) for name in names}
    order = json.dumps(names)  # a script finds keys like "2" before all others
    text = f"const foveateVersions = {json.dumps(pages, separators=(',', ':'))};\nconst foveateOrder = {order};\n"
    (site / "versions.js").write_text(text, encoding="utf-8")
    (site / "index.html").write_text(FIRST_PAGE.replace("{newest}", names[0]), encoding="utf-8")


def _pages(version: Path) -> list[Path]:
    """The pages of all languages, without those of the viewer in frames."""
    return [path for folder in version.glob("*/index.html") for path in folder.parent.rglob("*.html")]


def _parsed(name: str) -> Version | None:
    try:
        return Version(name)
    except InvalidVersion:
        return None


if __name__ == "__main__":
    write(Path(sys.argv[1]))
