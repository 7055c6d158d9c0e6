"""A formula in one line: `softmax(q·k / √64) over causal()`."""

from foveate.attention.bias import Bias
from foveate.attention.claim import claim
from foveate.attention.normaliser import Normaliser
from foveate.attention.paths.path import Formula
from foveate.attention.score import symbol_of


def describe(formula: Formula, normaliser: Normaliser, width: int) -> str:
    """The parts of an attention, in the order in which they are computed."""
    score = symbol_of(formula.score, width)
    if formula.bias is not None:
        score += f" + {_symbol(formula.bias)}"
    written = f"{claim(normaliser, 'symbol', type(normaliser).__name__.lower())}({score})"
    if formula.reweight is not None:
        reweight = formula.reweight
        header = claim(reweight, "header")
        sigma = "" if header is None else f", σ = {header()['sigma']:g}"
        written += f" · exp({_symbol(reweight)}{sigma})"
    return f"{written} over {formula.visibility}" if formula.visibility.hides else written


def _symbol(bias: Bias) -> str:
    """Its own, or its name."""
    return str(claim(bias, "symbol", getattr(bias, "__name__", type(bias).__name__)))
