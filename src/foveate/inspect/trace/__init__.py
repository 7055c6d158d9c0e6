"""Traces store the attention of a model, on disk or in memory, compactly at any length."""

from foveate.inspect.trace.conversion import site_of
from foveate.inspect.trace.folder import TraceWriter, is_trace, read_trace, trace_writer, write_trace
from foveate.inspect.trace.html import standalone
from foveate.inspect.trace.media import Picture, spectrogram
from foveate.inspect.trace.observation import Observation, given, observe
from foveate.inspect.trace.site import Site
from foveate.inspect.trace.sound import Sound
from foveate.inspect.trace.trace import Pedigree, Trace
from foveate.inspect.trace.track import Track

__all__ = [
    "Observation",
    "Pedigree",
    "Picture",
    "Site",
    "Sound",
    "Trace",
    "TraceWriter",
    "Track",
    "given",
    "is_trace",
    "observe",
    "read_trace",
    "site_of",
    "spectrogram",
    "standalone",
    "trace_writer",
    "write_trace",
]
