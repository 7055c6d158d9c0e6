"""The lectures' worked examples of attention as traces, which open at their steps."""

import math
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.attention import Attention, Dot, ReLU, ScaledDot, causal
from foveate.errors import UsageError
from foveate.inspect.trace.observation import observe
from foveate.inspect.trace.trace import Pedigree, Trace
from foveate.inspect.trace.track import Track

Features = Float[Tensor, "word feature"]


def example(name: str) -> Trace:
    """A worked example of the lectures, with values, so that its steps go on to the context.

    * `self-attention` (L1): three words of width 4 and matrices of whole numbers; as in the lecture, divided by √3,
      causal, and with ReLU in the place of softmax.
    * `action-gets-results` (L1): a table of symbols, here with random embeddings of width 512 projected to 64.
    * `one-hot` (L2): six words which are similar to themselves alone.

    Raises UsageError for another name.

    >>> from foveate.inspect import steps
    >>> print(steps(example("one-hot"), 0, 0, 1)[-3])
    α₁:  αᵢⱼ = e^eᵢⱼ/(∑ⱼ e^eᵢⱼ)   The weights: each exponential over their sum. They sum to 1.
         Надо  сдавать  лабораторные  до  срока  выполнения
        0.130    0.352         0.130  0.130  0.130       0.130
    """
    if name not in _EXAMPLES:
        raise UsageError(f"There is no worked example {name!r}. Choose one of: {', '.join(EXAMPLES)}.")
    return _EXAMPLES[name]()


def _self_attention() -> Trace:
    words = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
    to_query = torch.tensor([[1.0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])
    to_key = torch.tensor([[0.0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
    to_value = torch.tensor([[0.0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
    variants = {
        "unscaled": Attention(Dot()),
        "scaled": Attention(ScaledDot()),
        "causal": Attention(Dot(), visibility=causal()),
        "relu": Attention(Dot(), normaliser=ReLU()),
    }
    query, key, value = words @ to_query, words @ to_key, words @ to_value
    return _trace("Lecture L1: self-attention of three words", ("x₁", "x₂", "x₃"), variants, query, key, value)


def _action_gets_results() -> Trace:
    words = ("Action", "gets", "results")
    generator = torch.Generator().manual_seed(0)
    embedded = torch.randn(len(words), 512, generator=generator)
    query, key, value = (embedded @ torch.randn(512, 64, generator=generator) / math.sqrt(512) for _ in range(3))
    return _trace("Lecture L1: Action gets results", words, {"scaled": Attention()}, query, key, value)


def _one_hot() -> Trace:
    words = ("Надо", "сдавать", "лабораторные", "до", "срока", "выполнения")
    one_hot = torch.eye(len(words))
    variants = {"unscaled": Attention(Dot())}
    return _trace("Lecture L2: one-hot words", words, variants, one_hot, one_hot, one_hot, first=1)


def _trace(
    title: str,
    words: tuple[str, ...],
    variants: dict[str, Attention],
    query: Features,
    key: Features,
    value: Features,
    *,
    first: int = 0,
) -> Trace:
    """The attention of all words to all words by each variant. The page opens with the steps of the query `first`."""
    model = nn.ModuleDict(dict(variants))
    with observe(model) as recording:
        for attention in variants.values():
            attention.run(query=query[None, None], key=key[None, None], value=value[None, None])
    tracks = {"source": Track(labels=words, text=" ".join(words))}
    trace = Trace.of(recording, tracks, stored="float32", pedigree=Pedigree(model=title))
    return replace(trace, opens=(next(iter(variants)), 0), view=f"view=steps&query={first}")


_EXAMPLES: dict[str, Callable[[], Trace]] = {
    "self-attention": _self_attention,
    "action-gets-results": _action_gets_results,
    "one-hot": _one_hot,
}
EXAMPLES = tuple(_EXAMPLES)
