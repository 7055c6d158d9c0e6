"""The reference: a page for each package, from the signatures and docstrings of the names that it exports."""

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from build import body

PACKAGES = {
    "attention": "scores, visibility, normalisers, biases, and the attention that they make",
    "nn": "modules with weights",
    "models": "architectures and their configurations",
    "train": "one loop that fits anything with a loss",
    "decode": "greedy, beam search, sampling, and CTC",
    "inspect": "traces, alignments, pictures",
    "metrics": "scores, with the signatures of the programs that papers cite",
    "comparison": "variants on the same data with the same budget",
    "hugging_face": "attention of this package inside their models",
    "export": "models for other engines",
    "config": "configurations from TOML, settings and JSON",
    "machine": "switches that suit a machine",
    "serve": "the viewer's server",
}
_OBJECT = re.compile(r"<[^<>]*( at 0x[0-9a-f]+|object)[^<>]*>")
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z_])")


def write(folder: Path) -> None:
    """Write the pages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {f"{name}.md": page(name) for name in PACKAGES} | {"foveate.md": page("")}
    links = "\n".join(
        f"* [{_title(name)}]({name or 'foveate'}.md): {about}"
        for name, about in {"": "the names that most programs need", **PACKAGES}.items()
    )
    names = "\n".join(["foveate", *PACKAGES])
    toctree = f"```{{toctree}}\n:hidden:\n{names}\n```"
    pages["README.md"] = (
        f"# Reference\n\nThe names that each package exports, with their docstrings.\n\n{links}\n\n{toctree}\n"
    )
    for name, text in pages.items():
        (folder / name).write_text(text, encoding="utf-8")


def _title(package: str) -> str:
    return f"foveate.{package}" if package else "foveate"


def page(package: str) -> str:
    """The Markdown of one package."""
    module = importlib.import_module(_title(package))
    about = [] if package else ["The names that can be imported from `foveate` itself."]
    parts = [
        f"# {_title(package)}",
        f"```{{py:module}} {_title(package)}\n```",
        *about,
        *(_body(module) if package else ()),
    ]
    for name in module.__all__:
        value = getattr(module, name)
        owner = None if package else _owner(value)
        parts += [_pointer(name, owner)] if owner else _entry(name, value)
    return "\n\n".join(parts) + "\n"


def _owner(value: Any) -> str | None:
    """The package on whose page a value is."""
    modules = {name: importlib.import_module(_title(name)) for name in PACKAGES}
    return next(
        (name for name, module in modules.items() if any(getattr(module, n) is value for n in module.__all__)), None
    )


def _pointer(name: str, owner: str) -> str:
    return f"* {{py:obj}}`{name} <foveate.{owner}.{name}>`"


def _entry(name: str, value: Any) -> Iterator[str]:
    """A name with its signature, docstring and, for a class, methods."""
    if inspect.isclass(value):
        methods = [part for method in _methods(value) for part in _callable("py:method", *method)]
        yield _directive("py:class", name + _signature(value), [*_body(value), *methods], fence="::::")
    elif callable(value) and inspect.isroutine(value):
        yield from _callable("py:function", name, value)
    else:
        shown = repr(value) if isinstance(value, str) else _short(str(value))
        yield _directive("py:data", name, [f"```text\n{shown}\n```"], fence="::::")


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    for name, value in vars(kind).items():
        plain = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
        if not name.startswith("_") and inspect.isfunction(plain) and plain.__doc__:
            yield name, plain


def _callable(directive: str, name: str, value: Any) -> Iterator[str]:
    yield _directive(directive, name + _signature(value), list(_body(value)), fence=":::")


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [each for each in signature.parameters.values() if each.name not in ("self", "cls")]
    return _short(str(signature.replace(parameters=parameters)))


def _short(text: str) -> str:
    """A signature without modules, addresses and long defaults."""
    return _MODULE.sub("", _OBJECT.sub("...", text)).replace("'", '"')


def _directive(name: str, argument: str, body: list[str], *, fence: str) -> str:
    return "\n\n".join([f"{fence}{{{name}}} {argument}", *body, fence])


def _body(value: Any) -> Iterator[str]:
    """A docstring as Markdown, with equations and examples in blocks; formulas in prose keep their characters."""
    if not inspect.getdoc(value) or value.__doc__ is None:
        return
    yield from body(value)
