"""More layers for a trained Transformer, which at first computes what it has computed."""

import re
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from foveate.models.transformer import TransformerConfig

LAST = re.compile(r"\.(?:attention|cross_attention)\.output\.|\.feedforward\.contract\.")
"""The products at the end of the sublayers of a block, whose results are added to the residual stream."""


def deepened(
    weights: Mapping[str, Tensor], config: TransformerConfig, deeper: TransformerConfig
) -> dict[str, Tensor] | None:
    """The weights of a Transformer with more layers of encoder or decoder on top, for a model that computes the same.

    A new block is a copy of the uppermost one whose sublayers end with products by zero, so that it adds nothing until
    it has learned: Net2DeeperNet (Chen, Goodfellow and Shlens 2016, §2.3) with the zero residual branches of Zhang,
    Dauphin and Ma 2019 (§3). None if `deeper` is not the same model with more layers.

    Raises ValueError for blocks with a layer norm after the residual, which have no such copy.
    """
    same = replace(deeper, encoder_layers=config.encoder_layers, decoder_layers=config.decoder_layers)
    added = {"encoder": (config.encoder_layers, deeper.encoder_layers)} if config.encoder is None else {}
    added["decoder"] = (config.decoder_layers, deeper.decoder_layers)
    differences = [after - before for before, after in added.values()]
    if _shape(same) != _shape(config) or min(differences) < 0 or not any(differences):
        return None
    if config.block.norm != "pre":
        raise ValueError(
            f'layers can be added to a trained Transformer with norm = "pre" only, and this one has '
            f'norm = "{config.block.norm}": a layer norm after the residual changes what a new layer passes on. '
            "Leave the numbers of layers as they are, or train from scratch"
        )
    grown = dict(weights)
    for stack, (before, after) in added.items():
        top = f"{stack}.{before - 1}."
        for name in [name for name in weights if name.startswith(top)]:
            for layer in range(before, after):
                copy = weights[name].clone()
                new = f"{stack}.{layer}.{name.removeprefix(top)}"
                grown[new] = torch.zeros_like(copy) if LAST.search(new) else copy
    return grown


def _shape(config: TransformerConfig) -> TransformerConfig:
    """The configuration without its dropout, which has no weights."""
    block = replace(config.block, dropout=0.0, attention_dropout=0.0, feedforward_dropout=0.0)
    return replace(config, block=block)
