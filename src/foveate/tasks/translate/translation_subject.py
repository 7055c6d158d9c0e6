"""Translation as something to compare: scores of decoded text, and of forced text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from foveate.data.parallel import prepare
from foveate.data.text import Pair, read_pairs
from foveate.errors import DataError, UsageError
from foveate.metrics.corpus import METRICS, evaluate, require_metrics
from foveate.storage.draft import disk_errors
from foveate.tasks.side import NOT_DATA, Asked, Scored, Side, buckets, in_percent, measured_lengths
from foveate.tasks.translate import TASK
from foveate.tasks.translate.pair import Pairs
from foveate.tasks.translate.task import (
    VALIDATED,
    Forerunner,
    TranslateConfig,
    TranslateTask,
    longest,
    require_measured,
)
from foveate.tasks.translate.translation_size import suitable_metrics
from foveate.tasks.translate.use import Translator


class TranslationSubject(Side):
    """Translation, compared by BLEU, chrF, error rates, or by perplexity."""

    entry, config, task = TASK, TranslateConfig, TranslateTask
    validated = VALIDATED
    not_data = NOT_DATA | {"guide"}
    lower = frozenset(
        {"loss", "perplexity", "alignment"} | {name for name in METRICS if name.endswith("error") or name == "ter"}
    )

    def in_use(self, task: TranslateTask) -> Translator:
        return Translator(task.model, task.source_tokeniser, task.target_tokeniser, task.config.decode)

    def metrics(self) -> tuple[str, ...]:
        return (*METRICS, *VALIDATED)

    def usual_metrics(self, task: TranslateTask) -> tuple[str, ...]:
        return (*suitable_metrics(task.target_tokeniser)[:2], "perplexity")

    def require_measured(self, config: Any) -> None:
        require_measured(config, config.train.metric)

    def require_given(self, task: TranslateTask, request: Asked) -> None:
        super().require_given(task, request)
        decoded = [name for name in request.metrics if name in METRICS]
        references = [pair.target for pair in _pairs(task.config, request)] if decoded else []
        evaluate(references, references, decoded)  # what cannot be scored is said before the training
        if request.test and "alignment" in request.metrics:
            raise UsageError(
                "compare.metrics: alignment is measured by links, and test pairs have none here. Leave compare.test "
                "(--test-source) out, and it is measured on the validation pairs."
            )

    def require_metrics(self, metrics: Sequence[str]) -> None:
        super().require_metrics(metrics)
        require_metrics([name for name in metrics if name in METRICS])

    def longest(self, config: TranslateConfig) -> int:
        return longest(config)

    def whole(self, config: TranslateConfig) -> TranslateConfig:
        return config if config.initialise_from is None else Forerunner.load(config.initialise_from).into(config)

    def count(self, batch: Any) -> int:
        return int(batch.target.num_tokens - batch.target.size)

    def hold_out(self, config: TranslateConfig, folder: Path) -> dict[str, Any]:
        """train.tsv and valid.tsv, by the task's own choice for the seed of the base; nothing empty is validated on."""
        if config.data.valid_source is not None:
            return {}
        if config.data.links is not None or config.data.links_column is not None:
            raise DataError(
                "Links belong to the lines of their files, and no line is held out from those for a comparison. "
                "Give validation files with --valid-source (data.valid_source) and --valid-links."
            )
        pairs = Pairs(config.data, config.seed)
        _write(folder / "train.tsv", list(pairs("train")))
        _write(folder / "valid.tsv", [pair for pair in pairs("valid") if pair.source.strip() and pair.target.strip()])
        return {"source": "train.tsv", "valid_source": "valid.tsv", "target": None, "columns": [0, 1]}

    def score(self, task: TranslateTask, config: TranslateConfig, folder: Path, request: Asked) -> Scored:
        """Decoded text of every line is scored, as `foveate evaluate` scores the same file.

        An empty source has an empty translation, which counts; an empty reference is refused before the training. What
        is measured of forced text, such as perplexity, leaves out pairs with an empty side, as training does.
        """
        decoded = [name for name in request.metrics if name in METRICS]
        values = self._forced(task, config, folder, request) if len(decoded) < len(request.metrics) else {}
        if not decoded:
            return Scored(values=self.pick(values, request.metrics))
        pairs = _pairs(config, request)
        translations = self.in_use(task).translate([pair.source for pair in pairs])
        texts, references = [translation.text for translation in translations], [pair.target for pair in pairs]
        values |= dict(zip(decoded, (score.value for score in evaluate(texts, references, decoded)), strict=True))
        lengths, unit = measured_lengths([pair.source for pair in pairs])

        def value(numbers: Sequence[int]) -> float:
            ours, theirs = ([side[number] for number in numbers] for side in (texts, references))
            return evaluate(ours, theirs, decoded[:1])[0].value

        by_length = buckets(lengths, request, value)
        return Scored(values=self.pick(values, request.metrics), buckets=by_length, unit=unit)

    def _forced(self, task: TranslateTask, config: TranslateConfig, folder: Path, request: Asked) -> dict[str, float]:
        """What `validate` measures, on the test data if there are any."""
        validation = task.validation
        if request.test:
            sides, limit = (task.source_tokeniser, task.target_tokeniser), self.longest(config)
            task.validation, _ = prepare(folder / "data" / "test", _pairs(config, request), *sides, max_length=limit)
        figures = task.validate()
        task.validation = validation
        return in_percent(figures)


def _pairs(config: TranslateConfig, request: Asked) -> list[Pair]:
    data = config.data
    if request.test:
        return list(read_pairs(request.test["source"], request.test.get("target"), columns=request.columns))
    assert data.valid_source is not None
    return list(data.read(data.valid_source, data.valid_target))


def _write(path: Path, pairs: list[Pair]) -> None:
    for pair in pairs:
        if "\t" in pair.source or "\t" in pair.target:
            raise DataError(
                f"Line {pair.line} has a tab inside a text, and pairs held out for a comparison are kept in columns. "
                "Take it out, or give validation files with --valid-source (data.valid_source) and --valid-target."
            )
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{pair.source}\t{pair.target}\n" for pair in pairs), encoding="utf-8")
