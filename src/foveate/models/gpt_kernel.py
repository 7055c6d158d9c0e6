"""A copy of a GPT's weights for the kernel of a whole step, valid until weights change."""

from typing import Any

from torch import nn

from foveate.attention import causal
from foveate.models.transformer_kernel import METHODS, has_methods_of, is_plain_embedding, is_plain_norm, own_methods
from foveate.nn.origin import Origin
from foveate.nn.prepared.flat_block import FlatEncoderBlock
from foveate.nn.prepared.flat_step import DecoderStep


class CausalStep:
    """A GPT's step as one kernel, prepared on first use and again after any part of the model has changed."""

    def __init__(self, definition: type[nn.Module]) -> None:
        """`definition` is the class whose computation the kernel knows; subclasses may have another."""
        self._definition, self._origin = definition, Origin()

    def of(self, model: Any) -> DecoderStep | None:
        """The prepared step; None if the kernel does not support the model."""
        return self._prepared(model)[0]

    def refusal(self, model: Any) -> str:
        """Why the kernel does not support the model; empty if it does."""
        return self._prepared(model)[1]

    def _prepared(self, model: Any) -> tuple[DecoderStep | None, str]:
        """The step, or why there is none."""
        blocks = list(model.blocks)
        scores = [getattr(block.attention.attention, "score", None) for block in blocks]
        values = [value for score in scores for value in getattr(score, "__dict__", {}).values()]

        def make() -> tuple[DecoderStep | None, str]:
            flat = [FlatEncoderBlock.of(block, causal()) for block in blocks]
            if refusal := self._refuses(model, flat):
                return None, refusal
            usual = tuple(block for block in flat if block is not None)
            norm = model.norm if isinstance(model.norm, nn.LayerNorm) else None
            table = model.output_table.detach()
            return DecoderStep(usual, model.embedding.weight.detach(), 1.0, norm, table, None), ""

        own = own_methods(model, *METHODS)
        return self._origin.made(make, model.embedding, model.norm, model.output_table, *own, *blocks, *values)

    def _refuses(self, model: Any, flat: list[FlatEncoderBlock | None]) -> str:
        if not has_methods_of(self._definition, model, *METHODS):
            return f"{type(model).__name__} reads tokens or computes logits in a way of its own"
        if not (is_plain_embedding(model.embedding) and is_plain_norm(model.norm)):
            return "the embedding or the last norm is of another class, or has hooks"
        blocks = [block for block in flat if block is not None]
        if len(blocks) < len(flat):
            return (
                f"layer {flat.index(None)} is not one of softmax over dot products of all earlier positions, with as "
                "many heads of keys as of queries, layer norms and a feed-forward network, all without hooks"
            )
        weights = [weight for part in (model.embedding, model.norm, *model.blocks) for weight in part.parameters()]
        if any(weight.is_inference() for weight in (*weights, model.output_table)):
            return "weights are inference tensors, whose changes torch does not count"
        return DecoderStep.refuses(blocks, model.embedding.weight, model.output_table)

    def __deepcopy__(self, memo: object) -> "CausalStep":
        return CausalStep(self._definition)

    def __reduce__(self) -> tuple[type["CausalStep"], tuple[type[nn.Module]]]:
        return CausalStep, (self._definition,)
