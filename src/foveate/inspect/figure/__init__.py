"""Pictures of alignments: SVG, PDF, PNG and blocks for the terminal."""

from foveate.inspect.figure.block import terminal
from foveate.inspect.figure.document import pdf
from foveate.inspect.figure.file import write
from foveate.inspect.figure.raster import png
from foveate.inspect.figure.vector import svg

__all__ = ["pdf", "png", "svg", "terminal", "write"]
