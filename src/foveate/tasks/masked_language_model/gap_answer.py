"""The pieces that fill gaps as an answer, to ask which words mattered for them."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from foveate.data.tokeniser import SPECIALS, HuggingFaceTokeniser, Tokeniser
from foveate.inspect import Trace
from foveate.inspect.alignment import readable
from foveate.inspect.attribution.answer import Answer, Entrance, View, words_of
from foveate.models import BERT
from foveate.tasks.word_switch import special_ids, ways_without


def gap_answer(
    model: BERT,
    tokens: Sequence[int],
    gaps: Sequence[int],
    pieces: Sequence[str],
    tokeniser: Tokeniser,
    mask: int,
    hidden: Callable[[Sequence[Sequence[int]]], Float[Tensor, "tokens model_dim"]],
    trace: Callable[[], Trace],
) -> Answer:
    """The answer to one text, from its tokens, the places of its gaps, and the labels of its pieces."""
    special = special_ids(tokeniser)
    outside = [place for place, token in enumerate(tokens) if token in special]
    words, places = words_of(pieces, [*outside, *gaps])
    never = sorted(special) if isinstance(tokeniser, HuggingFaceTokeniser) else list(range(len(SPECIALS)))
    known = model.embedding.num_embeddings if isinstance(tokeniser, HuggingFaceTokeniser) else tokeniser.vocab_size
    gap_places, begins = np.array(gaps), not isinstance(tokeniser, HuggingFaceTokeniser)

    def shares(rows: Sequence[Sequence[int]], remaining: Sequence[np.ndarray]) -> Float[Tensor, "rows gaps known"]:
        """ln p of each token in each gap, as `fill` gives it."""
        starts = np.cumsum([0, *map(len, rows)])[:-1]
        index = [start + np.searchsorted(left, gap_places) for start, left in zip(starts, remaining, strict=True)]
        logits = model.logits(hidden(rows)[torch.from_numpy(np.concatenate(index))])[:, :known].float()
        if begins:
            logits = logits.index_fill(1, torch.tensor(never), -torch.inf)
        return logits.log_softmax(-1).view(len(rows), len(gaps), -1)

    with torch.inference_mode():
        first = shares([tokens], [np.arange(len(tokens))])[0]
        best = first.index_fill(1, torch.tensor([number for number in never if number < known]), -torch.inf).argmax(1)
    best = best.clone()

    def score(rows: Sequence[Sequence[int]], remaining: Sequence[np.ndarray]) -> Float[Tensor, "rows gaps"]:
        return shares(rows, remaining)[:, torch.arange(len(gaps)), best]

    def look() -> View:
        here = trace()
        site, head = here.opening
        return View(trace=here, site=site, head=head, rows=gap_places, origins=gap_places)

    ways = ways_without(tokeniser, mask=mask)
    return Answer(
        model=model,
        inputs=words,
        outputs=tuple(piece.strip() or piece for piece in readable(tokeniser.pieces(best.tolist()))),
        row=tuple(tokens),
        places=places,
        pieces=np.arange(len(gaps)),
        score=score,
        substitutes={"mask": ways.pop("mask"), **ways},
        entrance=Entrance(model.embedding),
        look=look,
    )
