"""Renumbers the tokens of Marian models, so that their special ids equal those of all other models here."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from foveate.errors import DataError

NEVER = -1e9
"""The bias of a logit that is never chosen. It is finite, so that every engine and number type can represent it."""
TABLES = {
    "model.shared.weight": ("source", "target"),
    "model.encoder.embed_tokens.weight": ("source",),
    "model.decoder.embed_tokens.weight": ("target",),
    "lm_head.weight": ("target",),
}


def renumbered(
    config: Mapping[str, Any], tensors: Mapping[str, Tensor], *, source: Sequence[int], target: Sequence[int]
) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The content of a Marian folder with row `order[i]` of every vocabulary table as row i.

    A row may occur twice: decoding begins with the padding token, for example. Only the first copy can be predicted;
    the bias of the others hides them, so that probabilities do not change.
    """
    for name, sides in {**TABLES, "final_logits_bias": ("target",)}.items():
        table = tensors.get(name)
        rows = None if table is None else table.reshape(-1, 1) if name == "final_logits_bias" else table
        if rows is None and name != "final_logits_bias":
            continue
        largest = max(source if sides[0] == "source" else target)
        if rows is None or rows.ndim != 2 or len(rows) <= largest:
            raise DataError(
                f"Marian tensor {name} has no row for each of the {largest + 1:,} pieces of the vocabulary. The files "
                "belong to different models: take all from one folder."
            )
    orders = {"source": torch.tensor(source), "target": torch.tensor(target)}
    result = dict(tensors)
    for name, sides in TABLES.items():
        if name in result:
            result[name] = result[name][orders[sides[0]]]
    bias = result["final_logits_bias"].reshape(-1)[orders["target"]].clone()
    first: dict[int, int] = {}
    for ours, theirs in enumerate(target):
        if first.setdefault(theirs, ours) != ours:
            bias[ours] = NEVER
    result["final_logits_bias"] = bias[None]
    return {**config, "vocab_size": len(source), "decoder_vocab_size": len(target)}, result
