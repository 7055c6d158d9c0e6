"""A translation as an answer, to ask what mattered for each of its words."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from foveate.data.batch import Batch
from foveate.data.tokeniser import UNKNOWN
from foveate.errors import UsageError
from foveate.inspect import Trace
from foveate.inspect.attribution.answer import NOBODY, Answer, Entrance, View, words_of
from foveate.models import Seq2Seq


def translation_answer(
    model: Seq2Seq,
    batch: tuple[Batch, Batch],
    source: Sequence[str],
    written: Sequence[str],
    trace: Callable[[], Trace],
    *,
    later: bool = False,
) -> Answer:
    """The answer to one source, from its batch and the labels of its pieces. With `later`, a piece's row of attention
    is that of the step after. Raises UsageError for a translation without words.
    """
    inputs, places = words_of(source)
    outputs, of_piece = words_of(written)
    if not outputs:
        raise UsageError("The translation has no words, for which something could matter. Try another text.")
    real = np.flatnonzero(of_piece != NOBODY)
    target = batch[1].ids[0].tolist()
    predicted = batch[1].ids[0, 1:][torch.from_numpy(real)]

    network: Any = model

    def score(rows: Sequence[Sequence[int]], remaining: Sequence[np.ndarray]) -> Float[Tensor, "rows pieces"]:
        logits = model(Batch.of(rows), Batch.of([target] * len(rows))).unflatten(0, (len(rows), -1))
        chosen = logits[:, torch.from_numpy(real)].float()
        return -cross_entropy(chosen.flatten(0, 1), predicted.repeat(len(rows)), reduction="none").view(len(rows), -1)

    def look() -> View:
        here = trace()
        site, head = here.opening
        queries = np.where(real + later < here.sites[site].queries, real + later, NOBODY)
        return View(trace=here, site=site, head=head, rows=queries, origins=real)

    return Answer(
        model=model,
        inputs=inputs,
        outputs=outputs,
        row=tuple(batch[0].ids[0].tolist()),
        places=places,
        pieces=of_piece[real],
        score=score,
        substitutes={"remove": None, "unknown": UNKNOWN},
        entrance=Entrance(network.source_embedding),
        look=look,
    )
