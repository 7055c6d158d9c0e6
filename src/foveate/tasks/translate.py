"""Translate: sequences in, sequences out. Sentences, spellings and pronunciations, dates: anything written in pairs."""

from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from foveate.attention import record
from foveate.config import setting
from foveate.data.batch import PairBatch
from foveate.data.batching import BatchPlan
from foveate.data.parallel import ParallelData, Report, prepare
from foveate.data.text import Pair, read_lines, read_pairs, require_lasting
from foveate.data.tokeniser import CharacterConfig, Tokeniser, TokeniserConfig, load_tokeniser
from foveate.decode import BeamConfig, DecodeConfig
from foveate.errors import DataError
from foveate.models import BahdanauConfig, ModelConfig, Seq2Seq
from foveate.nn.loss import Loss, cross_entropy
from foveate.storage.draft import disk_errors, remove_stale
from foveate.suggestion import counted
from foveate.tasks.forerunner import Forerunner
from foveate.tasks.guide import GuideConfig, Links, guidance, guided_weights, linked_tokens, require_guidable
from foveate.tasks.initial import begin_with, seeded, within_run

VALIDATED = ("loss", "perplexity", "accuracy", "alignment")
"""What `validate` measures, and what may decide which checkpoint is best; alignment where the data have links."""
TOKENISERS = ("source.tokeniser.json", "target.tokeniser.json")
UNLINKED = (
    "there are no links of validation pairs. Give --links FILE (data.links), of whose pairs some are held out, or "
    "--valid-links FILE (data.valid_links) beside --valid-source"
)
"""Why there is no `alignment`."""


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Where the pairs are and how they become batches."""

    source: str = setting("", "file of source lines, or of tab-separated columns when there is no target file")
    target: str | None = setting(None, "file of target lines, line by line the partner of source")
    columns: tuple[int, int] | None = setting(
        None, "source and target column of a tab-separated file, counted from 0; none: it has no others"
    )
    valid_source: str | None = setting(None, "validation pairs; none: some training lines are held out")
    valid_target: str | None = setting(None, "target side of the validation pairs")
    links: str | None = setting(None, "file of word links like 0-0 1-2, line by line of source: attention is guided")
    valid_links: str | None = setting(None, "links of the validation pairs")
    links_column: int | None = setting(None, "column of the links, where they are in the tab-separated file of source")
    held_out: int = setting(1000, "lines held out for validation when no file is given; at most a tenth of all")
    max_length: int = setting(250, "longest side in tokens; longer pairs are left out and reported")
    max_tokens: int = setting(4096, "tokens per batch, both sides, padding counted")

    def __post_init__(self) -> None:
        for name in ("held_out", "max_length", "max_tokens"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.valid_target is not None and self.valid_source is None:
            raise ValueError("valid_target is given without valid_source, whose lines are its partners")
        if self.valid_links is not None and self.valid_source is None:
            raise ValueError("valid_links is given without valid_source, whose lines are its partners")
        if self.links_column is not None and (self.links is not None or self.target is not None):
            raise ValueError("links_column is a column of one file with everything: give no links and no target then")

    def read(self, source: str, target: str | None) -> Iterator[Pair]:
        """The pairs of a file, or of two. Raises as `read_pairs` does."""
        return read_pairs(source, target, columns=self.columns, beside=self.links_column)


@dataclass(frozen=True, kw_only=True)
class TranslateConfig:
    """Everything that defines a translation run, but how it is trained."""

    data: DataConfig = DataConfig()
    source_tokeniser: TokeniserConfig = setting(CharacterConfig(), "how source text becomes tokens")
    target_tokeniser: TokeniserConfig = setting(CharacterConfig(), "how target text becomes tokens")
    joint_vocabulary: bool = setting(False, "train the source's tokeniser on both sides and use it for both")
    model: ModelConfig = setting(BahdanauConfig(), "the architecture")
    guide: GuideConfig = setting(GuideConfig(), "what links in the data teach attention")
    label_smoothing: float = setting(0.1, "probability spread over the vocabulary in the training loss")
    decode: DecodeConfig = setting(BeamConfig(), "how translations are searched for")
    seed: int = setting(0, "seed of initial weights, of the held-out choice and of the order of batches")
    initialise_from: str | None = setting(
        None,
        "run of a translator, or en-fr: this begins with its weights, tokenisers and architecture; none: from scratch",
    )

    def __post_init__(self) -> None:
        if not 0 <= self.label_smoothing < 1:
            raise ValueError(f"label_smoothing must be at least 0 and less than 1, got {self.label_smoothing}")
        if not 0 <= self.seed < 1 << 63:
            raise ValueError(f"seed must be at least 0 and less than 2 to the power of 63, got {self.seed}")


def require_measured(config: TranslateConfig, metric: str) -> None:
    """Raises ValueError when the best checkpoint is to be chosen by what is not measured, as far as settings tell."""
    if metric not in VALIDATED:
        raise ValueError(f"train.metric must be one of {', '.join(VALIDATED)}, got {metric!r}")
    data = config.data
    links = (data.links if data.valid_source is None else data.valid_links, data.links_column)
    if metric == "alignment" and data.source and links == (None, None):
        raise ValueError(f"train.metric cannot be alignment: {UNLINKED}")


class TranslateTask:
    """A translation model with its data: what training fits."""

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
        self.plan = _plan(training, config)
        self.model: Seq2Seq = build_model(config, source_tokeniser.vocab_size, target_tokeniser.vocab_size)
        if training.links is not None:
            require_guidable(self.model)

    @classmethod
    def prepare(cls, config: TranslateConfig, run: Path) -> tuple["TranslateTask", dict[str, Report]]:
        """Read the pairs, train the tokenisers, store the tokens in the run folder; with a report on lines left out.

        Raises DataError when files are missing, unequal or unreadable, or nothing is left to train on.
        """
        data_files = config.data
        require_lasting(data_files.source, data_files.target, data_files.valid_source, data_files.valid_target)
        held_out = _held_out(config)
        forerunner = None if config.initialise_from is None else Forerunner.load(config.initialise_from)
        config = config if forerunner is None else forerunner.into(config)
        source, target = _tokenisers(config, held_out) if forerunner is None else (forerunner.source, forerunner.target)
        with disk_errors(run):
            run.mkdir(parents=True, exist_ok=True)
            remove_stale(run / "data")
        if forerunner is not None:
            forerunner.keep(run)
        for tokeniser, name in zip((source, target), TOKENISERS, strict=True):
            tokeniser.save(run / name)
        data, reports = {}, {}
        for part in ("train", "valid"):
            pairs = _pairs(config, held_out, part)
            data[part], reports[part] = prepare(
                run / "data" / part,
                pairs,
                source,
                target,
                max_length=longest(config),
                links=_links(config, part, source, target),
            )
            if not len(data[part].source):
                raise DataError(
                    f"No pair is left for the {part} data. {reports[part]} "
                    "Look at these lines, or raise data.max_length and what positions the model has."
                )
        return cls(config, source, target, data["train"], data["valid"]).begun(run), reports

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
        """With the weights of another translator, if the run begins with one."""
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
        """What `validate` does not give with these data, and why."""
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
        smoothing = self.config.label_smoothing
        if batch.links is None:
            return Loss(self.model.loss(batch.source, batch.target, label_smoothing=smoothing), count)
        guide = self.config.guide
        with record(self.model, gradient=True) as seen:
            total = self.model.loss(batch.source, batch.target, label_smoothing=smoothing)
        taught = guidance(guided_weights(seen, batch, guide.place), batch.links, guide.place)
        return Loss(total + guide.weight * taught, count)

    def validate(self) -> dict[str, float]:
        """Cross-entropy in nats per token (without smoothing), its exponential, and teacher-forced token accuracy.

        With links also `alignment`: −ln of the guided weights, in nats per token that has links.
        """
        total, right, count = 0.0, 0, 0
        aside, linked = 0.0, 0
        plan = _plan(self.validation, self.config)
        for step in range(plan.steps_per_epoch):
            batch = self.validation.batch(plan.examples(step))
            target = Seq2Seq.predicted(batch.target)
            with record(self.model, gradient=True) if batch.links is not None else nullcontext() as seen:
                logits = self.model(batch.source, batch.target)
            if batch.links is not None and seen is not None:
                head = self.config.guide.place
                aside += float(guidance(guided_weights(seen, batch, head), batch.links, head))
                linked += linked_tokens(batch.links)
            total += float(cross_entropy(logits, target))
            right += int((logits.argmax(-1) == target).sum())
            count += len(target)
        loss = total / count
        found = {"loss": loss, "perplexity": float(np.exp(min(loss, 700.0))), "accuracy": right / count}
        return {**found, "alignment": aside / linked} if linked else found

    def describe(self, batch: PairBatch) -> str:
        """The stored examples of a batch, and the first of them as text."""
        first = batch.source.ids[0, : int(batch.source.lengths[0])].tolist()
        shown = ", ".join(str(example) for example in batch.examples[:8])
        more = f" and {len(batch.examples) - 8} more" if len(batch.examples) > 8 else ""
        return f"training examples {shown}{more}; the first is {self.source_tokeniser.decode(first)!r}"


def _tokenisers(config: TranslateConfig, held_out: frozenset[int]) -> tuple[Tokeniser, Tokeniser]:
    """Both sides' tokenisers, trained on what is not held out."""
    joint = config.joint_vocabulary
    source = config.source_tokeniser.train(_lines(config, held_out, "both" if joint else "source"))
    return source, source if joint else config.target_tokeniser.train(_lines(config, held_out, "target"))


def build_model(config: TranslateConfig, source_vocab: int, target_vocab: int) -> Seq2Seq:
    """The configured model with its initial weights, a function of the seed.

    Raises UsageError when the settings of the model do not go together.
    """
    return seeded(lambda: config.model.build(source_vocab, target_vocab), config.seed)


def load_tokenisers(run: Path, digests: Mapping[str, str] | None = None) -> tuple[Tokeniser, Tokeniser]:
    """The tokenisers of a run; raises DataError when a file is missing, is not what was saved, or is another run's."""
    source, target = (load_tokeniser(run / name) for name in TOKENISERS)
    for name, tokeniser in zip(TOKENISERS, (source, target), strict=True):
        expected = (digests or {}).get(name, tokeniser.digest())
        if tokeniser.digest() != expected:
            raise DataError(
                f"{run / name} is not the tokeniser that this model was trained with: its digest is "
                f"{tokeniser.digest()[:12]}…, the run's {expected[:12]}…. Restore the file of this run."
            )
    return source, target


def _plan(data: ParallelData, config: TranslateConfig) -> BatchPlan:
    return BatchPlan(
        data.source.lengths,
        data.target.lengths,
        max_tokens=config.data.max_tokens,
        seed=config.seed,
        lines=data.lines,
    )


def longest(config: TranslateConfig) -> int:
    """The longest side in tokens, which a model's positions or attention may limit further."""
    return min(config.data.max_length, getattr(config.model, "positions", None) or config.data.max_length)


def _held_out(config: TranslateConfig) -> frozenset[int]:
    """The line numbers (from 1) held out for validation: drawn once, by the seed."""
    if config.data.valid_source is not None:
        return frozenset()
    total = sum(1 for _ in _read(config, "train"))
    wanted = min(config.data.held_out, total // 10)
    if wanted < 1:
        raise DataError(
            f"{config.data.source} has {counted(total, 'pair')}: too few to hold some out for validation. "
            "Give at least 10, or validation files with --valid-source (data.valid_source) and --valid-target."
        )
    drawn = np.random.default_rng(config.seed).choice(total, size=wanted, replace=False)
    return frozenset((drawn + 1).tolist())


def _read(config: TranslateConfig, part: str) -> Iterator[Pair]:
    data = config.data
    if part == "valid" and data.valid_source is not None:
        return data.read(data.valid_source, data.valid_target)
    return data.read(data.source, data.target)


def _pairs(config: TranslateConfig, held_out: frozenset[int], part: str) -> Iterator[Pair]:
    """The pairs of one part, streamed."""
    if config.data.valid_source is not None:
        return _read(config, part)
    return (pair for pair in _read(config, part) if (pair.line in held_out) == (part == "valid"))


def _links(config: TranslateConfig, part: str, source: Tokeniser, target: Tokeniser) -> Links | None:
    """The links of one part, where there are any."""
    data = config.data
    apart = part == "valid" and data.valid_source is not None
    texts, path = (data.valid_source, data.valid_links) if apart else (data.source, data.links)
    if data.links_column is not None and texts is not None:
        columns = (data.links_column, data.links_column)
        return Links([pair.source for pair in read_pairs(texts, columns=columns)], texts, source, target)
    if path is None:
        return None
    lines, pairs = list(read_lines(path)), sum(1 for _ in _read(config, part))
    if len(lines) != pairs:
        raise DataError(
            f"{path} has {counted(len(lines), 'line')} but there are {counted(pairs, 'pair')}. Line n of the links "
            "belongs to pair n; a pair without links has an empty line."
        )
    return Links(lines, path, source, target)


def _lines(config: TranslateConfig, held_out: frozenset[int], side: str) -> Iterator[str]:
    """The training text of one side or of both, for a tokeniser."""
    for pair in _pairs(config, held_out, "train"):
        if side in ("source", "both"):
            yield pair.source
        if side in ("target", "both"):
            yield pair.target
