"""Compares recorded weights with the library's eager attention."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from foveate.errors import UsageError
from foveate.inspect.hugging_face.recorded_site import HuggingFaceRecord
from foveate.inspect.hugging_face.recording import HuggingFaceRecording, active
from foveate.inspect.hugging_face.recording_interface import implementation

OUTSIDE = frozenset({"longformer", "big_bird", "bigbird_pegasus", "reformer", "led", "funnel", "xlnet", "transfo-xl"})
"""Models whose attention does not use the library's interface."""
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}
SHORT = 64
"""The number of tokens in the input of the comparison."""
CACHES = frozenset({"past_key_values", "cache", "use_cache"})
"""Arguments that would let eager attention see keys of the call before; the first has been named `cache` since 5.24."""


class Check:
    """Checks after the first call that weights were recorded, and that they equal those of eager attention."""

    def __init__(self, recording: HuggingFaceRecording, kind: str, check: bool) -> None:
        self.recording, self.kind, self.check = recording, kind, check

    def __call__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        if not self.recording.records:
            raise UsageError(passes_by(self.kind))
        if not self.check:
            return
        self.check = False
        inputs = {name: value for name, value in kwargs.items() if name not in CACHES}
        # Other inputs, such as an encoder's output, have a length, too.
        if all(map(_may_be_cut, (*args, *inputs.values()))):
            args, inputs = tuple(map(_shortened, args)), {name: _shortened(value) for name, value in inputs.items()}
        self.recording.difference = _against_eager(self.recording, args, inputs)
        limit = TOLERANCE.get(next(model.parameters()).dtype, 3e-2)
        if not self.recording.difference <= limit:
            raise UsageError(
                f"The weights recorded from this {self.kind} model differ from those of its eager attention by "
                f"{self.recording.difference:.2g}, more than {limit:g}: its attention adds something unknown to "
                "the recording. Load it with attn_implementation='eager' and record given weights instead."
            )


@torch.no_grad()
def _against_eager(recording: HuggingFaceRecording, args: tuple[Any, ...], kwargs: dict[str, Any]) -> float:
    """The largest difference of weights, over all sites and examples of a short input."""
    model, mine = recording.model, HuggingFaceRecording(recording.model, names=recording.names)
    training = model.training
    model.eval()
    theirs: dict[int, Tensor] = {}
    hooks: list[RemovableHandle] = []
    try:
        token = active.set(mine)
        try:
            _forward(model, args, kwargs)
        finally:
            active.reset(token)
        modules = {id(record.module): record.module for record in mine}
        hooks += [module.register_forward_hook(_keeping(theirs)) for module in modules.values()]
        with implementation(model, "eager"):
            _forward(model, args, kwargs)
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    return max((_apart(record, theirs.get(id(record.module))) for record in mine), default=float("inf"))


def _forward(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call the model without the hooks of this recording."""
    model.forward(*args, **kwargs)


def _keeping(outputs: dict[int, Tensor]) -> Any:
    """A hook that stores the weights among a module's outputs: four-dimensional tensors whose rows sum to 1."""

    def hook(module: nn.Module, args: Any, output: Any) -> None:
        for part in output if isinstance(output, tuple) else ():
            if isinstance(part, Tensor) and part.dim() == 4 and bool(((part.float().sum(-1) - 1).abs() < 0.02).all()):
                outputs[id(module)] = part.float().cpu()

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
            away = (weights - theirs[example, head])[rows].abs()  # an empty row is uniform in eager attention
            largest = max(largest, float(away.max()) if away.numel() else 0.0)
    return largest


def passes_by(kind: str) -> str:
    return (
        f"The attention of {kind} does not pass the library's attention interface, so it cannot be recorded while it "
        f"runs. Such are: {', '.join(sorted(OUTSIDE))}. Where the model can return its weights, use them with "
        "`foveate.inspect.trace.given`."
    )


def _may_be_cut(value: Any) -> bool:
    """Whether a value has no length, or one that `_shortened` knows."""
    return value is None or isinstance(value, bool | int | float | str) or _is_tokens(value)


def _is_tokens(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() in (1, 2) and not value.is_floating_point()


def _shortened(value: Any) -> Any:
    """Tokens, masks and positions, shortened to a length for which eager attention is quick."""
    return value[..., :SHORT] if _is_tokens(value) else value
