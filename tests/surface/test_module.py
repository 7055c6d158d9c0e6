"""Every module has a name of its own, and no two modules need each other."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2] / "src"
ROLES = {"__init__", "__main__"}
"""Names that say what a file is for its folder."""
TASK_ROLES = {"task", "use", "side"}
"""The same, in the folder of a task."""


def modules() -> dict[str, Path]:
    """Each module's dotted name and its file."""
    named = {}
    for path in sorted((ROOT / "foveate").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def imports(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """The modules of this package that a file imports, also inside functions; not those that only types need."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=otherwise):
                yield from (each for other in otherwise for each in imports(other, known))
            case ast.Import(names=names):
                yield from (name.name for name in names if name.name in known)
            case ast.ImportFrom(module=str(module), names=names, level=0) if module in known:
                below = {f"{module}.{name.name}" for name in names}
                yield from below & known
                if below - known:
                    yield module
            case _:
                yield from imports(node, known)


def graph() -> dict[str, set[str]]:
    """What each module needs."""
    files = modules()
    known = set(files)
    needed = {}
    for name, path in files.items():
        tree = ast.parse(path.read_text(encoding="utf-8"))
        needed[name] = set(imports(tree, known)) - {name}
    return needed


def cycles(needed: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that need each other, by Tarjan's algorithm."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in needed[name]:
            if other not in number:
                visit(other)
                lowest[name] = min(lowest[name], lowest[other])
            elif other in stack:
                lowest[name] = min(lowest[name], number[other])
        if lowest[name] == number[name]:
            start = stack.index(name)
            together, stack[start:] = stack[start:], []
            if len(together) > 1:
                circles.append(sorted(together))

    for name in needed:
        if name not in number:
            visit(name)
    return circles


def test_no_two_modules_need_each_other() -> None:
    """Also not through an import inside a function."""
    assert cycles(graph()) == []


def test_a_module_is_found_by_its_name_alone() -> None:
    named = defaultdict(list)
    for name, path in modules().items():
        roles = ROLES | (TASK_ROLES if path.parent.parent.name == "tasks" else set())
        if path.stem not in roles:
            named[path.stem].append(name)
    assert {stem: names for stem, names in named.items() if len(names) > 1} == {}
