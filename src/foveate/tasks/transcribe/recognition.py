"""The search for the text of recordings."""

from collections.abc import Sequence

from foveate.data.batch import Batch
from foveate.decode import TimedHypothesis, best_path
from foveate.models import Recogniser


def quick(model: Recogniser, source: Batch) -> list[Sequence[int]]:
    """The ids of each recording, found greedily."""
    return [hypothesis.tokens for hypothesis in best_path(*model.ctc(source))]


def search(model: Recogniser, source: Batch) -> list[list[TimedHypothesis]]:
    """The hypotheses of each recording, the best first."""
    return [[hypothesis] for hypothesis in best_path(*model.ctc(source))]
