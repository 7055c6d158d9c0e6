"""Translation as something to compare: scores of decoded text, and of forced text."""

from pathlib import Path
from typing import Any

import numpy as np

from foveate.comparison.subject.subject import Asked, Bucket, Scored, Subject, grouped, in_percent, measured_lengths
from foveate.data.parallel import prepare
from foveate.data.text import Pair, read_pairs
from foveate.errors import DataError, UsageError
from foveate.storage.draft import disk_errors
from foveate.suggestion import counted
from foveate.tasks.evaluation import METRICS, evaluate, require_metrics, suitable_metrics
from foveate.tasks.translate.task import (
    VALIDATED,
    Forerunner,
    TranslateConfig,
    TranslateTask,
    longest,
    require_measured,
)
from foveate.tasks.translate.use import Translator


class Translate(Subject):
    """`foveate train translate`, compared by BLEU, chrF, error rates, or by perplexity."""

    name = "translate"
    home = "foveate.tasks.translate.task"
    task_name = "TranslateTask"
    config_name = "TranslateConfig"
    files = ("source", "target", "valid_source", "valid_target", "links", "valid_links")
    test_files = ("source", "target")
    lower = frozenset(
        {"loss", "perplexity", "alignment"} | {name for name in METRICS if name.endswith("error") or name == "ter"}
    )

    def metrics(self) -> tuple[str, ...]:
        return (*METRICS, *VALIDATED)

    def usual_metrics(self, task: TranslateTask) -> tuple[str, ...]:
        return (*suitable_metrics(task.target_tokeniser)[:2], "perplexity")

    def require_measured(self, config: Any) -> None:
        require_measured(config, config.train.metric)

    def require_given(self, task: TranslateTask, asked: Asked) -> None:
        super().require_given(task, asked)
        decoded = [name for name in asked.metrics if name in METRICS]
        references = [pair.target for pair in _pairs(task.config, asked)] if decoded else []
        evaluate(references, references, decoded)  # what cannot be scored is said before the training
        if asked.test and "alignment" in asked.metrics:
            raise UsageError(
                "compare.metrics: alignment is measured by links, and test pairs have none here. Leave compare.test "
                "(--test-source) out, and it is measured on the validation pairs."
            )

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
        if any(getattr(config.data, name, None) is not None for name in ("links", "links_column")):
            raise DataError(
                "Links belong to the lines of their files, and no line is held out from those for a comparison. "
                "Give validation files with --valid-source (data.valid_source) and --valid-links."
            )
        pairs = list(config.data.read(config.data.source, config.data.target))
        wanted = min(config.data.held_out, len(pairs) // 10)
        if wanted < 1:
            raise DataError(
                f"{config.data.source} has {counted(len(pairs), 'pair')}: too few to hold some out. "
                "Give at least 10, or validation files with --valid-source (data.valid_source) and --valid-target."
            )
        drawn = set(np.random.default_rng(config.seed).choice(len(pairs), size=wanted, replace=False).tolist())
        paths = {"source": folder / "train.tsv", "valid_source": folder / "valid.tsv"}
        for path, held in zip(paths.values(), (False, True), strict=True):
            part = [pair for number, pair in enumerate(pairs) if (number in drawn) == held]
            _write(path, [pair for pair in part if not held or (pair.source.strip() and pair.target.strip())])
        return {**{name: path.name for name, path in paths.items()}, "target": None, "columns": [0, 1]}

    def score(self, task: TranslateTask, config: TranslateConfig, folder: Path, asked: Asked) -> Scored:
        """Decoded text of every line is scored, as `foveate evaluate` scores the same file.

        An empty source has an empty translation, which counts; an empty reference is refused before the training. What
        is measured of forced text, such as perplexity, leaves out pairs with an empty side, as training does.
        """
        decoded = [name for name in asked.metrics if name in METRICS]
        values = self._forced(task, config, folder, asked) if len(decoded) < len(asked.metrics) else {}
        if not decoded:
            return Scored(values=self.pick(values, asked.metrics))
        pairs = _pairs(config, asked)
        translator = Translator(task.model, task.source_tokeniser, task.target_tokeniser, config.decode)
        found = [translation.text for translation in translator.translate([pair.source for pair in pairs])]
        wanted = [pair.target for pair in pairs]
        values |= dict(zip(decoded, (score.value for score in evaluate(found, wanted, decoded)), strict=True))
        lengths, unit = measured_lengths([pair.source for pair in pairs])
        buckets = []
        for end, numbers in grouped(lengths, asked.lengths).items():
            ours, theirs = ([side[number] for number in numbers] for side in (found, wanted))
            (score,) = evaluate(ours, theirs, decoded[:1])
            buckets.append(Bucket(longest=end, count=len(numbers), value=score.value))
        return Scored(values=self.pick(values, asked.metrics), buckets=buckets, unit=unit)

    def require_metrics(self, metrics: Any) -> None:
        super().require_metrics(metrics)
        require_metrics([name for name in metrics if name in METRICS])

    def _forced(self, task: TranslateTask, config: TranslateConfig, folder: Path, asked: Asked) -> dict[str, float]:
        """What `validate` measures, on the test data if there are any."""
        validation = task.validation
        if asked.test:
            sides, limit = (task.source_tokeniser, task.target_tokeniser), self.longest(config)
            task.validation, _ = prepare(folder / "data" / "test", _pairs(config, asked), *sides, max_length=limit)
        figures = task.validate()
        task.validation = validation
        return in_percent(figures)


def _pairs(config: TranslateConfig, asked: Asked) -> list[Pair]:
    data = config.data
    if asked.test:
        return list(read_pairs(asked.test["source"], asked.test.get("target"), columns=asked.columns))
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
