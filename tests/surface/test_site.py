"""The documentation site: its sources are complete, and its inspection finds what is wrong. `make docs` builds it."""

import importlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LESSONS = ROOT / "docs/lessons"
NAMES = sorted(path.stem for path in LESSONS.glob("*.md") if path.name != "README.md")


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One of the programs that build the site and need no other package."""
    monkeypatch.syspath_prepend(str(ROOT / "docs/website"))
    return importlib.import_module(name)


@pytest.fixture
def staging(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("staging", monkeypatch)


@pytest.fixture
def inspection(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("inspection", monkeypatch)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A lesson with a frame."""
    (tmp_path / "en/docs/lessons").mkdir(parents=True)
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames/one.html").write_text("<p id='numbers'>")
    return tmp_path


def write(site: Path, html: str) -> None:
    (site / "en/docs/lessons/one.html").write_text(f"<h1 id='one'>One</h1>{html}", encoding="utf-8")


def test_all_lessons_are_in_the_contents() -> None:
    contents = (LESSONS / "README.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\]\((\w+)\.md\)", contents)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_lesson_has_a_question_a_formula_cells_a_view_and_an_exercise_with_its_answer(name: str) -> None:
    text = (LESSONS / f"{name}.md").read_text(encoding="utf-8")
    for part in ("**Question.**", "$$\n", "```{code-cell} python\n", "\nlook: view=", "## Exercise", "} Answer\n"):
        assert part in text, part


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("language", ["fa", "ru", "zh_CN"])
def test_a_lesson_is_in_four_languages(name: str, language: str) -> None:
    text = (ROOT / "docs/locale" / language / "LC_MESSAGES/docs/lessons" / f"{name}.po").read_text(encoding="utf-8")
    _, *messages = text.rstrip().split("\n\n")
    assert messages
    assert [each for each in messages if each.endswith('msgstr ""') or "#, fuzzy" in each] == []


def test_the_sources_have_every_picture_of_a_page(staging: Any, tmp_path: Path) -> None:
    staging.stage(tmp_path)
    for name in ("index.md", "README.md", "docs/alignment-gold.svg", "docs/mechanisms/score-dot.svg"):
        assert (tmp_path / name).is_file(), name
    contents = (tmp_path / "docs/lessons/README.md").read_text(encoding="utf-8")
    assert "\n".join(re.findall(r"\]\((\w+)\.md\)", contents)) in contents.partition(":hidden:")[2]


def test_a_sound_site_has_no_problems(inspection: Any, site: Path) -> None:
    write(site, "<a href='#one'></a><a href='../../../frames/one.html'></a><a href='https://example.org'></a>")
    assert list(inspection.problems(site)) == []


@pytest.mark.parametrize(
    ("html", "words"),
    [
        ("<a href='two.html'></a>", "two.html, which does not exist"),
        ("<img src='two.svg'>", "two.svg, which does not exist"),
        ("<a href='#two'></a>", "no such anchor"),
        ("<a href='one.html#two'></a>", "no such anchor"),
        ("<script src='https://example.org/a.js'></script>", "from another host"),
        ("<link href='//example.org/a.css'>", "from another host"),
    ],
)
def test_a_problem_of_the_site_is_named(inspection: Any, site: Path, html: str, words: str) -> None:
    write(site, html)
    (problem,) = inspection.problems(site)
    assert problem.startswith("en/docs/lessons/one.html")
    assert words in problem


def test_a_lesson_is_at_most_a_megabyte_with_its_frames(inspection: Any, site: Path) -> None:
    write(site, "<iframe src='../../../frames/one.html#view=map'></iframe>")
    assert list(inspection.problems(site)) == []
    (site / "frames/one.html").write_text("x" * inspection.LARGEST)
    (problem,) = inspection.problems(site)
    assert "1.00 MB, more than 1" in problem


@pytest.fixture
def version_list(monkeypatch: pytest.MonkeyPatch) -> Any:
    return module("version_list", monkeypatch)


def publish(site: Path, name: str, *pages: str) -> None:
    """A version of the site with empty pages."""
    for page in ("en/index.html", *pages):
        path = site / name / page
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def test_versions_are_listed_by_number_and_the_newest_is_the_first_page(version_list: Any, tmp_path: Path) -> None:
    for name in ("0.9.0", "1.0rc1", "0.10.0", "1.0", "drafts"):
        publish(tmp_path, name)
    (tmp_path / "2.0").mkdir()
    assert version_list.versions(tmp_path) == ["1.0", "1.0rc1", "0.10.0", "0.9.0"]
    version_list.write(tmp_path)
    first = (tmp_path / "index.html").read_text()
    assert first.count('"1.0/index.html"') == 2  # with a script, and without one


def test_the_list_of_versions_has_the_pages_that_one_can_choose(version_list: Any, tmp_path: Path) -> None:
    publish(tmp_path, "0")
    publish(tmp_path, "0.1", "fa/index.html", "fa/docs/lessons/one.html", "frames/one.html", "index.html")
    version_list.write(tmp_path)
    first, second, _ = (tmp_path / "versions.js").read_text().split("\n")
    begin, _, listed = first.partition("=")
    assert (begin, second) == ("const foveateVersions ", 'const foveateOrder = ["0.1", "0"];')
    pages = ["en/index.html", "fa/docs/lessons/one.html", "fa/index.html"]
    assert json.loads(listed.removesuffix(";")) == {"0": ["en/index.html"], "0.1": pages}


def test_a_folder_without_versions_is_refused(version_list: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"has no version of the site"):
        version_list.write(tmp_path)


def test_every_page_is_in_the_navigation() -> None:
    """Sphinx warns of pages that are not, and warnings end `make docs`."""
    contents = (ROOT / "docs/website/index.md").read_text(encoding="utf-8")
    folders = [ROOT / "docs", ROOT / "docs/models", ROOT / "docs/tasks", *(ROOT / "src/foveate/shipped").iterdir()]
    pages = [path.relative_to(ROOT).with_suffix("") for folder in folders for path in folder.glob("*.md")]
    assert [str(page) for page in pages if not re.search(rf"(?m)^(.* <)?{page}>?$", contents)] == []
