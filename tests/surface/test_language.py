"""Texts and names are plain technical English: nouns name values, and sentences can be read without decoding them."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE, UNIT = ROOT / "src/foveate", ROOT / "tests/unit"
ROOMS = sorted(
    str(path.relative_to(ROOT))
    for folder in (SOURCE, UNIT)
    for path in folder.iterdir()
    if path.name != "__pycache__" and (path.suffix == ".py" or any(path.rglob("*.py")))
)
KEYWORDS = {("src/foveate/attention/normaliser/hard.py", "made")}
"""Parameters that users may pass by keyword, under names that they had before this test."""
PAGES = [
    *("ARCHITECTURE.md", "CONTRIBUTING.md", "README.md", "SECURITY.md", "viewer/README.md", "examples/data/README.md"),
    *sorted(str(card.relative_to(ROOT)) for card in ROOT.glob("src/foveate/shipped/*/README.md")),
    *sorted(str(page.relative_to(ROOT)) for page in ROOT.glob("docs/**/*.md") if page.name != "log.md"),
]
PARTICIPLES = {
    "asked",
    "found",
    "given",
    "gone",
    "held",
    "kept",
    "looked",
    "made",
    "meant",
    "said",
    "seen",
    "told",
    "wanted",
}
RIDDLES = re.compile(
    r"(?<!outside )of which|which there (?:is|are) not|(?<![Tt]here )\b(?:is|are) no\b(?! longer| more| less)"
)
"""Clauses whose noun a reader has to guess, such as "what is no text". "There is no limit" is plain English."""
HEADLESS = re.compile(r"(?:What|Which|Of|Where|How)\b(?!.*\?$)", re.MULTILINE)
"""A description that begins with a clause instead of a noun or a verb, such as "What a folder holds"."""
RIDDLED_NAMES = re.compile(r"(?<!there)_(?:is|are)_no_(?!larger|longer|more|less)|_(?:said|told)$")


def modules(room: str) -> Iterator[tuple[Path, ast.AST]]:
    paths = sorted((ROOT / room).rglob("*.py")) if (ROOT / room).is_dir() else [ROOT / room]
    assert paths
    for path in paths:
        yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def assigned(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The names of variables and parameters. Fields of classes are not among them, because stored files have them."""
    classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    fields = {part.target for node in classes for part in node.body if isinstance(part, ast.AnnAssign)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node not in fields and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg


def descriptions(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The docstrings of modules, classes and functions, and the strings below constants and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@pytest.mark.parametrize("room", ROOMS)
def test_variables_are_named_after_values(room: str) -> None:
    names = [(str(path), line, name) for path, tree in modules(room) for line, name in assigned(tree)]
    participles = [each for each in names if each[2] in PARTICIPLES and (each[0], each[2]) not in KEYWORDS]
    assert [f"{path}:{line}: {name}" for path, line, name in participles] == []


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_and_messages_have_no_riddles(room: str) -> None:
    strings = [(path, line, text) for path, tree in modules(room) for line, text in texts(tree)]
    assert [f"{path}:{line}: {text}" for path, line, text in strings if RIDDLES.search(text)] == []


@pytest.mark.parametrize("room", [*[room for room in ROOMS if room.startswith("src/")], "docs", "examples"])
def test_descriptions_begin_with_a_noun_or_a_verb(room: str) -> None:
    strings = [(path, line, text) for path, tree in modules(room) for line, text in descriptions(tree)]
    assert [f"{path}:{line}: {text}" for path, line, text in strings if HEADLESS.match(text)] == []


def test_names_of_tests_have_no_riddles() -> None:
    tests = [node for _, tree in modules("tests") for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    assert [test.name for test in tests if test.name.startswith("test_") and RIDDLED_NAMES.search(test.name)] == []


@pytest.mark.parametrize("page", PAGES)
def test_pages_have_no_riddles(page: str) -> None:
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    assert [f"{page}:{number}: {line}" for number, line in enumerate(lines, 1) if RIDDLES.search(line)] == []


def test_a_riddle_and_a_plain_sentence_differ() -> None:
    riddles = ["refuses what is no text", "a task which there is not", "tokens, some of which are long"]
    assert all(map(RIDDLES.search, riddles))
    assert not any(map(RIDDLES.search, ["there is no limit", "it is no longer than 3", "the text is empty"]))
    assert [name for _, name in assigned(ast.parse("found, rest = 1, 2")) if name in PARTICIPLES] == ["found"]
