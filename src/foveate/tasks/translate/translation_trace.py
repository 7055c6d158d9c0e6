"""Traces of translations: the attention of one teacher-forced pass."""

from collections.abc import Iterable
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from foveate.config import to_dict
from foveate.data.batch import Batch
from foveate.data.text import normalise
from foveate.data.tokeniser import Tokeniser
from foveate.errors import UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.trace import Observation, Pedigree
from foveate.inspect.trace.conversion import Stored
from foveate.inspect.value import observed
from foveate.models import Ensemble
from foveate.tasks.translate.head import crossings
from foveate.tasks.translate.translation import Forced, Translation

if TYPE_CHECKING:
    from foveate.tasks.translate.use import Translator

START = "<s>"


@torch.inference_mode()
def trace_of(
    translator: "Translator",
    translation: Translation,
    *,
    gold: Iterable[tuple[int, int]] | None = None,
    stored: Stored = "float16",
) -> Trace:
    """One teacher-forced pass over a translation, which attends exactly as decoding did.

    Tracks: `source`; `read`, what the decoder had seen (it attends to itself there); `target`, what it wrote next
    (from there it attends across). If the translator's own head aligns words as they are consumed, the rows of its
    layer are named by `read`; with links by a person, those of all layers are.

    Raises UsageError for an empty text and for a model without attention.
    """
    require_alone(translator)
    if not translation.hypotheses:
        raise UsageError("The text is empty: there is nothing to look at.")
    batch, read, written = reread(translator, translation)
    observation = observed(translator.model, lambda: translator.model(*batch))
    target = Track.of_pieces(written, text=translation.text)
    tracks = {
        "source": _placed(Track.of_pieces(read, text=translation.source), translator.source_tokeniser),
        "read": target.shifted(START),
        "target": target,
    }
    pedigree = Pedigree.of(translator.model, configuration=_plain(getattr(translator.model, "config", None)))
    trace = Trace.of(observation, tracks, pedigree=pedigree, gold=gold, stored=stored)
    trace = replace(trace, opens=_opening(translator, observation, (len(written), batch[0].length)))
    trace = _consumed(trace) if translator.head.when == "consuming" else trace
    if not trace.sites:
        raise UsageError(
            "This model has no attention to look at: it reads the source through one fixed vector. `foveate train "
            "translate` with --set model=bahdanau or --set model=transformer trains one that attends."
        )
    return trace


def _consumed(trace: Trace) -> Trace:
    """The trace with queries of the cross-attention that it opens with named by the token that the decoder has read. A
    link by a person belongs to the query after, and then all cross-attention is named so.
    """
    own = None if trace.opens is None else trace.opens[0]
    read = [each.kind == "cross" and (each.name == own or trace.gold is not None) for each in trace.sites]
    sites = (replace(each, query="read") if after else each for each, after in zip(trace.sites, read, strict=True))
    last = len(trace.tracks["read"]) - 1
    gold = None if trace.gold is None else tuple((row + 1, column) for row, column in trace.gold if row < last)
    return replace(trace, sites=tuple(sites), gold=gold)


def require_alone(translator: "Translator") -> None:
    """Raises UsageError for an ensemble."""
    if isinstance(translator.model, Ensemble):
        raise UsageError(
            f"This is an ensemble of {len(translator.models)} models, which has no attention of its own. Take one of "
            "its models, which can be made to write the words of the ensemble: `foveate look RUN --text … --target …`, "
            "or `trace(text, target)`."
        )


def reread(translator: "Translator", translation: Translation) -> tuple[tuple[Batch, Batch], list[str], list[str]]:
    """The batch of a teacher-forced pass over a translation, and the names of its source's and its target's tokens."""
    forced = Forced.of(translation, translator.source_tokeniser, translator.target_tokeniser)
    return (Batch.of([forced.source]), Batch.of([forced.target])), forced.columns, forced.rows


def _opening(
    translator: "Translator", observation: Observation, shape: tuple[int, int]
) -> tuple[str, int | None] | None:
    """The cross-attention, and the head, that alignments show: see `Translator.align`."""
    across = crossings(observation, shape)
    if not across:
        return None
    layer = max(len(across) - 2, 0) if translator.head.layer is None else translator.head.layer
    return (across[layer].name, translator.head.head) if -len(across) <= layer < len(across) else None


def _placed(track: Track, tokeniser: Tokeniser) -> Track:
    """The track with the characters of each label, if the tokeniser knows them, in the text as it reads it."""
    spans = getattr(tokeniser, "spans", None)
    if spans is None or track.text is None:
        return track
    text = normalise(track.text)
    placed, end = spans(text), float(len(text))
    offsets = [*((float(first), float(last)) for first, last in placed), *[(end, end)] * (len(track) - len(placed))]
    return replace(track, text=text, offsets=tuple(offsets))


def _plain(config: Any) -> dict[str, Any] | None:
    """Settings as JSON holds them, each choice with its kind."""
    return to_dict(config) if is_dataclass(config) and not isinstance(config, type) else None
