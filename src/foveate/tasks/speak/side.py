"""The interface between commands and speech."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foveate.config import to_dict
from foveate.data.audio_file import Recording
from foveate.data.parallel import ParallelData
from foveate.data.waveform import wav
from foveate.errors import DataError, UsageError
from foveate.nn.embed import Vectors
from foveate.storage.draft import disk_errors, write_output
from foveate.suggestion import counted
from foveate.tasks.exported import Exported, Note
from foveate.tasks.option import chunks
from foveate.tasks.report_page import write_report
from foveate.tasks.run_model import seeded
from foveate.tasks.run_plan import (
    Allowance,
    Probe,
    Reason,
    Suggestion,
    beginning,
    fewer,
    noise,
    require_fit,
    sample_of,
    spelled,
    training_table,
    vocabulary,
    with_others,
)
from foveate.tasks.side import Asked, Figures, Scored, Side, written
from foveate.tasks.speak import TASK
from foveate.tasks.speak.served_speaker import ServedSpeaker
from foveate.tasks.speak.task import VALIDATED, SpeakConfig, SpeakTask, count, figures, spoken_ids
from foveate.tasks.speak.use import Speaker
from foveate.tasks.stranger import Strangers
from foveate.tasks.text_writing import store
from foveate.voice import say, shown

FIRST = 100
"""Recordings that sizes are chosen by."""
BATCH = 6_000
"""Frames and tokens of a batch."""
PACE = 1.0
"""Seconds of one core that a step takes."""
SAMPLES = 6
SHORTEST, FASTEST = 0.1, 0.02
"""Seconds of any speech and of a letter; shorter speech is remarked. People say about fifteen letters a second."""


class SpeakSide(Side):
    """`foveate train speak`, `foveate speak`. Models are compared by the distance of their frames."""

    entry, config, task = TASK, SpeakConfig, SpeakTask
    validated = VALIDATED
    per_token = frozenset()
    lower = frozenset(VALIDATED)
    usual_lengths = (30, 300)

    def suggest(self, config: SpeakConfig, allowance: Allowance) -> Suggestion:
        """Reader, batches and steps for the recordings. Raises DataError if there are none."""
        path = config.data.data
        sample, total = sample_of(config.read(path), FIRST)
        if not sample:
            raise DataError(f"{path} has no recordings. Give recordings with their texts to learn from.")
        reader = replace(config.reader.suited(sample), augmentation=None)
        rows = reader.learn(sample)
        lengths = [len(rows.row(one.thing)) for one in sample]
        texts = [len(one.label) for one in sample]
        usual, text = sum(lengths) / len(lengths), sum(texts) / len(texts)
        longest, longest_text = max(2 * max(lengths), 400), max(2 * max(texts), 100)
        budget = max(BATCH, longest + longest_text)

        def suggested(allowance: Allowance) -> Suggestion:
            desired = max(int(100 * total * usual / budget), 2_000)
            steps = allowance.steps(min(desired, 50_000), pace=PACE * budget / BATCH)
            return Suggestion(
                {
                    "reader": to_dict(SpeakConfig(reader=reader))["reader"],
                    "data": {"max_length": longest, "max_text": longest_text, "max_tokens": budget},
                    "train": training_table(steps, rate=1e-3, metric="distance"),
                },
                f"{counted(total, 'recording')} of about {usual * rows.hop:.1f} seconds; a text has {text:.0f} "
                "characters.",
                (
                    Reason("reader", reader.about),
                    Reason("train", f"some hundred passes over the recordings, {allowance}"),
                ),
                lengths=(max(round(text), 1), max(round(usual), 1)),
            )

        return with_others(suggested, allowance)

    def probe(self, config: SpeakConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Made-up texts with frames of noise, as many as the budget of a batch allows."""
        (text, length), sample = lengths, partial(beginning, config.data.data, config.texts)
        size = vocabulary(config.tokeniser, vocab, sample)
        source = Vectors(config.reader.geometry.width)
        model = seeded(lambda: config.model.build(size, source.width), config.seed)
        require_fit(model.max_length, text, "--source-length")
        rows = max(config.data.max_tokens // (text + length), 1)

        def loss_of(rows: int) -> Callable[[], Tensor]:
            texts, speech = spoken_ids(spelled(rows, text - 1, size)), noise(rows, length, source.width)
            return lambda: model.loss(texts, speech)

        return Probe(
            model=model,
            loss=loss_of(rows),
            others=fewer(loss_of, rows),
            vocabulary=f"a vocabulary of {size:,}, {source}",
            batch=f"{counted(rows, 'text')} of {counted(text, 'token')} with {counted(length, 'frame')}",
            tokens=rows * length,
            unit="frames",
        )

    def size(self, task: SpeakTask) -> str:
        seconds = int(task.training.source.lengths.sum()) * task.rows.hop
        return f"{len(task.training):,} training recordings, {seconds / 60:.1f} minutes"

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> Speaker:
        return Speaker.load(run, note=note)

    def offered(self, model: Speaker, folder: Path) -> ServedSpeaker:
        return ServedSpeaker(model)

    def in_use(self, task: SpeakTask) -> Speaker:
        config = task.config
        return Speaker(task.model, task.rows, task.tokeniser, form=config.text, max_frames=config.longest)

    def use(self, arguments: argparse.Namespace) -> None:
        """Raises UsageError for several texts without a folder, and for sound on a terminal."""
        out = None if arguments.out is None else Path(arguments.out)
        if out is None and sys.stdout.isatty():
            raise UsageError("Sound is not for a terminal. Name a file with --out answer.wav, or write to a pipe.")
        file = out is not None and not out.is_dir() and bool(out.suffix)
        if out is not None and file and out.suffix.lower() != ".wav":
            raise UsageError(f"--out {out} would be a WAV file. Let its name end in .wav, or name a folder.")
        speaker = self.load(arguments.run)
        strangers = Strangers(speaker.tokeniser, say)
        texts = [text for chunk in chunks(arguments.inputs) for text in chunk]
        if len(texts) != 1 and (out is None or file):
            where = "standard output" if out is None else str(out)
            raise UsageError(f"There are {len(texts)} texts, and {where} takes one. Name a folder with --out.")
        for number, text in enumerate(texts, start=1):
            strangers.note([text])
            recording = self._spoken(speaker, text, number)
            if out is None:
                sys.stdout.buffer.write(wav(recording.samples, recording.rate))
                return
            path = out if file else out / f"{number}.wav"
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
            write_output(path, wav(recording.samples, recording.rate))
            print(shown(str(path)), f"{recording.seconds:.2f} s", sep="\t", flush=True)

    def _spoken(self, speaker: Speaker, text: str, number: int) -> Recording:
        speech = speaker.speak(text)
        if speech.recording is None:
            raise UsageError(f"Text {number} is empty: there is nothing to speak. Leave it out.")
        if not speech.finished:
            say(
                f"Text {number} was cut at {speech.seconds:.1f} s, the longest speech of this model. Shorten the text, "
                "or train for longer."
            )
        letters = sum(letter.isalnum() for letter in text)
        if speech.seconds < max(SHORTEST, FASTEST * letters):
            say(
                f"Text {number} lasts {speech.seconds:.2f} s for {counted(letters, 'letter')}, which nobody could say "
                "so fast. The model has not learnt to speak it: train for longer, or on more recordings."
            )
        return speech.recording

    def evaluate(self, arguments: argparse.Namespace) -> Figures:
        """The figures of validation on another file of recordings."""
        for name in ("metrics", "save", "report"):
            if getattr(arguments, name, None):
                raise UsageError(
                    f"--{name} is for tasks that write text; speech has its loss and distance. Leave it out."
                )
        folder = Path(arguments.run)
        config, speaker = self.saved_config(folder), self.load(folder)
        with tempfile.TemporaryDirectory() as place:
            return self._measured(speaker, config, Path(place), arguments.data)

    @torch.inference_mode()
    def _measured(self, speaker: Speaker, config: SpeakConfig, folder: Path, path: str) -> Figures:
        """The figures of a model on a file of recordings, whose frames are stored in a folder."""
        data, report = store(folder / "test", config.read(path), speaker.rows, speaker.tokeniser, config)
        if not report.used:
            raise DataError(f"{path} has no recording that can be used. {report}")
        return figures(speaker.model, data, config)

    def write_report(self, model: Speaker, config: Any, folder: Path, path: Path, test: Any = None) -> None:
        """The samples are validation texts, with the length of their speech."""
        validation = ParallelData.open(folder / "data" / "valid")
        samples = []
        for number in range(min(SAMPLES, len(validation))):
            text = model.tokeniser.decode(validation.target[number].tolist())
            recorded = f"{len(validation.source[number]) * model.rows.hop:.2f} s"
            speech = model.speak(text)
            ending = "" if speech.finished else ", cut"
            samples.append((text, recorded, f"{speech.seconds:.2f} s{ending}", None))
        write_report(
            model.model,
            folder,
            path,
            tiles=[],
            scores=[],
            samples=samples,
            card={
                "data": Path(config.data.data).name,
                "texts": f"{config.text}",
                "limits": "The voice of its recordings, and words like theirs. The voice belongs to a person: ask "
                "before speech is published.",
            },
            commands=[self.command(model, folder), f"foveate evaluate {written(folder)} --data FILE"],
            names=("text", "recording"),
        )

    def trial(self, model: Speaker) -> str:
        return '"…" --out speech.wav'

    def export(self, run: Path | str, note: Note) -> Exported:
        raise UsageError(
            "There is no export of models that speak: their decoder reads its own frames and weights, step by step. "
            "`foveate speak` and `Speaker.speak` run them."
        )

    def metrics(self) -> tuple[str, ...]:
        return VALIDATED

    def usual_metrics(self, task: SpeakTask) -> tuple[str, ...]:
        return ("distance",)

    def longest(self, config: SpeakConfig) -> int:
        return config.longest

    def count(self, batch: Any) -> int:
        return count(batch)

    def hold_out(self, config: SpeakConfig, folder: Path) -> dict[str, Any]:
        """Raises UsageError without validation data, because each seed would hold out other lines."""
        if config.data.valid_data is None:
            raise UsageError(
                "compare needs recordings that are held out from all seeds alike: give --valid-data FILE "
                "(data.valid_data)."
            )
        return {}

    def score(self, task: SpeakTask, config: SpeakConfig, folder: Path, request: Asked) -> Scored:
        path = request.test.get("data")
        values = self._measured(self.in_use(task), config, folder / "data", path) if path else task.validate()
        return Scored(values=self.pick(values, request.metrics))


SIDE = SpeakSide()
