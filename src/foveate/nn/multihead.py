"""Multi-head attention in the lectures' general shapes."""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention import (
    Attention,
    AttentionConfig,
    Explanation,
    MechanismConfig,
    Positions,
    Visibility,
    causal,
    everything,
)
from foveate.attention.check import refusal, require_whole
from foveate.attention.mechanism import shortest
from foveate.attention.record import is_recording, note
from foveate.attention.score import FeedbackScore
from foveate.nn.int8 import Int8Weight
from foveate.nn.linear_layer import Linear, linear
from foveate.nn.origin import is_plain
from foveate.nn.packing import Packing
from foveate.nn.prepared import packed_attention


class KeyValue(NamedTuple):
    """Projected keys and values of a decoder's past or of the encoder's memory."""

    key: Float[Tensor, "batch kv_heads key head_dim"]
    value: Float[Tensor, "batch kv_heads key value_head_dim"]


class PackedKeyValue(NamedTuple):
    """Projected keys and values of tokens without padding, concatenated feature by feature."""

    joined: Float[Tensor, "tokens keys_and_values"]
    packing: Packing


class MultiHeadAttention(nn.Module):
    """head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V);  output = [head_1; …; head_h] W^O

    Queries, keys and values may have different widths (`query_dim, key_dim, value_dim`); each head scores in
    `head_dim`, carries `value_head_dim`, and W^O maps the `num_heads · value_head_dim` of all heads to `output_dim`.
    Everything defaults to `query_dim` and equal heads. `num_kv_heads < num_heads` shares keys and values between
    groups of heads. The lectures write no biases; `bias=True` adds them to the four projections. `attention` configures
    the mechanism of the heads, by default scaled dot-product attention.

    Two layouts: padded (`batch length dim`), or tokens without padding (`tokens dim`) when packings are given.

    Reference: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(
        self,
        *,
        query_dim: int,
        key_dim: int | None = None,
        value_dim: int | None = None,
        num_heads: int = 8,
        num_kv_heads: int | None = None,
        head_dim: int | None = None,
        value_head_dim: int | None = None,
        output_dim: int | None = None,
        bias: bool = False,
        dropout: float = 0.0,
        attention: MechanismConfig | None = None,
        visibility: Visibility | None = None,
        kind: Literal["self", "cross"] = "self",
    ) -> None:
        super().__init__()
        require_whole(query_dim=query_dim, num_heads=num_heads)
        if attention is not None and (isinstance(attention, type) or not isinstance(attention, MechanismConfig)):
            raise refusal("attention", attention, "Give a configuration, such as AttentionConfig() or LinearConfig().")
        if head_dim is None and query_dim % num_heads:
            raise ValueError(f"query_dim={query_dim} does not divide into num_heads={num_heads}. Pass head_dim.")
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads or num_heads
        if num_heads % self.num_kv_heads:
            raise ValueError(f"num_kv_heads={num_kv_heads} does not divide num_heads={num_heads}.")
        self.head_dim = head_dim or query_dim // num_heads
        self.value_head_dim = value_head_dim or self.head_dim
        self.dropout = dropout
        key_dim = key_dim or query_dim
        self.query = Linear(query_dim, num_heads * self.head_dim, bias)
        self.key = Linear(key_dim, self.num_kv_heads * self.head_dim, bias)
        self.value = Linear(value_dim or key_dim, self.num_kv_heads * self.value_head_dim, bias)
        self.output = Linear(num_heads * self.value_head_dim, output_dim or query_dim, bias)
        for projection in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(projection.weight)
            if bias:
                nn.init.zeros_(projection.bias)
        self.attention = (attention or AttentionConfig()).build(
            query_dim=self.head_dim,
            key_dim=self.head_dim,
            num_heads=num_heads,
            visibility=everything() if visibility is None else visibility,
            kind=kind,
        )
        if isinstance(getattr(self.attention, "score", None), FeedbackScore):
            raise ValueError(
                "Location-aware attention needs the weights of the step before, but multi-head attention computes all "
                "queries at once. Choose another score, or a recurrent decoder."
            )
        if getattr(self.attention, "shares_query_and_key", False):
            if self.num_kv_heads != num_heads:
                raise ValueError(
                    "This mechanism uses the same vectors as queries and keys, so "
                    f"num_kv_heads={num_kv_heads} must equal num_heads={num_heads}."
                )
            self.key = self.query
        self._int8 = Int8Weight()

    @property
    def max_length(self) -> int | None:
        """The length of the longest sequence that it can attend over; None without a limit."""
        return shortest(self.attention)

    def forward(
        self,
        query: Float[Tensor, "batch query query_dim"] | Float[Tensor, "tokens query_dim"],
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        at: Positions | None = None,
        packing: Packing | None = None,
        key_packing: Packing | None = None,
    ) -> Float[Tensor, "batch query output_dim"] | Float[Tensor, "tokens output_dim"]:
        """Attend from `query` to `key`, or to itself without `key`. `value` defaults to `key`.

        With packings, inputs and output are tokens without padding.
        """
        if key is None and value is None and packing is not None and at is not None:
            packings = packing, packing
            if self._packs(query, *packings) and self._is_placed_as_packed(at, packings):
                joined = self._joined(query, self.query, self.key, self.value)
                return self._attend_packed(joined, None, packings, at)
        queries, memory = self.project(query, key, value, packing=packing, key_packing=key_packing)
        return self.attend(queries, memory, at=at, packing=packing)

    def explain(
        self,
        query: Float[Tensor, "batch query query_dim"],
        key: Float[Tensor, "batch key key_dim"] | None = None,
        value: Float[Tensor, "batch key value_dim"] | None = None,
        *,
        at: Positions | None = None,
    ) -> Explanation:
        """Scores, weights and context of every head."""
        queries, memory = self.project(query, key, value)
        return self.attention.explain(queries, memory.key, memory.value, at=at)

    def project(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        packing: Packing | None = None,
        key_packing: Packing | None = None,
    ) -> tuple[Float[Tensor, "batch heads query head_dim"], KeyValue]:
        """All three projections, split into heads, in one product if query, key and value are the same."""
        if key is not None or value is not None:
            key, key_packing = (query, packing) if key is None else (key, key_packing)
            return self.queries(query, packing), self.remember(key, value, packing=key_packing)
        joined = self._joined(query, self.query, self.key, self.value)
        if packing is not None:
            joined = packing.unpack(joined)
        widths = [self.num_heads * self.head_dim]
        widths += [self.num_kv_heads * self.head_dim, self.num_kv_heads * self.value_head_dim]
        queries, keys, values = joined.split(widths, dim=-1)
        memory = KeyValue(self._heads(keys, self.num_kv_heads), self._heads(values, self.num_kv_heads))
        return self._heads(queries, self.num_heads), memory

    def queries(self, query: Tensor, packing: Packing | None = None) -> Float[Tensor, "batch heads query head_dim"]:
        """Project queries only."""
        return self._heads(self.query(query), self.num_heads, packing)

    def remember(self, key: Tensor, value: Tensor | None = None, *, packing: Packing | None = None) -> KeyValue:
        """Project keys and values only."""
        keys = self._heads(self.key(key), self.num_kv_heads, packing)
        return KeyValue(keys, self._heads(self.value(key if value is None else value), self.num_kv_heads, packing))

    def remember_tokens(
        self, key: Float[Tensor, "tokens key_dim"], packing: Packing, queries: Packing
    ) -> KeyValue | PackedKeyValue:
        """Keys and values for `look_up` by queries of that packing, without padding if the packed kernel applies."""
        if self._packs(key, packing, queries):
            return PackedKeyValue(self._joined(key, self.key, self.value), packing)
        return self.remember(key, packing=packing)

    def look_up(
        self,
        query: Float[Tensor, "tokens query_dim"],
        memory: KeyValue | PackedKeyValue,
        *,
        at: Positions,
        packing: Packing,
    ) -> Float[Tensor, "tokens output_dim"]:
        """Project queries and attend to the result of `remember_tokens`."""
        if isinstance(memory, PackedKeyValue):
            packings = packing, memory.packing
            if self._is_placed_as_packed(at, packings):
                return self._attend_packed(self.query(query), memory.joined, packings, at)
            keys, values = memory.packing.unpack(memory.joined).chunk(2, dim=-1)
            memory = KeyValue(self._heads(keys, self.num_heads), self._heads(values, self.num_heads))
        return self.attend(self.queries(query, packing), memory, at=at, packing=packing)

    def attend(
        self,
        queries: Float[Tensor, "batch heads query head_dim"],
        memory: KeyValue,
        *,
        at: Positions | None = None,
        packing: Packing | None = None,
    ) -> Tensor:
        """Attention over projected keys and values; the heads are concatenated and projected to `output_dim`."""
        dropout = self.dropout if self.training else 0.0
        context = self.attention.run(queries, memory.key, memory.value, at=at, dropout=dropout)
        joined = context.transpose(1, 2).flatten(-2)
        return self.output(joined if packing is None else packing.pack(joined))

    def _heads(
        self, projected: Tensor, heads: int, packing: Packing | None = None
    ) -> Float[Tensor, "batch heads length dim"]:
        padded = projected if packing is None else packing.unpack(projected)
        return padded.unflatten(-1, (heads, -1)).transpose(1, 2)

    def _joined(self, x: Tensor, *layers: nn.Module) -> Tensor:
        """Several projections of the same input, in one product if all are plain linear layers."""
        plain = [layer for layer in layers if isinstance(layer, Linear) and is_plain(layer, Linear)]
        if len(plain) < len(layers) or len({layer.bias is None for layer in plain}) > 1:
            return torch.cat([layer(x) for layer in layers], dim=-1)
        if all(layer.int8 for layer in plain) and not torch.is_grad_enabled():
            return self._int8.of(tuple(layer.weight for layer in plain), tuple(layer.bias for layer in plain))(x)
        bias = None if plain[0].bias is None else torch.cat([layer.bias for layer in plain])
        return linear(x, torch.cat([layer.weight for layer in plain]), bias)

    def refuses_packed(self, x: Float[Tensor, "tokens query_dim"], longest: int) -> list[str]:
        """Why attention over tokens like `x`, in sequences of up to `longest`, is computed with padding.

        Empty where the packed kernel runs instead of a path.
        """
        reasons = packed_attention.refuses(self.attention, x, head_dim=self.head_dim, longest=longest)
        if self.num_kv_heads != self.num_heads or self.value_head_dim != self.head_dim:
            reasons.append("requires as many key and value heads as query heads, of equal width")
        if self.training and self.dropout > 0:
            reasons.append("weights have dropout")
        return reasons

    def _packs(self, x: Tensor, *packings: Packing) -> bool:
        """Whether attention runs without padding, on projections of `x`."""
        return not self.refuses_packed(x, max(packing.length for packing in packings))

    def _is_placed_as_packed(self, at: Positions, packings: tuple[Packing, Packing]) -> bool:
        """Whether the rule shows each token what the packed kernel shows: all tokens of its own sequence, or those that
        are not later.
        """
        queries, keys = packings
        if self.attention.visibility == causal():
            return at.aligned and queries is keys and at.key.shape[-1] == keys.length
        return at.known(("real", keys), lambda: keys.is_marked_by(at.real))

    def _attend_packed(
        self, query: Tensor, memory: Tensor | None, packings: tuple[Packing, Packing], at: Positions
    ) -> Tensor:
        assert isinstance(self.attention, Attention)
        if is_recording():
            key = query[:, self._width :] if memory is None else memory
            flat = [part[:, : self._width] for part in (query, key)]
            queries, keys = (
                self._heads(part, self.num_heads, packing) for part, packing in zip(flat, packings, strict=True)
            )
            note(self.attention, self.attention.kind, queries, keys, at)
        starts = (packings[0].starts, packings[1].starts)
        return self.output(packed_attention.attend(self.attention, query, memory, starts, self.num_heads))

    @property
    def _width(self) -> int:
        return self.num_heads * self.head_dim
