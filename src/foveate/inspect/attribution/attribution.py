"""The importance of each input word for each word of an answer, by one method."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64

from foveate.inspect.attribution.answer import Answer


@dataclass(frozen=True, eq=False, kw_only=True)
class Attribution:
    """The scores of one method. Rows are words of the answer, columns words of the input."""

    method: str
    """In words, such as `leave-one-out`."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    scores: Float64[np.ndarray, "outputs inputs"]
    """Log-probability in nats for methods of the answer, shares for those of attention; NaN where a word has none."""
    possible: Bool[np.ndarray, "outputs inputs"]
    """The pairs that the model can see; scores of others are 0."""
    note: str = ""
    """The measurement in words."""

    @classmethod
    def of(
        cls, answer: Answer, method: str, scores: Float64[np.ndarray, "outputs inputs"], note: str = ""
    ) -> "Attribution":
        """The scores with the words of an answer."""
        inputs, outputs = answer.inputs, answer.outputs
        return cls(
            method=method, inputs=inputs, outputs=outputs, scores=scores, possible=answer.possible, note=note
        )  # fmt: skip

    def order(self, output: int) -> list[int]:
        """The possible input words of an output word, the highest score first; of equal scores, the first word.

        A score that is not a number comes last.
        """
        scores = np.where(np.isnan(self.scores[output]), -np.inf, self.scores[output])
        return [int(word) for word in np.argsort(-scores, kind="stable") if self.possible[output, word]]
