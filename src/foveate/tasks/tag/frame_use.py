"""A trained tagger of vectors in use: the label of each frame, and the segments of equal labels."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from foveate.data.audio_file import place_of
from foveate.data.batch import Batch
from foveate.data.batching import groups
from foveate.data.label_track import LabelTrack, Segment
from foveate.data.reader import RowMaker
from foveate.data.row import Row
from foveate.data.tracked import Clock, Tracked
from foveate.decode.label_path import SmoothingConfig, label_path
from foveate.errors import UsageError
from foveate.inspect import TimeAlignment, Trace, Track
from foveate.inspect.alignment import Alignment
from foveate.inspect.looking import Looking
from foveate.inspect.time_file import TimedLabel
from foveate.inspect.trace import Pedigree
from foveate.inspect.value import observed
from foveate.models.tagger import FrameTagger
from foveate.tasks.labelling import Predicted, load_labeller
from foveate.tasks.run_model import listed, require_numbers, require_positions, saved
from foveate.tasks.tag.frame_task import FrameVocabulary
from foveate.tasks.tag.label_map import TRUE, runs, with_labels
from foveate.tasks.tag.task import TagConfig

SMOOTHING = SmoothingConfig()
"""The smoothing of scores that compare both, where the configuration has none."""


@dataclass(frozen=True)
class LabelledFrames:
    """The label of each vector of a thing, its probability, and the times of the vectors; None for vectors without a
    time.
    """

    name: str
    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    clock: Clock | None = None
    seconds: float | None = None
    """The length of the recording, or of the stretch of it, where it is known."""
    file: str | None = None
    """The file of a stretch."""
    start: float = 0.0
    """The beginning of a stretch in its file, in seconds; times are those of the file."""
    remarks: tuple[str, ...] = ()
    """Notes for the user on the recording, such as silence or another rate."""

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Runs of equal labels, in seconds; without a clock, numbers of vectors.

        A frame lasts from half a hop before its centre to half a hop after it. The first begins with the recording, and
        the last ends with it. Times of a stretch are counted from the beginning of its file.
        """
        begin, segments = 0, list[Segment]()
        for label, run in groupby(self.labels):
            end = begin + len(list(run))
            segments.append(Segment(self._edge(begin), self._edge(end), label))
            begin = end
        return tuple(segments)

    @property
    def segment_probabilities(self) -> tuple[float, ...]:
        """The mean probability of each segment's labels."""
        begin, means = 0, list[float]()
        for _, run in groupby(self.labels):
            end = begin + len(list(run))
            means.append(min(sum(self.probabilities[begin:end]) / (end - begin), 1.0))
            begin = end
        return tuple(means)

    @property
    def times(self) -> TimeAlignment:
        """The segments in the tier "labels", with the mean probability of each. Raises UsageError without a clock."""
        if self.clock is None:
            raise UsageError(f"{self.name} has vectors without a time. Set track.hop, in seconds, for training.")
        each = zip(self.segments, self.segment_probabilities, strict=True)
        labels = (TimedLabel(segment.label, segment.start, segment.end, sure) for segment, sure in each)
        seconds = max(self.start + (self.seconds or 0.0), self._edge(len(self.labels)))
        return TimeAlignment(name=self.file or self.name, seconds=seconds, tiers={"labels": tuple(labels)})

    @property
    def phones(self) -> tuple[str, ...]:
        """The labels without repetitions."""
        return collapsed(self.labels)

    def __str__(self) -> str:
        """The segments as a label track of Audacity.

        >>> print(LabelledFrames("a", ("s", "s", "-"), (1.0, 1.0, 1.0), Clock(first=0.0125, hop=0.01)))
        0.000000	0.027500	s
        0.027500	0.037500	-
        """
        form = ".0f" if self.clock is None else ".6f"
        return "\n".join(f"{one.start:{form}}\t{one.end:{form}}\t{one.label}" for one in self.segments)

    def _edge(self, frame: int) -> float:
        if self.clock is None:
            return float(frame)
        if frame == 0:
            return self.start
        if frame == len(self.labels) and self.seconds is not None:
            return self.start + max(self.seconds, self.clock.first + self.clock.hop * (frame - 1))
        return self.start + self.clock.first + self.clock.hop * (frame - 0.5)


class FrameLabeller(Looking):
    """Labels vectors with a trained model. A result depends neither on the batch size nor on the rest of its batch."""

    def __init__(
        self, model: FrameTagger, vocabulary: FrameVocabulary, smoothing: SmoothingConfig | None = None
    ) -> None:
        self.model, self.vocabulary, self.smoothing = model.eval(), vocabulary, smoothing

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "FrameLabeller":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        model, vocabulary = load_labeller(Path(run), "tag", TagConfig, FrameVocabulary, note)
        config, _ = saved(Path(run), "tag", TagConfig)
        return cls(model, vocabulary, config.decode)._of(Path(run))

    @property
    def rows(self) -> RowMaker:
        return self.vocabulary.rows

    def things(self, inputs: Sequence[str]) -> Iterator[Any]:
        """The things to label for arguments of a command: the contents of files."""
        return (thing for path in inputs for thing in self.rows.things(path))

    def strange(self, text: str) -> list[str]:
        """Parts of an input that the model does not know, each once."""
        return []

    def label(self, things: Iterable[Any]) -> list[LabelledFrames]:
        """Label the vectors of several things, as the reader gives them: the `rows.things(path)` of a file. Labels are
        smoothed as the run's `decode` requires; their probabilities are the model's.

        Raises DataError for a thing that the model cannot read.
        """
        things = listed(things, "label", "files or vectors")
        rows, names = [self.row(thing) for thing in things], [str(thing) for thing in things]
        results = self.of_rows(rows, names, [self._seconds(thing) for thing in things])
        places = map(place_of, things)
        return [replace(one, file=file, start=start) for one, (file, start) in zip(results, places, strict=True)]

    def of_rows(
        self, rows: Sequence[Row], names: Sequence[str], seconds: Sequence[float | None]
    ) -> list[LabelledFrames]:
        """Label rows, with their names and the lengths of recordings, as `label` does."""
        results = list[LabelledFrames]()
        each = zip(rows, names, seconds, self._log_probabilities(rows), strict=True)
        for row, name, length, logs in each:
            numbers = self._best(logs, self.smoothing)
            sure = logs.exp().gather(1, numbers[:, None])[:, 0]
            results.append(
                LabelledFrames(
                    name=name,
                    labels=self._names(numbers),
                    probabilities=tuple(sure.tolist()),
                    clock=self.vocabulary.clock,
                    seconds=length,
                    remarks=row.remarks,
                )
            )
        return results

    def log_probabilities(self, things: Sequence[Any]) -> list[torch.Tensor]:
        """The logarithm of the probability of each label, for each vector of each thing: [length, labels]."""
        return self._log_probabilities([self.row(thing) for thing in things])

    @torch.inference_mode()
    def _log_probabilities(self, read: Sequence[Row]) -> list[torch.Tensor]:
        results = [torch.empty(0, len(self.vocabulary.labels))] * len(read)
        for group in groups([len(row) for row in read]):
            logits = self.model(Batch.of([read[index] for index in group])).float().log_softmax(-1)
            for index, logs in zip(group, logits.split([len(read[index]) for index in group]), strict=True):
                require_numbers(f"Input {index + 1}", logs)
                results[index] = logs
        return results

    @torch.inference_mode()
    def trace(self, text: Any, target: LabelTrack | Sequence[str] | None = None) -> Trace:
        """The probability of each label for each vector of a thing, and the model's attention: see `with_labels`.
        `target` are the true labels, which are shown beside: a label track, or a label for each vector.

        Raises DataError as `label` does, and for a track that lasts longer than the recording.
        """
        row = self.row(text)
        observation = observed(self.model, lambda: self.model(Batch.of([row])))
        (logs,) = self._log_probabilities([row])
        labels, true = self._names(self._best(logs, self.smoothing)), None
        if target is not None:
            true = self._tracked(text, target).labels(
                len(logs), self.vocabulary.clock, self.vocabulary.track.unlabelled
            )
        trace = Trace.of(observation, {"source": self._track(text, labels)}, pedigree=Pedigree.of(self.model))
        return with_labels(trace, logs, self.vocabulary.labels.names, labels, true)

    def times(self, thing: Any, target: LabelTrack | None = None) -> TimeAlignment:
        """The segments of a recording in the tier "labels", and beside them those of a label track.

        Raises UsageError for vectors without a time, DataError for a track that lasts longer than the recording.
        """
        (labelled,) = self.label([thing])
        times = labelled.times
        if target is None:
            return times
        self._tracked(thing, target)
        # A stretch may end before the track does. Drawings have milliseconds, and a segment lasts one at least.
        heard = [one for one in target.segments if one.start < times.seconds - 1e-3]
        true = tuple(TimedLabel(one.label, one.start, min(one.end, times.seconds)) for one in heard)
        return replace(times, tiers={**times.tiers, TRUE: true})

    def _tracked(self, thing: Any, target: LabelTrack | Sequence[str]) -> Tracked:
        """A thing with its true labels. Raises DataError for a track that lasts longer than the recording."""
        tracked = Tracked(1, thing, str(target) if isinstance(target, LabelTrack) else "the target", target)
        tracked.require_within(self.rows)
        return tracked

    def _track(self, thing: Any, labels: Sequence[str]) -> Track:
        """The vectors of a thing with their labels. Runs of equal ones are its words: zoomed out, a map has one place
        for each.
        """
        track = Track.of_settings(self.rows.track(thing))
        stamped = tuple(f"{time} {label}" for time, label in zip(track.labels, labels, strict=True))
        return replace(track, labels=stamped, words=tuple(runs(labels)) or None)

    def map(self, thing: Any, *, most: int) -> Alignment:
        """The probability of each label (a row) for each of the first `most` vectors; labels that are nowhere likely
        are left out.
        """
        (logs,) = self.log_probabilities([thing])
        shares = logs[:most].exp().numpy()
        rows = [number for number, share in enumerate(shares.max(0, initial=0.0)) if share >= 0.1]
        names = [self.vocabulary.labels.names[number] for number in rows]
        best = self._names(logs[:most].argmax(-1))
        return Alignment.of(best, names, shares.T[rows])

    def predict(self, examples: Sequence[Tracked], smoothing: SmoothingConfig | None = None) -> Predicted:
        """Predicted labels, without smoothing unless it is given, and the right ones, for scores."""
        logs = self.log_probabilities([example.thing for example in examples])
        nothing, clock = self.vocabulary.track.unlabelled, self.vocabulary.clock
        gold = [list(one.labels(len(each), clock, nothing)) for one, each in zip(examples, logs, strict=True)]
        return Predicted(labels=[list(self._names(self._best(each, smoothing))) for each in logs], gold=gold)

    def row(self, thing: Any) -> Row:
        """The row of a thing. Raises DataError for one that the model cannot read."""
        row = self.rows.row(thing)
        require_positions(str(thing), len(row), self.model.max_length, "vectors")
        return row

    def _seconds(self, thing: Any) -> float | None:
        rows: Any = self.rows
        return float(rows.seconds(thing)) if hasattr(rows, "seconds") else None

    def _best(self, logs: torch.Tensor, smoothing: SmoothingConfig | None) -> torch.Tensor:
        return logs.argmax(-1) if smoothing is None else label_path(logs, self.vocabulary.transitions, smoothing)

    def _names(self, numbers: torch.Tensor) -> tuple[str, ...]:
        return tuple(self.vocabulary.labels.names[number] for number in numbers.tolist())


def collapsed(labels: Sequence[str]) -> tuple[str, ...]:
    """
    >>> collapsed(["s", "s", "i", "s"])
    ('s', 'i', 's')
    """
    return tuple(label for label, _ in groupby(labels))
