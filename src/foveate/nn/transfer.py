"""Moves what a model reads to the device that the model is on."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

Thing = TypeVar("Thing")
PLAIN = (int, float, str, bytes, bool, type(None))


def device_of(model: nn.Module) -> torch.device:
    """The device of a model's weights; the CPU for a model without any."""
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def beside(model: nn.Module, thing: Thing) -> Thing:
    """A batch on the device of the model that is to read it: see `moved`. Nothing is done for a model on the CPU."""
    device = device_of(model)
    return thing if device.type == "cpu" else moved(thing, device)


def moved(thing: Thing, device: torch.device) -> Thing:
    """The same with all of its tensors on a device. These are found in dataclasses, tuples, lists and mappings; an
    object of another class with a method `to` moves itself, and everything else stays, such as arrays of numpy.

    What has nothing to move is returned as it is, so that it keeps what it has worked out. To a GPU, tensors travel
    from pinned memory, while the program goes on.

    >>> batch = {"ids": torch.zeros(2, 3, dtype=torch.int64), "names": ("a", "b")}
    >>> {name: str(getattr(part, "device", part)) for name, part in moved(batch, torch.device("meta")).items()}
    {'ids': 'meta', 'names': "('a', 'b')"}
    """
    answer: Any = _moved(thing, device)
    return answer


def _moved(thing: Any, device: torch.device) -> Any:
    if isinstance(thing, PLAIN):
        return thing
    if isinstance(thing, Tensor):
        return _sent(thing, device)
    if isinstance(thing, Mapping):
        parts = {key: _moved(part, device) for key, part in thing.items()}
        return thing if all(parts[key] is part for key, part in thing.items()) else parts
    if isinstance(thing, (tuple, list)):
        items = [_moved(item, device) for item in thing]
        if all(item is before for item, before in zip(items, thing, strict=True)):
            return thing
        return type(thing)(*items) if hasattr(thing, "_fields") else type(thing)(items)
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing) if field.init}
        changed = {name: _moved(part, device) for name, part in fields.items()}
        return thing if all(changed[name] is fields[name] for name in fields) else dataclasses.replace(thing, **changed)
    move = getattr(thing, "to", None)
    return move(device) if callable(move) else thing


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    if tensor.device == device:
        return tensor
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
