"""The interface between commands and captions."""

import argparse
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from foveate.config import to_dict
from foveate.data.image import ImageRows
from foveate.data.parallel import ParallelData
from foveate.data.row import Row
from foveate.data.transcript import TextConfig
from foveate.errors import DataError, UsageError
from foveate.metrics import Score, caption_scores
from foveate.metrics.caption_score import CAPTION_METRICS, require_caption_metrics
from foveate.nn.embed import Patches
from foveate.suggestion import counted
from foveate.tasks.caption import TASK
from foveate.tasks.caption.served_describer import ServedDescriber
from foveate.tasks.caption.task import VALIDATED, CaptionConfig, CaptionTask, PictureParts, placed
from foveate.tasks.caption.use import Describer
from foveate.tasks.exported import Exported, Note
from foveate.tasks.intake import Intake
from foveate.tasks.option import chunks, decode_config
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
from foveate.tasks.served_file import reads_of
from foveate.tasks.text_writing_side import Things, WritingSide
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
PUNCTUATION = '.,!?;:"'
RARE = 4
"""Words that are less frequent are unknown, where there are thousands."""


class CaptionSide(WritingSide):
    """`foveate train caption`, `foveate caption`. Models are compared by CIDEr-D, BLEU and chrF."""

    entry, config, task = TASK, CaptionConfig, CaptionTask
    noun, limits = "caption", "; a caption may name what is not there."
    text_metrics = evaluated = tuple(CAPTION_METRICS)
    validated = VALIDATED
    lower = frozenset({"loss"})
    usual_lengths = (64, 12)
    engines = ()

    def suggest(self, config: CaptionConfig, allowance: Allowance) -> Suggestion:
        """Reader, tokeniser, model, batches and steps for the pictures. Raises DataError if there are none."""
        path = config.data.data
        sample, total = sample_of(config.read(path), SAMPLE)
        if not sample:
            raise _no_pictures(path)
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
            return Suggestion(
                {
                    "reader": to_dict(CaptionConfig(reader=reader))["reader"],
                    "text": to_dict(text),
                    "tokeniser": {"kind": "word", "min_count": rare},
                    "model": {
                        "encoder": {"kind": "picture_cnn", "channels": WIDTHS[:stages]},
                        "decoder": {"kind": "gaze", "penalty": 0.0},
                    },
                    "data": {"max_text": longest, "max_tokens": budget},
                    "train": training_table(steps, rate=1e-3, metric="loss"),
                },
                f"{counted(total, 'caption')} of pictures with {patches:,} patches; a caption has "
                f"{usual:.1f} words, of {len(words):,} different ones.",
                (
                    Reason("reader", reader.about),
                    Reason("text", "in small letters without punctuation" if written_as_prose else "as written"),
                    Reason(
                        "tokeniser", "words, because captions are short" + (", the frequent ones" if rare > 1 else "")
                    ),
                    Reason(
                        "model",
                        f"a CNN of {stages} stages, and the decoder of Show, Attend and Tell, without the penalty that "
                        "spreads its looks",
                    ),
                    Reason("train", f"up to {EPOCHS} passes over the pictures, {allowance}"),
                ),
                lengths=(patches, max(round(usual), 1)),
            )

        return with_others(suggested, allowance)

    def probe(self, config: CaptionConfig, lengths: Sequence[int], vocab: int | None) -> Probe:
        """Pictures of noise with made-up captions, as many as the budget of a batch allows; the data, where they are
        named, give the size of their pictures.
        """
        texts = partial(beginning, config.data.data, config.texts)
        size, (length, text) = vocabulary(config.tokeniser, vocab, texts), lengths
        source = self._input(config, length)
        length = source.grid[0] * source.grid[1]
        model = seeded(lambda: config.model.build(source, size), config.seed)
        require_fit(model.longest_source, length, "--source-length")
        require_fit(model.max_length, text + 1, "--target-length")
        rows = max(config.data.max_tokens // (length + text), 1)
        maker = ImageRows(patch=source.size, colour=source.channels == 3, grid=source.grid)

        def loss_of(rows: int) -> Callable[[], Tensor]:
            batch, target = placed(noise(rows, length, source.width), maker), spelled(rows, text, size)
            return lambda: model.loss(batch, target)

        return Probe(
            model=model,
            loss=loss_of(rows),
            others=fewer(loss_of, rows),
            vocabulary=f"{source}, a vocabulary of {size:,}",
            batch=f"{rows} {config.what} of {length:,} patches and {counted(text, 'token')}",
            tokens=rows * length,
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
            lambda some, numbers: describer.caption(some, config=config, examples=numbers, glimpses=arguments.glimpses),
            together=TOGETHER,
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

    def things(self, config: CaptionConfig, path: str) -> Things:
        """Each picture of a table once, and all its captions."""
        captions: dict[str, tuple[Any, list[str]]] = {}
        for example in config.read(path):
            captions.setdefault(str(example.thing), (example.thing, []))[1].append(example.label)
        if not captions:
            raise _no_pictures(path)
        return [thing for thing, _ in captions.values()], [texts for _, texts in captions.values()]

    def text_scores(self, texts: Sequence[str], references: Sequence[Any], names: Sequence[str]) -> list[Score]:
        return caption_scores(texts, references, names)

    def require_text_metrics(self, names: Sequence[str]) -> None:
        require_caption_metrics(names)

    def summary(self, config: Any, texts: Sequence[str], references: Sequence[Any], seconds: float) -> str:
        return f"{len(texts):,} {config.what} with {sum(map(len, references)):,} captions in {seconds:.1f} seconds."

    def card(self, config: Any, training: int, validation: int) -> dict[str, str]:
        return {
            "data": f"{training:,} captions of {config.what} from {Path(config.data.data).name}",
            "validation": f"{validation:,} captions of other {config.what}",
        }

    def examples(self, config: Any) -> str:
        return "captions"

    def reference(self, texts: Sequence[str]) -> str:
        return " / ".join(texts)

    def stored_rows(self, model: Describer, data: ParallelData, numbers: Sequence[int]) -> list[Row]:
        batch = placed(data.batch(numbers).source, model.rows)
        places = [None] * len(numbers) if batch.places is None else list(batch.places.numpy())
        return [Row(data.source[number], places=place) for number, place in zip(numbers, places, strict=True)]

    def offered(self, model: Describer, folder: Path) -> ServedDescriber | None:
        return ServedDescriber(model) if reads_of(model) else None

    def export(self, run: Path | str, note: Note) -> Exported:
        raise UsageError(
            "There is no export of models that write captions. `foveate caption` and `Describer.caption` run them."
        )

    def metrics(self) -> tuple[str, ...]:
        return (*CAPTION_METRICS, *VALIDATED)

    def usual_metrics(self, task: CaptionTask) -> tuple[str, ...]:
        return ("cider", "bleu", "chrf")

    def hold_out(self, config: CaptionConfig, folder: Path) -> dict[str, Any]:
        """train.tsv and valid.tsv, held out by the seed of the base configuration; the pictures stay where they are."""
        if config.data.valid_data is not None:
            return {}
        return PictureParts(config).write(folder, lambda one: f"{Path(str(one.thing)).absolute()}\t{one.label}\n")


def _stages(side: int) -> int:
    """The halvings of a picture's side that leave at least `PLACES` places.

    >>> [_stages(side) for side in (28, 64, 224)]
    [2, 3, 4]
    """
    return next((stages for stages in range(len(WIDTHS), 1, -1) if side >> stages >= PLACES), 1)


def _no_pictures(path: str) -> DataError:
    return DataError(f"{path} has no pictures. Give a table: lines of a picture's path, a tab, and its caption.")


SIDE = CaptionSide()
