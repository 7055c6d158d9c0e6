"""Pictures of alignments: SVG, PDF, PNG and blocks for the terminal."""

from foveate.inspect.figure.pdf import pdf
from foveate.inspect.figure.picture_file import write
from foveate.inspect.figure.raster import png
from foveate.inspect.figure.text_block import terminal
from foveate.inspect.figure.vector import svg

__all__ = ["pdf", "png", "svg", "terminal", "write"]
