"""A trace of a record on another device: nothing of it is mixed with tensors of the CPU, and what is kept is moved."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map_only

from foveate.attention import (
    Additive,
    Alibi,
    Attention,
    Cosine,
    Gaussian,
    General,
    Location,
    Positions,
    ScaledDot,
    block,
    causal,
    padding,
    record,
)
from foveate.inspect.trace.conversion import site_of

LENGTH, WIDTH, HEADS = 9, 4, 2
AWAY = torch.device("cuda", 7)


class Away(Tensor):
    """A tensor that claims to be on another device."""


class Devices(TorchFunctionMode):
    """Refuses to compute with tensors of two devices, as a machine with two does."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        tensors = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        away = any(isinstance(each, Away) for each in tensors)
        plain = tree_map_only(Away, lambda each: each.as_subclass(Tensor), (args, kwargs))
        with torch._C.DisableTorchFunction():
            if func == Tensor.device.__get__ and away:
                return AWAY
            if func is Tensor.cpu:
                return plain[0][0]
            if away and any(each.dim() and not isinstance(each, Away) for each in tensors):
                raise RuntimeError(f"{func} was given tensors of two devices")
            made_away = plain[1].get("device") == AWAY
            answer = func(*plain[0], **{**plain[1], **({"device": "cpu"} if made_away else {})})
            return tree_map_only(Tensor, lambda each: each.as_subclass(Away), answer) if away or made_away else answer


def moved(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.detach().as_subclass(Away)


SCORES = (
    lambda: ScaledDot(),
    lambda: General(query_dim=WIDTH, key_dim=WIDTH),
    lambda: Cosine(learned=True, num_heads=HEADS),
    lambda: Additive(query_dim=WIDTH, key_dim=WIDTH, hidden_dim=3),
    lambda: Location(query_dim=WIDTH, max_length=LENGTH),
    lambda: lambda query, key: (query @ key.mT).tanh(),
)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("rule", [causal() & padding(), block(3)], ids=str)
@pytest.mark.parametrize("parts", [{}, {"bias": Alibi(HEADS), "reweight": Gaussian(2.0)}], ids=["plain", "biased"])
@torch.no_grad()
def test_a_site_of_a_record_on_another_device_is_kept_on_the_cpu(score, rule, parts) -> None:
    attention = Attention(score(), visibility=rule, **parts)
    at = Positions.of(LENGTH, LENGTH, key_lengths=torch.tensor([LENGTH - 2]))
    with record(nn.ModuleList([attention])) as recording:
        attention.run(*torch.randn(3, 1, HEADS, LENGTH, WIDTH), at=at)
    here = recording.records[0]
    right = site_of(here, stored="float32")
    facts = {name: moved(getattr(here.at, name)) for name in ("query", "key", "real")}
    for module in attention.modules():
        for tensors in (module._parameters, module._buffers):
            tensors.update({name: moved(tensor) for name, tensor in tensors.items()})
    away = replace(here, at=replace(here.at, **facts), query=moved(here.query), key=moved(here.key), writes=None)
    with Devices():
        site = site_of(away, stored="float32")
    assert site.tensors.keys() == right.tensors.keys()
    for name, tensor in site.tensors.items():
        assert not isinstance(tensor, Away), name
        torch.testing.assert_close(tensor, right.tensors[name])
