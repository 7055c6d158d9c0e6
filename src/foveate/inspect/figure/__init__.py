"""Pictures of alignments and gazes: SVG, PDF, PNG and blocks for the terminal."""

from foveate.inspect.figure.gaze_figure import gaze_svg
from foveate.inspect.figure.outline import outlined
from foveate.inspect.figure.pdf import pdf
from foveate.inspect.figure.picture_file import write, write_gaze, write_times
from foveate.inspect.figure.raster import png
from foveate.inspect.figure.text_block import terminal
from foveate.inspect.figure.time_figure import time_svg
from foveate.inspect.figure.time_strip import strip
from foveate.inspect.figure.vector import svg

__all__ = [
    "gaze_svg",
    "outlined",
    "pdf",
    "png",
    "strip",
    "svg",
    "terminal",
    "time_svg",
    "write",
    "write_gaze",
    "write_times",
]
