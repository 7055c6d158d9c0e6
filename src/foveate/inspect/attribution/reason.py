"""All methods for one answer, side by side, with what leave-one-out and deletion say about them."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from foveate.errors import UsageError
from foveate.inspect.attribution.answer import Answer, Way
from foveate.inspect.attribution.attention_share import attention_norms, attention_rollout, attention_weights
from foveate.inspect.attribution.attribution import Attribution
from foveate.inspect.attribution.cause_table import cause_table
from foveate.inspect.attribution.gradient import gradient_times_input, integrated_gradients
from foveate.inspect.attribution.occlusion import Deletion, deletion, leave_one_out
from foveate.inspect.attribution.rank_correlation import kendall
from foveate.inspect.figure.cause_figure import cause_svg

METHODS: Mapping[str, Callable[[Answer], Attribution]] = {
    "attention": attention_weights,
    "attention × norm": attention_norms,
    "rollout": attention_rollout,
    "gradient × input": gradient_times_input,
    "integrated gradients": integrated_gradients,
}
"""The methods that are compared with leave-one-out, in the order of tables."""
DEAREST = 128
"""The largest number of input words for which `why` makes deletion curves without being asked."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Why:
    """The causes of chosen words of an answer by several methods; the last one is leave-one-out."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    chosen: tuple[int, ...]
    """The numbers of the output words that deletion curves and tables are made for."""
    log_probabilities: tuple[float, ...]
    """ln p of every output word."""
    way: Way
    attributions: tuple[Attribution, ...]
    deletions: tuple[Deletion, ...]
    """One for each chosen word; none if they were not asked for."""
    skipped: Mapping[str, str]
    """Methods that do not suit the model, with the reason."""

    @property
    def truth(self) -> Attribution:
        return self.attributions[-1]

    def tau(self, attribution: Attribution, output: int, *, signed: bool = True) -> float:
        """Kendall's τ-b between an attribution and leave-one-out over the possible input words of an output word, with
        signs or of sizes. NaN where one of them has no order.
        """
        words = self.truth.possible[output]
        scores = [each.scores[output][words] for each in (attribution, self.truth)]
        return kendall(*(scores if signed else map(np.abs, scores)))

    def agrees(self, attribution: Attribution, output: int) -> float:
        """1 if an attribution's highest word is that of leave-one-out, otherwise 0; NaN where one has no order."""
        ours, theirs = attribution.order(output), self.truth.order(output)
        return float("nan") if np.isnan(self.tau(attribution, output)) else float(ours[0] == theirs[0])

    def __str__(self) -> str:
        """A table for each chosen word."""
        return "\n\n".join(cause_table(self.plain()))

    def svg(self) -> str:
        """The tables as a picture, with the deletion curves."""
        return cause_svg(self.plain())

    def plain(self) -> dict[str, Any]:
        """The scores and figures as plain data for JSON; a figure that is not known is null."""
        return {
            "format": "foveate-why",
            "version": 1,
            "way": self.way,
            "inputs": list(self.inputs),
            "methods": {each.method: each.note for each in self.attributions},
            "skipped": dict(self.skipped),
            "outputs": [self._word(place, output) for place, output in enumerate(self.chosen)],
        }

    def _word(self, place: int, output: int) -> dict[str, Any]:
        curve = self.deletions[place] if self.deletions else None
        names = [each.method for each in self.attributions]
        areas = dict(zip(names, curve.areas.tolist(), strict=True)) if curve else {}
        return {
            "number": output,
            "word": self.outputs[output],
            "log_probability": self.log_probabilities[output],
            "possible": self.truth.possible[output].tolist(),
            "scores": {each.method: _numbers(each.scores[output].tolist()) for each in self.attributions},
            "figures": {
                each.method: dict(
                    zip(
                        ("tau", "tau_size", "first", "area"),
                        _numbers(
                            [
                                self.tau(each, output),
                                self.tau(each, output, signed=False),
                                self.agrees(each, output),
                                areas.get(each.method, math.nan),
                            ]
                        ),
                        strict=True,
                    )
                )
                for each in self.attributions
            },
            "deletion": None
            if curve is None
            else {
                "removed": list(curve.removed),
                "drops": dict(zip(names, curve.drops.tolist(), strict=True)),
                "random": curve.random.tolist(),
            },
        }


def _numbers(values: Iterable[float]) -> list[float | None]:
    """Values rounded to what 32 bits know, and None in place of NaN."""
    return [None if math.isnan(value) else float(f"{value:.6g}") for value in values]


def why(
    answer: Answer,
    *,
    outputs: Sequence[int] | None = None,
    way: Way | None = None,
    curves: bool | None = None,
    seed: int = 0,
) -> Why:
    """All methods for an answer, for some of its words or for all, with deletion curves for up to 128 input words.

    `way` says how words are switched off (`leave_one_out`), `seed` which random orders deletion is compared with.
    Raises UsageError for a way that does not suit the model, and for an output word that does not exist.
    """
    chosen = tuple(range(len(answer.outputs)) if outputs is None else outputs)
    for output in chosen:
        if not 0 <= output < len(answer.outputs):
            raise UsageError(f"There is no output word {output}: there are {len(answer.outputs)}, counted from 0.")
    attributions, skipped = list[Attribution](), dict[str, str]()
    for name, method in METHODS.items():
        try:
            attributions.append(method(answer))
        except UsageError as error:
            skipped[name] = str(error)
    attributions.append(leave_one_out(answer, way))
    curves = len(answer.inputs) <= DEAREST if curves is None else curves
    return Why(
        inputs=answer.inputs,
        outputs=answer.outputs,
        chosen=chosen,
        log_probabilities=tuple(answer.log_probabilities()[0].tolist()),
        way=answer.way(way),
        attributions=tuple(attributions),
        deletions=tuple(deletion(answer, attributions, way=way, outputs=chosen, seed=seed) if curves else ()),
        skipped=skipped,
    )
