"""The interface between commands and transcription."""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from foveate.attention import Visibility
from foveate.data.audio import AudioReader
from foveate.data.audio_file import Clip
from foveate.data.audio_table import stretch_cells
from foveate.data.batch import Batch
from foveate.data.parallel import ParallelData
from foveate.data.reader import Example
from foveate.data.spectrum import HOP, WINDOW
from foveate.data.tokeniser import BOS, EOS, PAD, SPECIALS, ByteConfig
from foveate.data.transcript import TextConfig
from foveate.errors import DataError, UsageError
from foveate.inspect.caption import printable
from foveate.metrics import Score
from foveate.metrics.corpus import METRICS, evaluate, require_metrics
from foveate.metrics.transcription import Edits
from foveate.models import Recogniser
from foveate.nn.embed import Vectors
from foveate.nn.latency import latency
from foveate.storage.draft import disk_errors
from foveate.suggestion import counted
from foveate.tasks.exported import COUNTED, Exported, Note, saver
from foveate.tasks.labelling import Parts
from foveate.tasks.option import decode_config, metric_names, require_used
from foveate.tasks.report_page import write_report
from foveate.tasks.run_model import seeded
from foveate.tasks.run_plan import Allowance, Probe, Suggestion, require_fit, vocabulary
from foveate.tasks.side import Asked, Scored, Side, buckets, written
from foveate.tasks.transcribe import TASK
from foveate.tasks.transcribe.dictation import dictate, seeing
from foveate.tasks.transcribe.encoder_view import SETTING, view_option, without_view
from foveate.tasks.transcribe.recogniser_size import suggest
from foveate.tasks.transcribe.recognition import RecognitionConfig
from foveate.tasks.transcribe.task import TOKENISER, VALIDATED, TranscribeConfig, TranscribeTask, count, store
from foveate.tasks.transcribe.use import Transcriber, Transcript
from foveate.voice import say

SAMPLES = 6
WIDTH = 80
"""The numbers of a vector, where there are no data: a usual number of mel bands."""
USUAL = ("word_error", "character_error")
"""The metrics of transcripts, unless others are asked for."""


@dataclass(frozen=True, kw_only=True)
class Test:
    """Transcripts of recordings that a model was not trained with, and their scores."""

    file: str
    scores: Sequence[Score]
    transcripts: Sequence[Transcript]
    references: Sequence[str]
    rule: Visibility | None = None
    """The rule under which the encoder saw, beside its own."""


class TranscribeSide(Side):
    """`foveate train transcribe`, `foveate transcribe`. Models are compared by their errors per word and character."""

    entry, config, task = TASK, TranscribeConfig, TranscribeTask
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
        size, (length, text) = vocabulary(config.tokeniser, vocab or _learnt_size(config)), lengths
        source = _input(config)
        model = seeded(lambda: config.model.build(source, size), config.seed)
        require_fit(model.longest_source, length, "--source-length")
        if model.ctc_output is not None and text > -(-length // model.stride):
            raise UsageError(
                f"A recording of {counted(length, 'vector')} has fewer outputs than {counted(text, 'token')}, one for "
                f"{model.stride} vectors. Give a larger --source-length or a smaller --target-length."
            )
        rows = max(config.data.max_tokens // (length + text), 1)
        noise = torch.randn(rows, length, source.width, generator=torch.Generator().manual_seed(0))
        batch = Batch(noise, torch.full((rows,), length), rows * length)
        target = _spelled(rows, text, size)
        return Probe(
            model=model,
            loss=lambda: model.loss(batch, target),
            vocabulary=f"{source}, a vocabulary of {size:,}{_assumption(config, vocab)}",
            batch=f"{rows} {config.what} of {counted(length, 'vector')} and {counted(text, 'token')}",
            tokens=batch.num_tokens,
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

    def vocabulary(self, model: Transcriber) -> Any:
        return model

    def reader(self, arguments: argparse.Namespace, text: str) -> Transcriber:
        """The recogniser, whose encoder sees by the rule of `--set visibility=RULE`, too."""
        arguments, rule = without_view(arguments)
        require_used(
            arguments, {"set": f"searches, or names a rule as {SETTING}=RULE"}, (), "of what a recogniser sees"
        )
        return seeing(super().reader(arguments, text), rule)

    def thing(self, model: Transcriber, text: str) -> Any:
        """The first thing that a file holds."""
        return next(iter(model.things([text])))

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        """Scores of a run's transcripts, which are saved and reported on request."""
        require_metrics(names := metric_names(arguments) or USUAL)
        folder = Path(arguments.run)
        config = self.saved_config(folder)
        examples = _examples(config, arguments.data)
        for path in filter(None, (arguments.save, arguments.report)):
            with disk_errors(Path(path)):  # before the work rather than after it
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).open("a").close()
        arguments, rule = without_view(arguments)
        transcriber = seeing(self.load(folder, precision=arguments.precision), rule)
        searching = decode_config(transcriber.config, arguments, RecognitionConfig)
        started = time.perf_counter()
        transcripts = transcriber.transcribe([example.thing for example in examples], config=searching)
        seconds = time.perf_counter() - started
        references, texts = [example.label for example in examples], [one.text for one in transcripts]
        say(f"{len(texts):,} {config.what} in {seconds:.1f} seconds. {_edits(references, texts)}")
        if arguments.save:
            with disk_errors(Path(arguments.save)):
                Path(arguments.save).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        scores = _scores(texts, references, names, config.text, rule)
        if arguments.report:
            file = Path(arguments.data).name
            test = Test(file=file, scores=scores, transcripts=transcripts, references=references, rule=rule)
            self.write_report(transcriber, config, folder, Path(arguments.report), test)
            say(f"The report is in {arguments.report}.")
        return scores

    def write_report(self, model: Transcriber, config: Any, folder: Path, path: Path, test: Test | None = None) -> None:
        """The samples are transcripts of test recordings, or of the first validation recordings."""
        training, validation = (ParallelData.open(folder / "data" / part) for part in ("train", "valid"))
        what = config.what
        if test is None:
            numbers = range(min(SAMPLES, len(validation)))
            names = [f"line {validation.lines[number]}" for number in numbers]
            transcripts = model.of_rows([validation.source[number] for number in numbers], names)
            references = [model.tokeniser.decode(validation.target[number].tolist()) for number in numbers]
        else:
            transcripts, references = list(test.transcripts[:SAMPLES]), list(test.references[:SAMPLES])
        scores = test.scores if test else ()
        tested = f"{test.file}, {len(test.references):,} {what}" if test else ""
        view = view_option(test.rule) if test else ""
        own = "from a file of their own" if config.data.valid_data else "drawn by line: speakers may be in both"
        write_report(
            model.model,
            folder,
            path,
            tiles=[
                (f"training {what}", f"{len(training):,}"),
                *((f"test {score.name}", f"{score.value:.2f}") for score in scores),
            ],
            scores=[
                {
                    "metric": score.name,
                    "value": f"{score.value:.2f}",
                    "better": "lower",
                    "data": tested,
                    "signature": score.signature or "",
                }
                for score in scores
            ],
            samples=[
                (transcript.name, reference, transcript.text, None)
                for transcript, reference in zip(transcripts, references, strict=True)
            ],
            card={
                "data": f"{len(training):,} {what} from {Path(config.data.data).name}",
                "texts": f"{config.text}",
                "validation": f"{len(validation):,} {what}, {own}",
                **({"view": f"the encoder under {test.rule}"} if test and test.rule is not None else {}),
                "test": tested or "not yet: foveate evaluate RUN --data FILE --report FILE",
                "limits": f"Only {what} like those it was trained on: voices, rooms, microphones, words.",
            },
            commands=[self.command(model, folder) + view, f"foveate evaluate {written(folder)} --data FILE{view}"],
            names=(what.removesuffix("s"), "text"),
        )

    def trial(self, model: Transcriber) -> str:
        return "FILE"

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

    def require_metrics(self, metrics: Sequence[str]) -> None:
        super().require_metrics(metrics)
        require_metrics([name for name in metrics if name in METRICS])

    def longest(self, config: TranscribeConfig) -> int:
        return config.longest

    def count(self, batch: Any) -> int:
        return count(batch)

    def hold_out(self, config: TranscribeConfig, folder: Path) -> dict[str, Any]:
        """train.tsv and valid.tsv, held out by the seed of the base configuration; the recordings stay where they are.

        Raises UsageError for things that are not recordings in files.
        """
        if config.data.valid_data is not None:
            return {}
        parts, settings = Parts(config), dict[str, Any]()
        for part, name in (("train", "data"), ("valid", "valid_data")):
            lines = ["path\tstart\tend\ttext", *(_row(example) for example in parts(part))]
            path = folder / f"{part}.tsv"
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            settings[name] = path.name
        return settings

    def score(self, task: TranscribeTask, config: TranscribeConfig, folder: Path, request: Asked) -> Scored:
        """Transcripts of all recordings are scored, as `foveate evaluate` scores the same file."""
        names = [name for name in request.metrics if name in METRICS]
        path = request.test.get("data") or config.data.valid_data
        assert path is not None  # see hold_out
        values = {}
        if len(names) < len(request.metrics):
            values["loss"] = self._loss(task, config, folder, path, request)
        if not names:
            return Scored(values=self.pick(values, request.metrics))
        examples = _examples(config, path)
        transcriber = self.in_use(task)
        rows = [transcriber.row(example.thing) for example in examples]
        texts = [one.text for one in transcriber.of_rows(rows, [str(example.thing) for example in examples])]
        references = [example.label for example in examples]
        values |= {name: score.value for name, score in zip(names, evaluate(texts, references, names), strict=True)}

        def value(numbers: Sequence[int]) -> float:
            ours, theirs = ([side[number] for number in numbers] for side in (texts, references))
            return evaluate(ours, theirs, names[:1])[0].value

        by_length = buckets([len(row) for row in rows], request, value)
        return Scored(values=self.pick(values, request.metrics), buckets=by_length, unit="vectors")

    def _loss(self, task: TranscribeTask, config: TranscribeConfig, folder: Path, path: str, request: Asked) -> float:
        """The loss in nats per token, on the test data if there are any."""
        validation = task.validation
        if request.test:
            task.validation, _ = store(folder / "data" / "test", config.read(path), task.rows, task.tokeniser, config)
        figures = task.validate()
        task.validation = validation
        return figures["loss"]


def _assumption(config: TranscribeConfig, vocab: int | None) -> str:
    """Words on a size that neither data nor options give."""
    known = vocab or config.data.data or getattr(config.tokeniser, "vocab_size", None)
    return "" if known or isinstance(config.tokeniser, ByteConfig) else " (assumed: give --data or --vocab)"


def _learnt_size(config: TranscribeConfig) -> int | None:
    """The size of the vocabulary that a tokeniser learns from the texts of the data; None without data, and where the
    configuration gives the size.
    """
    if not config.data.data or getattr(config.tokeniser, "vocab_size", None):
        return None
    return config.tokeniser.train(example.label for example in config.read(config.data.data)).vocab_size


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


def _spelled(rows: int, length: int, vocab: int) -> Batch:
    """Made-up texts between begin and end, in which no token follows itself."""
    ids = torch.arange(length) % max(vocab - len(SPECIALS), 2) + len(SPECIALS)
    whole = torch.cat([torch.tensor([BOS]), ids, torch.tensor([EOS])]).expand(rows, -1)
    return Batch(whole, torch.full((rows,), length + 2), rows * (length + 2))


def _row(example: Example) -> str:
    """A recording with its text as a line of a table."""
    clip = example.thing
    if not isinstance(clip, Clip):
        raise UsageError(
            "compare holds out recordings, not vectors. Give validation data with --valid-data FILE (data.valid_data)."
        )
    return f"{clip.path.absolute()}\t{stretch_cells(clip)}\t{example.label}"


def _examples(config: TranscribeConfig, path: str) -> list[Example]:
    examples = list(config.read(path))
    if not examples:
        raise _no_examples(path, config.what)
    return examples


def _no_examples(path: str, what: str) -> DataError:
    return DataError(f"{path} has no {what}. Give {what} with their texts.")


def _scores(
    texts: Sequence[str], references: Sequence[str], names: Sequence[str], form: TextConfig, rule: Visibility | None
) -> list[Score]:
    """The scores, whose signatures name changes of the references, and the rule that the encoder saw by."""
    changes = [
        *([] if rule is None else [f"{SETTING}:{rule}"]),
        *(["case:lower"] if form.lowercase else []),
        *([f"without:{printable(form.remove)}"] if form.remove else []),
    ]
    named = evaluate(texts, references, names)
    return [replace(score, signature="|".join([*changes, score.signature or ""]).strip("|")) for score in named]


def _edits(references: Sequence[str], texts: Sequence[str]) -> str:
    edits = Edits.of_words(references, texts)
    kinds = (edits.substitutions, "wrong"), (edits.deletions, "missing"), (edits.insertions, "extra")
    wrong = ", ".join(f"{number:,} {kind}" for number, kind in kinds)
    return f"{counted(edits.length, 'word')}: {edits.hits:,} right, {wrong}."


SIDE = TranscribeSide()
