"""Streams of Transformer blocks: truncated and chunked self-attention over frames that arrive.

A layer keeps the keys and values of the last frames that its rule shows, and a frame's output waits for the frames
that the rule shows after it.

References: Zhang et al. 2020, arXiv 2002.02562 (windows); Zhang et al. 2020, arXiv 2012.05481 (chunks).
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.attention import Attention, Positions
from foveate.attention.bias import is_by_pair
from foveate.attention.claim import claim
from foveate.attention.paths.path import cutting_reasons
from foveate.attention.score import is_placed
from foveate.nn.multihead import KeyValue, MultiHeadAttention
from foveate.nn.stream import Stream, joined, kept
from foveate.nn.transformer_block import EncoderBlock


@dataclass(frozen=True, eq=False)
class BlockState:
    """The frames that later outputs of a block need."""

    x: Float[Tensor, "waiting model_dim"]
    """Inputs without an output yet: the last of those that arrived."""
    queries: Float[Tensor, "1 heads waiting head_dim"]
    memory: KeyValue
    """Keys and values of the last frames that a later query may see."""
    received: int
    """The number of frames that arrived."""


class BlockStream(Stream[BlockState]):
    """An encoder block whose attention sees a limited number of frames after each frame.

    The state is as large as the rule's reach. It grows only under a rule that shows all earlier frames, such as
    `chunk(16, left=math.inf)`.
    """

    name = "attention"

    def __init__(self, block: EncoderBlock) -> None:
        assert isinstance(block.attention.attention, Attention)
        self.block, self.rule = block, block.attention.attention.visibility
        self.look_ahead = int(self.rule.ahead)

    def begin(self) -> BlockState:
        attention, weight = self.block.attention, self.block.attention.key.weight
        heads, dims = attention.num_kv_heads, (attention.head_dim, attention.value_head_dim)
        return BlockState(
            weight.new_zeros(0, weight.shape[1]),
            weight.new_zeros(1, attention.num_heads, 0, attention.head_dim),
            KeyValue(*(weight.new_zeros(1, heads, 0, dim) for dim in dims)),
            0,
        )

    def advance(
        self, state: BlockState, x: Float[Tensor, "frames model_dim"], *, last: bool
    ) -> tuple[BlockState, Float[Tensor, "new_frames model_dim"]]:
        residual, attention = self.block.attention_residual, self.block.attention
        received, emitted = state.received + len(x), state.received - len(state.x)
        queries, memory = attention.project(residual.read(x)[None])
        x, queries = joined(state.x, x), joined(state.queries, queries, 2)
        memory = KeyValue(*(joined(before, new, 2) for before, new in zip(state.memory, memory, strict=True)))
        frames = torch.arange(emitted, received, device=x.device)
        ready = len(x) if last else int((self.awaited(frames) < received).long().cumprod(0).sum())
        y = x[:0]
        if ready:
            first = received - memory.key.shape[2]
            at = _between(frames[:ready], first, received)
            y = residual(x[:ready], lambda _: attention.attend(queries[:, :, :ready], memory, at=at)[0])
            y = self.block.feedforward_residual(y, self.block.feedforward)
        # The next query is the first of those that come, and none of them looks farther back.
        needed = memory.key.shape[2] - (received - emitted - ready) - self.rule.behind
        start = 0 if needed == -math.inf else int(needed)
        memory = KeyValue(*(kept(part, start, 2) for part in memory))
        return BlockState(kept(x, ready), kept(queries, ready, 2), memory, received), y

    def awaited(self, frame: Int[Tensor, " frames"]) -> Int[Tensor, " frames"]:
        """By the rule: all frames of a chunk wait for its last one."""
        if self.rule.band is not None or not frame.numel():
            return frame + self.look_ahead
        _, last = self.rule.bounds(_between(frame, int(frame[0]), int(frame[0]) + 1))
        return torch.maximum(last.flatten().expand(len(frame)), frame.double()).clamp(max=2.0**53).long()


def _between(frames: Int[Tensor, " frames"], first: int, stop: int) -> Positions:
    """Queries at these frames, and keys from `first` to before `stop`."""
    key = torch.arange(first, stop, device=frames.device)
    return Positions(frames[None, None, :, None], key[None, None, None])


def attention_refusals(attention: MultiHeadAttention) -> list[str]:
    """Why self-attention cannot process a sequence piece by piece; empty where it can.

    >>> from foveate.attention import AttentionConfig, window
    >>> config = AttentionConfig(visibility=window(left=8, right=2))
    >>> attention_refusals(MultiHeadAttention(query_dim=4, num_heads=1, attention=config))
    []
    >>> attention_refusals(MultiHeadAttention(query_dim=4, num_heads=1))
    ['everything() does not limit how many later frames a frame sees']
    """
    formula = attention.attention
    if type(formula) is not Attention:
        return [f"{type(formula).__name__} computes from the whole sequence"]
    rule, reasons = formula.visibility, cutting_reasons(formula)
    if rule.reads_length:
        reasons.append(f"{rule} reads the length of the whole sequence")
    elif rule.ahead == math.inf:
        reasons.append(f"{rule} does not limit how many later frames a frame sees")
    elif not rule.by_pair:
        reasons.append(f"{rule} does not state by_pair, and its answers may change with other frames")
    if is_placed(formula.score) and not claim(formula.score, "by_pair"):
        reasons.append(f"{type(formula.score).__name__} scores places in the whole sequence")
    for name, bias in (("bias", formula.bias), ("reweight", formula.reweight)):
        if not is_by_pair(bias):
            reasons.append(f"the {name} {type(bias).__name__} does not state by_pair, and may change with other frames")
    if formula.centre is not None:
        reasons.append("the centres of its windows are predicted, anywhere in the sequence")
    for transform in formula.transforms:
        if not claim(transform, "by_place"):
            reasons.append(f"{type(transform).__name__} does not state by_place, and may change with other frames")
    return reasons
