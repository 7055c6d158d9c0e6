"""Looking inside: alignments, their pictures, and the report of a run."""

from foveate.inspect.alignment import Alignment
from foveate.inspect.figure import png, svg, terminal, write
from foveate.inspect.report import report

__all__ = ["Alignment", "png", "report", "svg", "terminal", "write"]
