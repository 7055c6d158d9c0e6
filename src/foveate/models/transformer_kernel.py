"""Copies of a Transformer's weights for the kernels of a whole step and a whole encoder, valid until weights change."""

import math
from typing import Any, NamedTuple

from torch import nn

from foveate.nn.origin import Origin, is_plain
from foveate.nn.position_vector import UnitInterval
from foveate.nn.prepared.flat_block import FlatBlock
from foveate.nn.prepared.flat_encoder import EncoderPass, FlatEncoderBlock
from foveate.nn.prepared.flat_step import DecoderStep
from foveate.nn.ran import RANEncoder

METHODS = ("_embed", "logits")
"""The methods around the blocks that a kernel of a step computes."""


class Prepared(NamedTuple):
    """Copies of a model's weights for the kernels, valid until the weights change."""

    flat: tuple[FlatBlock, ...] | None
    whole: DecoderStep | None
    encoding: EncoderPass | None


class WholeStep:
    """A decoder's step as one kernel, prepared on first use and again after any part of the decoder has changed."""

    def __init__(self, definition: type[nn.Module]) -> None:
        """`definition` is the class whose computation the kernel knows; subclasses may have another."""
        self._definition, self._origin = definition, Origin()

    def of(self, model: Any, flat: tuple[FlatBlock, ...]) -> DecoderStep | None:
        """The prepared step; None if the kernel does not support the decoder."""
        embedding, norm, output = model.target_embedding, model.decoder_norm, model.output_table

        def make() -> DecoderStep | None:
            if not self._serves(model) or DecoderStep.refuses(flat, embedding.weight, output):
                return None
            last = norm if isinstance(norm, nn.LayerNorm) else None
            scale = math.sqrt(model.model_dim)
            return DecoderStep(flat, embedding.weight.detach(), scale, last, output.detach(), model.output_bias)

        own = own_methods(model, *METHODS)
        return self._origin.made(make, flat, embedding, norm, output, model.output_bias, model.model_dim, *own)

    def _serves(self, model: Any) -> bool:
        """Whether the parts around the blocks are those that the kernel computes, without hooks and replaced parts."""
        weights = model.target_embedding.weight, model.output_table
        return (
            has_methods_of(self._definition, model, *METHODS)
            and is_plain_embedding(model.target_embedding)
            and is_plain_norm(model.decoder_norm)
            and not any(weight.is_inference() for weight in weights)
        )

    def __deepcopy__(self, memo: object) -> "WholeStep":
        return WholeStep(self._definition)

    def __reduce__(self) -> tuple[type["WholeStep"], tuple[type[nn.Module]]]:
        return WholeStep, (self._definition,)


class Encoding:
    """An encoder as one kernel, prepared on first use and again after any part of the encoder has changed."""

    def __init__(self, definition: type[nn.Module]) -> None:
        """As of `WholeStep`."""
        self._definition, self._origin = definition, Origin()

    def of(self, model: Any, whole: DecoderStep) -> EncoderPass | None:
        """The prepared encoder; None if the kernel does not support it."""
        encoder, norm = model.encoder, model.encoder_norm

        def make() -> EncoderPass | None:
            flat = [] if isinstance(encoder, RANEncoder) else list(map(FlatEncoderBlock.of, encoder))
            blocks = [block for block in flat if block is not None]
            usual = has_methods_of(self._definition, model, "encode") and is_plain_norm(norm)
            decoder = tuple(model.decoder)
            if not usual or len(blocks) < len(flat) or EncoderPass.refuses(blocks, decoder, whole):
                return None
            return EncoderPass(blocks, norm if isinstance(norm, nn.LayerNorm) else None, decoder, whole)

        # Batches in flight keep vectors of positions as long as they have the same encoder.
        own = own_methods(model, "encode")
        return self._origin.made(make, whole, encoder, norm, model.position, model.target_position, *own)

    def __deepcopy__(self, memo: object) -> "Encoding":
        return Encoding(self._definition)

    def __reduce__(self) -> tuple[type["Encoding"], tuple[type[nn.Module]]]:
        return Encoding, (self._definition,)


def own_methods(model: nn.Module, *names: str) -> list[object]:
    """The model's own attributes in place of its class's methods; None where it has none."""
    return [model.__dict__.get(name) for name in names]


def has_methods_of(definition: type[nn.Module], model: nn.Module, *names: str) -> bool:
    """Whether neither a subclass nor the model itself has replaced these methods."""
    own = all(getattr(type(model), name) is getattr(definition, name) for name in names)
    return own and model.__dict__.keys().isdisjoint(names)


def reads_as_defined(definition: type[nn.Module], model: Any) -> bool:
    """Whether the encoder's input is that of the class: embeddings of tokens at positions that no length changes."""
    own = has_methods_of(definition, model, "step", "start", "_embed", "_embedded")
    return own and is_plain_embedding(model.source_embedding) and not isinstance(model.position, UnitInterval)


def is_plain_embedding(embedding: Any) -> bool:
    """Whether a layer looks vectors up and does nothing else."""
    return is_plain(embedding, nn.Embedding) and embedding.max_norm is None


def is_plain_norm(norm: Any) -> bool:
    """Whether a layer norm, or what stands for none, does nothing else."""
    usual = is_plain(norm, nn.LayerNorm) and None not in (norm.weight, norm.bias)
    return usual or is_plain(norm, nn.Identity)
