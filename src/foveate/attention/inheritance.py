"""Whether a part computes what its class says: what a subclass or a hook has changed, no shortcut may compute."""

from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module


def follows(part: object, whole: tuple[str, ...], parts: tuple[str, ...]) -> bool:
    """Whether no class that stands before those which define the parts defines the whole: what is overridden in a
    subclass no longer follows from parts that are inherited.
    """
    return min(_depth(type(part), whole)) >= min(_depth(type(part), parts))


def _depth(kind: type, names: tuple[str, ...]) -> list[int]:
    """How far back in the inheritance each method is defined."""
    places = (next((i for i, base in enumerate(kind.__mro__) if name in vars(base)), None) for name in names)
    return [place for place in places if place is not None] or [len(kind.__mro__)]


def is_hooked(part: object) -> bool:
    """Whether calling a module does more than its class says; a hook on all modules counts for each."""
    if not isinstance(part, nn.Module):
        return False
    own: dict[str, Any] = part.__dict__
    before, after = own["_forward_pre_hooks"] or own["_backward_pre_hooks"], own["_forward_hooks"]
    hooked = before or after or own["_backward_hooks"] or torch_module._has_any_global_hook()
    return bool(hooked) or "forward" in own
