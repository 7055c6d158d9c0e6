"""The report of a translation run: `train` leaves one, `evaluate --report` writes one with the scores on test data."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from foveate.cli.setup import RunConfig
from foveate.cli.task.report import write_report
from foveate.config import build
from foveate.data.parallel import ParallelData
from foveate.metrics import Score
from foveate.storage.run import read_run
from foveate.suggestion import counted
from foveate.tasks.translate.use import Translation, Translator

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
        data = f"{self.file}, {counted(self.lines, 'line')}"
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


def write_translation_report(
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
    training, validation = (len(ParallelData.open(folder / "data" / part)) for part in ("train", "valid"))
    alignments = translator.align(translations) if translator.attends else [None] * len(translations)
    shown, data = shlex.quote(str(folder)), config.data
    files = " and ".join(Path(file).name for file in (data.source, data.target) if file)
    own = "from a file of their own" if data.valid_source else "held out by line: near-duplicates may be on both sides"
    write_report(
        translator.model,
        folder,
        path,
        tiles=[
            ("training pairs", f"{training:,}"),
            *((f"test {score.name}", f"{score.value:.2f}") for score in (test.scores if test else ())),
        ],
        scores=test.rows if test else [],
        samples=[
            (translation.source, reference, translation.text, alignment)
            for translation, reference, alignment in zip(translations, references, alignments, strict=True)
        ],
        card={
            "data": f"{counted(training, 'pair')} from {files}",
            "validation": f"{counted(validation, 'pair')}, {own}",
            "test": f"{counted(test.lines, 'pair')} from {test.file}"
            if test
            else "not yet: foveate evaluate RUN --report FILE",
            "limits": "Only inputs like those it was trained on. Symbols never seen in training become one unknown "
            "symbol.",
        },
        commands=[
            f'foveate translate {shown} "…" --align',
            f"foveate evaluate {shown} --source FILE --target FILE",
            f'foveate look {shown} "…" --out alignment.svg',
        ],
    )
