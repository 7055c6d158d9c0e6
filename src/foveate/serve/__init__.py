"""The viewer's server: one trace, optionally with its model, for one person on this machine. `service/` has the service
of `foveate serve`: models behind an address, for other programs.
"""

from foveate.inspect.rerun import Rerun, Rerunner
from foveate.serve.app import application
from foveate.serve.server import open_viewer
from foveate.serve.session import Session

__all__ = ["Rerun", "Rerunner", "Session", "application", "open_viewer"]
