"""Inspects models: traces of their attention, tiles of any map, alignments, figures, and the report of a run."""

import importlib
from typing import TYPE_CHECKING, Any

from foveate.inspect.alignment import Alignment
from foveate.inspect.figure import (
    gaze_svg,
    outlined,
    pdf,
    png,
    strip,
    svg,
    terminal,
    time_svg,
    write,
    write_gaze,
    write_times,
)
from foveate.inspect.run_report import report
from foveate.inspect.time_alignment import TimeAlignment
from foveate.inspect.view import alignment, figure, times

if TYPE_CHECKING:
    from foveate.inspect.aligned_map import AlignedMaps, NearestHead, aligned, nearest_heads
    from foveate.inspect.flow import rollout
    from foveate.inspect.map_comparison import Comparison, compare
    from foveate.inspect.notebook import widget
    from foveate.inspect.step import Step, Steps, position_steps, steps
    from foveate.inspect.tile import DenseProvider, TileProvider, TraceProvider
    from foveate.inspect.trace import (
        Picture,
        Sound,
        Trace,
        Track,
        read_trace,
        spectrogram,
        standalone,
        write_trace,
    )
    from foveate.inspect.trace.observation import observe
    from foveate.inspect.worked_example import EXAMPLES, example

# Parts that need torch are imported on first use; pictures of alignments do not need it.
_LATER = {
    "foveate.inspect.aligned_map": ("AlignedMaps", "NearestHead", "aligned", "nearest_heads"),
    "foveate.inspect.map_comparison": ("Comparison", "compare"),
    "foveate.inspect.flow": ("rollout",),
    "foveate.inspect.step": ("Step", "Steps", "position_steps", "steps"),
    "foveate.inspect.tile": ("DenseProvider", "TileProvider", "TraceProvider"),
    "foveate.inspect.notebook": ("widget",),
    "foveate.inspect.trace": (
        "Picture",
        "Sound",
        "Trace",
        "Track",
        "observe",
        "read_trace",
        "spectrogram",
        "standalone",
        "write_trace",
    ),
    "foveate.inspect.worked_example": ("EXAMPLES", "example"),
}

__all__ = [
    "EXAMPLES",
    "AlignedMaps",
    "Alignment",
    "Comparison",
    "DenseProvider",
    "NearestHead",
    "Picture",
    "Sound",
    "Step",
    "Steps",
    "TileProvider",
    "TimeAlignment",
    "Trace",
    "TraceProvider",
    "Track",
    "aligned",
    "alignment",
    "compare",
    "example",
    "figure",
    "gaze_svg",
    "nearest_heads",
    "observe",
    "outlined",
    "pdf",
    "png",
    "position_steps",
    "read_trace",
    "report",
    "rollout",
    "spectrogram",
    "standalone",
    "steps",
    "strip",
    "svg",
    "terminal",
    "time_svg",
    "times",
    "widget",
    "write",
    "write_gaze",
    "write_times",
    "write_trace",
]


def __getattr__(name: str) -> Any:
    if name == "hugging_face":
        return importlib.import_module("foveate.inspect.hugging_face")
    for module, names in _LATER.items():
        if name in names:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module 'foveate.inspect' has no attribute {name!r}. It has: {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return sorted(__all__)
