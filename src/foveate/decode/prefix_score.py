"""Prefix scores: the probability of all texts with a common beginning, by the frames that CTC labels."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float64, Int
from torch import Tensor

from foveate.decode.frame import BLANK, require_frames

FLOOR = -700.0
"""The least log-probability of a label in cumulative sums, because −∞ would end them."""


@dataclass(frozen=True, eq=False)
class LabelledFrames:
    """The log-probabilities of the frames of some sentences, prepared for sums over them. Padding has the weight 0."""

    scores: Float64[Tensor, "sentences frames vocab"]
    probabilities: Float64[Tensor, "sentences frames vocab"]
    lengths: Int[Tensor, " sentences"]

    @classmethod
    def of(cls, log_probabilities: Tensor, lengths: Tensor) -> "LabelledFrames":
        require_frames(log_probabilities, lengths)
        lengths = lengths.to(log_probabilities.device)
        padding = (torch.arange(log_probabilities.shape[1], device=lengths.device) >= lengths[:, None])[:, :, None]
        scores = log_probabilities.double().masked_fill(padding, 0.0)
        return cls(scores, scores.exp().masked_fill(padding, 0.0), lengths)

    def select(self, sentences: Int[Tensor, " new_sentences"]) -> "LabelledFrames":
        return LabelledFrames(self.scores[sentences], self.probabilities[sentences], self.lengths[sentences])


@dataclass(frozen=True, eq=False)
class PrefixScores:
    """ψ(g) = log p(the text begins with g | frames), for one prefix g a row, and of all its extensions.

    With r_n(t) and r_b(t) the log-sums over the paths of g in t frames that end in its last token and in a blank, and
    φ(t) that of both, without r_n where c repeats the last token,

        ψ(g c) = log Σ_t exp(φ(t − 1) + y_t(c))        log p(g) = log(exp r_n(T) + exp r_b(T))

    An extension by all tokens of the vocabulary at once is one product of matrices, because only r_n and r_b of the
    token that is chosen are recurrences; these are cumulative sums over the frames. Sums use float64.

    Rows come in groups of `beam` consecutive ones of a sentence, as in `Stepper.select`.

    Reference: Watanabe et al. 2017, algorithm 2; Graves 2012 (Supervised Sequence Labelling), algorithm 7.1.
    """

    frames: LabelledFrames
    beam: int
    token: Float64[Tensor, "rows frames_and_start"]
    """r_n after 0, 1, … frames."""
    blank: Float64[Tensor, "rows frames_and_start"]
    last: Int[Tensor, " rows"]
    total: Float64[Tensor, " rows"]
    """ψ of each row's prefix."""

    @classmethod
    def start(cls, log_probabilities: Tensor, lengths: Tensor, beam: int = 1) -> "PrefixScores":
        """Empty prefixes, `beam` for each row of the log-probabilities.

        Raises `UsageError` for logits, `DataError` for NaN.
        """
        frames = LabelledFrames.of(log_probabilities, lengths)
        rows = beam * len(lengths)
        blanks = frames.scores[:, :, BLANK].cumsum(1)
        blank = torch.nn.functional.pad(blanks, (1, 0)).repeat_interleave(beam, dim=0)
        return cls(
            frames,
            beam,
            token=torch.full_like(blank, -torch.inf),
            blank=blank,
            last=torch.full((rows,), BLANK, device=blank.device),
            total=blank.new_zeros(rows),
        )

    @property
    def ending(self) -> Float64[Tensor, " rows"]:
        """log p(g): that of the prefix as a whole text."""
        length = self._of_sentence(self.frames.lengths)[:, None]
        return torch.logaddexp(self.token.gather(1, length), self.blank.gather(1, length))[:, 0]

    def extensions(
        self, candidates: Int[Tensor, "rows candidates"] | None = None
    ) -> Float64[Tensor, "rows vocab_or_candidates"]:
        """ψ(g c) for each token c, or for the candidates of each row; −∞ for the blank."""
        before = torch.logaddexp(self.token, self.blank)[:, :-1].masked_fill(self._padding, -torch.inf)
        top = before.amax(1, keepdim=True) if before.shape[1] else before.new_zeros(len(before), 1)
        top = torch.where(top == -torch.inf, 0.0, top)
        weights = (before - top).exp()
        if candidates is None:
            groups = weights.unflatten(0, (-1, self.beam))
            sums = (groups @ self.frames.probabilities).flatten(0, 1)
            tokens = torch.arange(sums.shape[1], device=sums.device).expand_as(sums)
        else:
            grouped = candidates.view(-1, 1, self.beam * candidates.shape[1])
            chosen = self.frames.probabilities.gather(2, grouped.expand(-1, weights.shape[1], -1))
            chosen = chosen.unflatten(2, (self.beam, -1)).permute(0, 2, 1, 3).flatten(0, 1)
            sums, tokens = (weights[:, None] @ chosen)[:, 0], candidates
        scores = (top + sums.log()).masked_fill(tokens == BLANK, -torch.inf)
        return torch.where(tokens == self.last[:, None], self._repeat[:, None], scores)

    def extended(self, token: Int[Tensor, " rows"]) -> "PrefixScores":
        """The scores of the prefixes with one more token each."""
        gains = self._gains(token)
        both = torch.logaddexp(self.token, self.blank)[:, :-1]
        before = torch.where((token == self.last)[:, None], self.blank[:, :-1], both)
        ends = _accumulated(before, gains)
        return replace(
            self,
            token=ends,
            blank=_accumulated(ends[:, :-1], self._of_sentence(self.frames.scores[:, :, BLANK])),
            last=token,
            total=self._total(before, gains),
        )

    def select(self, rows: Int[Tensor, " new_rows"]) -> "PrefixScores":
        sentences, frames = rows[:: self.beam] // self.beam, self.frames
        if len(rows) < len(self.last):
            frames = frames.select(sentences)
        return replace(
            self,
            frames=frames,
            token=self.token[rows],
            blank=self.blank[rows],
            last=self.last[rows],
            total=self.total[rows],
        )

    @property
    def _padding(self) -> Bool[Tensor, "rows frames"]:
        frames = torch.arange(self.token.shape[1] - 1, device=self.token.device)
        return frames >= self._of_sentence(self.frames.lengths)[:, None]

    @property
    def _repeat(self) -> Float64[Tensor, " rows"]:
        """ψ of the prefix with its last token once more; −∞ for the empty prefix, whose last token is the blank."""
        scores = self._total(self.blank[:, :-1], self._gains(self.last))
        return scores.masked_fill(self.last == BLANK, -torch.inf)

    def _total(self, before: Tensor, gains: Tensor) -> Float64[Tensor, " rows"]:
        return (before + gains).masked_fill(self._padding, -torch.inf).logsumexp(1)

    def _gains(self, token: Int[Tensor, " rows"]) -> Float64[Tensor, "rows frames"]:
        """The log-probabilities of each row's token at all frames."""
        index = token.view(-1, 1, self.beam).expand(-1, self.token.shape[1] - 1, -1)
        return self.frames.scores.gather(2, index).mT.flatten(0, 1)

    def _of_sentence(self, values: Tensor) -> Tensor:
        return values.repeat_interleave(self.beam, dim=0)


def _accumulated(before: Tensor, gains: Tensor) -> Tensor:
    """r(t) = log(exp r(t − 1) + exp before(t)) + gain(t) with r(0) = −∞, for all t at once.

    Divided by the product of all gains so far, r is a cumulative sum.
    """
    product = torch.nn.functional.pad(gains.clamp(min=FLOOR).cumsum(1), (1, 0))
    sums = product[:, 1:] + torch.logcumsumexp(before - product[:, :-1], dim=1)
    return torch.nn.functional.pad(sums.masked_fill(gains == -torch.inf, -torch.inf), (1, 0), value=-torch.inf)
