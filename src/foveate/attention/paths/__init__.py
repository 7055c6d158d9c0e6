"""Ways to execute an attention, the best-ranked that accepts runs."""

from foveate.attention.paths.materialised import MaterialisedPath
from foveate.attention.paths.path import Cost, Formula, Path
from foveate.attention.paths.product import ProductPath
from foveate.attention.paths.sdpa import SDPAPath

PATHS: tuple[Path, ...] = (ProductPath(), SDPAPath(), MaterialisedPath())

__all__ = ["PATHS", "Cost", "Formula", "MaterialisedPath", "Path", "ProductPath", "SDPAPath"]
