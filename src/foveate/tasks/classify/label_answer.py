"""The label of a text as an answer, to ask which words mattered for it."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor, nn

from foveate.data.tokeniser import HuggingFaceTokeniser, Tokeniser
from foveate.errors import UsageError
from foveate.inspect import Trace
from foveate.inspect.attribution.answer import Answer, Entrance, View, words_of
from foveate.models import BERT
from foveate.models.bert import BERTEncoder
from foveate.nn.pooling import FirstPooling
from foveate.tasks.word_switch import special_ids, ways_without


def label_answer(
    model: nn.Module,
    row: Sequence[int],
    pieces: Sequence[str],
    label: tuple[int, str],
    logits: Callable[[list[list[int]]], Float[Tensor, "rows labels"]],
    trace: Callable[[], Trace],
    tokeniser: Tokeniser,
) -> Answer:
    """The answer to one text, from the labels of its pieces, and the number and the name of its own label."""
    special = special_ids(tokeniser)
    words, places = words_of(pieces, [place for place, token in enumerate(row) if token in special])
    embedding = _embedding(model)
    mask = tokeniser.id_of("mask") if isinstance(tokeniser, HuggingFaceTokeniser) else tokeniser.vocab_size

    def score(rows: Sequence[Sequence[int]], remaining: Sequence[np.ndarray]) -> Float[Tensor, "rows 1"]:
        return logits([list(one) for one in rows]).float().log_softmax(-1)[:, label[0], None]

    def look() -> View:
        here = trace()
        site, head = here.opening
        if here.sites[site].query == here.sites[site].key and not _reads_first(model):
            raise UsageError("This model pools without attention: no query of its attention stands for the label.")
        return View(trace=here, site=site, head=head, rows=np.zeros(1, np.int64), origins=np.zeros(1, np.int64))

    return Answer(
        model=model,
        inputs=words,
        outputs=(label[1],),
        row=tuple(row),
        places=places,
        pieces=np.zeros(1, np.int64),
        score=score,
        substitutes=ways_without(tokeniser, mask=mask if mask != embedding.num_embeddings else None),
        entrance=Entrance(embedding),
        look=look,
    )


def _embedding(model: Any) -> Any:
    """The embedding of tokens in a classifier of ours, or of Hugging Face."""
    inner = model.model if isinstance(getattr(model, "model", None), BERT) else model.encoder
    return inner.embedding if isinstance(inner, BERTEncoder) else model.embedding


def _reads_first(model: Any) -> bool:
    """Whether the vector of the first token determines the label."""
    return isinstance(getattr(model, "pooling", None), FirstPooling) or isinstance(getattr(model, "model", None), BERT)
