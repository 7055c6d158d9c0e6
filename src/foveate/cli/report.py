"""The report of a run folder: `train` leaves one, `evaluate --report` writes one with the scores on test data."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foveate import inspect
from foveate.cli.setup import RunConfig
from foveate.config import build
from foveate.data.parallel import ParallelData
from foveate.metrics import Score
from foveate.storage.draft import disk_errors
from foveate.storage.run import read_run
from foveate.tasks.translator import Translation, Translator

SAMPLES = 6


@dataclass(frozen=True, kw_only=True)
class Test:
    """Scores of a model on data that it was not trained with."""

    file: str
    lines: int
    scores: Sequence[Score]

    @property
    def rows(self) -> list[dict[str, object]]:
        """The rows of a table."""
        data = f"{self.file}, {self.lines:,} lines"
        return [
            {
                "metric": score.name,
                "value": f"{score.value:.2f}",
                "better": "higher" if score.higher_is_better else "lower",
                "data": data,
                "signature": score.signature or "",
            }
            for score in self.scores
        ]


def write_report(
    translator: Translator,
    folder: Path,
    path: Path,
    *,
    translations: Sequence[Translation],
    references: Sequence[str],
    test: Test | None = None,
) -> None:
    """Curves, scores, translations with their alignments and the model card of a run, as one HTML file."""
    config = build(RunConfig, read_run(folder).config, where="")
    facts = _Facts.read(translator, config, folder)
    alignments = translator.align(translations) if translator.attends else [None] * len(translations)
    html = inspect.report(
        title=f"{facts.model} in {folder.name}",
        summary=[
            ("parameters", f"{facts.parameters:,}"),
            ("training pairs", f"{facts.pairs[0]:,}"),
            ("minutes", f"{facts.seconds / 60:.1f}"),
            *((f"validation {name}", f"{value:.4g}") for name, value in facts.metrics.items()),
            *((f"test {score.name}", f"{score.value:.2f}") for score in (test.scores if test else ())),
        ],
        curves=facts.rows,
        scores=test.rows if test else [],
        samples=[
            (translation.source, reference, translation.text, alignment)
            for translation, reference, alignment in zip(translations, references, alignments, strict=True)
        ],
        card=model_card(facts, config, test),
        commands=[
            f'foveate translate {folder} "…" --align',
            f"foveate evaluate {folder} --source FILE --target FILE",
            f'foveate look {folder} "…" --out alignment.svg',
        ],
    )
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(html, encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class _Facts:
    """What the files of a run say about how it went."""

    model: str
    parameters: int
    pairs: tuple[int, int]
    rows: list[dict[str, Any]]
    weights: str
    metrics: dict[str, float]

    @classmethod
    def read(cls, translator: Translator, config: RunConfig, folder: Path) -> "_Facts":
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        final = folder / "model.json"
        information = json.loads(final.read_text(encoding="utf-8")) if final.exists() else {}
        training, validation = (len(ParallelData.open(folder / "data" / part)) for part in ("train", "valid"))
        return cls(
            model=type(translator.model).__name__,
            parameters=translator.model.parameter_count(),
            pairs=(training, validation),
            rows=[json.loads(line) for line in lines],
            weights=information.get("weights", "those of an unfinished run"),
            metrics={name: value for name, value in information.get("metrics", {}).items() if value is not None},
        )

    @property
    def seconds(self) -> float:
        """Time spent on training, resumed parts included."""
        return float(self.rows[-1]["seconds"]) if self.rows else 0.0

    @property
    def step(self) -> int:
        return int(self.rows[-1]["step"]) if self.rows else 0


def model_card(facts: _Facts, config: RunConfig, test: Test | None) -> dict[str, str | list[str]]:
    """What anybody who meets the model should know."""
    data = config.data
    files = " and ".join(Path(file).name for file in (data.source, data.target) if file)
    own = "from a file of their own" if data.valid_source else "held out by line: near-duplicates may be on both sides"
    tested = f"{test.lines:,} pairs from {test.file}" if test else "not yet: foveate evaluate RUN --report FILE"
    return {
        "model": f"{facts.model}, {facts.parameters:,} parameters, trained from scratch",
        "data": f"{facts.pairs[0]:,} pairs from {files}",
        "validation": f"{facts.pairs[1]:,} pairs, {own}",
        "test": tested,
        "training": f"{facts.step:,} of {config.train.steps:,} steps, {facts.seconds / 60:.1f} minutes",
        "weights": facts.weights,
        "licence": "that of the training data; the card does not know it",
        "limits": "Only inputs like those it was trained on. Symbols never seen in training become one unknown symbol.",
    }
