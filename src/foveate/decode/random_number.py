"""Random numbers as a pure function of where they are used, without a generator's state."""

import functools
from collections.abc import Sequence

import torch
from jaxtyping import Float64, Int
from torch import Tensor

_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15


def uniform(
    seed: int | Int[Tensor, " rows"], sentence: Int[Tensor, " rows"], position: int | Int[Tensor, " rows"]
) -> Float64[Tensor, " rows"]:
    """One number in [0, 1) for each row, a pure function of (seed, sentence, position).

    Seeds that differ are given as the numbers of `keys`.

    SplitMix64: the seed and the sentence choose a stream, the position is the counter in it. 52 bits, so that the
    largest is below 1 even after it is multiplied by a rounded sum.

    >>> uniform(0, torch.tensor([7, 3, 7]), position=2).round(decimals=4).tolist()
    [0.7161, 0.6667, 0.7161]

    Reference: Steele, Lea & Flood 2014, figure 16 (with the finaliser of Stafford's variant 13).
    """
    key = _signed(_mixed(seed)) if isinstance(seed, int) else seed
    stream = mix(sentence.to(torch.int64) * _signed(_GOLDEN) + key)
    count = _signed((position + 1) * _GOLDEN) if isinstance(position, int) else (position + 1) * _signed(_GOLDEN)
    bits = mix(stream + count)
    return _shift(bits, 12).to(torch.float64) * 2.0**-52


def keys(seeds: Sequence[int]) -> Int[Tensor, " rows"]:
    """The number of each seed for `uniform`."""
    return torch.tensor([_signed(_mixed(seed)) for seed in seeds], dtype=torch.int64)


def mix(bits: Int[Tensor, " rows"]) -> Int[Tensor, " rows"]:
    """SplitMix64's finaliser in int64 instead of uint64: products wrap around, and masks make the shifts logical."""
    bits = (bits ^ _shift(bits, 30)) * _signed(0xBF58476D1CE4E5B9)
    bits = (bits ^ _shift(bits, 27)) * _signed(0x94D049BB133111EB)
    return bits ^ _shift(bits, 31)


@functools.lru_cache(maxsize=4096)
def _mixed(seed: int) -> int:
    return int(mix(torch.tensor([_signed(seed + _GOLDEN)]))[0])


def _shift(bits: Int[Tensor, " rows"], by: int) -> Int[Tensor, " rows"]:
    return (bits >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    """The int64 with the same 64 bits."""
    value &= _MASK
    return value - 2**64 if value >= 2**63 else value
