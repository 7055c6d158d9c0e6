"""Training with progress and a report at the end: what `train` and `resume` have in common."""

import json
import sys
from pathlib import Path

from foveate import inspect
from foveate.cli.setup import RunConfig, say
from foveate.config import to_dict
from foveate.tasks.translate import TranslateTask
from foveate.tasks.translator import Translator
from foveate.train import Outcome, fit, watch

SAMPLES = 6


def train(task: TranslateTask, config: RunConfig, folder: Path, *, quiet: bool, resume: bool = False) -> int:
    """Fit, say how it ended, and leave a report; 130 when the user interrupted."""
    if not quiet:
        name = type(task.model).__name__
        say(f"{name} with {task.model.parameter_count():,} parameters; {len(task.training):,} training pairs.")
    progress = watch(sys.stderr, quiet=quiet)
    outcome = fit(task, config.train, folder, resume=resume, progress=progress, configuration=to_dict(config))
    if outcome.interrupted:
        say(f"Stopped at step {outcome.step:,}; everything is saved. Continue with:  foveate resume {folder}")
        return 130
    say(f"Done: {outcome.stopped_because}, in {outcome.seconds / 60:.1f} minutes. {_best(outcome)}")
    write_report(task, config, folder, outcome)
    say(f"The model is in {folder}, its report in {folder / 'report.html'}.")
    say(f'Try:  foveate translate {folder} "…" --align')
    return 0


def write_report(task: TranslateTask, config: RunConfig, folder: Path, outcome: Outcome) -> None:
    """report.html: curves, validation figures, translations of held-out sources with their alignments."""
    translator = Translator(task.model, task.source_tokeniser, task.target_tokeniser, config.decode)
    count = min(SAMPLES, len(task.validation))
    sources = [task.source_tokeniser.decode(task.validation.source[row].tolist()) for row in range(count)]
    references = [task.target_tokeniser.decode(task.validation.target[row].tolist()) for row in range(count)]
    translations = translator.translate(sources)
    alignments = translator.align(translations) if translator.attends else [None] * count
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    html = inspect.report(
        title=f"{type(task.model).__name__} in {folder.name}",
        summary=[
            ("parameters", f"{task.model.parameter_count():,}"),
            ("training pairs", f"{len(task.training):,}"),
            ("minutes", f"{outcome.seconds / 60:.1f}"),
            *((f"best {name}", f"{value:.4g}") for name, value in outcome.best.items()),
        ],
        curves=rows,
        samples=[
            (source, reference, translation.text, alignment)
            for source, reference, translation, alignment in zip(
                sources, references, translations, alignments, strict=True
            )
        ],
        card=model_card(task, config, outcome),
        commands=[
            f'foveate translate {folder} "…" --align',
            f"foveate evaluate {folder} --source FILE --target FILE",
            f'foveate look {folder} "…" --out alignment.svg',
        ],
    )
    (folder / "report.html").write_text(html, encoding="utf-8")


def model_card(task: TranslateTask, config: RunConfig, outcome: Outcome) -> dict[str, str | list[str]]:
    """What anybody who meets the model should know."""
    data = config.data
    return {
        "model": f"{type(task.model).__name__}, {task.model.parameter_count():,} parameters, trained from scratch",
        "data": f"{len(task.training):,} pairs from {Path(data.source).name}"
        + (f" and {Path(data.target).name}" if data.target else ""),
        "validation": f"{len(task.validation):,} pairs, "
        + (
            "from a file of their own"
            if data.valid_source
            else "held out by line: near-duplicates may be on both sides"
        ),
        "training": f"{outcome.step:,} steps, {outcome.tokens:,} target tokens, {outcome.seconds / 60:.1f} minutes; "
        f"stopped because {outcome.stopped_because}",
        "weights": outcome.weights,
        "licence": "that of the training data; the card does not know it",
        "limits": "Only inputs like those it was trained on. Symbols never seen in training become one unknown symbol.",
    }


def _best(outcome: Outcome) -> str:
    figures = ", ".join(f"{name} {value:.4g}" for name, value in outcome.best.items())
    return f"Best validation at step {outcome.best_step:,}: {figures}." if outcome.best_step is not None else ""
