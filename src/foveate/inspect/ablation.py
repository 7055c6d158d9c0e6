"""Switches heads and tokens off, to measure the effect of attention."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from foveate.attention import Attention, Positions, predicate
from foveate.attention.normaliser import Normaliser
from foveate.attention.normaliser.normaliser import Rows, Scores, Visible, Weights
from foveate.errors import UsageError


class SwitchedOff(nn.Module):
    """A normaliser whose weights are 0 in some heads: their context is 0, and the others are unchanged."""

    def __init__(self, inner: Normaliser, heads: Sequence[int]) -> None:
        super().__init__()
        self.inner, self.heads = inner, list(heads)

    def forward(self, scores: Scores, visible: Visible) -> Weights:
        return self._without(self.inner(scores, visible))

    def statistic(self, scores: Scores, visible: Visible) -> Rows:
        return self.inner.statistic(scores, visible)

    def tile(self, scores: Scores, visible: Visible, statistic: Rows, *, first: int = 0) -> Weights:
        return self._without(self.inner.tile(scores, visible, statistic, first=first))

    def _without(self, weights: Tensor) -> Tensor:
        if self.heads and max(self.heads) >= weights.shape[1]:
            raise UsageError(f"There is no head {max(self.heads)}: this site has {weights.shape[1]}, counted from 0.")
        on = torch.ones(weights.shape[1], 1, 1, dtype=weights.dtype, device=weights.device)
        on[self.heads] = 0
        return weights * on


def _require_number(what: str, number: int) -> None:
    if number < 0:
        raise UsageError(f"A {what} to switch off is counted from 0, got {number}.")


@contextmanager
def switched_off(
    model: nn.Module, *, heads: Iterable[tuple[str, int]] = (), keys: Iterable[int] = (), sites: Iterable[str] = ()
) -> Iterator[None]:
    """Run `model` without some heads (site and number), and with some keys hidden at the named sites.

    >>> site = Attention()
    >>> model, x = nn.ModuleDict({"a": site}), torch.randn(1, 2, 3, 4)
    >>> with switched_off(model, heads=[("a", 1)]):
    ...     context = site.run(query=x, key=x, value=x)
    >>> whole = site.run(query=x, key=x, value=x)
    >>> context[0, 1].abs().max().item(), torch.allclose(context[0, 0], whole[0, 0], atol=1e-6)
    (0.0, True)

    Raises UsageError for a site that is not an `Attention`, whose heads and keys cannot be switched off one by one, for
    keys without sites, for negative numbers, and, when the site is read, for a head that it does not have.
    """
    modules, off = dict(model.named_modules()), defaultdict(list)
    for name, head in heads:
        off[name].append(head)
        _require_number("head", head)
    for name in off:
        if not isinstance(modules.get(name), Attention):
            raise UsageError(f"{name!r} is not an Attention, so its heads cannot be switched off one by one.")
    hidden, sites = sorted(set(keys)), tuple(dict.fromkeys(sites))
    for key in hidden:
        _require_number("key", key)
    if hidden and not sites:
        raise UsageError("Keys are switched off at sites, and none is named. Name them: sites=[name, …].")
    with ExitStack() as stack:
        for name, numbers in off.items():
            site = modules[name]
            assert isinstance(site, Attention)
            stack.enter_context(_changed(site, "normaliser", SwitchedOff(site.normaliser, numbers)))
        for name in sites if hidden else ():
            attention = modules.get(name)
            if not isinstance(attention, Attention):
                raise UsageError(f"{name!r} is not an Attention, so no key can be switched off there.")
            rule = attention.visibility & predicate(_Except(hidden))
            stack.enter_context(_changed(attention, "visibility", rule))
        yield


class _Except:
    """A rule that hides some keys."""

    def __init__(self, hidden: list[int]) -> None:
        self.hidden = hidden
        self.__name__ = f"except_{'_'.join(map(str, hidden[:8]))}"

    def __call__(self, at: Positions) -> Tensor:
        return ~torch.isin(at.key, torch.tensor(self.hidden, device=at.device))


@contextmanager
def _changed(site: Attention, name: str, value: object) -> Iterator[None]:
    """Replace a part within the context. `delattr` comes first, because modules are registered and plain objects are
    not.
    """
    before = getattr(site, name)
    delattr(site, name)
    setattr(site, name, value)
    try:
        yield
    finally:
        delattr(site, name)
        setattr(site, name, before)
