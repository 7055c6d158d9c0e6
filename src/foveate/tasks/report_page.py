"""What the reports of all tasks share: how a run went, by its files, and the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from foveate import inspect
from foveate.inspect import Alignment
from foveate.storage.checkpoint import read_final
from foveate.storage.draft import disk_errors, write_file
from foveate.train.log import read_rows

Sample = tuple[str, str, str, Alignment | None]
"""What the model is given, what would be right (or ""), what it says, and where it looked."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a run went, as its files say."""

    rows: list[dict[str, Any]]
    weights: str
    metrics: dict[str, float]

    @classmethod
    def read(cls, folder: Path) -> "Course":
        final = read_final(folder)
        return cls(
            rows=read_rows(folder / "metrics.jsonl"),
            weights=final.weights if final else "those of an unfinished run",
            metrics={name: value for name, value in final.metrics.items() if value is not None} if final else {},
        )

    @property
    def minutes(self) -> float:
        """Time spent on training, resumed parts included."""
        return float(self.rows[-1].get("seconds") or 0) / 60 if self.rows else 0.0

    @property
    def steps(self) -> int:
        return int(self.rows[-1]["step"]) if self.rows else 0


def write_report(
    model: Any,
    folder: Path,
    path: Path,
    *,
    kind: str | None = None,
    tiles: Sequence[tuple[str, object]] = (),
    scores: Sequence[Mapping[str, object]],
    samples: Sequence[Sample],
    card: Mapping[str, str],
    commands: Sequence[str],
    names: tuple[str, str] = ("source", "target"),
) -> None:
    """Curves, scores, samples and the model card of a run, as one HTML file.

    `kind` is the model in words, `tiles` what its page begins with beside the figures of every run, `card` what it says
    beside them.
    """
    course, size, name = Course.read(folder), f"{model.parameter_count():,}", type(model).__name__
    html = inspect.report(
        title=f"{name} in {folder.name}",
        summary=[
            ("parameters", size),
            ("minutes", f"{course.minutes:.1f}"),
            *((f"validation {name}", f"{value:.4g}") for name, value in course.metrics.items()),
            *tiles,
        ],
        curves=course.rows,
        scores=scores,
        samples=samples,
        card={
            "model": f"{kind or name}, {size} parameters, trained from scratch",
            "training": f"{course.steps:,} steps, {course.minutes:.1f} minutes",
            "weights": course.weights,
            **card,
            "licence": "that of the training data; the card does not know it",
        },
        commands=commands,
        names=names,
    )
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, html.encode())
