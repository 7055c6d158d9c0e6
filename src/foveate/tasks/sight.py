"""What a model that reads one text looked at in it, as a trace: language models, taggers, classifiers, gap-fillers."""

from collections.abc import Sequence

from torch import nn

from foveate.data.text import require_texts
from foveate.errors import UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.trace import Observation, Pedigree


def require_text(text: str) -> None:
    """Raises UsageError for a text without anything to look at."""
    require_texts(text)
    if not text.strip():
        raise UsageError("The text is empty: there is nothing to look at.")


def traced(
    model: nn.Module,
    observation: Observation,
    pieces: Sequence[str] | Track,
    text: str = "",
    label: str | None = None,
    *,
    attending: str = "Look at a model that attends.",
) -> Trace:
    """The observation along a track, or the pieces of a text, where they are as many as the model looked at, or along
    their numbers.

    Tracks: `source`, the pieces of the text as the model reads them; of a classifier whose pooling attends, `target`,
    the label. Raises UsageError for a model without attention; `attending` is a sentence on how to get one with it.
    """
    tracks: dict[str, Track] = {}
    lengths = {record.shape[3] for record in observation} | {one.seen.weights.shape[2] for one in observation.others}
    if len(pieces) in lengths:
        tracks["source"] = pieces if isinstance(pieces, Track) else Track.of_pieces(pieces, text=text)
        if label is not None:
            tracks["target"] = Track(labels=(label,))
    weight = next(model.parameters())
    pedigree = Pedigree(model=type(model).__name__, dtype=str(weight.dtype).removeprefix("torch."))
    trace = Trace.of(observation, tracks, pedigree=pedigree)
    if not trace.sites:
        raise UsageError(
            f"This {type(model).__name__} has no attention, so there is nothing to look at: a recurrent network keeps "
            f"what it has read in its state. {attending}"
        )
    return trace
