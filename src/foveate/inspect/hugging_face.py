"""Recording models of the transformers library, with the attention they run anyway.

A function of ours stands where the library's own would: it keeps queries (after any rotation) and keys, and calls the
library's SDPA. So nothing is slowed down and no n × n matrix is made. On the first call the recorded weights are
compared with those of the library's own eager attention, site by site; where they differ, the recording is refused.

    with record(model) as seen:
        model(**tokeniser(text, return_tensors="pt"))
    trace = seen.trace({"source": Track.of_pieces(tokeniser.convert_ids_to_tokens(ids))})
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from foveate.errors import SetupError, UsageError
from foveate.inspect.trace.fold import Stored, statistic
from foveate.inspect.trace.mask import biased, seen_by
from foveate.inspect.trace.site import Site
from foveate.inspect.trace.trace import Pedigree, Trace, layer_of
from foveate.inspect.trace.track import Track

NAME = "foveate"
OUTSIDE = frozenset({"longformer", "big_bird", "bigbird_pegasus", "reformer", "led", "funnel", "xlnet", "transfo-xl"})
"""Models with an attention of their own, which passes no interface."""
UNKNOWN = {"softcap": "soft-capped scores", "s_aux": "sinks beside the keys"}
"""Arguments of attentions that SDPA cannot compute, and what they mean."""
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}
SHORT = 64
"""Tokens of the input on which weights are compared with eager's."""
_CROSS = ("encoder_attn", "crossattention", "cross_attn", "EncDecAttention")


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
    """True where a query may look, or floats to add; None: everything, or everything up to itself."""
    bias: Tensor | None
    start: int
    """Where the first query stands."""

    def site(self, *, tracks: tuple[str, str], example: int = 0, stored: Stored = "float16") -> Site:
        """One example as a site of a trace."""
        dtype = getattr(torch, stored)
        query, key = self.query[example], self.key[example]
        positions = {
            "query_position": torch.arange(self.start, self.start + query.shape[1], dtype=torch.int32),
            "key_position": torch.arange(key.shape[1], dtype=torch.int32),
        }
        mask = None if self.mask is None else self.mask[example if len(self.mask) > 1 else 0]
        visibility, visible = seen_by(mask, self.causal, query.shape[1], key.shape[1], self.start)
        bias, added = biased(mask, self.bias, example, query.shape[1], key.shape[1], self.start)
        kept = {} if self.value is None else {"value": self.value[example].cpu().to(dtype)}
        said = _scaled(self.scaling) + ("" if bias is None else " + b")
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
            formula=f"softmax({said})"
            + ("" if visibility["code"] == "everything()" else f" over {visibility['code']}"),
            tensors={
                "query": query.cpu().to(dtype),
                "key": key.cpu().to(dtype),
                **positions,
                **visible,
                **added,
                **kept,
            },
        )
        return site.with_statistic(statistic(site))


@dataclass(eq=False)
class HuggingFaceRecording:
    """What `record` has seen, in the order of the calls."""

    model: nn.Module
    values: bool = False
    difference: float | None = None
    """Largest |recorded − eager| of a weight; None until something was compared."""
    records: list[HuggingFaceRecord] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict, repr=False)
    last: dict[str, int] = field(default_factory=dict, repr=False)

    def __iter__(self) -> Iterator[HuggingFaceRecord]:
        return iter(self.records)

    def trace(
        self, tracks: Mapping[str, Track] | None = None, *, example: int = 0, stored: Stored = "float16"
    ) -> Trace:
        """One example as a trace. Tracks are `source` (of an encoder, or of a model without one) and `target`."""
        named = dict(tracks or {})
        sites = []
        for record in self.records:
            own = "target" if record.kind == "cross" or ("decoder" in record.name and self._encodes) else "source"
            places = (own, "source" if record.kind == "cross" else own)
            for name, length in zip(places, (record.query.shape[2], record.key.shape[2]), strict=True):
                named.setdefault(name, Track.numbered(length))
            sites.append(record.site(tracks=places, example=example, stored=stored))
        config = getattr(self.model, "config", None)
        pedigree = Pedigree(
            model=type(self.model).__name__,
            configuration=None if config is None else {"model_type": config.model_type},
            dtype=str(next(self.model.parameters()).dtype).removeprefix("torch."),
            difference=self.difference,
        )
        return Trace(tracks=named, sites=tuple(sites), pedigree=pedigree)

    @property
    def _encodes(self) -> bool:
        return bool(getattr(getattr(self.model, "config", None), "is_encoder_decoder", False))

    def note(self, record: HuggingFaceRecord) -> None:
        """A new record, or more rows of a decoder's."""
        place = self.last.get(record.name)
        joined = None if place is None else _joined(self.records[place], record)
        if place is not None and joined is not None:
            self.records[place] = joined
        else:
            self.last[record.name] = len(self.records)
            self.records.append(record)


_active: ContextVar[HuggingFaceRecording | None] = ContextVar("foveate_hugging_face", default=None)


@contextmanager
def record(model: nn.Module, *, values: bool = False, check: bool = True) -> Iterator[HuggingFaceRecording]:
    """Record every attention of a model of the transformers library that runs inside the block.

    Raises UsageError for a model whose attention does not pass the library's interface or computes what SDPA cannot,
    and when the recorded weights are not those of eager attention.
    """
    _register()
    kind = getattr(getattr(model, "config", None), "model_type", type(model).__name__)
    if kind in OUTSIDE or not hasattr(model, "set_attn_implementation"):
        raise UsageError(_passes_by(kind))
    seen = HuggingFaceRecording(model, values)
    seen.names = {id(module): name for name, module in model.named_modules()}
    with _implementation(model, NAME):
        hook = model.register_forward_hook(_Check(seen, kind, check), with_kwargs=True)
        token = _active.set(seen)
        try:
            yield seen
        finally:
            _active.reset(token)
            hook.remove()


class _Check:
    """After the first call: was anything recorded, and is it what eager attention computes?"""

    def __init__(self, seen: HuggingFaceRecording, kind: str, check: bool) -> None:
        self.seen, self.kind, self.check = seen, kind, check

    def __call__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if not self.seen.records:
            raise UsageError(_passes_by(self.kind))
        if not self.check:
            return
        self.check = False
        cut = {
            name: _shortened(value) for name, value in kwargs.items() if name not in ("past_key_values", "use_cache")
        }
        self.seen.difference = _against_eager(self.seen, tuple(map(_shortened, args)), cut)
        limit = TOLERANCE.get(next(model.parameters()).dtype, 3e-2)
        if not self.seen.difference <= limit:
            raise UsageError(
                f"The weights recorded from this {self.kind} model differ from those of its eager attention by "
                f"{self.seen.difference:.2g}, more than {limit:g}: its attention adds something that the recording "
                "does not know. Load it with attn_implementation='eager' and record given weights instead."
            )


@torch.no_grad()
def _against_eager(seen: HuggingFaceRecording, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    """The largest difference of a weight, over all sites and examples of a short input."""
    model, mine = seen.model, HuggingFaceRecording(seen.model, names=seen.names)
    training = model.training
    model.eval()
    token = _active.set(mine)
    try:
        _forward(model, args, kwargs)
    finally:
        _active.reset(token)
    theirs: dict[int, Tensor] = {}
    modules = {id(record.module): record.module for record in mine}
    hooks = [module.register_forward_hook(_keeping(theirs)) for module in modules.values()]
    try:
        with _implementation(model, "eager"):
            _forward(model, args, kwargs)
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    return max((_apart(record, theirs.get(id(record.module))) for record in mine), default=float("inf"))


def _forward(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """The model itself, without the hooks that brought us here."""
    model.forward(*args, **kwargs)


def _keeping(kept: dict[int, Tensor]) -> Any:
    """Keeps the weights among a module's outputs: the four-dimensional ones whose rows sum to 1."""

    def hook(module: nn.Module, args: Any, output: Any) -> None:
        for part in output if isinstance(output, tuple) else ():
            if isinstance(part, Tensor) and part.dim() == 4 and bool(((part.float().sum(-1) - 1).abs() < 0.02).all()):
                kept[id(module)] = part.float().cpu()

    return hook


def _apart(record: HuggingFaceRecord, theirs: Tensor | None) -> float:
    if theirs is None:
        return float("inf")
    largest = 0.0
    for example in range(len(theirs)):
        site = record.site(tracks=("target", "source"), example=example, stored="float32")
        for head in range(site.heads):
            weights, visible = site.weights(head)
            rows = torch.ones(site.queries, dtype=torch.bool) if visible is None else visible.any(1)
            away = (weights - theirs[example, head])[rows].abs()  # an empty row is uniform in eager
            largest = max(largest, float(away.max()) if away.numel() else 0.0)
    return largest


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **keywords: Any
) -> tuple[Tensor, Tensor | None]:
    """What the library calls for every attention."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    seen = _active.get()
    name = None if seen is None else seen.names.get(id(module))
    if seen is not None and name is not None:
        for keyword, meaning in UNKNOWN.items():
            if keywords.get(keyword) is not None:
                raise UsageError(
                    f"{name} has {meaning}, which neither SDPA nor this recording computes. "
                    "Load the model with attn_implementation='eager' and record given weights instead."
                )
        seen.note(_noted(seen, name, module, (query, key, value), attention_mask, keywords))
    answer: tuple[Tensor, Tensor | None] = sdpa_attention_forward(module, query, key, value, attention_mask, **keywords)
    return answer


def _noted(
    seen: HuggingFaceRecording,
    name: str,
    module: nn.Module,
    tensors: tuple[Tensor, Tensor, Tensor],
    mask: Tensor | None,
    keywords: Mapping[str, Any],
) -> HuggingFaceRecord:
    query, key, value = (tensor.detach() for tensor in tensors)
    scaling = keywords.get("scaling")
    cross = any(part in name for part in _CROSS)
    causal = keywords.get("is_causal")
    causal = bool(getattr(module, "is_causal", True) if causal is None else causal) and not cross
    start = 0 if cross else max(key.shape[2] - query.shape[2], 0)
    bias = keywords.get("position_bias")
    return HuggingFaceRecord(
        name=name,
        kind="cross" if cross else "self",
        module=module,
        query=query,
        key=key,
        value=value if seen.values else None,
        scaling=float(query.shape[-1] ** -0.5 if scaling is None else scaling),
        causal=causal and mask is None,
        mask=None if mask is None else mask.detach(),
        bias=None if bias is None else bias.detach(),
        start=start,
    )


def _scaled(scaling: float) -> str:
    """q·k / √32 rather than 0.1768 q·k."""
    width = 1 / scaling**2
    if scaling == 1:
        return "q·k"
    return f"q·k / √{round(width)}" if abs(width - round(width)) < 1e-4 * width else f"{scaling:.4g} q·k"


def _joined(earlier: HuggingFaceRecord, later: HuggingFaceRecord) -> HuggingFaceRecord | None:
    """A decoder's next step as more rows; None for another call."""
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


@contextmanager
def _implementation(model: Any, name: str) -> Iterator[None]:
    """Another attention for a while, in the model and in every part that has a configuration of its own."""
    configs = {id(part.config): part.config for part in model.modules() if hasattr(part, "config")}
    before = {key: getattr(config, "_attn_implementation", None) for key, config in configs.items()}
    model.set_attn_implementation(name)
    try:
        yield
    finally:
        for key, config in configs.items():
            config._attn_implementation = before[key]


def _shortened(value: Any) -> Any:
    """Tokens and masks cut to a length at which eager attention is quick."""
    tokens = isinstance(value, Tensor) and value.dim() == 2 and not value.is_floating_point()
    return value[:, :SHORT] if tokens else value


def _register() -> None:
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise SetupError(
            "Recording models of Hugging Face needs transformers 5 or newer: `pip install 'foveate[hf]'`."
        ) from error
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)


def _passes_by(kind: str) -> str:
    return (
        f"The attention of {kind} does not pass the library's attention interface, so it cannot be recorded while it "
        f"runs. Such are: {', '.join(sorted(OUTSIDE))}. Where the model can return its weights, use them with "
        "`foveate.inspect.trace.given`."
    )
