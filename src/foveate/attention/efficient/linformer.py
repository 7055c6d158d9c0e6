"""Linformer: queries look at a fixed number of mixtures of keys and values."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from foveate.attention import check
from foveate.attention.attention import Attention
from foveate.attention.chooser import Plan
from foveate.attention.explanation import Explanation
from foveate.attention.mechanism import (
    Context,
    Key,
    KeyFeatures,
    Query,
    Site,
    SiteConfig,
    Value,
    demand_of,
    require_demand,
)
from foveate.attention.paths.path import share_heads
from foveate.attention.position import Positions, require_places
from foveate.attention.score import ScaledDot
from foveate.attention.visibility import Visibility, everything, padding
from foveate.config import require_choices

Sharing = Literal["none", "heads", "key_value"]


class LinformerAttention(nn.Module):
    """context = softmax(Q (E K)ᵀ / √d) F V,  E and F of `projected_length × max_length`

    O(n · projected_length). `explain` shows weights over the mixtures, batch heads query projected_length. Hidden keys
    are zero before they are mixed, so padding has no effect, whatever its length (published code of the Long Range
    Arena mixes it in). A mixture holds the whole sequence, so the formula supports neither rules that compare positions
    nor sequences longer than `max_length`.

    >>> attention = LinformerAttention(max_length=64, projected_length=3)
    >>> x = torch.randn(1, 1, 40, 8)
    >>> record = attention.explain(query=x, key=x, value=x)
    >>> record.weights.shape, record.shows
    (torch.Size([1, 1, 40, 3]), 'projected')

    Reference: Wang et al. 2020, equation 7; `share` as in section 4 ("none", "heads": headwise, "key_value").
    """

    def __init__(
        self,
        *,
        max_length: int,
        projected_length: int,
        num_heads: int = 1,
        share: Sharing = "heads",
        visibility: Visibility | None = None,
        kind: Literal["self", "cross"] = "self",
    ) -> None:
        super().__init__()
        self.visibility = everything() if visibility is None else visibility
        require_demand(
            "Linformer",
            self.visibility,
            may_be_causal=False,
            way_out="each of its keys is a mixture of all. Use it in an encoder or across, where nothing compares "
            'positions, and another kind here, such as "attention", "linear" or "performer".',
        )
        check.require_whole(max_length=max_length, projected_length=projected_length, num_heads=num_heads)
        check.require_choice("share", share, get_args(Sharing))
        self.max_length, self.share = max_length, share
        shape = (num_heads if share == "none" else 1, projected_length, max_length)
        self.key_mixing = nn.Parameter(torch.randn(shape) * projected_length**-0.5)
        self.value_mixing = None
        if share != "key_value":
            self.value_mixing = nn.Parameter(torch.randn(shape) * projected_length**-0.5)
        # Not a submodule: a recording could not tell weights over mixtures from weights over keys.
        self._over_mixtures = (Attention(ScaledDot(), visibility=padding(), kind=kind),)

    @property
    def projected(self) -> Attention:
        """Softmax attention over the mixtures."""
        return self._over_mixtures[0]

    def key_features(self, key: Float[Tensor, "batch heads key key_dim"]) -> None:
        """None: the mixtures depend on which keys are visible."""

    def explain(self, query: Query, key: Key, value: Value, *, at: Positions | None = None) -> Explanation:
        """Scores, weights and context over the mixtures. Raises ValueError past `max_length`."""
        keys, values, there = self._mixed(query, key, value, at)
        return replace(self.projected.explain(query, keys, values, at=there), shows="projected")

    def run(
        self,
        query: Query,
        key: Key,
        value: Value,
        *,
        at: Positions | None = None,
        key_features: KeyFeatures | None = None,
        dropout: float = 0.0,
    ) -> Context:
        """The context, by the fastest path over the mixtures. Raises ValueError past `max_length`."""
        keys, values, there = self._mixed(query, key, value, at)
        return self.projected.run(query, keys, values, at=there, dropout=dropout)

    def plan(self, query: Query, key: Key, *, at: Positions | None = None) -> Plan:
        """The path that looks at the mixtures; its arithmetic and memory include the mixing."""
        keys, _, there = self._mixed(query, key, key, at)
        plan = self.projected.plan(query, keys, at=there)
        mixing = 4.0 * keys.numel() * key.shape[2]
        room = 2.0 * keys.numel() * keys.element_size()
        paths = tuple(replace(path, flops=path.flops + mixing, bytes=path.bytes + room) for path in plan.paths)
        return replace(plan, paths=paths, because=f"{keys.shape[2]} mixtures of {key.shape[2]} keys, {plan.because}")

    def extra_repr(self) -> str:
        num_heads, mixtures, _ = self.key_mixing.shape
        heads = f"num_heads={num_heads}, " if self.share == "none" else ""
        sizes = f"max_length={self.max_length}, projected_length={mixtures}, {heads}share={self.share!r}"
        return f"{sizes}, visibility={self.visibility}"

    def _mixed(
        self, query: Tensor, key: Tensor, value: Tensor, at: Positions | None
    ) -> tuple[Tensor, Tensor, Positions]:
        """The mixtures of keys and of values, and which of them hold a visible key."""
        check.require_tensors(query, key, value)
        if at is None:
            at = Positions.of(query.shape[2], key.shape[2], device=key.device)
        require_places(at, query, key)
        if self.share == "none":
            check.require_heads(query, len(self.key_mixing))
        check.require_equal_width("Linformer", query, key)
        visible = demand_of(self.visibility).keys(at)
        last = int(torch.where(visible, at.key, 0).max()) if visible.numel() and at.key.numel() else 0
        if last >= self.max_length:
            raise ValueError(
                f"Linformer was built for {self.max_length} positions, but a key stands at position {last}. "
                "Shorten the input, or train with a larger max_length."
            )
        place = at.key.clamp(0, self.max_length - 1)[:, :, 0]  # hidden keys, which are zero, may stand anywhere
        if self.share == "none" or visible.shape[1] > 1:
            key, value = share_heads(key, query.shape[1]), share_heads(value, query.shape[1])
        key, value = torch.where(visible.mT, key, 0.0), torch.where(visible.mT, value, 0.0)
        value_mixing = self.key_mixing if self.value_mixing is None else self.value_mixing
        there = Positions.of(query.shape[2], self.key_mixing.shape[1], device=key.device)
        real = visible.any(-1, keepdim=True)
        if not bool(real.all()):
            there = replace(there, real=real.expand(-1, -1, 1, self.key_mixing.shape[1]))
        return _mix(self.key_mixing, key, place), _mix(value_mixing, value, place), there


def _mix(
    mixing: Float[Tensor, "#heads projected max_length"],
    x: Float[Tensor, "batch heads key dim"],
    place: Int[Tensor, "#batch #heads key"],
) -> Float[Tensor, "batch heads projected dim"]:
    """E X, with the columns of E that belong to the places of X."""
    # In float32 at least: examples share columns, and their gradients are added up.
    mixing = mixing.to(torch.promote_types(mixing.dtype, torch.float32))
    if place.shape[:2] == (1, 1):
        return mixing[:, :, place[0, 0]].to(x.dtype) @ x
    heads = max(len(mixing), place.shape[1])
    index = place[:, :, None].expand(-1, heads, mixing.shape[1], -1)
    return mixing.expand(len(place), heads, -1, -1).gather(-1, index).to(x.dtype) @ x


@dataclass(frozen=True, kw_only=True)
class LinformerConfig(SiteConfig[LinformerAttention]):
    """Softmax over a fixed number of mixtures of the keys (Wang et al. 2020); not causal."""

    max_length: int = 512
    """The longest sequence of keys, in tokens."""
    projected_length: int = 128
    """The number of mixtures."""
    share: Sharing = "heads"
    """The parts that share a mixing: none, all heads, or all heads with keys and values."""

    def __post_init__(self) -> None:
        require_choices(self)
        check.require_whole(max_length=self.max_length, projected_length=self.projected_length)

    def build_for(self, site: Site) -> LinformerAttention:
        check.require_one_width("Linformer", site.query_dim, site.key_dim)
        return LinformerAttention(
            max_length=self.max_length,
            projected_length=self.projected_length,
            num_heads=site.num_heads,
            share=self.share,
            visibility=site.visibility,
            kind=site.kind,
        )
