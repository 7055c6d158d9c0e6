"""Pictures of alignments: SVG, PNG and blocks for the terminal, without a plotting library."""

from foveate.inspect.figure.block import terminal
from foveate.inspect.figure.file import write
from foveate.inspect.figure.raster import png
from foveate.inspect.figure.vector import svg

__all__ = ["png", "svg", "terminal", "write"]
