"""What prepared state was made of: it may be used again only as long as every part of that is still the same."""

from operator import is_
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as torch_module


class Origin:
    """The weights and modules that something was prepared from.

    Parts are compared as they are: a module by its class, its attributes, its hooks, its submodules and its weights; a
    weight by where it lies, how it lies there and how often it was written to. torch does not count what is written
    through `weight.data` or through a numpy array that shares its memory: write under `torch.no_grad()` instead.

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
        """Whether these are other parts, or the same parts with other values, than at the last call."""
        objects: list[object] = []
        numbers: list[object] = []
        for part in parts:
            _describe(part, objects, numbers)
        if len(objects) == len(self._objects) and numbers == self._numbers and all(map(is_, objects, self._objects)):
            return False
        self._objects, self._numbers = objects, numbers
        # As long as the memory is held, its address is not given to another weight.
        self._memory = [part.detach() for part in objects if isinstance(part, Tensor)]
        return True

    def __deepcopy__(self, memo: object) -> "Origin":
        return Origin()

    def __reduce__(self) -> tuple[type["Origin"], tuple[()]]:
        return Origin, ()


def is_plain(module: object, kind: type[nn.Module]) -> bool:
    """Whether a module computes exactly what its class says, so that a shortcut may compute that in its place.

    A subclass, a parametrised or wrapped layer, hooks and a `forward` of the module's own may all compute something
    else.
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
