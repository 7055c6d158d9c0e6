"""Attention of this package inside models of the transformers library.

    from foveate import hugging_face, window
    from foveate.attention import AttentionConfig, Sparsemax

    hugging_face.attend(model)                                                # the same results, by our paths
    hugging_face.attend(model, {"*.layers.[01].*": AttentionConfig(visibility=window(left=128, right=0))})

The transformers library is imported on first use; this package depends only on `foveate.attention`.
"""

from foveate.hugging_face.guest_formula import Guest, SoftCapped, Sunk
from foveate.hugging_face.guest_site import attend, release, sites_of
from foveate.hugging_face.interface import NAME, register
from foveate.hugging_face.standing import Standing

__all__ = ["NAME", "Guest", "SoftCapped", "Standing", "Sunk", "attend", "register", "release", "sites_of"]
