"""The interface between commands and transcription."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from foveate.data.audio import AudioReader
from foveate.data.audio_file import Clip
from foveate.data.audio_table import stretch_cells
from foveate.data.labelled import TOKENISER
from foveate.data.reader import Example
from foveate.data.spectrum import HOP, WINDOW
from foveate.data.tokeniser import PAD, ByteConfig
from foveate.errors import DataError, UsageError
from foveate.metrics import Score
from foveate.metrics.corpus import METRICS, evaluate, require_metrics
from foveate.metrics.transcription import Edits
from foveate.models import Recogniser
from foveate.nn.embed import Vectors
from foveate.nn.latency import latency
from foveate.suggestion import counted
from foveate.tasks.exported import COUNTED, Exported, Note, saver
from foveate.tasks.held_out import Parts
from foveate.tasks.option import decode_config, require_used
from foveate.tasks.run_model import seeded
from foveate.tasks.run_plan import (
    Allowance,
    Probe,
    Suggestion,
    beginning,
    fewer,
    noise,
    require_fit,
    spelled,
    vocabulary,
)
from foveate.tasks.served_file import reads_of
from foveate.tasks.text_writing_side import Reading, Things, WritingSide
from foveate.tasks.transcribe import TASK
from foveate.tasks.transcribe.dictation import dictate, seeing
from foveate.tasks.transcribe.encoder_view import SETTING, view_option, without_view
from foveate.tasks.transcribe.recogniser_size import suggest
from foveate.tasks.transcribe.recognition import RecognitionConfig
from foveate.tasks.transcribe.served_transcriber import ServedTranscriber
from foveate.tasks.transcribe.task import VALIDATED, TranscribeConfig, TranscribeTask
from foveate.tasks.transcribe.use import Transcriber
from foveate.voice import say

WIDTH = 80
"""The numbers of a vector, where there are no data: a usual number of mel bands."""
USUAL = ("word_error", "character_error")
"""The metrics of transcripts, unless others are asked for."""


class TranscribeSide(WritingSide):
    """`foveate train transcribe`, `foveate transcribe`. Models are compared by their errors per word and character."""

    entry, config, task = TASK, TranscribeConfig, TranscribeTask
    noun, limits, unit = "text", ": voices, rooms, microphones, words.", "vectors"
    text_metrics, evaluated = tuple(METRICS), USUAL
    validated = VALIDATED
    per_token = frozenset({"loss"})
    usual_lengths = (500, 30)
    lower = frozenset({"loss", *(name for name in METRICS if name.endswith("error") or name == "ter")})

    def suggest(self, config: TranscribeConfig, allowance: Allowance) -> Suggestion:
        return suggest(config, allowance)

    def probe(self, config: TranscribeConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Recordings of noise with made-up texts, as many as the budget of a batch allows; the data, where they are
        named, give the width of their vectors.

        Raises UsageError for a text that does not fit into its recording, and when the model has too few positions.
        """
        texts = partial(beginning, config.data.data, config.texts)
        size, (length, text) = vocabulary(config.tokeniser, vocab, texts), lengths
        source = _input(config)
        model = seeded(lambda: config.model.build(source, size), config.seed)
        require_fit(model.longest_source, length, "--source-length")
        if model.ctc_output is not None and text > -(-length // model.stride):
            raise UsageError(
                f"A recording of {counted(length, 'vector')} has fewer outputs than {counted(text, 'token')}, one for "
                f"{model.stride} vectors. Give a larger --source-length or a smaller --target-length."
            )
        rows = max(config.data.max_tokens // (length + text), 1)

        def loss_of(rows: int) -> Callable[[], Tensor]:
            batch, target = noise(rows, length, source.width), spelled(rows, text, size)
            return lambda: model.loss(batch, target)

        return Probe(
            model=model,
            loss=loss_of(rows),
            others=fewer(loss_of, rows),
            vocabulary=f"{source}, a vocabulary of {size:,}{_assumption(config, vocab)}",
            batch=f"{rows} {config.what} of {counted(length, 'vector')} and {counted(text, 'token')}",
            tokens=rows * length,
            unit="vectors",
            remarks=(
                _latency(config, model),
                *(f"under {rule}: {_latency(config, model.under(rule))}" for rule in config.views or ()),
            ),
        )

    def size(self, task: TranscribeTask) -> str:
        vectors = int(task.training.source.lengths.sum())
        hop = getattr(task.rows, "hop", None)
        much = f"{vectors:,} vectors" if hop is None else f"{vectors * hop / 60:.1f} minutes"
        return f"{len(task.training):,} training {task.config.what}, {much}"

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> Transcriber:
        return Transcriber.load(run, precision=precision, note=note)

    def offered(self, model: Transcriber, folder: Path) -> ServedTranscriber | None:
        return ServedTranscriber(model) if reads_of(model) else None

    def in_use(self, task: TranscribeTask) -> Transcriber:
        return Transcriber(
            task.model,
            task.rows,
            task.tokeniser,
            task.config.decode,
            form=task.config.text,
            views=task.config.views or (),
        )

    def use(self, arguments: argparse.Namespace) -> None:
        dictate(lambda: self.load(arguments.run, precision=arguments.precision), arguments)

    def things(self, config: TranscribeConfig, path: str) -> Things:
        examples = list(config.read(path))
        if not examples:
            raise _no_examples(path, config.what)
        return [example.thing for example in examples], [example.label for example in examples]

    def reader(self, arguments: argparse.Namespace, text: str) -> Transcriber:
        """The recogniser, whose encoder sees by the rule of `--set visibility=RULE`, too."""
        arguments, rule = without_view(arguments)
        require_used(
            arguments, {"set": f"searches, or names a rule as {SETTING}=RULE"}, (), "of what a recogniser sees"
        )
        return seeing(super().reader(arguments, text), rule)

    def text_scores(self, texts: Sequence[str], references: Sequence[Any], names: Sequence[str]) -> list[Score]:
        return evaluate(texts, references, names)

    def require_text_metrics(self, names: Sequence[str]) -> None:
        require_metrics(names)

    def summary(self, config: Any, texts: Sequence[str], references: Sequence[Any], seconds: float) -> str:
        edits = Edits.of_words(references, texts)
        kinds = (edits.substitutions, "wrong"), (edits.deletions, "missing"), (edits.insertions, "extra")
        wrong = ", ".join(f"{number:,} {kind}" for number, kind in kinds)
        words = f"{counted(edits.length, 'word')}: {edits.hits:,} right, {wrong}."
        return f"{len(texts):,} {config.what} in {seconds:.1f} seconds. {words}"

    def card(self, config: Any, training: int, validation: int) -> dict[str, str]:
        own = "from a file of their own" if config.data.valid_data else "drawn by line: speakers may be in both"
        return {
            "data": f"{training:,} {config.what} from {Path(config.data.data).name}",
            "validation": f"{validation:,} {config.what}, {own}",
        }

    def reading(self, arguments: argparse.Namespace) -> Reading:
        """The transcriber under the rule that the options name."""
        arguments, rule = without_view(arguments)
        transcriber = seeing(self.load(arguments.run, precision=arguments.precision), rule)
        search = decode_config(transcriber.config, arguments, RecognitionConfig)
        if rule is None:
            return Reading(model=transcriber, search=search)
        card = {"view": f"the encoder under {rule}"}
        return Reading(
            model=transcriber, search=search, change=f"{SETTING}:{rule}", option=view_option(rule), card=card
        )

    def export(self, run: Path | str, note: Note) -> Exported:
        transcriber = self.load(run, note=note)
        meanings = {
            "features": "the vectors of recordings, as rows.json describes them",
            "lengths": COUNTED,
            "log_probabilities": f"of the ids of {TOKENISER} at each output; id {PAD} is the blank of CTC",
            "output_lengths": "the number of outputs of each row; after them outputs have no meaning",
        }

        def save(folder: Path) -> None:
            saver({TOKENISER: transcriber.tokeniser})(folder)
            transcriber.rows.save(folder)

        extra = {}
        if transcriber.model.decoder is not None and transcriber.model.ctc_output is not None:
            note("The graph contains CTC; the decoder is left out.")
            extra = {"left_out": ["decoder"]}
        return Exported(transcriber.model, save, meanings, (transcriber.tokeniser,), extra)

    def metrics(self) -> tuple[str, ...]:
        return (*METRICS, "loss")

    def usual_metrics(self, task: TranscribeTask) -> tuple[str, ...]:
        return USUAL

    def hold_out(self, config: TranscribeConfig, folder: Path) -> dict[str, Any]:
        """train.tsv and valid.tsv, held out by the seed of the base configuration; the recordings stay where they are.

        Raises UsageError for things that are not recordings in files.
        """
        if config.data.valid_data is not None:
            return {}
        return Parts(config).write(folder, _line, head="path\tstart\tend\ttext\n")


def _assumption(config: TranscribeConfig, vocab: int | None) -> str:
    """Words on a size that neither data nor options give."""
    known = vocab or config.data.data or getattr(config.tokeniser, "vocab_size", None)
    return "" if known or isinstance(config.tokeniser, ByteConfig) else " (assumed: give --data or --vocab)"


def _input(config: TranscribeConfig) -> Vectors:
    """The input of a model: that of the first recording in the data, or without data, that of a usual one."""
    path = config.data.data
    if not path:
        return Vectors(getattr(config.reader, "width", WIDTH))
    first = next(config.read(path), None)
    if first is None:
        raise _no_examples(path, config.what)
    source = config.reader.learn([first]).input
    if not isinstance(source, Vectors):
        raise UsageError(f"A transcript is of vectors in the order of time, and {config.what} are {source}.")
    return source


def _latency(config: TranscribeConfig, model: Recogniser) -> str:
    """A sentence on the time that an output of a stream waits for later sound."""
    stride = getattr(config.reader, "stride", 1)
    try:
        if isinstance(config.reader, AudioReader):
            config.reader.require_stream()
        waits = latency(
            model.eval().stream(), HOP * stride, window=WINDOW + HOP * (getattr(config.reader, "stack", 1) - 1)
        )
    except UsageError as error:
        return f"no stream: {error}"
    finally:
        model.train()
    if not isinstance(config.reader, AudioReader):
        return f"latency of a stream: {round(waits.worst / HOP)} vectors"
    return f"latency of a stream: {waits}"


def _line(example: Example) -> str:
    """A recording with its text as a line of a table."""
    clip = example.thing
    if not isinstance(clip, Clip):
        raise UsageError(
            "compare holds out recordings, not vectors. Give validation data with --valid-data FILE (data.valid_data)."
        )
    return f"{clip.path.absolute()}\t{stretch_cells(clip)}\t{example.label}\n"


def _no_examples(path: str, what: str) -> DataError:
    return DataError(f"{path} has no {what}. Give {what} with their texts.")


SIDE = TranscribeSide()
