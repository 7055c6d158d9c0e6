"""The method `look` of models that read texts, which shows their attention in a notebook or in the browser."""

import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import Any, TypeVar

from foveate.inspect.trace.html import standalone
from foveate.inspect.trace.trace import Trace
from foveate.storage.draft import write_file
from foveate.storage.shipped import run_name

Reader = TypeVar("Reader", bound="Looking")


class Looking:
    """A base class for user classes with a model, its folder and traces of texts."""

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
        """Set the folder, and return this object."""
        self.origin = str(folder)
        return self

    def trace(self, text: str) -> Trace:
        """A trace of the model's attention in a text, at all sites and heads."""
        raise NotImplementedError

    def look(self, text: str, *, page: Path | str | None = None, **others: Any) -> Trace:
        """Show the attention of the model in a text, and return the trace; other settings are those of `trace`.

        A notebook displays the trace if it is the last value of a cell. Otherwise the viewer is written as one page,
        to `page` or to a temporary file, and opened in the browser.
        """
        trace = self.trace(text, **others)
        return show(trace.named(run_name(Path(self.origin))) if self.origin else trace, page)


def show(trace: Trace, page: Path | str | None = None) -> Trace:
    """Open the viewer of a trace in the browser; in a notebook without `page`, only return the trace."""
    if page is None and in_notebook():
        return trace
    path = Path(tempfile.mkdtemp(prefix="foveate-")) / "look.html" if page is None else Path(page)
    write_file(path, standalone(trace).encode())
    print(f"Wrote {path}.", file=sys.stderr, flush=True)
    if page is None:
        webbrowser.open(path.resolve().as_uri())
    return trace


def in_notebook() -> bool:
    """Whether this runs in the kernel of a notebook, which displays the last value of a cell."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
