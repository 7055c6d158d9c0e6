"""The command line's side of tagging."""

import argparse
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from foveate.cli.setup import say
from foveate.cli.task.labelling import (
    SAMPLES,
    class_rows,
    require_measured,
    require_some,
    save_lines,
    say_reports,
    size,
    write_labelling_report,
)
from foveate.cli.task.report import Sample
from foveate.config import build, setting
from foveate.data.labelled import Tagged, read_tagged
from foveate.inspect.alignment import Alignment
from foveate.inspect.self_attention import self_attention
from foveate.metrics import Score, accuracy
from foveate.storage.run import read_run
from foveate.tasks.labelling import Parts
from foveate.tasks.labelling_suggestion import suggest_tagger
from foveate.tasks.plan import Probe
from foveate.tasks.probe import tag_probe
from foveate.tasks.suggestion import Suggestion
from foveate.tasks.tag import SentenceTagger, TagConfig, TaggedSentence, TagTask
from foveate.train import TrainConfig

__all__ = ["RunConfig", "evaluate", "finish", "open_task", "prepare", "probe", "report", "size", "suggest"]


SHOWN = 40
"""Words of the longest sentence whose attention is drawn."""


@dataclass(frozen=True, kw_only=True)
class RunConfig(TagConfig):
    """A tagging run: the task's configuration, and how to train."""

    train: TrainConfig = setting(TrainConfig(), "how to train")

    def __post_init__(self) -> None:
        super().__post_init__()
        require_measured(self.train)


def suggest(files: Mapping[str, str]) -> Suggestion:
    """Sizes for a run without a configuration."""
    return suggest_tagger(files["data"])


def probe(config: RunConfig, arguments: argparse.Namespace) -> Probe:
    """What `foveate plan` measures."""
    return tag_probe(config, length=arguments.length, vocab=arguments.vocab)


def prepare(config: RunConfig, folder: Path) -> TagTask:
    """Read the data into the run folder, and say what was left out."""
    task, reports = TagTask.prepare(config, folder)
    say_reports(reports)
    return task


def open_task(config: RunConfig, folder: Path) -> TagTask:
    """The task of a run folder that `prepare` has filled."""
    return TagTask.open(config, folder)


def finish(task: TagTask, config: RunConfig, folder: Path) -> None:
    """report.html, with tags of the first validation sentences, and what to try next."""
    tagger = SentenceTagger(task.model, task.vocabulary)
    _report(tagger, folder, folder / "report.html", _validation(config), "validation")
    say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
    say(f'Try:  foveate tag {shlex.quote(str(folder))} "…"')


def report(folder: Path, path: Path) -> None:
    """The report of a run, by its files and its validation data."""
    config = build(RunConfig, read_run(folder).config, where="")
    _report(SentenceTagger.load(folder, note=say), folder, path, _validation(config), "validation")


def evaluate(arguments: argparse.Namespace) -> list[Score]:
    """Scores of a run on tagged sentences: accuracy, also of unknown words alone, and F1."""
    folder = Path(arguments.run)
    tagger = SentenceTagger.load(folder, note=say)
    config = build(RunConfig, read_run(folder).config, where="")
    examples = list(read_tagged(arguments.data, columns=config.data.columns))
    require_some(examples, arguments)
    if arguments.save:
        save_lines(arguments.save, [str(one) for one in tagger.tag([example.words for example in examples])])
    scores = _scores(tagger, examples, per_class=arguments.per_class)
    if arguments.report:
        _report(tagger, folder, Path(arguments.report), examples, Path(arguments.data).name)
        say(f"The report is in {arguments.report}.")
    return scores


def _validation(config: RunConfig) -> list[Tagged]:
    return list(Parts(config, lambda path: read_tagged(path, columns=config.data.columns))("valid"))


def _scores(tagger: SentenceTagger, examples: Sequence[Tagged], *, per_class: bool) -> list[Score]:
    predicted = tagger.predict(examples)
    words = [word for example in examples for word in example.words]
    unknown = [pair for word, *pair in zip(words, *predicted.flat, strict=True) if not tagger.knows(word)]
    scores = predicted.scores()
    if unknown:
        alone = accuracy(*(list(side) for side in zip(*unknown, strict=True)))
        scores.insert(1, replace(alone, name="accuracy of unknown words", signature=f"words:{len(unknown)}"))
    return scores + (class_rows(predicted) if per_class else [])


def _report(tagger: SentenceTagger, folder: Path, path: Path, examples: Sequence[Tagged], data: str) -> None:
    tagged = tagger.tag([example.words for example in examples[:SAMPLES]])
    samples: list[Sample] = []
    for example, found in zip(examples, tagged, strict=False):
        right = TaggedSentence(example.words, example.tags, ())
        samples.append((" ".join(example.words), str(right), str(found), _seen(tagger, example.words)))
    shown = shlex.quote(str(folder))
    write_labelling_report(
        tagger.model,
        folder,
        path,
        scores=_scores(tagger, examples, per_class=True),
        data=f"{data}, {len(examples):,} sentences",
        samples=samples,
        commands=[f'foveate tag {shown} "…"', f"foveate evaluate {shown} --data FILE --per-class"],
    )


def _seen(tagger: SentenceTagger, words: Sequence[str]) -> Alignment | None:
    """What the words of a short sentence looked at, where the encoder attends."""
    if not 0 < len(words) <= SHOWN:
        return None
    return self_attention(tagger.model, lambda: tagger.tag([words]), words)
