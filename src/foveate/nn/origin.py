"""The origin of prepared state, which may be reused only while every part of its origin is unchanged."""

from operator import is_
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as torch_module


class Origin:
    """The weights and modules that some state was prepared from.

    A module is compared by its class, attributes, hooks, submodules and weights; a weight by its address, layout and
    version counter. torch does not count writes through `weight.data` or through a numpy array that shares its memory:
    write under `torch.no_grad()` instead.

    >>> origin, layer = Origin(), nn.Linear(2, 2)
    >>> origin.changes_to(layer), origin.changes_to(layer)
    (True, False)
    >>> _ = nn.init.zeros_(layer.weight)
    >>> origin.changes_to(layer), origin.changes_to(layer)
    (True, False)
    """

    def __init__(self) -> None:
        self._objects: list[object] = []
        self._numbers: list[object] = []
        self._memory: list[Tensor] = []

    def changes_to(self, *parts: Tensor | nn.Module | object) -> bool:
        """Whether the parts or their values differ from those of the last call."""
        objects: list[object] = []
        numbers: list[object] = []
        for part in parts:
            _describe(part, objects, numbers)
        if len(objects) == len(self._objects) and numbers == self._numbers and all(map(is_, objects, self._objects)):
            return False
        self._objects, self._numbers = objects, numbers
        # While this reference holds the memory, no other weight can get its address.
        self._memory = [part.detach() for part in objects if isinstance(part, Tensor)]
        return True

    def __deepcopy__(self, memo: object) -> "Origin":
        return Origin()

    def __reduce__(self) -> tuple[type["Origin"], tuple[()]]:
        return Origin, ()


def is_plain(module: object, kind: type[nn.Module]) -> bool:
    """Whether a module computes exactly what its class defines, so that a shortcut may replace it.

    A subclass, a parametrised or wrapped layer, hooks or the instance's own `forward` may compute something else.
    """
    if type(module) is not kind:
        return False
    own: dict[str, Any] = module.__dict__
    return not (
        own["_forward_hooks"]
        or own["_forward_pre_hooks"]
        or own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or "forward" in own
        or torch_module._has_any_global_hook()
    )


def _describe(part: object, objects: list[object], numbers: list[object]) -> None:
    objects.append(part)
    if isinstance(part, Tensor):
        numbers += (part.data_ptr(), -1 if part.is_inference() else part._version, part.stride())
        return
    if not isinstance(part, nn.Module):
        return
    own = part.__dict__
    objects.append(type(part))
    objects += own.values()
    numbers += (len(own["_forward_hooks"]), len(own["_forward_pre_hooks"]))
    for weight in (*own["_parameters"].values(), *own["_buffers"].values()):
        _describe(weight, objects, numbers)
    for child in own["_modules"].values():
        _describe(child, objects, numbers)
