"""Gaps in a text, for models that learn to fill them: drawn anew for every batch, the same for the same batch."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from foveate.config import setting
from foveate.data.tokeniser import SPECIALS


@dataclass(frozen=True, kw_only=True)
class GapConfig:
    """Which tokens are asked for, and what stands in their place."""

    share: float = setting(0.15, "share of tokens that are asked for")
    masked: float = setting(0.8, "share of these that are hidden behind the gap's own token")
    replaced: float = setting(0.1, "share of these in whose place stands another token; the rest stays as it is")

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be more than 0 and at most 1, got {self.share}")
        if self.masked < 0 or self.replaced < 0 or self.masked + self.replaced > 1:
            raise ValueError(
                f"masked and replaced must be at least 0 and together at most 1, got {self.masked} and {self.replaced}"
            )


@dataclass(frozen=True)
class Gaps:
    """A text with gaps."""

    shown: Int[np.ndarray, "rows length"]
    """What the model reads."""
    asked: Bool[np.ndarray, "rows length"]
    """Where it has to tell what stood there."""

    @classmethod
    def of(
        cls,
        ids: Int[np.ndarray, "rows length"],
        *,
        vocab_size: int,
        gap: int,
        config: GapConfig,
        seed: tuple[int, ...],
        fixed: Bool[np.ndarray, "rows length"] | None = None,
    ) -> "Gaps":
        """A function of the text and the seed alone, at least one gap in all. No first token of a row is one, nor any
        that is `fixed`.

        Devlin et al. 2019, appendix A.1: 15 % of tokens are asked for; of these 80 % are hidden, 10 % replaced at
        random and 10 % left, so that a model cannot rely on a token only because it is seen.

        >>> ids = np.arange(4, 64).reshape(1, 60)
        >>> gaps = Gaps.of(ids, vocab_size=64, gap=64, config=GapConfig(), seed=(0, 7))
        >>> int(gaps.asked.sum()), int((gaps.shown == 64).sum()), int((gaps.shown != ids).sum())
        (8, 7, 7)
        """
        generator = np.random.default_rng([part % (1 << 64) for part in seed])
        chance = generator.random(ids.shape)
        chance[:, 0] = 2.0
        if fixed is not None:
            chance[fixed] = 2.0
        targets = chance < config.share
        targets.flat[chance.argmin()] = True
        fate = generator.random(ids.shape)
        other = generator.integers(len(SPECIALS), vocab_size, ids.shape)
        shown = np.where(targets & (fate < config.masked), gap, ids)
        swapped = targets & (fate >= config.masked) & (fate < config.masked + config.replaced)
        return cls(np.where(swapped, other, shown), targets)
