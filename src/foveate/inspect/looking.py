"""A first look: whatever reads a text shows what it looked at, in a notebook or in the browser."""

import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Any, TypeVar

from foveate.inspect.trace.html import standalone
from foveate.inspect.trace.trace import Trace
from foveate.storage.draft import write_file

Reader = TypeVar("Reader", bound="Looking")


class Looking:
    """A base class for readers of models with traces of texts, which know the folder of their model."""

    model: Any
    origin = ""
    """The folder that the model was read from."""

    def __repr__(self) -> str:
        """
        >>> from torch import nn
        >>> class Toy(Looking):
        ...     model = nn.Linear(3, 2)
        >>> Toy()._of("run")
        <Toy of run: Linear with 8 parameters>
        """
        count = sum(part.numel() for part in self.model.parameters())
        where = f" of {self.origin}" if self.origin else ""
        return f"<{type(self).__name__}{where}: {type(self.model).__name__} with {count:,} parameters>"

    def _of(self: Reader, folder: Path | str) -> Reader:
        """This, read from a folder."""
        self.origin = str(folder)
        return self

    def trace(self, text: str) -> Trace:
        """What the model looked at in a text, site by site and head by head."""
        raise NotImplementedError

    def look(self, text: str, *, page: Path | str | None = None, **others: Any) -> Trace:
        """Show what the model looked at in a text, and return the trace; other settings are those of `trace`.

        In a notebook the trace shows itself, where it is a cell's last value. Elsewhere the viewer is written as one
        page, to `page` or to a temporary file, and opened in the browser.
        """
        return show(self.trace(text, **others), page)


def show(trace: Trace, page: Path | str | None = None) -> Trace:
    """The viewer of a trace as a page in the browser; in a notebook, unless a page is named, the trace itself."""
    if page is None and in_notebook():
        return trace
    path = Path(tempfile.mkdtemp(prefix="foveate-")) / "look.html" if page is None else Path(page)
    write_file(path, standalone(trace).encode())
    print(f"Wrote {path}.", file=sys.stderr, flush=True)
    if page is None:
        webbrowser.open(path.resolve().as_uri())
    return trace


def in_notebook() -> bool:
    """Whether a notebook's kernel runs this, which shows a cell's last value."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
