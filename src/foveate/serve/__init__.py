"""The viewer's server: one trace, optionally with its model, for one person on this machine. `service/` has the service
of `foveate serve`: models behind an address, for other programs.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from foveate.inspect.rerun import Rerun, Rerunner
    from foveate.serve.app import application
    from foveate.serve.server import open_viewer
    from foveate.serve.session import Session

# Imported on first use: the front of `foveate serve` does not need torch.
_LATER = {
    "Rerun": "foveate.inspect.rerun",
    "Rerunner": "foveate.inspect.rerun",
    "Session": "foveate.serve.session",
    "application": "foveate.serve.app",
    "open_viewer": "foveate.serve.server",
}

__all__ = ["Rerun", "Rerunner", "Session", "application", "open_viewer"]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'foveate.serve' has no attribute {name!r}. It has: {', '.join(__all__)}.")
