"""The interface between commands and captions."""

import argparse
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from foveate.config import to_dict
from foveate.data.batch import Batch
from foveate.data.image import ImageRows
from foveate.data.parallel import ParallelData
from foveate.data.reader import Example
from foveate.data.row import Row
from foveate.data.tokeniser import BOS, EOS, SPECIALS
from foveate.data.transcript import TextConfig
from foveate.errors import DataError, UsageError
from foveate.inspect.caption import printable
from foveate.metrics import Score, caption_scores
from foveate.metrics.caption_score import CAPTION_METRICS, require_caption_metrics
from foveate.nn.embed import Patches
from foveate.storage.draft import disk_errors
from foveate.suggestion import counted
from foveate.tasks.caption import TASK
from foveate.tasks.caption.task import (
    VALIDATED,
    CaptionConfig,
    CaptionTask,
    PictureParts,
    count,
    figures,
    placed,
)
from foveate.tasks.caption.use import Caption, Describer
from foveate.tasks.exported import Exported, Note
from foveate.tasks.intake import Intake
from foveate.tasks.option import chunks, decode_config, metric_names
from foveate.tasks.report_page import write_report
from foveate.tasks.run_model import seeded
from foveate.tasks.run_plan import Allowance, Probe, Reason, Suggestion, require_fit, vocabulary, with_others
from foveate.tasks.side import Asked, Scored, Side, in_percent, written
from foveate.tasks.transcribe.task import store
from foveate.voice import say, shown

FIRST = 100
"""Pictures that sizes are chosen by."""
SAMPLE = 20_000
BATCH, EPOCHS = 4_000, 60
PACE = 0.6
"""Seconds of one core that a step takes."""
WIDTHS, PLACES = (32, 64, 128, 256), 7
"""The channels of the encoder's stages, and the fewest places of a side of the grid."""
TOGETHER = 64
"""Pictures that are described at a time."""
SAMPLES = 6
PUNCTUATION = '.,!?;:"'
RARE = 4
"""Words that are less frequent are unknown, where there are thousands."""


@dataclass(frozen=True, kw_only=True)
class Test:
    """Captions of pictures that a model was not trained with, and their scores."""

    file: str
    scores: Sequence[Score]
    captions: Sequence[Caption]
    references: Sequence[Sequence[str]]


class CaptionSide(Side):
    """`foveate train caption`, `foveate caption`. Models are compared by CIDEr-D, BLEU and chrF."""

    entry, config, task = TASK, CaptionConfig, CaptionTask
    validated = VALIDATED
    lower = frozenset({"loss"})
    usual_lengths = (64, 12)
    engines = ()

    def suggest(self, config: CaptionConfig, allowance: Allowance) -> Suggestion:
        """Reader, tokeniser, model, batches and steps for the pictures. Raises DataError if there are none."""
        path = config.data.data
        examples = config.read(path)
        sample = list(islice(examples, SAMPLE))
        if not sample:
            raise _no_pictures(path)
        total = len(sample) + sum(1 for _ in examples)
        own = config.reader != CaptionConfig().reader
        reader = config.reader if own else config.reader.suited(sample[:FIRST])
        rows = reader.learn(sample[:FIRST])
        source = rows.input
        patches, stages = source.count, _stages(min(source.grid) * source.size)
        words = Counter(word for one in sample for word in one.label.split())
        usual = words.total() / len(sample)
        written_as_prose = any(mark in one.label for one in sample[:FIRST] for mark in PUNCTUATION)
        text = TextConfig(lowercase=True, remove=PUNCTUATION) if written_as_prose else config.text
        rare = RARE if len(words) > 2_000 else 1
        longest = max(2 * max(len(one.label.split()) for one in sample), 20) + 2
        budget = max(BATCH, 8 * (patches + longest))

        def suggested(allowance: Allowance) -> Suggestion:
            desired = max(int(EPOCHS * total * (patches + usual) / budget), 1_000)
            steps = allowance.steps(min(desired, 50_000), pace=PACE * budget / BATCH)
            interval = max(steps // 20, 50)
            return Suggestion(
                {
                    "reader": to_dict(CaptionConfig(reader=reader))["reader"],
                    "text": to_dict(text),
                    "tokeniser": {"kind": "word", "min_count": rare},
                    "model": {"encoder": {"kind": "picture_cnn", "channels": WIDTHS[:stages]}},
                    "data": {"max_text": longest, "max_tokens": budget},
                    "train": {
                        "steps": steps,
                        "learning_rate": 1e-3,
                        "schedule": {"kind": "cosine", "warmup": min(200, max(steps // 10, 1))},
                        "validate_every": interval,
                        "save_every": interval,
                        "metric": "loss",
                    },
                },
                f"{counted(total, 'caption')} of pictures with {patches:,} patches; a caption has "
                f"{usual:.1f} words, of {len(words):,} different ones.",
                (
                    Reason("reader", reader.about),
                    Reason("text", "in small letters without punctuation" if written_as_prose else "as written"),
                    Reason(
                        "tokeniser", "words, because captions are short" + (", the frequent ones" if rare > 1 else "")
                    ),
                    Reason("model", f"a CNN of {stages} stages, and the decoder of Show, Attend and Tell"),
                    Reason("train", f"up to {EPOCHS} passes over the pictures, {allowance}"),
                ),
                lengths=(patches, max(round(usual), 1)),
            )

        return with_others(suggested, allowance)

    def probe(self, config: CaptionConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Pictures of noise with made-up captions, as many as the budget of a batch allows; the data, where they are
        named, give the size of their pictures.
        """
        size, (length, text) = vocabulary(config.tokeniser, vocab), lengths
        source = self._input(config, length)
        length = source.grid[0] * source.grid[1]
        model = seeded(lambda: config.model.build(source, size), config.seed)
        require_fit(model.longest_source, length, "--source-length")
        require_fit(model.max_length, text + 1, "--target-length")
        rows = max(config.data.max_tokens // (length + text), 1)
        noise = torch.randn(rows, length, source.width, generator=torch.Generator().manual_seed(0))
        maker = ImageRows(patch=source.size, colour=source.channels == 3, grid=source.grid)
        batch = placed(Batch(noise, torch.full((rows,), length), rows * length), maker)
        ids = torch.arange(text) % max(size - len(SPECIALS), 1) + len(SPECIALS)
        whole = torch.cat([torch.tensor([BOS]), ids, torch.tensor([EOS])]).expand(rows, -1)
        target = Batch(whole, torch.full((rows,), text + 2), rows * (text + 2))
        return Probe(
            model=model,
            loss=lambda: model.loss(batch, target),
            vocabulary=f"{source}, a vocabulary of {size:,}",
            batch=f"{rows} {config.what} of {length:,} patches and {counted(text, 'token')}",
            tokens=batch.num_tokens,
            unit="patches",
        )

    def _input(self, config: CaptionConfig, length: int) -> Patches:
        """The input of a model: that of the first picture in the data, or without data, of a square of patches."""
        path = config.data.data
        if not path:
            patch, side = getattr(config.reader, "patch", 8), max(round(length**0.5), 1)
            return Patches(size=patch, channels=3 if getattr(config.reader, "colour", True) else 1, grid=(side, side))
        first = next(config.read(path), None)
        if first is None:
            raise _no_pictures(path)
        source = config.reader.learn([first]).input
        if not isinstance(source, Patches):
            raise UsageError(f"A caption is of patches, and {config.what} are {source}.")
        return source

    def size(self, task: CaptionTask) -> str:
        return f"{len(task.training):,} captions of training {task.config.what}"

    def load(self, run: Path | str, *, precision: str = "float32", note: Note = say) -> Describer:
        return Describer.load(run, precision=precision, note=note)

    def in_use(self, task: CaptionTask) -> Describer:
        config = task.config
        return Describer(
            task.model, task.rows, task.tokeniser, config.decode, form=config.text, max_text=config.longest_text
        )

    def use(self, arguments: argparse.Namespace) -> None:
        if arguments.sample:
            if arguments.beam or arguments.n_best:
                raise UsageError("--sample draws one caption; --beam and --n-best search for the best. Choose one.")
            arguments.set = ["kind=sample", *arguments.set]
        describer = self.load(arguments.run, precision=arguments.precision)
        config = decode_config(describer.config, arguments)
        names = (name.strip() for chunk in chunks(arguments.inputs) for name in chunk if name.strip())
        answers = Intake(arguments.command, names, describer.rows.things).numbered(
            lambda some, numbers: describer.caption(some, config=config, examples=numbers), together=TOGETHER
        )
        for number, (_, caption) in enumerate(answers, start=1):
            if caption is None:
                print(end="" if arguments.n_best else "\n", flush=True)
                continue
            if caption.remarks:
                say(f"{caption.name}: {', '.join(caption.remarks)}.")
            if not arguments.n_best:
                print(shown(caption.text), flush=True)
                continue
            for text, hypothesis in zip(caption.texts, caption.hypotheses, strict=True):
                print(shown(f"{number}\t{hypothesis.score:.4f}\t{text}"), flush=True)

    def vocabulary(self, model: Describer) -> Any:
        return model

    def thing(self, model: Describer, text: str) -> Any:
        """The first picture that a file holds."""
        return next(iter(model.things([text])))

    def evaluate(self, arguments: argparse.Namespace) -> list[Score]:
        """Scores of a run's captions against all references of each picture; captions are saved on request."""
        names = metric_names(arguments) or list(CAPTION_METRICS)
        require_caption_metrics(names)
        folder = Path(arguments.run)
        config = self.saved_config(folder)
        things, references = _pictures(config, arguments.data)
        for path in filter(None, (arguments.save, arguments.report)):
            with disk_errors(Path(path)):  # before the work rather than after it
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                Path(path).open("a").close()
        describer = self.load(folder, precision=arguments.precision)
        searching = decode_config(describer.config, arguments)
        started = time.perf_counter()
        captions = describer.caption(things, config=searching)
        seconds = time.perf_counter() - started
        say(f"{len(things):,} {config.what} with {sum(map(len, references)):,} captions in {seconds:.1f} seconds.")
        if arguments.save:
            with disk_errors(Path(arguments.save)):
                Path(arguments.save).write_text("".join(f"{one.text}\n" for one in captions), encoding="utf-8")
        scores = _scores([one.text for one in captions], references, names, config.text)
        if arguments.report:
            test = Test(file=Path(arguments.data).name, scores=scores, captions=captions, references=references)
            self.write_report(describer, config, folder, Path(arguments.report), test)
            say(f"The report is in {arguments.report}.")
        return scores

    def write_report(self, model: Describer, config: Any, folder: Path, path: Path, test: Test | None = None) -> None:
        """The samples are captions of test pictures, or of the first validation pictures."""
        training, validation = (ParallelData.open(folder / "data" / part) for part in ("train", "valid"))
        what = config.what
        if test is None:
            numbers = range(min(SAMPLES, len(validation)))
            batch = placed(validation.batch(numbers).source, model.rows)
            places = None if batch.places is None else batch.places.numpy()
            rows = [
                Row(validation.source[number], places=None if places is None else places[number]) for number in numbers
            ]
            captions = model.of_rows(rows, [f"line {validation.lines[number]}" for number in numbers])
            references = [[model.tokeniser.decode(validation.target[number].tolist())] for number in numbers]
        else:
            captions, references = list(test.captions[:SAMPLES]), [list(one) for one in test.references[:SAMPLES]]
        scores = test.scores if test else ()
        tested = f"{test.file}, {len(test.references):,} {what}" if test else ""
        write_report(
            model.model,
            folder,
            path,
            tiles=[
                ("training captions", f"{len(training):,}"),
                *((f"test {score.name}", f"{score.value:.2f}") for score in scores),
            ],
            scores=[
                {
                    "metric": score.name,
                    "value": f"{score.value:.2f}",
                    "better": "higher",
                    "data": tested,
                    "signature": score.signature or "",
                }
                for score in scores
            ],
            samples=[
                (caption.name, " / ".join(texts), caption.text, None)
                for caption, texts in zip(captions, references, strict=True)
            ],
            card={
                "data": f"{len(training):,} captions of {what} from {Path(config.data.data).name}",
                "texts": f"{config.text}",
                "validation": f"{len(validation):,} captions of other {what}",
                "test": tested or "not yet: foveate evaluate RUN --data FILE --report FILE",
                "limits": f"Only {what} like those it was trained on; a caption may name what is not there.",
            },
            commands=[self.command(model, folder), f"foveate evaluate {written(folder)} --data FILE"],
            names=(what.removesuffix("s"), "caption"),
        )

    def trial(self, model: Describer) -> str:
        return "FILE"

    def export(self, run: Path | str, note: Note) -> Exported:
        raise UsageError(
            "There is no export of models that write captions. `foveate caption` and `Describer.caption` run them."
        )

    def metrics(self) -> tuple[str, ...]:
        return (*CAPTION_METRICS, *VALIDATED)

    def usual_metrics(self, task: CaptionTask) -> tuple[str, ...]:
        return ("cider", "bleu", "chrf")

    def require_metrics(self, metrics: Sequence[str]) -> None:
        super().require_metrics(metrics)
        require_caption_metrics([name for name in metrics if name in CAPTION_METRICS])

    def longest(self, config: CaptionConfig) -> int:
        return config.longest

    def count(self, batch: Any) -> int:
        return count(batch)

    def hold_out(self, config: CaptionConfig, folder: Path) -> dict[str, Any]:
        """train.tsv and valid.tsv, held out by the seed of the base configuration; the pictures stay where they are."""
        if config.data.valid_data is not None:
            return {}
        parts, settings = PictureParts(config), dict[str, Any]()
        for part, name in (("train", "data"), ("valid", "valid_data")):
            path = folder / f"{part}.tsv"
            lines = [f"{Path(str(one.thing)).absolute()}\t{one.label}\n" for one in parts(part)]
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("".join(lines), encoding="utf-8")
            settings[name] = path.name
        return settings

    def score(self, task: CaptionTask, config: CaptionConfig, folder: Path, request: Asked) -> Scored:
        """Captions of all pictures are scored, as `foveate evaluate` scores the same file."""
        names = [name for name in request.metrics if name in CAPTION_METRICS]
        path = request.test.get("data") or config.data.valid_data
        assert path is not None  # see hold_out
        values: dict[str, float] = {}
        if len(names) < len(request.metrics):
            data = task.validation
            if request.test:
                data, _ = store(folder / "data" / "test", config.read(path), task.rows, task.tokeniser, config)
            values |= in_percent(figures(task, data))
        if names:
            things, references = _pictures(config, path)
            texts = [one.text for one in self.in_use(task).caption(things)]
            scores = caption_scores(texts, references, names)
            values |= {name: score.value for name, score in zip(names, scores, strict=True)}
        return Scored(values=self.pick(values, request.metrics))


def _stages(side: int) -> int:
    """The halvings of a picture's side that leave at least `PLACES` places.

    >>> [_stages(side) for side in (28, 64, 224)]
    [2, 3, 4]
    """
    return next((stages for stages in range(len(WIDTHS), 1, -1) if side >> stages >= PLACES), 1)


def _pictures(config: CaptionConfig, path: str) -> tuple[list[Any], list[list[str]]]:
    """Each picture of a table once, and all its captions. Raises DataError for a table without pictures."""
    captions: dict[str, tuple[Any, list[str]]] = {}
    examples: Sequence[Example] = list(config.read(path))
    for example in examples:
        captions.setdefault(str(example.thing), (example.thing, []))[1].append(example.label)
    if not captions:
        raise _no_pictures(path)
    return [thing for thing, _ in captions.values()], [texts for _, texts in captions.values()]


def _no_pictures(path: str) -> DataError:
    return DataError(f"{path} has no pictures. Give a table: lines of a picture's path, a tab, and its caption.")


def _scores(
    texts: Sequence[str], references: Sequence[Sequence[str]], names: Sequence[str], form: TextConfig
) -> list[Score]:
    """The scores, whose signatures name changes of the references."""
    changes = [
        *(["case:lower"] if form.lowercase else []),
        *([f"without:{printable(form.remove)}"] if form.remove else []),
    ]
    scores = caption_scores(texts, references, names)
    return [replace(score, signature="|".join([*changes, score.signature or ""]).strip("|")) for score in scores]


SIDE = CaptionSide()
