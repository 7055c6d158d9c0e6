"""Computes tiles: any part of any map at any level, without the whole map."""

from foveate.inspect.lift import equal, lift
from foveate.inspect.tile.code import HIDDEN, SIZE, UNKNOWN, ZERO, decode, encode
from foveate.inspect.tile.dense import DenseProvider
from foveate.inspect.tile.lazy import TraceProvider
from foveate.inspect.tile.provider import CancelledError, Cell, Level, Pool, Statistics, TileProvider

__all__ = [
    "HIDDEN",
    "SIZE",
    "UNKNOWN",
    "ZERO",
    "CancelledError",
    "Cell",
    "DenseProvider",
    "Level",
    "Pool",
    "Statistics",
    "TileProvider",
    "TraceProvider",
    "decode",
    "encode",
    "equal",
    "lift",
]
