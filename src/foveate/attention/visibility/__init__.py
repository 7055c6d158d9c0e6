"""Who may look at whom: small immutable rules over absolute positions, combined with `&`, `|` and `~`.

True means *may look*. A rule never touches scores; the attention turns "not visible" into a weight of exactly 0.
"""

from foveate.attention.visibility import notation
from foveate.attention.visibility.edge import Edges, Predicate, edges, predicate
from foveate.attention.visibility.reach import Reach, Span
from foveate.attention.visibility.rule import (
    TRIANGLE,
    And,
    EdgeList,
    Everything,
    Not,
    Nothing,
    Or,
    Visibility,
    everything,
    nothing,
)
from foveate.attention.visibility.segment import Padding, Prefix, SameSegment, padding, prefix, same_segment
from foveate.attention.visibility.sparsity import (
    Chunk,
    GlobalTokens,
    RandomBlocks,
    StridedBlock,
    Summary,
    bigbird,
    block,
    chunk,
    global_tokens,
    longformer,
    random_blocks,
    sparse,
    summary,
)
from foveate.attention.visibility.window import (
    Around,
    Causal,
    Dilated,
    Neighbourhood,
    Window,
    around,
    causal,
    dilated,
    neighbourhood,
    window,
)

__all__ = [
    "TRIANGLE",
    "And",
    "Around",
    "Causal",
    "Chunk",
    "Dilated",
    "EdgeList",
    "Edges",
    "Everything",
    "GlobalTokens",
    "Neighbourhood",
    "Not",
    "Nothing",
    "Or",
    "Padding",
    "Predicate",
    "Prefix",
    "RandomBlocks",
    "Reach",
    "SameSegment",
    "Span",
    "StridedBlock",
    "Summary",
    "Visibility",
    "Window",
    "around",
    "bigbird",
    "block",
    "causal",
    "chunk",
    "dilated",
    "edges",
    "everything",
    "global_tokens",
    "longformer",
    "neighbourhood",
    "nothing",
    "padding",
    "predicate",
    "prefix",
    "random_blocks",
    "same_segment",
    "sparse",
    "summary",
    "window",
]

notation.RULES.update({name: globals()[name] for name in __all__ if name.islower() and name != "predicate"})
