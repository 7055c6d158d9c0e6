"""Compare: several mechanisms or models on the same data with the same budget, with error bars over random starts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from foveate.comparison import cell as cells
from foveate.comparison.cell import Cell
from foveate.comparison.comparison_folder import DESIGN, Folder
from foveate.comparison.comparison_report import write_report
from foveate.comparison.design import UNLIMITED, Changes, CompareConfig, Design, tabled, varied
from foveate.comparison.result import Result
from foveate.config import build
from foveate.config.toml import inline
from foveate.errors import DataError, UsageError
from foveate.storage.checkpoint import Checkpoints, is_finished
from foveate.storage.draft import disk_errors
from foveate.suggestion import counted
from foveate.train import step_seconds, total_seconds
from foveate.train.log import Progress, Quiet
from foveate.train.resumption import exclusive

MOST_SEEDS = 10_000


def compare(
    task: str,
    base: Mapping[str, Any],
    variants: Mapping[str, Changes] | None = None,
    *,
    out: Path | str,
    seeds: int | Sequence[int] | None = None,
    budget: str | None = None,
    metrics: Sequence[str] | None = None,
    test: Mapping[str, str] | None = None,
    lengths: Sequence[int] | None = None,
    progress: Callable[[], Progress] = Quiet,
    note: Callable[[str], None] = lambda sentence: None,
) -> Result:
    """Train every variant of `base` with every seed on the same data within the same budget, and measure them.

    `base` is plain data as in a TOML file, which may have a table `compare` with the other settings; `variants` are
    changes of it by name: `{"dot": {"model": {"attention": {"score": "dot"}}}, …}`. A call with the folder of an
    earlier one continues it: finished cells are kept, and further variants and seeds are added.

    Raises UsageError for variants that cannot be compared, and for a folder whose results have other data, another
    budget or other settings; KeyboardInterrupt after Ctrl-C, when everything is saved.
    """
    options = {"seeds": seeds, "budget": budget, "metrics": metrics, "test": test, "lengths": lengths}
    design = design_of(task, base, variants, **{name: part for name, part in options.items() if part is not None})
    out = Path(out)
    Folder.begin(out, design, write=False)  # what is refused leaves nothing behind
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    with exclusive(out):
        folder = Folder.begin(out, design)
        folder.design = cells.with_usual_metrics(folder.design, folder)
        result = _all(folder, progress, note)
        result.save()
        write_report(result, out)
    return result


def design_of(
    task: str, base: Mapping[str, Any], variants: Mapping[str, Changes] | None = None, **options: Any
) -> Design:
    """The design of a base with its table `compare`; `options` take precedence over the table.

    Raises UsageError for a base of another task, and as `Design.of` does.
    """
    if base.get("task") not in (None, task):
        raise UsageError(f"The configuration is for the task {base['task']}, not for {task}. Name that task.")
    if not isinstance(base.get("compare", {}), Mapping):
        raise UsageError("compare must be a table of settings, such as compare.seeds = 3.")
    settings = {**base.get("compare", {}), **options}
    for name in ("seeds", "metrics", "lengths"):
        if hasattr(settings.get(name), "tolist"):  # an array or a number of numpy
            settings[name] = settings[name].tolist()
        if isinstance(settings.get(name), tuple | range):
            settings[name] = list(settings[name])
    if isinstance(settings.get("seeds"), int) and not isinstance(settings["seeds"], bool):
        if settings["seeds"] > MOST_SEEDS:
            raise UsageError(f"compare.seeds are at most {MOST_SEEDS:,} seeds, got {settings['seeds']:,}.")
        settings["seeds"] = list(range(settings["seeds"]))
    config = build(CompareConfig, settings, where="compare")
    changes = dict(variants) if variants is not None else _variants(config)
    return Design.of(
        task, {name: part for name, part in base.items() if name not in ("compare", "task")}, changes, config
    )


def _variants(config: CompareConfig) -> dict[str, Changes]:
    """The variants of a configuration file: named ones, or all combinations of listed values."""
    if config.variants and config.vary:
        raise UsageError("compare has both variants and vary. Choose one.")
    vary = config.vary or {}
    if not isinstance(vary, Mapping) or not all(isinstance(values, list) for values in vary.values()):
        raise UsageError('compare.vary must be lists of values by setting, such as "model.cell" = ["gru", "lstm"].')
    if vary:
        listed = {path: ",".join(map(inline, values)) for path, values in vary.items()}
        return varied([f"{path}={values}" for path, values in listed.items()])
    return tabled(config.variants or {})


def _all(folder: Folder, progress: Callable[[], Progress], note: Callable[[str], None]) -> Result:
    """Train and measure all cells, one after the other."""
    design, done, failures = folder.design, dict[tuple[str, int], Cell](), dict[str, str]()
    for variant, seed in design.cells:
        cell = cells.finished(folder, variant, seed)
        if cell:
            done[variant, seed] = cell
    if done:
        are = "is" if len(done) == 1 else "are"
        note(f"{len(done)} of {counted(len(design.cells), 'cell')} {are} finished already.")
    for number, (variant, seed) in enumerate(design.cells, start=1):
        if (variant, seed) in done:
            continue
        note(f"{variant}, seed {seed} ({number} of {len(design.cells)}{_left(folder, done)})")
        memory = next((cell.memory_bytes for cell in done.values() if cell.variant == variant), None)
        try:
            cell = cells.make(folder, variant, seed, progress(), memory)
        except DataError as error:
            failures[f"{variant}, seed {seed}"] = str(error)
            note(f"{variant}, seed {seed}: {error}")
            continue
        if cell is None:
            raise KeyboardInterrupt
        _require_spent(folder, cell)
        done[variant, seed] = cell
        note("  " + ", ".join(f"{name} {value:.4g}" for name, value in cell.scores.items()))
    if not done:
        raise DataError("All cells failed:\n" + "\n".join(f"  {cell}: {why}" for cell, why in failures.items()))
    return Result.of(folder, [done[key] for key in design.cells if key in done], failures)


def _left(folder: Folder, done: Mapping[tuple[str, int], Cell]) -> str:
    """An estimate of the remaining training time, from the finished cells."""
    untrained = [key for key in folder.design.cells if not is_finished(folder.cell(*key))]
    if not done or not untrained:
        return ""
    usual = sum(cell.seconds for cell in done.values()) / len(done)
    seconds = 0.0
    for variant, _ in untrained:
        alike = [cell.seconds for cell in done.values() if cell.variant == variant]
        seconds += sum(alike) / len(alike) if alike else usual
    return f", about {seconds / 60:.1f} minutes left"


def _require_spent(folder: Folder, cell: Cell) -> None:
    """Raises DataError where a cell did not use its budget: its result would not be comparable."""
    budget = folder.design.budget
    spent = {"steps": cell.steps, "tokens": cell.tokens, "seconds": cell.seconds}[budget.kind]
    if spent < budget.amount:
        raise DataError(
            f"{cell.variant}, seed {cell.seed} used {spent:,} of {budget.words}. Remove "
            f"{folder.path / cell.folder} and compare again."
        )


@dataclass(frozen=True, kw_only=True)
class Planned:
    """The plan for a cell."""

    variant: str
    seed: int
    state: str
    parameters: int
    seconds: float
    """The estimated time that is left."""


def plan(design: Design, out: Path | None = None) -> list[Planned]:
    """The cells of a design with their estimated times on this machine, from a few steps of each variant.

    Cells that are finished in the folder `out` count as done. Nothing is trained, and nothing is written there.
    """
    begun = out is not None and (out / DESIGN).exists()
    stored = Folder.begin(out, design, write=False) if out is not None and begun else None
    with TemporaryDirectory() as scratch:
        folder, planned = Folder.begin(Path(scratch), design), []
        if stored is not None:
            stored.design = cells.with_usual_metrics(design, folder)
        for variant in design.variants:
            parameters, seconds = _probed(folder, variant)
            for seed in design.seeds:
                state, left = _state(stored, variant, seed, design)
                planned.append(
                    Planned(variant=variant, seed=seed, state=state, parameters=parameters, seconds=left * seconds)
                )
    order = {key: number for number, key in enumerate(design.cells)}
    return sorted(planned, key=lambda cell: order[cell.variant, cell.seed])


def _probed(folder: Folder, variant: str) -> tuple[int, float]:
    """The number of parameters, and the estimated seconds of a whole cell."""
    design, side = folder.design, folder.design.side
    train = design.variants[variant].train
    task = folder.open(variant, design.seeds[0])
    parameters = sum(parameter.numel() for parameter in task.model.parameters())
    if design.budget.kind == "seconds":
        return parameters, float(design.budget.amount)
    if design.budget.kind == "tokens":
        train = replace(train, steps=cells.steps_of_tokens(side, task, design.budget.amount, train.accumulate))
    step = step_seconds(task, train) or 0.0  # none where the loss is not finite, which training reports
    return parameters, total_seconds(task, train, step)


def _state(folder: Folder | None, variant: str, seed: int, design: Design) -> tuple[str, float]:
    """The state of a cell in words, and the fraction of its training that is left."""
    if folder is None:
        return "to train", 1.0
    place = folder.cell(variant, seed)
    if cells.finished(folder, variant, seed) is not None:
        return "done", 0.0
    if is_finished(place):
        return "to measure", 0.0
    step = max(Checkpoints(place / "checkpoints").steps(), default=0)
    steps = folder.config(variant, seed).train.steps
    if not step or steps == UNLIMITED or design.budget.kind == "tokens":
        return (f"at step {step:,}" if step else "to train"), 1.0
    return f"at step {step:,} of {steps:,}", 1 - step / steps
