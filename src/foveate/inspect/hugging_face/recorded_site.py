"""The record of one attention of the transformers library, and its conversion to a site of a trace."""

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from foveate.inspect.hugging_face.mask_window import bias_of, visibility_of
from foveate.inspect.trace.conversion import Stored, statistic
from foveate.inspect.trace.site import Site, layer_of
from foveate.inspect.trace.trace import SAMPLED


@dataclass(frozen=True, eq=False)
class HuggingFaceRecord:
    """One attention of one forward pass; later steps of a decoder add rows."""

    name: str
    kind: Literal["self", "cross"]
    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor | None
    scaling: float
    causal: bool
    mask: Tensor | None
    """True for visible pairs, or floats to add. None means that all keys, or with `causal` all earlier ones, are
    visible.
    """
    bias: Tensor | None
    start: int
    """The position of the first query."""

    def site(self, *, tracks: tuple[str, str], example: int = 0, stored: Stored = "float16") -> Site:
        """One example as a site of a trace."""
        dtype = getattr(torch, stored)
        query, key = self.query[example], self.key[example]
        positions = {
            "query_position": torch.arange(self.start, self.start + query.shape[1], dtype=torch.int32),
            "key_position": torch.arange(key.shape[1], dtype=torch.int32),
        }
        mask = None if self.mask is None else self.mask[example if len(self.mask) > 1 else 0]
        visibility, visible = visibility_of(mask, self.causal, query.shape[1], key.shape[1], self.start)
        bias, added = bias_of(mask, self.bias, example, query.shape[1], key.shape[1], self.start)
        tensors = {} if self.value is None else {"value": self.value[example].cpu().to(dtype)}
        formula = _scaled(self.scaling) + ("" if bias is None else " + b")
        site = Site(
            name=self.name,
            kind=self.kind,
            layer=layer_of(self.name),
            heads=query.shape[0],
            kv_heads=key.shape[0],
            queries=query.shape[1],
            keys=key.shape[1],
            query=tracks[0],
            key=tracks[1],
            score={"kind": "product", "factor": self.scaling},
            visibility=visibility,
            bias=bias,
            normaliser={"kind": "softmax", "temperature": 1.0},
            formula=f"softmax({formula})"
            + ("" if visibility["code"] == "everything()" else f" over {visibility['code']}"),
            tensors={
                "query": query.cpu().to(dtype),
                "key": key.cpu().to(dtype),
                **positions,
                **visible,
                **added,
                **tensors,
            },
        )
        return site.with_statistic(statistic(site))

    def rounding(self, site: Site, example: int) -> float:
        """The largest change of a weight by storing features in 16 bits, on a few rows."""
        exact = replace(
            site,
            tensors={
                **site.tensors,
                "query": self.query[example].float().cpu(),
                "key": self.key[example].float().cpu(),
            },
        )
        largest = 0.0
        for row in range(0, site.queries, max(1, site.queries // SAMPLED)):
            rows = slice(row, row + 1)
            for head in range(site.heads):
                own, visible = site.weights(head, rows)
                scores = exact.scores(head, rows)
                if visible is not None and not bool(visible.any()):
                    continue
                weights = (scores if visible is None else scores.masked_fill(~visible, -torch.inf)).softmax(-1)
                largest = max(largest, float((own - weights).abs().max()))
        return largest


def _scaled(scaling: float) -> str:
    """The scaled product in readable form: q·k / √32 rather than 0.1768 q·k."""
    width = 1 / scaling**2
    if scaling == 1:
        return "q·k"
    return f"q·k / √{round(width)}" if abs(width - round(width)) < 1e-4 * width else f"{scaling:.4g} q·k"


def joined(earlier: HuggingFaceRecord, later: HuggingFaceRecord) -> HuggingFaceRecord | None:
    """Append a decoder's next step as more rows; None for another call."""
    plain = all(each.bias is None for each in (earlier, later))
    plain = plain and all(each.mask is None or bool((each.mask == True).all()) for each in (earlier, later))  # noqa: E712
    batch = earlier.query.shape[0] == later.query.shape[0]
    rows = torch.cat([earlier.query, later.query], 2) if batch else later.query
    if not plain or not batch:
        return None
    if earlier.kind == "cross":
        same = earlier.key.shape == later.key.shape and torch.equal(earlier.key, later.key)
        return replace(later, query=rows, mask=None) if same else None
    ends = earlier.start + earlier.query.shape[2]
    follows = later.start == ends and later.key.shape[2] == ends + later.query.shape[2]
    causal = bool(getattr(later.module, "is_causal", True))
    if not follows or not causal:
        return None
    return replace(later, query=rows, start=earlier.start, causal=True, mask=None)
