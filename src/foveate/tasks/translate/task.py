"""Translate: sequences in, sequences out. Sentences, spellings and pronunciations, dates: anything written in pairs."""

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from torch import Tensor

from foveate.attention import record
from foveate.config import setting
from foveate.data.balanced_plan import BalancedPlan
from foveate.data.batch import Batch, PairBatch, Rejection
from foveate.data.batching import BatchPlan
from foveate.data.pair_report import Report
from foveate.data.parallel import ParallelData, prepare
from foveate.data.shard_plan import ShardPlan, plan_of
from foveate.data.tokeniser import CharacterConfig, LanguageTokeniser, Tokeniser, TokeniserConfig
from foveate.decode import BeamConfig, DecodeConfig
from foveate.errors import DataError, UsageError
from foveate.models import BahdanauConfig, ModelConfig, Seq2Seq, TransformerConfig
from foveate.models.deepening import deepened
from foveate.models.recurrent import RecurrentSeq2Seq
from foveate.nn.loss import Loss, cross_entropy
from foveate.nn.measurement import Each, SharedValidation
from foveate.nn.transfer import beside
from foveate.storage.checkpoint import load_weights
from foveate.storage.draft import disk_errors, remove_stale
from foveate.storage.run import model_type_of
from foveate.storage.shipped import run_folder
from foveate.suggestion import listing
from foveate.tasks.run_model import (
    begin_with,
    keep,
    require_seed,
    require_smoothing,
    saved,
    seeded,
    within_run,
)
from foveate.tasks.translate.alignment_head import GuideConfig
from foveate.tasks.translate.head import guidance, guided_weights, linked_tokens, require_guidable
from foveate.tasks.translate.pair import DataConfig, Pairs
from foveate.tasks.translate.preference_loss import PreferenceConfig, require_comparable
from foveate.tasks.translate.run_tokeniser import TOKENISERS, load_tokenisers
from foveate.tasks.translate.vocabulary_transfer import Sides, TransferReport, transfer_vocabulary
from foveate.tasks.unlikelihood_loss import UnlikelihoodConfig

Plan = BatchPlan | ShardPlan | BalancedPlan
VALIDATED = ("loss", "perplexity", "accuracy", "alignment")
"""The figures of `validate`, by which the best checkpoint can be chosen; alignment needs data with links."""
UNLINKED = (
    "there are no links of validation pairs. Give --links FILE (data.links), of whose pairs some are held out, or "
    "--valid-links FILE (data.valid_links) beside --valid-source"
)
"""The reason for a missing `alignment`."""


@dataclass(frozen=True, kw_only=True)
class TranslateConfig:
    """Everything that defines a translation run, except how it is trained."""

    data: DataConfig = DataConfig()
    source_tokeniser: TokeniserConfig = setting(CharacterConfig(), "how source text becomes tokens")
    target_tokeniser: TokeniserConfig = setting(CharacterConfig(), "how target text becomes tokens")
    joint_vocabulary: bool = setting(False, "train the source's tokeniser on both sides and use it for both")
    model: ModelConfig = setting(BahdanauConfig(), "the architecture")
    guide: GuideConfig = setting(GuideConfig(), "what links in the data teach attention")
    label_smoothing: float = setting(0.1, "probability spread over the vocabulary in the training loss")
    unlikelihood: UnlikelihoodConfig = setting(UnlikelihoodConfig(), "the loss of phrases that repeat by mistake")
    preference: PreferenceConfig = setting(PreferenceConfig(), "the loss of rejected translations in the data")
    decode: DecodeConfig = setting(BeamConfig(), "how translations are searched for")
    seed: int = setting(0, "seed of initial weights, of the held-out choice and of the order of batches")
    initialise_from: str | None = setting(
        None,
        "run of a translator, or en-fr: this begins with its weights, tokenisers and architecture; none: from scratch",
    )
    new_vocabulary: bool = setting(
        False, "with initialise_from: train tokenisers on these pairs; tokens of both vocabularies keep their vectors"
    )

    def __post_init__(self) -> None:
        require_smoothing(self.label_smoothing)
        require_seed(self.seed)
        if self.new_vocabulary and self.initialise_from is None:
            raise ValueError(
                "new_vocabulary is for a run that begins with another one's weights: set initialise_from as well, or "
                "leave new_vocabulary out"
            )


def require_measured(config: TranslateConfig, metric: str) -> None:
    """Raises ValueError for a metric of the best checkpoint that is not measured, as far as settings tell."""
    if metric not in VALIDATED:
        raise ValueError(f"train.metric must be one of {', '.join(VALIDATED)}, got {metric!r}")
    data = config.data
    links = (data.links if data.valid_source is None else data.valid_links, data.links_column)
    if metric == "alignment" and data.source and links == (None, None):
        raise ValueError(f"train.metric cannot be alignment: {UNLINKED}")


def loss_of_words(
    model: Seq2Seq, config: TranslateConfig, source: Batch, target: Batch, rejection: Rejection | None = None
) -> Tensor:
    """The training loss in nats, summed, without that of links."""
    smoothing, against = config.label_smoothing, config.unlikelihood
    if not against.weight and rejection is None:
        return model.loss(source, target, label_smoothing=smoothing)
    read = rejection or PairBatch(source, target, ())
    everything, predicted = model.predictions(read.source, read.target), Seq2Seq.predicted(target)
    predictions = everything.first(len(predicted))
    loss = predictions.cross_entropy(predicted, label_smoothing=smoothing)
    if against.weight:
        loss = loss + against.loss(predictions, target.ids[:, 1:], target.lengths - 1)
    return loss if rejection is None else loss + config.preference.loss(everything, rejection)


class TranslateTask(SharedValidation):
    """A translation model with its data, for training."""

    def __init__(
        self,
        config: TranslateConfig,
        source_tokeniser: Tokeniser,
        target_tokeniser: Tokeniser,
        training: ParallelData,
        validation: ParallelData,
    ) -> None:
        self.config = config
        self.source_tokeniser, self.target_tokeniser = source_tokeniser, target_tokeniser
        self.training, self.validation = training, validation
        self.plan = _plan(training, config, config.data.temperature or 1.0, _factors(config, source_tokeniser))
        self.model: Seq2Seq = build_model(config, source_tokeniser.vocab_size, target_tokeniser.vocab_size)
        config.unlikelihood.require_logits(self.model, Seq2Seq.loss, RecurrentSeq2Seq.loss)
        if training.rejected is not None:
            require_comparable(self.model)
        if training.links is not None:
            require_guidable(self.model)

    @classmethod
    def prepare(cls, config: TranslateConfig, run: Path) -> tuple["TranslateTask", dict[str, Report | TransferReport]]:
        """Read the pairs, train the tokenisers, store the tokens in the run folder; with a report on lines left out,
        and on tokens whose vectors another run's vocabulary has.

        Raises DataError when files are missing, unequal or unreadable, or nothing is left to train on.
        """
        pairs = Pairs(config.data, config.seed)
        forerunner = None if config.initialise_from is None else Forerunner.load(config.initialise_from)
        config = config if forerunner is None else forerunner.into(config)
        if forerunner is None or config.new_vocabulary:
            source, target = _tokenisers(config, pairs)
        else:
            source, target = forerunner.source, forerunner.target
        _require_directions(source, pairs)
        transfers: dict[str, TransferReport] = {}
        if forerunner is not None and config.new_vocabulary:
            forerunner, transfers = forerunner.with_vocabulary(config, source, target)
        if forerunner is not None:
            forerunner = forerunner.with_layers(config)
        with disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
            remove_stale(run / "data")
        if forerunner is not None:
            forerunner.keep(run)
        for tokeniser, name in zip((source, target), TOKENISERS, strict=True):
            tokeniser.save(run / name)
        data: dict[str, ParallelData] = {}
        reports: dict[str, Report | TransferReport] = {}
        for part in ("train", "valid"):
            data[part], reports[part] = prepare(
                run / "data" / part,
                pairs(part),
                source,
                target,
                max_length=longest(config),
                links=pairs.links(part, source, target),
                rejected=pairs.rejected(part),
                processes=config.data.processes or 1,
                origin=pairs.origin(part),
            )
            if not len(data[part].source):
                raise DataError(
                    f"No pair is left for the {part} data. {reports[part]} "
                    "Look at these lines, or raise data.max_length and what positions the model has."
                )
        return cls(config, source, target, data["train"], data["valid"]).begun(run), {**reports, **transfers}

    @classmethod
    def open(cls, config: TranslateConfig, run: Path) -> "TranslateTask":
        """The task of a run folder that `prepare` has filled."""
        source, target = load_tokenisers(run)
        training, validation = (ParallelData.open(run / "data" / part) for part in ("train", "valid"))
        training.require(source, target)
        validation.require(source, target)
        with within_run(run):
            task = cls(config, source, target, training, validation)
        return task.begun(run)

    def begun(self, run: Path) -> "TranslateTask":
        """This task, with the weights of another translator if the run begins with them."""
        if self.config.initialise_from is not None:
            begin_with(self.model, run)
        return self

    @property
    def digests(self) -> dict[str, str]:
        """The tokenisers' digests by file name, to be kept with the run."""
        sides = (self.source_tokeniser, self.target_tokeniser)
        return {name: tokeniser.digest() for name, tokeniser in zip(TOKENISERS, sides, strict=True)}

    @property
    def unmeasured(self) -> dict[str, str]:
        """The figures that `validate` cannot measure on these data, with the reasons."""
        links = self.validation.links
        return {} if links is not None and links.num_tokens else {"alignment": UNLINKED}

    @property
    def steps_per_epoch(self) -> int:
        return self.plan.steps_per_epoch

    @property
    def validation_batches(self) -> int:
        """Batches that a validation reads."""
        return _plan(self.validation, self.config).steps_per_epoch

    def batch(self, step: int) -> PairBatch:
        """Batch number `step`: a pure function of the seed and the step."""
        return self.training.batch(self.plan.examples(step))

    def loss(self, batch: PairBatch) -> Loss:
        count = batch.target.num_tokens - batch.target.size
        parts = batch.source, batch.target, batch.rejection
        if batch.links is None:
            return Loss(loss_of_words(self.model, self.config, *parts), count)
        guide = self.config.guide
        with record(self.model, gradient=True) as recording:
            total = loss_of_words(self.model, self.config, *parts)
        weights = guided_weights(recording, batch.rejection or batch, guide.place)
        taught = guidance(weights, batch.links, guide.place)
        return Loss(total + guide.weight * taught, count)

    def measured(self, each: Each) -> dict[str, float]:
        """Cross-entropy in nats per token (without smoothing), its exponential, and teacher-forced token accuracy.

        With links also `alignment`: −ln of the guided weights, in nats per token that has links.
        """
        plan = _plan(self.validation, self.config)
        parts = each(
            lambda step: self._sums(beside(self.model, self.validation.batch(plan.examples(step)))),
            plan.steps_per_epoch,
        )
        total, right, count, aside, linked = map(sum, zip(*parts, strict=True))
        loss = total / count
        figures = {"loss": loss, "perplexity": float(np.exp(min(loss, 700.0))), "accuracy": right / count}
        return {**figures, "alignment": aside / linked} if linked else figures

    def _sums(self, batch: PairBatch) -> tuple[float, int, int, float, int]:
        """Figures of a batch: the loss, right tokens, all tokens, the guided loss, tokens with links."""
        target, head = Seq2Seq.predicted(batch.target), self.config.guide.place
        aside, linked = 0.0, 0
        with record(self.model, gradient=True) if batch.links is not None else nullcontext() as recording:
            logits = self.model(batch.source, batch.target)
        if batch.links is not None and recording is not None:
            aside = float(guidance(guided_weights(recording, batch, head), batch.links, head))
            linked = linked_tokens(batch.links)
        right = int((logits.argmax(-1) == target).sum())
        return float(cross_entropy(logits, target)), right, len(target), aside, linked

    def describe(self, batch: PairBatch) -> str:
        """The stored examples of a batch, and the first of them as text."""
        first = batch.source.ids[0, : int(batch.source.lengths[0])].tolist()
        shown = listing(batch.examples, 8)
        return f"training examples {shown}; the first is {self.source_tokeniser.decode(first)!r}"


def _tokenisers(config: TranslateConfig, pairs: Pairs) -> tuple[Tokeniser, Tokeniser]:
    """Both sides' tokenisers, trained on the training pairs."""
    joint = config.joint_vocabulary
    source: Tokeniser = config.source_tokeniser.train(pairs.texts("source", *(["target"] if joint else [])))
    target: Tokeniser = source if joint else config.target_tokeniser.train(pairs.texts("target"))
    directions = pairs.directions("train")
    if config.data.direction_column is None:
        return source, target
    if not directions:
        raise DataError(f"{config.data.source} has no pairs with a direction in its data.direction_column.")
    inner, source = source, LanguageTokeniser(source, directions)
    return source, LanguageTokeniser(inner, directions, side="target") if joint else target


def _require_directions(tokeniser: Tokeniser, pairs: Pairs) -> None:
    """Raises DataError unless a model with this source tokeniser translates in all directions of the data."""
    known = set(tokeniser.directions) if isinstance(tokeniser, LanguageTokeniser) else set[str]()
    data = pairs.data
    if known and data.direction_column is None:
        raise DataError(
            f"The model translates {', '.join(sorted(known))}, and the pairs of {data.source} do not say their "
            "directions. Name the column that does with --set data.direction_column=N."
        )
    for part, file in (("train", data.source), ("valid", data.valid_source)):
        strange = [] if file is None else sorted(set(pairs.directions(part)) - known)
        if strange:
            these, those = ", ".join(strange), f"only {', '.join(sorted(known))}" if known else "no directions"
            otherwise = ", or let it learn them with --set new_vocabulary=true" if part == "train" else ""
            raise DataError(
                f"{file} has pairs of {these}, but the model has {those}. Leave these pairs out{otherwise}."
            )


def build_model(config: TranslateConfig, source_vocab: int, target_vocab: int) -> Seq2Seq:
    """The configured model with its initial weights, a function of the seed.

    Raises UsageError when the settings of the model do not go together.
    """
    return seeded(lambda: config.model.build(source_vocab, target_vocab), config.seed)


def _factors(config: TranslateConfig, tokeniser: Tokeniser) -> dict[int, float]:
    """The factors of directions by their numbers. Raises UsageError for a direction that the model does not have."""
    shares = config.data.shares or {}
    if not isinstance(tokeniser, LanguageTokeniser):
        return {}
    try:
        return {tokeniser.number(direction): share for direction, share in shares.items()}
    except UsageError as error:
        raise UsageError(f"data.shares: {error}") from None


def _plan(
    data: ParallelData,
    config: TranslateConfig,
    temperature: float = 1.0,
    factors: Mapping[int, float] | None = None,
) -> Plan:
    """The batches of data, in the given proportions where they have several directions."""
    if data.directions is not None:
        return BalancedPlan(
            data.source.lengths,
            data.target.lengths,
            data.directions,
            temperature=temperature,
            factors=factors,
            max_tokens=config.data.max_tokens,
            seed=config.seed,
            lines=data.lines,
        )
    return plan_of(
        data.source,
        data.target,
        max_tokens=config.data.max_tokens,
        seed=config.seed,
        lines=data.lines,
        shard=config.data.shard,
    )


def longest(config: TranslateConfig) -> int:
    """The longest side in tokens, which a model's positions or attention may limit further."""
    return min(config.data.max_length, getattr(config.model, "positions", None) or config.data.max_length)


@dataclass(frozen=True)
class Forerunner:
    """The parts of a trained run that a new run begins with."""

    config: TranslateConfig
    source: Tokeniser
    target: Tokeniser
    weights: Mapping[str, Tensor]

    @classmethod
    def load(cls, run: Path | str) -> "Forerunner":
        """That of a run folder, or of a model that comes with foveate, by its name.

        Raises UsageError for a run of another task and for a folder of Hugging Face, DataError when there is no run, or
        it is damaged.
        """
        folder = run_folder(run)
        if model_type_of(folder) is not None:
            raise UsageError(
                f"{run} is a folder of Hugging Face, whose vocabulary a run cannot take over. Name a translator that "
                "`foveate train translate` made, or en-fr."
            )
        config, stored = saved(folder, "translate", TranslateConfig)
        return cls(config, *load_tokenisers(folder, stored.tokenisers), load_weights(folder)[0])

    @property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.weights.values())

    def into(self, config: TranslateConfig) -> TranslateConfig:
        """A run's configuration with these tokenisers and this architecture.

        A model that the configuration names itself may differ in what has no weights, such as dropout. A new vocabulary
        has the configuration's own tokenisers.
        """
        ours = self.config
        tokenisers = config if config.new_vocabulary else ours
        return replace(
            config,
            source_tokeniser=tokenisers.source_tokeniser,
            target_tokeniser=tokenisers.target_tokeniser,
            joint_vocabulary=ours.joint_vocabulary,
            model=ours.model if config.model == BahdanauConfig() else config.model,
            guide=ours.guide if config.guide == GuideConfig() else config.guide,
            decode=ours.decode if config.decode == BeamConfig() else config.decode,
        )

    def with_vocabulary(
        self, config: TranslateConfig, source: Tokeniser, target: Tokeniser
    ) -> tuple["Forerunner", dict[str, TransferReport]]:
        """The same with other tokenisers, and how the tokens of each table begin. Raises UsageError where the model of
        the configuration shares its vocabularies differently.
        """
        initial = dict(build_model(config, source.vocab_size, target.vocab_size).named_parameters())
        before, after = Sides(self.source, self.target), Sides(source, target)
        weights, reports = transfer_vocabulary(self.weights, initial, before, after)
        return replace(self, source=source, target=target, weights=weights), reports

    def with_layers(self, config: TranslateConfig) -> "Forerunner":
        """The same with the layers that the configuration adds, which pass on what they are given until they have
        learned. Raises UsageError for a Transformer whose layers cannot do that.
        """
        ours = self.config.model
        if not (isinstance(ours, TransformerConfig) and isinstance(config.model, TransformerConfig)):
            return self
        try:
            weights = deepened(self.weights, ours, config.model)
        except ValueError as error:
            raise UsageError(f"The run cannot begin with {config.initialise_from}: {error}.") from None
        return self if weights is None else replace(self, weights=weights)

    def keep(self, run: Path) -> None:
        """Put the weights into a run folder, which then depends on no other."""
        keep(self.weights, run)
