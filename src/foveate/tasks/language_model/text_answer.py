"""The words of a text as answers of a language model, to ask which earlier words mattered for each of them."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from foveate.data.batch import Batch
from foveate.data.tokeniser import Tokeniser
from foveate.errors import UsageError
from foveate.inspect import Trace
from foveate.inspect.attribution.answer import Answer, Entrance, View, words_of
from foveate.models import LanguageModel
from foveate.tasks.word_switch import special_ids, ways_without


def text_answer(
    model: LanguageModel, read: Sequence[int], pieces: Sequence[str], tokeniser: Tokeniser, trace: Callable[[], Trace]
) -> Answer:
    """The answer to one text, from its tokens and their labels. Raises UsageError for a text of one word."""
    special = special_ids(tokeniser)
    words, places = words_of(pieces, [place for place, token in enumerate(read) if token in special])
    if len(words) < 2:
        raise UsageError("The text has one word, and nothing before it could matter. Give at least two.")
    predicted = np.flatnonzero(places > 0)
    targets = torch.tensor([read[place] for place in predicted.tolist()])

    def score(rows: Sequence[Sequence[int]], remaining: Sequence[np.ndarray]) -> Float[Tensor, "rows pieces"]:
        """A piece is predicted after the last token before it that is left."""
        logits, starts = model(Batch.of(rows)), np.cumsum([0, *map(len, rows)])[:-1]
        index = [start + np.searchsorted(left, predicted) - 1 for start, left in zip(starts, remaining, strict=True)]
        chosen = logits[torch.from_numpy(np.concatenate(index))].float()
        return -cross_entropy(chosen, targets.repeat(len(rows)), reduction="none").view(len(rows), -1)

    def look() -> View:
        here = trace()
        site, head = here.opening
        return View(trace=here, site=site, head=head, rows=predicted - 1, origins=predicted - 1)

    network: Any = model
    return Answer(
        model=model,
        inputs=words,
        outputs=words[1:],
        row=tuple(read),
        places=places,
        pieces=places[predicted] - 1,
        score=score,
        substitutes=ways_without(tokeniser, begins=bool(places[0])),
        entrance=Entrance(network.embedding),
        look=look,
        visible=np.tri(len(words) - 1, len(words), dtype=bool),
    )
