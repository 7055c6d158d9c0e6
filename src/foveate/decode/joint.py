"""Joint decoding: a model that scores token by token, and frames that are labelled, search for one text together."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from foveate.config import setting
from foveate.decode.candidate import ordered
from foveate.decode.frame import BLANK
from foveate.decode.prefix_score import PrefixScores
from foveate.decode.request import END
from foveate.decode.stepper import State, Stepper, reordered
from foveate.search import BeamConfig


@dataclass(frozen=True, kw_only=True)
class JointConfig(BeamConfig):
    """Beam search with score = ctc_weight · log p_ctc + (1 − ctc_weight) · log p_attention, by `JointStepper`."""

    ctc_weight: float = setting(0.3, "weight of CTC; 0 searches with attention alone, 1 with CTC alone")
    candidates: int = setting(
        0,
        "tokens of a step, chosen by attention, that CTC scores too; 0 for all; few are faster with large vocabularies",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_weight(self.ctc_weight)
        if self.candidates < 0:
            raise ValueError(f"candidates is a number of tokens and cannot be negative, got {self.candidates}")
        if BLANK not in self.forbid:
            raise ValueError(f"forbid must contain {BLANK}, because CTC's blank is not a token, got {self.forbid}")


@dataclass(frozen=True, eq=False)
class JointState:
    """The model's own state beside the prefix scores. `begun` says whether the begin token has been read."""

    own: State
    scores: PrefixScores | None
    begun: bool = False


@dataclass(frozen=True, eq=False)
class JointStepper:
    """A stepper of λ · CTC + (1 − λ) · attention, which any search over steppers can use.

        s(c | g) = λ (ψ(g c) − ψ(g)) + (1 − λ) log p_attention(c | g)

    where ψ is the prefix score, and of the end token log p_ctc(g). Thus a finished text has the score
    λ log p_ctc(y) + (1 − λ) log p_attention(y). The sum of exp s is at most 1 (Hölder's inequality); the logit of the
    blank receives the rest, so that a search's log softmax leaves s as it is. Searches must therefore forbid the
    blank, id 0, as they do by default.

    With `candidates`, only so many tokens of each step, which attention prefers, and the end have a score, exactly as
    above; the others have −∞. With λ = 0 the logits are those of the stepper, to the bit.

        joint = JointStepper(model, ctc_weight=0.3)
        state = joint.start(model.start(source, beam), log_probabilities, lengths, beam)
        decode(joint, state, sentences=source.size, config=BeamConfig(beam=beam))

    Reference: Watanabe et al. 2017 (Hybrid CTC/Attention Architecture), equation 12 and algorithm 2.
    """

    stepper: Stepper
    ctc_weight: float
    candidates: int = 0
    end: int = END

    def __post_init__(self) -> None:
        require_weight(self.ctc_weight)

    @property
    def max_length(self) -> int | None:
        return getattr(self.stepper, "max_length", None)

    def start(
        self,
        state: State,
        log_probabilities: Float[Tensor, "sentences frames vocab"],
        lengths: Int[Tensor, " sentences"],
        beam: int = 1,
    ) -> JointState:
        """The state before the begin token, from that of the stepper, which has `beam` rows for each sentence.

        Raises `UsageError` for logits, `DataError` for NaN.
        """
        return JointState(state, PrefixScores.start(log_probabilities, lengths, beam) if self.ctc_weight else None)

    @torch.no_grad()
    def step(self, state: JointState, token: Int[Tensor, " rows"]) -> tuple[JointState, Float[Tensor, "rows vocab"]]:
        own, logits = self.stepper.step(state.own, token)
        scores = state.scores
        if scores is None:
            return replace(state, own=own), logits
        if state.begun:
            scores = scores.extended(token)
        return JointState(own, scores, begun=True), self._mixed(logits, scores)

    def select(self, state: JointState, rows: Int[Tensor, " new_rows"]) -> JointState:
        scores = None if state.scores is None else state.scores.select(rows)
        return replace(state, own=self.stepper.select(state.own, rows), scores=scores)

    def reorder(self, state: JointState, rows: Int[Tensor, " new_rows"]) -> JointState:
        scores = None if state.scores is None else state.scores.select(rows)
        return replace(state, own=reordered(self.stepper, state.own, rows), scores=scores)

    def _mixed(self, logits: Float[Tensor, "rows vocab"], scores: PrefixScores) -> Float[Tensor, "rows vocab"]:
        attention = logits.log_softmax(-1, dtype=torch.float64)
        tokens = self._candidates(attention)
        extensions = scores.extensions(tokens)
        if tokens is None:
            extensions[:, self.end] = scores.ending
            chosen = attention
        else:
            extensions = torch.where(tokens == self.end, scores.ending[:, None], extensions)
            chosen = attention.gather(1, tokens)
        gains = (extensions - scores.total[:, None]).masked_fill(scores.total[:, None] == -torch.inf, -torch.inf)
        mixed = self.ctc_weight * gains
        if self.ctc_weight < 1:  # 0 · −∞ is not a number
            mixed = mixed + (1 - self.ctc_weight) * chosen
        if tokens is not None:
            mixed = torch.full_like(attention, -torch.inf).scatter_(1, tokens, mixed)
        mixed[:, BLANK] = -torch.inf
        mixed[:, BLANK] = (1 - mixed.exp().sum(1)).clamp(min=0).log()
        return mixed.float()

    def _candidates(self, attention: Float[Tensor, "rows vocab"]) -> Int[Tensor, "rows candidates"] | None:
        """The tokens that attention prefers, the end among them; None for all."""
        vocab = attention.shape[1]
        if not 0 < self.candidates < vocab - 1:
            return None
        preference = attention.float()
        preference[:, BLANK] = -torch.inf
        preference[:, self.end] = torch.inf
        places = torch.arange(vocab, device=attention.device).expand_as(preference)
        return ordered(preference, places, self.candidates + 1)[1]


def require_weight(ctc_weight: float) -> None:
    """Raise ValueError for a weight outside of 0 to 1."""
    if not 0 <= ctc_weight <= 1:
        raise ValueError(f"ctc_weight is a share from 0 to 1, got {ctc_weight}")
