"""Forced alignment: the frames of each token of a known text."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from foveate.decode.frame import BLANK, TimedHypothesis, TokenFrames, require_frames
from foveate.errors import DataError
from foveate.nn.ctc_loss import require_possible


@torch.no_grad()
def viterbi(
    log_probabilities: Float[Tensor, "batch frames vocab"],
    lengths: Int[Tensor, " batch"],
    target: Int[Tensor, " tokens"],
    target_lengths: Int[Tensor, " batch"],
) -> list[TimedHypothesis]:
    """The most probable path of each row that collapses to its target, with the frames of each token.

    `target` holds the tokens of all rows one after another, without padding, begin and end. `log_probability` is that
    of the path. Of equal paths, the one that stays longer on a token is taken. Time and memory grow with frames times
    tokens. A row's result depends neither on the other rows nor on padding.

    >>> frames = torch.tensor([[[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]]]).log()
    >>> [text] = viterbi(frames, torch.tensor([4]), torch.tensor([1, 2]), torch.tensor([2]))
    >>> text.frames
    (TokenFrames(first=1, last=2, peak=2), TokenFrames(first=3, last=3, peak=3))

    Raises `DataError` for rows with too few frames for their tokens, as `ctc_loss` does, for rows that have the
    probability 0 and for NaN; `UsageError` for logits.

    Reference: Graves et al. 2006, section 3.1; Kürzinger et al. 2020, section 2.
    """
    lattice = _Lattice.of(log_probabilities, lengths, target, target_lengths)
    before, arrivals = lattice.start(), np.zeros((*lattice.shape, lattice.states), np.int8)
    for frame in range(lattice.frames):
        stay, blank, token = lattice.moves(before)
        arrival = np.where(token >= blank, token, blank)
        leave = np.where(lattice.is_token, arrival > stay, arrival >= stay)
        arrivals[frame] = np.where(leave, np.where(token >= blank, 2, 1), 0)
        before = lattice.read(before, np.where(leave, arrival, stay), frame)
    return [lattice.traced(row, before[row], arrivals[:, row]) for row in range(lattice.batch)]


@torch.no_grad()
def occupation(
    log_probabilities: Float[Tensor, "batch frames vocab"],
    lengths: Int[Tensor, " batch"],
    target: Int[Tensor, " tokens"],
    target_lengths: Int[Tensor, " batch"],
) -> Float[Tensor, "batch longest frames"]:
    """The probability that a path of the target is on a token at a frame, by the forward–backward algorithm.

        γ_t(i) = p(path is on token i at frame t | the path collapses to the target)

    At each frame the tokens sum to 1 less the probability of a blank. The second axis counts the tokens of the longest
    target; padding is 0. Drawn as weights, the occupation shows where each token stands and how certain that is.

    >>> frames = torch.tensor([[[0.5, 0.5], [0.1, 0.9], [0.9, 0.1]]]).log()
    >>> occupation(frames, torch.tensor([3]), torch.tensor([1]), torch.tensor([1]))
    tensor([[[0.5211, 0.9474, 0.1000]]])

    Raises errors as `viterbi` does.

    Reference: Graves et al. 2006, section 4.1; Rabiner 1989, equation 27.
    """
    lattice = _Lattice.of(log_probabilities, lengths, target, target_lengths)
    forward = np.empty((*lattice.shape, lattice.states))
    before = lattice.start()
    for frame in range(lattice.frames):
        before = lattice.read(before, np.logaddexp.reduce(lattice.moves(before)), frame)
        forward[frame] = before
    total = np.array([lattice.total(row, before[row]) for row in range(lattice.batch)])
    weights = np.zeros((lattice.batch, lattice.states // 2, log_probabilities.shape[1]))
    after = lattice.end()
    for frame in range(lattice.frames - 1, -1, -1):
        both = np.exp(forward[frame] + after - total[:, None])
        weights[:, :, frame] = np.where(frame < lattice.lengths[:, None], both[:, 1::2], 0.0)
        after = lattice.unread(after, frame)
    dtype = torch.promote_types(log_probabilities.dtype, torch.float32)
    return torch.from_numpy(weights).to(log_probabilities.device, dtype)


@dataclass(frozen=True, eq=False)
class _Lattice:
    """The states of all rows: a blank before, between and after the tokens. State 2i + 1 is token i.

    Transitions only go to later states, so that those of shorter rows do not depend on the states behind them.
    """

    scores: Float64[np.ndarray, "batch frames vocab"]
    lengths: Int[np.ndarray, " batch"]
    targets: tuple[tuple[int, ...], ...]
    label: Int[np.ndarray, "batch states"]
    skip: Float64[np.ndarray, "batch states"]
    """0 for a token that may follow the token before it without a blank, else −∞."""

    @classmethod
    def of(cls, log_probabilities: Tensor, lengths: Tensor, target: Tensor, target_lengths: Tensor) -> "_Lattice":
        require_frames(log_probabilities, lengths)
        require_possible(lengths, target, target_lengths)
        targets = tuple(tuple(own.tolist()) for own in target.split(target_lengths.tolist()))
        label = np.full((len(targets), 2 * max(map(len, targets), default=0) + 1), BLANK)
        for row, tokens in enumerate(targets):
            label[row, 1 : 2 * len(tokens) : 2] = tokens
        skip = np.full(label.shape, -np.inf)
        skip[:, 3::2] = np.where(label[:, 3::2] == label[:, 1:-2:2], -np.inf, 0.0)
        ends = lengths.cpu().numpy()
        scores = log_probabilities.detach().double().cpu().numpy()
        padding = np.arange(scores.shape[1]) >= ends[:, None]
        return cls(np.where(padding[:, :, None], 0.0, scores), ends, targets, label, skip)

    @property
    def batch(self) -> int:
        return len(self.targets)

    @property
    def frames(self) -> int:
        return int(self.lengths.max(initial=0))

    @property
    def states(self) -> int:
        return self.label.shape[1]

    @property
    def shape(self) -> tuple[int, int]:
        return self.frames, self.batch

    @property
    def is_token(self) -> np.ndarray:
        return np.arange(self.states) % 2 == 1

    def start(self) -> Float64[np.ndarray, "batch states"]:
        """Before the first frame: as on the first blank, from which both the first blank and the first token follow."""
        scores = np.full((self.batch, self.states), -np.inf)
        scores[:, 0] = 0.0
        return scores

    def moves(self, before: np.ndarray) -> Float64[np.ndarray, "moves batch states"]:
        """The scores of arriving at each state from itself, from the state before, and past a blank."""
        moves = np.full((3, *before.shape), -np.inf)
        moves[0] = before
        moves[1, :, 1:] = before[:, :-1]
        moves[2, :, 2:] = before[:, :-2]
        moves[2] += self.skip
        return moves

    def emission(self, frame: int) -> np.ndarray:
        return np.take_along_axis(self.scores[:, frame], self.label, axis=1)

    def read(self, before: np.ndarray, arrived: np.ndarray, frame: int) -> np.ndarray:
        """The scores after this frame; those of rows that have ended stay."""
        return np.where(frame < self.lengths[:, None], arrived + self.emission(frame), before)

    def end(self) -> np.ndarray:
        """After the last frame: 0 on the last token and the blank behind it."""
        scores = np.full((self.batch, self.states), -np.inf)
        for row, tokens in enumerate(self.targets):
            scores[row, max(2 * len(tokens) - 1, 0) : 2 * len(tokens) + 1] = 0.0
        return scores

    def unread(self, after: np.ndarray, frame: int) -> np.ndarray:
        """The scores of everything from this frame on, from those of everything behind it."""
        arriving = after + self.emission(frame)
        moves = np.full((3, *after.shape), -np.inf)
        moves[0] = arriving
        moves[1, :, :-1] = arriving[:, 1:]
        moves[2, :, :-2] = (arriving + self.skip)[:, 2:]
        return np.where(frame < self.lengths[:, None], np.logaddexp.reduce(moves), after)

    def total(self, row: int, last: np.ndarray) -> float:
        """The log-sum over the states in which a row may end."""
        states = 2 * len(self.targets[row])
        total = float(np.logaddexp(last[states], last[states - 1]) if states else last[0])
        if total == -np.inf:
            raise DataError(
                f"decode: the frames of row {row} give its {states // 2} tokens the probability 0. "
                "Check that the text belongs to them."
            )
        return total

    def traced(self, row: int, last: np.ndarray, arrivals: np.ndarray) -> TimedHypothesis:
        tokens = self.targets[row]
        self.total(row, last)
        state = 2 * len(tokens)
        if state and last[state - 1] >= last[state]:
            state -= 1
        score, runs = float(last[state]), [[0, 0] for _ in tokens]
        for frame in range(int(self.lengths[row]) - 1, -1, -1):
            if state % 2:
                run = runs[state // 2]
                run[0] = frame
                run[1] = max(run[1], frame)
            state -= int(arrivals[frame, state])
        frames = tuple(
            TokenFrames(first, final, first + int(self.scores[row, first : final + 1, token].argmax()))
            for (first, final), token in zip(runs, tokens, strict=True)
        )
        return TimedHypothesis(tokens, score, score, True, frames)
