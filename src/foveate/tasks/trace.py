"""What a translation model attended to, as a trace: the encoder, the decoder, and across."""

from collections.abc import Iterable
from dataclasses import is_dataclass, replace
from typing import Any

import torch

from foveate.config import to_dict
from foveate.data.batch import Batch
from foveate.data.text import normalise
from foveate.data.tokeniser import BOS, EOS, Tokeniser
from foveate.errors import UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.trace import Observation, Pedigree
from foveate.inspect.value import observed
from foveate.tasks.head import crossings
from foveate.tasks.translator import END, Translation, Translator

START = "<s>"


@torch.inference_mode()
def trace_of(
    translator: Translator, translation: Translation, *, gold: Iterable[tuple[int, int]] | None = None
) -> Trace:
    """One teacher-forced pass over a translation, which attends exactly as decoding did.

    Tracks: `source`; `read`, what the decoder had seen (it attends to itself there); `target`, what it wrote next
    (from there it attends across). Raises UsageError for an empty text and for a model without attention.
    """
    if not translation.hypotheses:
        raise UsageError("The text is empty: there is nothing to look at.")
    source = [*translator.source_tokeniser.encode(translation.source), EOS]
    best = translation.hypotheses[0].tokens
    end = [EOS] if translation.finished else []
    batch = Batch.of([source]), Batch.of([[BOS, *best, *end]])
    seen = observed(translator.model, lambda: translator.model(*batch))
    written = [*translator.target_tokeniser.pieces(best), *(END for _ in end)]
    tracks = {
        "source": _placed(
            Track.of_pieces([*translator.source_tokeniser.labels(translation.source), END], text=translation.source),
            translator.source_tokeniser,
        ),
        "read": Track.of_pieces([START, *written][: len(written)]),
        "target": Track.of_pieces(written, text=translation.text),
    }
    weight = next(translator.model.parameters())
    pedigree = Pedigree(
        model=type(translator.model).__name__,
        configuration=_plain(getattr(translator.model, "config", None)),
        dtype=str(weight.dtype).removeprefix("torch."),
    )
    trace = Trace.of(seen, tracks, pedigree=pedigree, gold=gold)
    trace = replace(trace, opens=_opening(translator, seen, (len(written), len(source))))
    if not trace.sites:
        raise UsageError(
            "This model has no attention to look at: it reads the source through one fixed vector. `foveate train "
            "translate` with --set model=bahdanau or --set model=transformer trains one that attends."
        )
    return trace


def _opening(translator: Translator, seen: Observation, shape: tuple[int, int]) -> tuple[str, int | None] | None:
    """The cross-attention, and the head, that alignments show: see `Translator.align`."""
    across = crossings(seen, shape)
    if not across:
        return None
    layer = max(len(across) - 2, 0) if translator.head.layer is None else translator.head.layer
    return (across[layer].name, translator.head.head) if -len(across) <= layer < len(across) else None


def _placed(track: Track, tokeniser: Tokeniser) -> Track:
    """With the characters that each label stands for, where the tokeniser knows them, in the form that it reads."""
    spans = getattr(tokeniser, "spans", None)
    if spans is None or track.text is None:
        return track
    text = normalise(track.text)
    found, end = spans(text), float(len(text))
    offsets = [*((float(first), float(last)) for first, last in found), *[(end, end)] * (len(track) - len(found))]
    return replace(track, text=text, offsets=tuple(offsets))


def _plain(config: Any) -> dict[str, Any] | None:
    """Settings as JSON holds them, each choice with its kind."""
    return to_dict(config) if is_dataclass(config) and not isinstance(config, type) else None
