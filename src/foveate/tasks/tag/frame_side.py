"""The interface between commands and tagging of vectors: phones, speakers, silence."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from foveate.config import to_dict
from foveate.data.audio import AudioReader
from foveate.data.audio_file import Clip
from foveate.data.audio_table import is_table, stretch_cells
from foveate.data.batch import Batch
from foveate.data.feature import VectorReader
from foveate.data.label_track import ENDINGS, LabelTrack, read_labels, read_track
from foveate.data.reader import Reader
from foveate.data.text import read_lines
from foveate.data.tracked import Tracked, read_tracked
from foveate.decode.label_path import SmoothingConfig
from foveate.errors import DataError, SetupError, UsageError
from foveate.inspect import TimeAlignment, Trace
from foveate.metrics import Score, phone_error_rate
from foveate.nn.loss import cross_entropy
from foveate.storage.run import read_run
from foveate.suggestion import counted
from foveate.tasks.exported import COUNTED, Exported, Note
from foveate.tasks.held_out import Parts
from foveate.tasks.intake import intake
from foveate.tasks.labelling import Predicted
from foveate.tasks.labelling_side import BATCH, LOGITS, LabellingSide, class_rows, training
from foveate.tasks.report_page import Sample
from foveate.tasks.run_model import seeded
from foveate.tasks.run_plan import (
    LABELS,
    Allowance,
    Probe,
    Reason,
    Suggestion,
    require_fit,
    with_others,
)
from foveate.tasks.sight import Sight
from foveate.tasks.tag import TASK
from foveate.tasks.tag.frame_task import FrameTask
from foveate.tasks.tag.frame_use import SMOOTHING, FrameLabeller, LabelledFrames, collapsed
from foveate.tasks.tag.label_map import SEGMENTS
from foveate.tasks.tag.task import TagConfig
from foveate.voice import say, shown

PHONE_ERROR = "phone_error"
FIRST = 50
"""Recordings that sizes are chosen by."""
SHOWN = 120
"""Vectors of a recording whose labels are drawn in a report."""
ROWS = 8
"""Recordings in a batch."""
ONE = ("textgrid", "json")
"""Formats of a single recording."""


class FrameSide(LabellingSide):
    """`foveate train tag` and `foveate tag` of vectors."""

    entry, config, task = TASK, TagConfig, FrameTask
    columns = ("path", "label track")
    lower = frozenset({PHONE_ERROR})

    def suggest(self, config: TagConfig, allowance: Allowance) -> Suggestion:
        """Reader, model and steps by the labelled recordings. Raises DataError when there are none."""
        path = config.data.data
        reader = config.reader or reader_of(path)
        assert reader is not None
        examples = read_tracked(reader, path, config.track)
        sample = list(islice(examples, FIRST))
        if not sample:
            raise _no_examples(path, reader.what)
        total = len(sample) + sum(1 for _ in examples)
        if config.reader is None:
            reader = reader.suited([one.example for one in sample])
            if isinstance(reader, AudioReader):  # for voices that the training data do not have
                reader = replace(reader, normalisation="recording")
        rows = reader.learn(one.example for one in sample)
        lengths = [len(rows.row(one.thing)) for one in sample]
        labels = len({name for one in sample for name in one.names})
        usual, longest = max(sum(lengths) // len(lengths), 1), 2 * max(lengths)

        def suggested(allowance: Allowance) -> Suggestion:
            model, about, pace = _model(allowance.tier)
            budget = max(ROWS * usual, longest)
            return Suggestion(
                {
                    "reader": to_dict(TagConfig(reader=reader))["reader"],
                    "model": model,
                    "decode": to_dict(SmoothingConfig()),
                    "data": {"max_length": longest, "max_tokens": budget},
                    "train": training(total * usual * BATCH // budget, "accuracy", allowance, pace * budget / BATCH),
                },
                f"{counted(total, 'example')} of {counted(usual, 'vector')}, {counted(labels, 'label')}.",
                (
                    Reason("reader", reader.about),
                    Reason("model", f"{about}, {allowance}"),
                    Reason("decode", "labels smoothed by a Viterbi pass, as most labels last for several vectors"),
                ),
                lengths=(usual,),
            )

        return with_others(suggested, allowance)

    def probe(self, config: TagConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """The first example in the data, again and again: as often as the budget of a batch allows. Raises UsageError
        for a configuration without data.
        """
        if not config.data.data:
            raise UsageError(f"The sizes of {config.what} are those of the data: name them with --data.")
        assert config.reader is not None
        sample = list(islice(read_tracked(config.reader, config.data.data, config.track), FIRST))
        if not sample:
            raise _no_examples(config.data.data, config.what)
        rows = config.reader.learn(one.example for one in sample)
        row = rows.row(sample[0].thing)
        batch = Batch.of([row] * max(config.data.max_tokens // len(row), 1))
        model = seeded(lambda: config.model.build_frames(rows.input, LABELS), config.seed)
        require_fit(model.max_length, len(row), "shorter examples")
        labels = torch.randint(LABELS, (batch.num_tokens,), generator=torch.Generator().manual_seed(0))
        return Probe(
            model=model,
            loss=lambda: cross_entropy(model(batch), labels),
            vocabulary=f"{rows.input} and {LABELS} labels (assumed)",
            batch=f"{batch.size} {config.what} of {counted(len(row), 'vector')}",
            tokens=batch.num_tokens,
            unit="vectors",
        )

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> FrameLabeller:
        return FrameLabeller.load(run, note=note)

    def in_use(self, task: FrameTask) -> FrameLabeller:
        return FrameLabeller(task.model, task.vocabulary, task.config.decode)  # type: ignore[attr-defined]

    def thing(self, model: FrameLabeller, text: str) -> Any:
        """The first thing that a file holds."""
        return next(model.things([text]))

    def vocabulary(self, model: FrameLabeller) -> FrameLabeller:
        return model

    def sight(self, arguments: argparse.Namespace, text: str) -> "FrameSight":
        """The probabilities of labels and the attention; --target is the file of the true labels."""
        labeller = self.reader(argparse.Namespace(**{**vars(arguments), "target": None}), text)
        target = None
        if arguments.target is not None:
            listed = labeller.vocabulary.clock is None
            tier, name = labeller.vocabulary.track.tier, Path(text).name
            target = (
                read_labels(arguments.target) if listed else read_track(arguments.target, tier=tier, recording=name)
            )
        return FrameSight(labeller, self.thing(labeller, text), target)

    def use(self, arguments: argparse.Namespace) -> None:
        if arguments.columns and arguments.format:
            raise UsageError("--columns prints frames, and --format a track of segments. Leave one of them out.")
        labeller = self.load(arguments.run)
        things, way = intake(labeller.rows, arguments), arguments.format or "audacity"
        if things.several and way in ONE:
            raise UsageError(f"--format {way} writes one recording. Name one, or use --format ctm for several.")
        for _, labelled in things.answers(labeller.label):
            if labelled is None:
                continue
            if labelled.remarks:
                say(f"{labelled.name}: {', '.join(labelled.remarks)}.")
            if things.several and way == "audacity":
                print(f"# {shown(labelled.name)}")
            print(_written(labelled, "columns" if arguments.columns else way), end="", flush=True)

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        if arguments.columns:
            raise UsageError("--columns chooses columns of a table of words, and this run reads vectors. Leave it out.")
        return super().evaluate(arguments)

    def gold(self, labeller: FrameLabeller, example: Tracked, count: int) -> Sequence[str]:
        return example.labels(count, labeller.vocabulary.clock, labeller.vocabulary.track.unlabelled)

    def scores(self, labeller: FrameLabeller, examples: Sequence[Tracked], *, per_class: bool) -> list[Score]:
        """Accuracy and F1 of vectors, the phone error rate of labels without repetitions, and all of it smoothed."""
        raw, smooth = labeller.predict(examples), labeller.predict(examples, labeller.smoothing or SMOOTHING)
        plain, smoothed = ([*one.scores(), *_phone_error(one, labeller)] for one in (raw, smooth))
        named = [replace(score, name=f"smoothed {score.name}") for score in smoothed]
        chosen = smooth if labeller.smoothing else raw
        return [*plain, *named, *(class_rows(chosen) if per_class else [])]

    def written(self, example: Tracked) -> str:
        thing, file = example.thing, _absolute(example.file)
        if not isinstance(thing, Clip):
            return f"{_absolute(thing)}\t{file}\n"
        return f"{_absolute(thing.path)}\t{stretch_cells(thing)}\t{file}\n"

    def lengths(self, examples: Sequence[Tracked]) -> tuple[list[int], str]:
        return [len(collapsed(example.names)) for example in examples], "segments"

    def lines(self, labeller: FrameLabeller, examples: Sequence[Tracked]) -> list[str]:
        """The file of `evaluate --save`: a line for each recording, with its labels without repetitions."""
        return [" ".join(one.phones) for one in labeller.label([example.thing for example in examples])]

    def samples(self, labeller: FrameLabeller, examples: Sequence[Tracked]) -> list[Sample]:
        samples = list[Sample]()
        gold = labeller.predict(examples).gold
        for example, line, right in zip(examples, self.lines(labeller, examples), gold, strict=True):
            alignment = labeller.map(example.thing, most=SHOWN)
            samples.append((str(example.thing), " ".join(collapsed(right)), line, alignment))
        return samples

    def trial(self, model: FrameLabeller) -> str:
        return "FILE"

    def metrics(self) -> tuple[str, ...]:
        return (*super().metrics(), PHONE_ERROR)

    def hold_out(self, config: TagConfig, folder: Path) -> dict[str, Any]:
        """train.tsv and valid.tsv, held out by the seed of the base configuration."""
        if config.data.valid_data is not None:
            return {}
        head = "path\tstart\tend\tlabel\n" if isinstance(config.reader, AudioReader) else ""
        return Parts(config).write(folder, self.written, head)

    def values(self, predicted: Predicted) -> dict[str, float]:
        (error,) = _phone_error(predicted, None)
        return {**super().values(predicted), PHONE_ERROR: error.value}

    def export(self, run: Path | str, note: Note) -> Exported:
        """A tagger of vectors."""
        labeller = self.load(run, note=note)
        meanings = {
            "features": "made as rows.json describes: frames of features, scaled",
            "lengths": COUNTED.replace("tokens", "vectors"),
            "logits": f"at each vector: {LOGITS}",
        }
        return Exported(labeller.model, labeller.vocabulary.save, meanings)


class FrameSight(Sight):
    """The labels of one recording, drawn as segments, and their maps beside its attention."""

    def __init__(self, labeller: FrameLabeller, thing: Any, target: LabelTrack | Sequence[str] | None) -> None:
        super().__init__(self._trace)
        self.labeller, self.thing, self.target = labeller, thing, target

    def times(self, arguments: argparse.Namespace) -> TimeAlignment | None:
        """The segments, unless --site or --layer names a map, or vectors have no time."""
        if arguments.site is not None or arguments.layer is not None or self.labeller.vocabulary.clock is None:
            return None
        return self.labeller.times(self.thing, self.target if isinstance(self.target, LabelTrack) else None)

    def _trace(self) -> Trace:
        trace = self.labeller.trace(self.thing, self.target)
        if SEGMENTS not in trace.tracks and len(trace.tracks["source"]):
            say("There are too many segments and vectors for a map of both. The trace has the map of labels alone.")
        return trace


def reader_of(path: str) -> Reader | None:
    """The reader of a table of files with label tracks; None for labelled words.

    Raises DataError for a table that cannot be read.
    """
    if not Path(path).is_file() or Path(path).suffix.lower() == ".npz":
        return None
    reader: Reader | None = None
    if is_table(path):
        reader = AudioReader()
        label = next((one.label for one in reader.read(path)), "")
    else:
        cells = [cell.strip() for cell in next(read_lines(path), "").split("\t")]
        reader, label = VectorReader() if cells[0].lower().endswith(".npy") else None, cells[-1]
    return reader if Path(label).suffix.lower() in {ending.lower() for ending in ENDINGS} else None


def reads_frames(run: Path | str) -> bool:
    """Whether a run tags vectors, which have a reader."""
    return read_run(Path(run)).config.get("reader") is not None


def _written(labelled: LabelledFrames, way: str) -> str:
    """A label track, or "columns" with a line for each frame."""
    if way == "audacity":
        return "".join(f"{shown(line)}\n" for line in str(labelled).splitlines())
    if way == "columns":
        size, clock = len(labelled.labels), labelled.clock
        stamps = range(size) if clock is None else [f"{labelled.start + time:.4f}" for time in clock.centres(size)]
        rows = zip(stamps, map(shown, labelled.labels), labelled.probabilities, strict=True)
        return "".join(f"{stamp}\t{label}\t{sure:.4f}\n" for stamp, label, sure in rows)
    times = labelled.times
    return times.ctm() if way == "ctm" else times.text_grid() if way == "textgrid" else times.json()


def _phone_error(predicted: Predicted, labeller: FrameLabeller | None) -> Iterator[Score]:
    """The edit distance of the labels without repetitions; without jiwer, a note in a report."""
    number: dict[str, int] = {}
    lines = [
        [" ".join(str(number.setdefault(name, len(number))) for name in collapsed(row)) for row in side]
        for side in (predicted.labels, predicted.gold)
    ]
    try:
        yield phone_error_rate(*lines)
    except SetupError as error:
        if labeller is None:
            raise
        say(str(error))


def _absolute(path: Any) -> Path:
    return Path(str(path)).resolve()


def _no_examples(path: str, what: str) -> DataError:
    return DataError(f"{path} has no labelled {what}. Give {what} to learn from.")


def _model(tier: int) -> tuple[dict[str, Any], str, float]:
    """The model, its description, and the seconds of one core that a step of `BATCH` vectors takes."""
    layers, width = (8, 256) if tier == 2 else (6, 192)
    encoder = {"kind": "cnn", "hidden_dim": width, "num_layers": layers, "width": 5}
    about = f"{layers} convolutions, {width} wide, which see {2 * layers} vectors on each side"
    return {"encoder": encoder, "embedding_dim": width, "dropout": 0.1}, about, 0.6 if tier == 2 else 0.25


FRAMES = FrameSide()
