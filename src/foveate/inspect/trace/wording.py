"""A formula in one line: `softmax(q·k / √64) over causal()`."""

from foveate.attention.bias import Alibi, Gaussian, RelativeBuckets
from foveate.attention.normaliser import Entmax, Hard, Normaliser, ReLU, Sigmoid, Softmax, Sparsemax
from foveate.attention.paths.path import Formula
from foveate.attention.score import symbol_of


def describe(formula: Formula, normaliser: Normaliser, width: int) -> str:
    """The parts of an attention, in the order in which they are computed."""
    score = symbol_of(formula.score, width)
    if formula.bias is not None:
        score += f" + {_BIASES.get(type(formula.bias), type(formula.bias).__name__)}"
    written = f"{_normaliser(normaliser)}({score})"
    if formula.reweight is not None:
        reweight = formula.reweight
        sigma = f", σ = {reweight.sigma:g}" if isinstance(reweight, Gaussian) else ""
        written += f" · exp({_BIASES.get(type(reweight), type(reweight).__name__)}{sigma})"
    return f"{written} over {formula.visibility}" if formula.visibility.hides else written


_BIASES: dict[type, str] = {
    Alibi: "−m·|i−j|",
    RelativeBuckets: "b[bucket(j−i)]",
    Gaussian: "−(j−p)²/2σ²",
}


def _normaliser(normaliser: Normaliser) -> str:
    match normaliser:
        case Softmax(temperature=1.0):
            return "softmax"
        case Softmax(temperature=temperature):
            return f"softmax_T={temperature:g}"
        case ReLU(normalised=normalised):
            return "relu / Σ" if normalised else "relu"
        case Sigmoid():
            return "sigmoid"
        case Sparsemax():
            return "sparsemax"
        case Entmax(alpha=alpha):
            return f"entmax_{alpha:g}"
        case Hard():
            return "hard"
    return type(normaliser).__name__.lower()
