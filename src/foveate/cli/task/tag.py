"""The command line's side of tagging."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace

from foveate.cli.task.labelling import Side, class_rows, require_measured, size
from foveate.cli.task.report import Sample
from foveate.config import setting
from foveate.data.labelled import Tagged, read_tagged
from foveate.inspect.alignment import Alignment
from foveate.inspect.self_attention import self_attention
from foveate.metrics import Score, accuracy
from foveate.tasks.labelling_suggestion import suggest_tagger
from foveate.tasks.plan import Probe
from foveate.tasks.probe import tag_probe
from foveate.tasks.size import Allowance
from foveate.tasks.suggestion import Suggestion
from foveate.tasks.tag.task import TagConfig, TagTask, tags_of
from foveate.tasks.tag.use import SentenceTagger, TaggedSentence
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


def suggest(config: RunConfig, allowance: Allowance) -> Suggestion:
    """Sizes for a run without a configuration; `config` says where the data are."""
    return suggest_tagger(config, allowance)


def probe(config: RunConfig, arguments: argparse.Namespace) -> Probe:
    """What `foveate plan` measures."""
    return tag_probe(config, length=arguments.length, vocab=arguments.vocab)


class _Side(Side[TagTask, SentenceTagger, Tagged]):
    def labeller(self, task: TagTask) -> SentenceTagger:
        return SentenceTagger(task.model, task.vocabulary)

    def lines(self, labeller: SentenceTagger, examples: Sequence[Tagged]) -> list[str]:
        return [str(one) for one in labeller.tag([example.words for example in examples])]

    def scores(self, labeller: SentenceTagger, examples: Sequence[Tagged], *, per_class: bool) -> list[Score]:
        """Accuracy, also of unknown words alone, and F1."""
        predicted = labeller.predict(examples)
        words = [word for example in examples for word in example.words]
        unknown = [pair for word, *pair in zip(words, *predicted.flat, strict=True) if not labeller.knows(word)]
        scores = predicted.scores()
        if unknown:
            alone = accuracy(*(list(side) for side in zip(*unknown, strict=True)))
            scores.insert(1, replace(alone, name="accuracy of unknown words", signature=f"words:{len(unknown)}"))
        return scores + (class_rows(predicted) if per_class else [])

    def samples(self, labeller: SentenceTagger, examples: Sequence[Tagged]) -> list[Sample]:
        samples = list[Sample]()
        for example, found in zip(examples, self.lines(labeller, examples), strict=True):
            right = TaggedSentence(example.words, example.tags, ())
            samples.append((" ".join(example.words), str(right), found, _seen(labeller, example.words)))
        return samples


SIDE = _Side(
    name="tag",
    what="sentences",
    config=RunConfig,
    task=TagTask,
    load=SentenceTagger.load,
    read=read_tagged,
    labels=tags_of,
    parts=("word", "tag"),
)
prepare, open_task, finish = SIDE.prepare, SIDE.open_task, SIDE.finish
report, evaluate = SIDE.report, SIDE.evaluate


def _seen(tagger: SentenceTagger, words: Sequence[str]) -> Alignment | None:
    """What the words of a short sentence looked at, where the encoder attends."""
    if not 0 < len(words) <= SHOWN:
        return None
    return self_attention(tagger.model, lambda: tagger.tag([words]), words)
