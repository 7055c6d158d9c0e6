"""The parts that tagging and classifying share: data with labels, the loss, and the measurements."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar, cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from foveate.config import require_counts, setting
from foveate.data.batching import BatchPlan
from foveate.data.label import Labels
from foveate.data.labelled_store import LabelledData, LabelledReport
from foveate.data.shard_plan import ShardPlan, plan_of
from foveate.data.tokeniser import BERTTokeniser, HuggingFaceTokeniser, Tokeniser
from foveate.errors import DataError
from foveate.metrics import Score, accuracy, macro_f1, marks_spans, span_f1
from foveate.models import BERT, BERTConfig
from foveate.models.bert_hugging_face import read_bert
from foveate.nn.loss import Loss, cross_entropy
from foveate.nn.measurement import Each, SharedValidation
from foveate.nn.transfer import beside
from foveate.storage.checkpoint import model_tensors
from foveate.storage.draft import disk_errors, remove_stale
from foveate.storage.run import model_type_of, read_run
from foveate.suggestion import listing
from foveate.tasks.held_out import Parts
from foveate.tasks.masked_language_model.use import Filler
from foveate.tasks.run_model import (
    begin_with,
    keep,
    require_kind,
    require_seed,
    require_smoothing,
    saved,
    trained,
    within_run,
)


@dataclass(frozen=True)
class Pretrained:
    """An encoder's shape and weights, and the tokeniser that it reads with."""

    encoder: BERTConfig
    tokeniser: Tokeniser
    weights: Mapping[str, Tensor]

    @classmethod
    def load(cls, folder: Path | str) -> "Pretrained":
        """The encoder of a run of the masked language model, or of a Hugging Face folder with a BERT.

        Raises UsageError for a run or a model of another kind, DataError when there is none, or it is damaged.
        """
        if model_type_of(folder) is not None:
            require_kind(folder, "bert")
            tokeniser = BERTTokeniser(HuggingFaceTokeniser.read(folder))
            return cls.of(read_bert(folder), tokeniser, order=tokeniser.order)
        filler = Filler.load(folder)
        return cls.of(filler.model, filler.tokeniser)

    @classmethod
    def of(cls, model: BERT, tokeniser: Tokeniser, *, order: Sequence[int] | None = None) -> "Pretrained":
        """A model's encoder without its head for gaps; `order` are rows of its embedding by token."""
        own = model_tensors(model.config.build_encoder(1))
        weights = {name: model.state_dict()[name] for name in own}
        if order is not None:
            weights["embedding.weight"] = weights["embedding.weight"][torch.tensor(order)]
        return cls(model.config, tokeniser, weights)

    def into(self, model: Any) -> Any:
        """A model's configuration with this encoder, unless it names a `bert` of its own, which has to fit."""
        return model if isinstance(model.encoder, BERTConfig) else replace(model, encoder=self.encoder)


Model = TypeVar("Model", bound=nn.Module)
Config = TypeVar("Config", bound="LabellingConfig")
Task = TypeVar("Task", bound="LabellingTask[Any]")
VALIDATED = ("loss", "accuracy", "macro_f1", "span_f1")
"""The measurements of `validate` (spans where the tags are spans). Each of them may decide which checkpoint is best."""
KEYS = {"accuracy": "accuracy", "F1": "macro_f1", "span F1": "span_f1"}
"""The names that `validate` gives to the scores of `Predicted`."""
LABELS = "labels.json"


@dataclass(frozen=True, kw_only=True)
class LabelledDataConfig:
    """The files of labelled examples, and the settings that make batches of them."""

    data: str = setting("", "file of labelled examples")
    valid_data: str | None = setting(None, "validation examples; none: some training examples are held out")
    columns: tuple[int, int] | None = setting(
        None, "columns of text and label in a tab-separated file, counted from 0; none: it has no others"
    )
    held_out: int = setting(1000, "examples held out for validation when no file is given; at most a tenth of all")
    max_length: int = setting(512, "tokens of the longest example; longer ones are left out and reported")
    max_tokens: int = setting(2048, "tokens per batch, padding counted")
    processes: int | None = setting(None, "processes that tokenise texts, with the same result; none: one")
    shard: int | None = setting(
        None,
        "examples shuffled together; of more, shards are shuffled, then the examples of each; none: 100 million",
    )

    def __post_init__(self) -> None:
        require_counts(self, "held_out", "max_length", "max_tokens", "processes", "shard")
        if self.max_length > self.max_tokens:
            raise ValueError(f"max_tokens must be at least max_length, {self.max_length}, got {self.max_tokens}")


@dataclass(frozen=True, kw_only=True)
class LabellingConfig:
    """The part of the configuration that both tasks have.

    Subclasses also have a `model`, `what` the examples are in the plural, `read(path)`, which gives the examples of a
    file, and `labels_of(example)`.
    """

    data: LabelledDataConfig = LabelledDataConfig()
    label_smoothing: float = setting(0.0, "probability spread over the labels in the training loss")
    seed: int = setting(0, "seed of initial weights, of the held-out choice and of the order of batches")
    initialise_from: str | None = setting(
        None,
        "run of a masked language model, or Hugging Face folder of a BERT, whose encoder and tokeniser this begins "
        "with; none: from scratch",
    )

    def __post_init__(self) -> None:
        require_smoothing(self.label_smoothing)
        require_seed(self.seed)

    @property
    def longest(self) -> int:
        """The longest example in tokens, which a model's positions or attention may limit further."""
        return min(self.data.max_length, cast(Any, self).model.positions or self.data.max_length)

    def beginning(self: Config) -> tuple[Pretrained | None, Config]:
        """The encoder that a run begins with, and this with its sizes. Raises as `Pretrained.load` does."""
        if self.initialise_from is None:
            return None, self
        pretrained = Pretrained.load(self.initialise_from)
        return pretrained, replace(self, model=pretrained.into(cast(Any, self).model))  # type: ignore[call-arg]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Labels of examples beside those that are right: a row a sentence, or a row with one label a text."""

    labels: list[list[str]]
    gold: list[list[str]]

    def scores(self) -> list[Score]:
        """Accuracy, the mean F1 of the classes, and F1 of exact spans where the labels mark spans."""
        predicted, gold = self.flat
        scores = [accuracy(predicted, gold), macro_f1(predicted, gold)]
        return [*scores, span_f1(self.labels, self.gold)] if marks_spans(gold) else scores

    @property
    def flat(self) -> tuple[list[str], list[str]]:
        """All labels, one after the other."""
        return list(chain(*self.labels)), list(chain(*self.gold))


class LabellingTask(SharedValidation, Generic[Model]):
    """A model that labels, with its data: what training fits."""

    vocabulary_class: ClassVar[type[Any]]
    """Makes rows of examples and numbers of labels, and the model that reads them; its files are kept with the run."""

    def __init__(
        self, config: LabellingConfig, vocabulary: Any, training: LabelledData, validation: LabelledData
    ) -> None:
        self.config, self.vocabulary = config, vocabulary
        self.model: Model = vocabulary.model(config)
        self.labels: Labels = vocabulary.labels
        self.training, self.validation = training, validation
        self.digests: dict[str, str] = vocabulary.digests
        """Digests of the files that define words and labels, to be kept with the run."""
        self.plan = self._plan(training)

    @classmethod
    def prepare(cls: type[Task], config: Any, run: Path) -> tuple[Task, dict[str, LabelledReport]]:
        """Read the examples, learn the vocabulary and the labels, and store all in the run folder.

        Raises DataError when files are missing or unreadable, something has no label, or nothing is left to train on.
        """
        pretrained, config = config.beginning()
        parts = Parts(config)
        vocabulary = cls.vocabulary_class.learn(config, lambda: parts("train"), pretrained)
        with disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
            remove_stale(run / "data")
        if pretrained is not None:
            keep(pretrained.weights, run)
        vocabulary.save(run)
        data, reports = {}, {}
        for part, rare in (("train", parts.warning), ("valid", "")):
            data[part], reports[part] = vocabulary.store(
                run / "data" / part,
                parts(part),
                config,
                path=parts.path(part),
                lenient=part == "valid" and config.data.valid_data is not None,
                rare=rare,
                origin=parts.origin(part),
                **({"varied": True} if part == "train" and getattr(vocabulary, "varied", False) else {}),
            )
            if not len(data[part]):
                raise DataError(
                    f"No example is left for the {part} data. {reports[part]} Look at the file, or raise "
                    "data.max_length."
                )
        return cls(config, vocabulary, data["train"], data["valid"])._begun(run), reports

    @classmethod
    def open(cls: type[Task], config: Any, run: Path) -> Task:
        """The task of a run folder that `prepare` has filled."""
        vocabulary = cls.vocabulary_class.open(config, run, read_run(run).tokenisers)
        training, validation = (
            vocabulary.require(LabelledData.open(run / "data" / part)) for part in ("train", "valid")
        )
        with within_run(run):
            task = cls(config, vocabulary, training, validation)
        return task._begun(run)

    def _begun(self: Task, run: Path) -> Task:
        """This task, with the weights of a pretrained encoder if the run begins with one."""
        if self.config.initialise_from is not None:
            begin_with(cast(Any, self.model).encoder, run)
        return self

    @abstractmethod
    def read(self, data: LabelledData, examples: Sequence[int] | np.ndarray) -> Any:
        """A batch of these examples, with `labels` and `examples`."""

    @abstractmethod
    def logits(self, batch: Any) -> Float[Tensor, "labelled labels"]:
        """The model's logits for each thing that has a label."""

    @property
    def unmeasured(self) -> dict[str, str]:
        """The metrics that `validate` does not give with these data, each with the reason."""
        tags = {self.labels.names[number] for number in np.unique(self.validation.labels.tokens).tolist()}
        reason = "the labels of the validation data mark no spans, as B-PER and I-PER do"
        return {} if marks_spans(tags) else {"span_f1": reason}

    @property
    def steps_per_epoch(self) -> int:
        return self.plan.steps_per_epoch

    @property
    def validation_batches(self) -> int:
        """Batches that a validation reads."""
        return self._plan(self.validation).steps_per_epoch

    def batch(self, step: int) -> Any:
        """Batch number `step`: a pure function of the seed and the step."""
        return self.read(self.training, self.plan.examples(step))

    def loss(self, batch: Any) -> Loss:
        logits = self.logits(batch)
        total = cross_entropy(logits, batch.labels, label_smoothing=self.config.label_smoothing)
        return Loss(total, len(batch.labels))

    def measured(self, each: Each) -> dict[str, float]:
        """Cross-entropy in nats per label, accuracy and mean F1 of the classes, from 0 to 1; F1 of spans, if any."""
        plan = self._plan(self.validation)
        batches = each(lambda step: self._answers(plan.examples(step)), plan.steps_per_epoch)
        total, predicted = 0.0, Predicted(labels=[], gold=[])
        for step, (loss, answers) in enumerate(batches):
            total, rest = total + loss, iter(answers)
            for example in plan.examples(step).tolist():
                gold = self.validation.labels[example].tolist()
                predicted.labels.append(self._names(islice(rest, len(gold))))
                predicted.gold.append(self._names(gold))
        scores = {KEYS[score.name]: score.value / 100 for score in predicted.scores()}
        return {"loss": total / len(predicted.flat[1]), **scores}

    def _answers(self, examples: np.ndarray) -> tuple[float, list[int]]:
        """The loss of some validation examples, and the numbers of their most probable labels, row after row."""
        batch = beside(self.model, self.read(self.validation, examples))
        logits = self.logits(batch)
        return float(cross_entropy(logits, batch.labels)), logits.argmax(-1).tolist()

    def describe(self, batch: Any) -> str:
        """The lines of the file that a batch is made of."""
        lines = (self.training.lines[example] for example in batch.examples)
        return f"the training examples of lines {listing(lines, 8)}"

    def _names(self, numbers: Iterable[int]) -> list[str]:
        return [self.labels.names[number] for number in numbers]

    def _plan(self, data: LabelledData) -> BatchPlan | ShardPlan:
        budget, shard, seed = self.config.data.max_tokens, self.config.data.shard, self.config.seed
        return plan_of(data, max_tokens=budget, seed=seed, lines=data.lines, shard=shard)


def load_labeller(
    run: Path, task: str, config: type[Any], vocabulary: type[Any], note: Callable[[str], None]
) -> tuple[Any, Any]:
    """The trained model of a run folder and its vocabulary; of an unfinished run, its best checkpoint.

    Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
    """
    settings, stored = saved(run, task, config)
    opened = vocabulary.open(settings, run, stored.tokenisers)
    return trained(run, lambda: opened.model(settings), note), opened
