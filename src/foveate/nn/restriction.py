"""Views: modules that share all weights with another module and differ in one part."""

from copy import copy
from typing import TypeVar

from torch import nn

from foveate.attention import Attention, Visibility
from foveate.nn.multihead import MultiHeadAttention

Module = TypeVar("Module", bound=nn.Module)


def with_part(module: Module, name: str, part: nn.Module) -> Module:
    """A module with another part of this name; its weights, hooks and other parts are those of the first.

    >>> whole = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> view = with_part(whole, "1", nn.Tanh())
    >>> view[0] is whole[0], type(view[1]).__name__, type(whole[1]).__name__
    (True, 'Tanh', 'ReLU')
    """
    view = copy(module)
    view._modules = {**module._modules, name: part}
    return view


def restricted(attention: MultiHeadAttention, rule: Visibility) -> MultiHeadAttention:
    """Heads with the same weights, whose queries see only those of their keys that the rule shows, too.

    Raises TypeError for a mechanism without a visibility rule.
    """
    if type(attention.attention) is not Attention:
        raise TypeError(f"{type(attention.attention).__name__} has no visibility rule")
    formula = copy(attention.attention)
    formula.visibility = formula.visibility & rule
    return with_part(attention, "attention", formula)
