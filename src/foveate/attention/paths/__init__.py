"""Ways to execute an attention. `chooser.py` chooses among those that accept it."""

from foveate.attention.paths.edges import EdgesPath, EdgeWeights, edge_weights
from foveate.attention.paths.flex import FlexPath
from foveate.attention.paths.materialised import ChunkedPath, MaterialisedPath
from foveate.attention.paths.pairwise import AdditivePath
from foveate.attention.paths.path import Cost, Formula, Path
from foveate.attention.paths.plain_product import ProductPath
from foveate.attention.paths.sdpa import SDPAPath
from foveate.attention.paths.short import ShortPath
from foveate.attention.paths.tiled import BandedPath, TiledPath

PATHS: tuple[Path, ...] = (
    ProductPath(),
    SDPAPath(),
    ShortPath(),
    AdditivePath(),
    BandedPath(),
    EdgesPath(),
    TiledPath(),
    FlexPath(),
    ChunkedPath(),
    MaterialisedPath(),
)

__all__ = [
    "PATHS",
    "AdditivePath",
    "BandedPath",
    "ChunkedPath",
    "Cost",
    "EdgeWeights",
    "EdgesPath",
    "FlexPath",
    "Formula",
    "MaterialisedPath",
    "Path",
    "ProductPath",
    "SDPAPath",
    "ShortPath",
    "TiledPath",
    "edge_weights",
]
