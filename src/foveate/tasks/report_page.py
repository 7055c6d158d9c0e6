"""The report of a run as one HTML page, for every task."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from foveate import inspect
from foveate.inspect.run_report import Sample as Sample
from foveate.metrics import Score
from foveate.storage.checkpoint import read_final
from foveate.storage.draft import disk_errors, write_file
from foveate.train.log import read_rows


def score_tiles(scores: Iterable[Score]) -> list[tuple[str, str]]:
    """The tiles of test scores."""
    return [(f"test {score.name}", f"{score.value:.2f}") for score in scores]


def score_rows(scores: Iterable[Score], data: str) -> list[dict[str, str]]:
    """The rows of test scores, with the words for the data that they were measured on."""
    return [
        {
            "metric": score.name,
            "value": f"{score.value:.2f}",
            "better": "higher" if score.higher_is_better else "lower",
            "data": data,
            "signature": score.signature or "",
        }
        for score in scores
    ]


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

    `kind` is the model in words, `tiles` are large figures beside those of every run, `card` has entries of the model
    card beside those of every run. A sample is the model's input, the right answer (or ""), its answer, and where it
    looked.
    """
    rows, final = read_rows(folder / "metrics.jsonl"), read_final(folder)
    steps, seconds = (rows[-1]["step"], rows[-1].get("seconds") or 0) if rows else (0, 0)
    metrics = final.metrics.items() if final else ()
    parameters, minutes, name = f"{model.parameter_count():,}", f"{seconds / 60:.1f}", type(model).__name__
    html = inspect.report(
        title=f"{name} in {folder.name}",
        summary=[
            ("parameters", parameters),
            ("minutes", minutes),
            *((f"validation {metric}", f"{value:.4g}") for metric, value in metrics if value is not None),
            *tiles,
        ],
        curves=rows,
        scores=scores,
        samples=samples,
        card={
            "model": f"{kind or name}, {parameters} parameters, trained from scratch",
            "training": f"{steps:,} steps, {minutes} minutes",
            "weights": final.description if final else "those of an unfinished run",
            **card,
            "licence": "that of the training data; the card does not know it",
        },
        commands=commands,
        names=names,
    )
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, html.encode())
