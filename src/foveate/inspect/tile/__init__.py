"""Tiles: any part of any map at any level, without the map."""

from foveate.inspect.tile.code import HIDDEN, SIZE, ZERO, decode, encode
from foveate.inspect.tile.dense import DenseProvider
from foveate.inspect.tile.lazy import TraceProvider
from foveate.inspect.tile.provider import CancelledError, Cell, Level, Pool, Statistics, TileProvider

__all__ = [
    "HIDDEN",
    "SIZE",
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
]
