"""Random gaps in texts, for models that learn to fill them. The gaps are a function of text and seed."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int

from foveate.config import setting
from foveate.data.tokeniser import SPECIALS


@dataclass(frozen=True, kw_only=True)
class GapConfig:
    """The share of tokens to predict, and what replaces them."""

    share: float = setting(0.15, "share of tokens to predict")
    masked: float = setting(0.8, "share of these that are replaced by the gap token")
    replaced: float = setting(0.1, "share of these that are replaced by a random token; the rest is unchanged")

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
    """The input of the model, with gaps."""
    asked: Bool[np.ndarray, "rows length"]
    """True at tokens to predict."""

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
        """Choose at least one gap, as a function of text and seed. The first token of a row and `fixed` tokens are
        never gaps.

        Devlin et al. 2019, appendix A.1: 15 % of tokens are predicted; of these 80 % are hidden, 10 % replaced by
        random tokens and 10 % unchanged, so that a visible token may be wrong.

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
        at_random = targets & (fate >= config.masked) & (fate < config.masked + config.replaced)
        return cls(np.where(at_random, other, shown), targets)
