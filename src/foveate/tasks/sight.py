"""What a model that reads one text looked at in it, as a trace: language models, taggers, classifiers, gap-fillers."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from foveate.data.batch import Batch
from foveate.errors import UsageError
from foveate.inspect import Trace, Track, observe
from foveate.inspect.trace import Observation, Pedigree
from foveate.tasks.classify import TextClassifier
from foveate.tasks.filler import GAP, Filler
from foveate.tasks.generator import Generator
from foveate.tasks.tag import SentenceTagger

Note = Callable[[str], None]


@torch.inference_mode()
def sight_of(
    task: str,
    run: Path | str,
    text: str,
    *,
    precision: Literal["float32", "bfloat16"] = "float32",
    note: Note = lambda sentence: None,
) -> Trace:
    """What the model of a run looked at when it read a text once.

    Tracks: `source`, the pieces of the text as the model reads them; of a classifier whose pooling attends, `target`,
    the label. Raises UsageError for a model without attention and for an empty text, and what the task's own verbs
    raise.
    """
    kind, sight = KINDS[task]
    if not text.strip():
        raise UsageError("The text is empty: there is nothing to look at.")
    reader = kind.load(run, note=note)
    if precision == "bfloat16":
        reader.model.to(torch.bfloat16)
    return sight(reader, text)


def _read_on(generator: Generator, text: str) -> Trace:
    read = generator.fitting(text)
    with observe(generator.model) as seen:
        generator.model(Batch.of([read]))
    return _trace(generator.model, seen, generator.tokeniser.pieces(read), text)


def _filled(filler: Filler, text: str) -> Trace:
    read, gaps = filler.ids_and_gaps(text, GAP)
    pieces = [GAP if place in gaps else filler.tokeniser.pieces([token])[0] for place, token in enumerate(read)]
    with observe(filler.model) as seen:
        filler.hidden(read)
    return _trace(filler.model, seen, pieces, text)


def _tagged(tagger: SentenceTagger, text: str) -> Trace:
    with observe(tagger.model) as seen:
        (said,) = tagger.tag([text])
    return _trace(tagger.model, seen, said.words, text)


def _classified(classifier: TextClassifier, text: str) -> Trace:
    read = classifier.ids(text, "The text")
    with observe(classifier.model) as seen:
        (said,) = classifier.classify([text])
    label = said.label if classifier.attends else None
    return _trace(classifier.model, seen, classifier.tokeniser.pieces(read), text, label)


KINDS: dict[str, tuple[Any, Callable[[Any, str], Trace]]] = {
    "language_model": (Generator, _read_on),
    "masked_language_model": (Filler, _filled),
    "tag": (SentenceTagger, _tagged),
    "classify": (TextClassifier, _classified),
}
"""What reads a run of each task, and how it is watched."""


def _trace(model: nn.Module, seen: Observation, pieces: Sequence[str], text: str, label: str | None = None) -> Trace:
    """The observation along the pieces, where they are as many as the model looked at, or along their numbers."""
    tracks, lengths = {}, {record.shape[3] for record in seen} | {one.seen.weights.shape[2] for one in seen.others}
    if len(pieces) in lengths:
        tracks["source"] = Track.of_pieces(pieces, text=text)
        if label is not None:
            tracks["target"] = Track(labels=(label,))
    weight = next(model.parameters())
    pedigree = Pedigree(model=type(model).__name__, dtype=str(weight.dtype).removeprefix("torch."))
    trace = Trace.of(seen, tracks, pedigree=pedigree)
    if not trace.sites:
        raise UsageError(
            f"This {type(model).__name__} has no attention, so there is nothing to look at: a recurrent network keeps "
            "what it has read in its state. Look at a model that attends."
        )
    return trace
