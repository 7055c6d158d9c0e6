"""Tag frames: a label for each vector of a recording, such as its phone, its speaker, or silence."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from foveate.data.label import Labels
from foveate.data.labelled_store import LabelledData, LabelledReport, RowBatch, prepare_rows
from foveate.data.reader import RowMaker
from foveate.data.row import Row
from foveate.data.tracked import Clock, TrackConfig, Tracked
from foveate.data.variant import augmented
from foveate.decode.label_path import Transitions
from foveate.errors import DataError
from foveate.models.tagger import FrameTagger
from foveate.storage.manifest import DamagedError, read_json, write_json
from foveate.tasks.labelling import LABELS, LabellingTask, Pretrained
from foveate.tasks.run_digest import require_digests
from foveate.tasks.run_model import seeded
from foveate.tasks.tag.task import TagConfig

TRANSITIONS = "transitions.json"
"""The file of a run folder with the counts of steps between labels."""


@dataclass(frozen=True)
class FrameVocabulary:
    """The maker of rows, the labels that vectors can have, and how often each follows each in the training data."""

    rows: RowMaker
    labels: Labels
    transitions: Transitions
    track: TrackConfig

    @classmethod
    def learn(
        cls, config: TagConfig, examples: Callable[[], Iterator[Tracked]], pretrained: Pretrained | None
    ) -> "FrameVocabulary":
        """Labels and steps are counted to the end of each recording."""
        assert config.reader is not None
        rows = config.reader.learn(one.example for one in examples())
        clock, nothing = Clock.of(rows, config.track), config.track.unlabelled
        numbers: dict[str, int] = {}
        sequences = [
            np.array(
                [numbers.setdefault(name, len(numbers)) for name in example.all_labels(rows, clock, nothing)], np.int64
            )
            for example in examples()
        ]
        counts = np.bincount(np.concatenate([np.empty(0, np.int64), *sequences]), minlength=len(numbers))
        # In the order of `Labels.of`; a label that covers no centre is known, and so is nothing where it may occur.
        names = [*numbers, *(name for one in examples() for name in one.names), *([] if clock is None else [nothing])]
        count_of = dict(zip(numbers, counts.tolist(), strict=True))
        labels = Labels(sorted(dict.fromkeys(names), key=lambda name: (-count_of.get(name, 0), name)))
        order = np.array([labels.encode(name) for name in numbers], np.int64)
        return cls(rows, labels, Transitions.of((order[row] for row in sequences), len(labels)), config.track)

    @classmethod
    def open(cls, config: TagConfig, run: Path, digests: Mapping[str, str]) -> "FrameVocabulary":
        assert config.reader is not None
        labels = Labels.load(run / LABELS)
        transitions = read_transitions(run / TRANSITIONS, len(labels))
        vocabulary = cls(config.reader.open(run), labels, transitions, config.track)
        require_digests(run, vocabulary.digests, digests)
        return vocabulary

    @cached_property
    def clock(self) -> Clock | None:
        """The times of vectors; None where they have no time."""
        return Clock.of(self.rows, self.track)

    @property
    def digests(self) -> dict[str, str]:
        return {**self.rows.digests(), LABELS: self.labels.digest(), TRANSITIONS: self.transitions.digest()}

    def save(self, run: Path) -> None:
        self.rows.save(run)
        self.labels.save(run / LABELS)
        write_json(run / TRANSITIONS, {"digest": self.transitions.digest(), **self.transitions.plain()})

    def names(self, example: Tracked, row: Row) -> Sequence[str]:
        """The label of each vector of an example. Raises DataError for a track that is longer than the recording."""
        example.require_within(self.rows)
        return example.labels(len(row), self.clock, self.track.unlabelled)

    def model(self, config: TagConfig) -> FrameTagger:
        return seeded(lambda: config.model.build_frames(self.rows.input, len(self.labels)), config.seed)

    def store(
        self, folder: Path, examples: Iterator[Tracked], config: TagConfig, *, origin: str, **options: Any
    ) -> tuple[LabelledData, LabelledReport]:
        options |= {"what": config.what, "max_length": config.longest, "names": self.names}
        return prepare_rows(folder, examples, self.rows, self.labels, **options)

    def require(self, data: LabelledData) -> LabelledData:
        return data.require_rows(self.labels, self.rows.input, each=True)


class FrameTask(LabellingTask[FrameTagger]):
    """A tagger of vectors with its data: what training fits."""

    vocabulary_class = FrameVocabulary

    @property
    def rows(self) -> RowMaker:
        return self.vocabulary.rows

    def batch(self, step: int) -> RowBatch:
        """Batch number `step`, changed as the reader augments: a pure function of the seed and the step."""
        batch: RowBatch = super().batch(step)
        rows = augmented(self.rows, batch.rows, batch.examples, seed=self.config.seed, step=step)
        return replace(batch, rows=rows)

    def read(self, data: LabelledData, examples: Sequence[int] | np.ndarray) -> RowBatch:
        return data.rows(examples)

    def logits(self, batch: RowBatch) -> Float[Tensor, "frames labels"]:
        return self.model(batch.rows)


def read_transitions(path: Path, labels: int) -> Transitions:
    """The counts that `FrameVocabulary.save` wrote. Raises DataError if they are missing or damaged."""
    try:
        record = read_json(path)
        transitions = Transitions.read(record, labels)
        sound = record["digest"] == transitions.digest()
    except DamagedError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError, IndexError):
        sound = False
    if not sound:
        raise DataError(f"{path} is damaged or has counts of other labels. Restore it from a copy of the run.")
    return transitions
