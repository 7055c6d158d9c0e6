"""The tags of a sentence as an answer, to ask what mattered for each of them."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from foveate.data.batch import Batch
from foveate.data.tokeniser import BOS, EOS, UNKNOWN
from foveate.data.word import WordBatch
from foveate.inspect import Trace
from foveate.inspect.attribution.answer import NOBODY, Answer, Entrance, View, Way
from foveate.models.tagger import PieceTagger, Tagger


def tag_answer(
    model: Tagger | PieceTagger,
    words: Sequence[str],
    forms: Sequence[Sequence[int]],
    chosen: Sequence[int],
    tags: Sequence[str],
    trace: Callable[[], Trace],
) -> Answer:
    """The answer to one sentence, from the rows of its forms and the numbers of its tags."""
    number = np.arange(len(words))
    row: list[int] = number.tolist()
    places, first = number, number
    entrance = Entrance(model.encoder, before=True)
    substitutes: dict[Way, int | None] = {"unknown": len(words)}
    if isinstance(model, PieceTagger):
        row = [BOS, *(piece for form in forms for piece in form[2:-1]), EOS]
        places = np.array([NOBODY, *number.repeat([len(form) - 3 for form in forms]), NOBODY])
        first = np.searchsorted(places[:-1], number)
        entrance = Entrance(model.encoder.embedding)
        substitutes = {"unknown": UNKNOWN, "mask": model.encoder.embedding.num_embeddings - 1}

    def score(rows: Sequence[Sequence[int]], remaining: Sequence[np.ndarray]) -> Float[Tensor, "rows words"]:
        shares = _logits(model, rows, forms, first).float().log_softmax(-1)
        return shares.view(len(rows), len(words), -1)[:, torch.arange(len(words)), torch.tensor(chosen)]

    def look() -> View:
        here = trace()
        site, head = here.opening
        return View(trace=here, site=site, head=head, rows=first, origins=first)

    return Answer(
        model=model,
        inputs=tuple(words),
        outputs=tuple(f"{word}/{tag}" for word, tag in zip(words, tags, strict=True)),
        row=tuple(row),
        places=places,
        pieces=number,
        score=score,
        substitutes=substitutes,
        entrance=entrance,
        look=look,
    )


def _logits(
    model: Tagger | PieceTagger, rows: Sequence[Sequence[int]], forms: Sequence[Sequence[int]], first: np.ndarray
) -> Float[Tensor, "tokens labels"]:
    """The logits of each word in rows of forms, or in rows of pieces; `first` has the first place of each word."""
    if isinstance(model, PieceTagger):
        hidden, _ = model.encoder.encode(Batch.of(rows))
        return model.output(hidden.view(len(rows), len(rows[0]), -1)[:, torch.from_numpy(first)].flatten(0, 1))
    unknown = [UNKNOWN, BOS, UNKNOWN, EOS]
    return model(WordBatch.of([np.array(row) for row in rows], [*forms, unknown]))
