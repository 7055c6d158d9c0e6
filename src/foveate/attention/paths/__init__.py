"""Ways to execute an attention, in the order they are tried."""

from foveate.attention.paths.materialised import MaterialisedPath
from foveate.attention.paths.path import Cost, Formula, Path
from foveate.attention.paths.sdpa import SDPAPath

PATHS: tuple[Path, ...] = (SDPAPath(), MaterialisedPath())

__all__ = ["PATHS", "Cost", "Formula", "MaterialisedPath", "Path", "SDPAPath"]
