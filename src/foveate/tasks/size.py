"""How much work a training may be: minutes, the cores there are, the models and steps that fit, and why.

A page of rules, not of measurements: the same data on the same machine give the same configuration. The seconds that a
step takes were measured once, on one core of an x86 server of 2 cores with AVX-512 (22 November 2026), and are within a
factor of two on others; what it really takes here is timed before step 1 and said.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch

from foveate.suggestion import counted

Size = Literal["small", "medium", "large"]
MINUTES: dict[Size, int] = {"small": 10, "medium": 60, "large": 480}
"""A small model is ready after a coffee, a medium one after lunch, a large one in the morning."""
GAIN = 0.7
"""c cores do the work of c to the power of this: small products do not fill them."""
SAMPLE = 20_000
"""Examples that are looked at closely; the rest is only counted."""
TIERS = (3_000, 20_000)
"""Core seconds from which on a larger model is the better one. At 900 on 30,000 sentence pairs the narrow models won:
perplexity 27 of a Transformer 128 wide, 43 of one 192 wide, 22 of a GRU 128 wide, each after 250 core seconds."""


@dataclass(frozen=True)
class Allowance:
    """What a training may take.

    >>> small = Allowance("small", cores=2)
    >>> round(small.work), small.tier, small.steps(50_000, pace=0.11)
    (975, 0, 8800)
    >>> Allowance("large", cores=2).tier
    2
    """

    size: Size = "small"
    cores: int = 1

    @classmethod
    def here(cls, size: Size | None = None, threads: int | None = None) -> "Allowance":
        """For the cores that torch uses, or so many threads."""
        return cls(size or "small", threads or torch.get_num_threads())

    @property
    def minutes(self) -> int:
        return MINUTES[self.size]

    @property
    def work(self) -> float:
        """Seconds of one core."""
        return 60 * self.minutes * self.cores**GAIN

    @property
    def tier(self) -> int:
        """0, 1 or 2: which models fit."""
        return sum(self.work >= limit for limit in TIERS)

    def steps(self, desired: int, *, pace: float, least: int = 100) -> int:
        """What the data want, within the time; `pace` are seconds of one core a step."""
        fitting = int(self.work / pace)
        return max(min(desired, fitting // 100 * 100 if fitting >= 1000 else fitting), least)

    def __str__(self) -> str:
        return f"for a time of up to about {self.minutes} minutes on {counted(self.cores, 'core')}"


@dataclass(frozen=True)
class Reason:
    """Why some settings are as they are."""

    name: str
    why: str
    paths: tuple[str, ...] = ()
    """The settings, or tables of them; by default the one of this name."""

    @property
    def about(self) -> tuple[str, ...]:
        return self.paths or (self.name,)


@dataclass(frozen=True)
class Suggestion:
    """Settings for a configuration, and why."""

    settings: dict[str, Any]
    facts: str
    """What the data are."""
    reasons: tuple[Reason, ...]
    size: Size = "small"
    others: Mapping[Size, dict[str, Any]] = field(default_factory=dict)
    """The settings that other sizes would have."""
    lengths: tuple[int, ...] = ()
    """Tokens of a usual example, side by side."""


def with_others(choose: Callable[[Allowance], Suggestion], allowance: Allowance) -> Suggestion:
    """The choice for a size, with what others would have chosen."""
    sizes = {size: choose(replace(allowance, size=size)).settings for size in MINUTES if size != allowance.size}
    return replace(choose(allowance), others=sizes)
