"""Reading and creating run folders.

run/config.json                 task, configuration, version of the format
run/source.tokeniser.json       and target.tokeniser.json, with their digests
run/data/{train,valid}/         token stores
run/checkpoints/step-…/         see `checkpoint`
run/metrics.jsonl, best.json    what was measured
run/model.safetensors, .json    the weights for use, with their digest
run/report.html
"""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foveate.errors import DataError, UsageError
from foveate.storage.draft import disk_errors
from foveate.storage.manifest import DamagedError, read_json, write_json
from foveate.storage.shipped import SHIPPED, name_of, name_such_a_run, run_folder
from foveate.storage.symbolic_link import require_unlinked
from foveate.suggestion import listing, missing_file

FORMAT = 1
BEGINNING = ".beginning"
"""The file that marks a folder in which a run is being prepared."""
GUESTS = {
    "marian": "translate",
    "gpt2": "language_model",
    "llama": "language_model",
    "bert": "masked_language_model",
    "roberta": "masked_language_model",
    "distilbert": "masked_language_model",
    "vit": "classify",
    "deit": "classify",
}
"""The model types of Hugging Face that can be opened like runs, and their tasks."""
ENCODERS = frozenset(kind for kind, task in GUESTS.items() if task == "masked_language_model")
READ = {
    "translate": "runs of translate and Marian models",
    "language_model": "runs of language_model, GPT-2 and Llama",
    "masked_language_model": "runs of masked_language_model, and BERT, RoBERTa and DistilBERT with a head for gaps",
    "classify": "runs of classify, BERT, RoBERTa and DistilBERT ForSequenceClassification, "
    "and ViT and DeiT ForImageClassification",
    "tag": "runs of tag, which may begin with the encoder of a BERT (`foveate train tag --set initialise_from=FOLDER`)",
}
"""A description of the folders that each task reads."""
CLASSIFIER = ("ForSequenceClassification", "ForImageClassification", "ForImageClassificationWithTeacher")
"""Ends of the class names of models that were fine-tuned for classification."""


@dataclass(frozen=True)
class Run:
    """The content of `config.json`."""

    folder: Path
    task: str
    config: dict[str, Any]
    tokenisers: dict[str, str]
    """The digests of the model's tokenisers, by file name."""
    guest: str = ""
    """The class of a model in a folder of Hugging Face; empty for a run."""
    changes: tuple[dict[str, Any], ...] = ()
    """The changes on continuing the run: old and new values by the setting's dotted path."""

    def require(self, task: str) -> "Run":
        """Return this run. Raises UsageError if it belongs to another task."""
        if self.task != task and self.guest:
            raise UsageError(
                f"{self.folder} contains a {self.guest} of Hugging Face, but this command reads "
                f"{READ.get(task, f'runs of {task}')}. `foveate look {shlex.quote(str(self.folder))} TEXT` shows its "
                "attention."
            )
        if self.task != task:
            raise UsageError(
                f"{name_of(self.folder)} is a run of the task {self.task}, but this command is for runs of {task}. "
                f"{name_such_a_run([task])}, or see `foveate --help` for the commands of {self.task}."
            )
        return self


def require_new(folder: Path) -> None:
    """Raises UsageError if a run cannot begin in this folder because it has content.

    Hidden files and the remains of a failed start (see `begin_run`) do not count.
    """
    _require_no_run(folder)
    entries = folder.iterdir() if folder.exists() else iter(())
    others = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    if others and not (folder / BEGINNING).exists():
        raise UsageError(
            f"{folder} is not empty and does not contain a run: it has {listing(others, 3)}. Name a new folder, "
            f"for example {folder / 'run'}."
        )


def begin_run(folder: Path) -> None:
    """Makes a folder for preparing a run, with a mark that allows another start to use it if this one fails.

    Raises UsageError like `require_new`.
    """
    require_new(folder)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / BEGINNING).touch()


def create_run(folder: Path, task: str, config: Mapping[str, Any], tokenisers: Mapping[str, str] | None = None) -> None:
    """Writes `config.json`, which makes a prepared folder a run. Raises UsageError if it is one already."""
    _require_no_run(folder)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    content = {"format": FORMAT, "task": task, "tokenisers": dict(tokenisers or {}), "config": dict(config)}
    write_json(folder / "config.json", content)
    with disk_errors(folder):
        (folder / BEGINNING).unlink(missing_ok=True)


def change_run(run: Run, config: Mapping[str, Any], change: Mapping[str, Any]) -> Run:
    """Writes other settings into a run, with a record of the changes."""
    result = replace(run, config=dict(config), changes=(*run.changes, dict(change)))
    content = {"format": FORMAT, "task": run.task, "tokenisers": run.tokenisers, "config": result.config}
    write_json(run.folder / "config.json", {**content, "changes": list(result.changes)})
    return result


def _require_no_run(folder: Path) -> None:
    if (folder / "config.json").exists():
        raise UsageError(
            f"{folder} contains a run already. Continue it with `foveate resume {shlex.quote(str(folder))}`, or "
            "name another folder."
        )
    require_unlinked(folder)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file. Name a folder for the run.")


def model_type_of(folder: Path | str) -> str | None:
    """The model type of a folder of Hugging Face; None for any other folder."""
    path = Path(folder) / "config.json"
    if not path.exists():
        return None
    content = read_json(path)
    kind = content.get("model_type")
    return kind if isinstance(kind, str) and "format" not in content else None


def tells_a_label(content: Mapping[str, Any]) -> bool:
    """Whether the model in a folder of Hugging Face was fine-tuned to predict one of several labels."""
    labels = content.get("id2label")
    one = isinstance(labels, dict) and len(labels) == 1
    other = content.get("problem_type") in ("regression", "multi_label_classification")
    return class_of(content).endswith(CLASSIFIER) and not one and not other


def class_of(content: Mapping[str, Any]) -> str:
    """The model class of a folder of Hugging Face, or its model type."""
    names = content.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else str(content.get("model_type"))


def read_run(folder: Path) -> Run:
    """Open a run folder, or a folder of Hugging Face as a run without settings.

    Raises DataError if the folder is neither, or if another version of foveate wrote it.
    """
    folder = run_folder(str(folder)) if str(folder) in SHIPPED else folder
    path = Path(folder) / "config.json"
    if (Path(folder) / "export.json").exists():
        raise DataError(
            f"{folder} is an export for other programs, not a run. Give the run that it was made from; "
            "`foveate translate RUN --engine` decodes with other engines."
        )
    if not Path(folder).exists():
        raise DataError(missing_file(Path(folder)).replace("no such file", "no such folder"))
    if not path.exists():
        inside = sorted(entry.parent.name for entry in Path(folder).glob("*/config.json"))
        hint = (
            f" Did you mean {folder}/{inside[0]}?" if inside else " Give the folder that `foveate train … --out` made."
        )
        raise DataError(f"{folder} is not a run folder: it has no config.json.{hint}")
    content, kind = read_json(path), model_type_of(folder)
    if kind is not None:
        if kind not in GUESTS:
            raise DataError(
                f"{folder} contains a {class_of(content)} with model type {kind!r}; supported types of Hugging Face "
                f"are {', '.join(GUESTS)}. Any model in memory can be recorded: foveate.inspect.hugging_face."
            )
        task = "classify" if kind in ENCODERS and tells_a_label(content) else GUESTS[kind]
        return Run(Path(folder), task, {}, {}, class_of(content))
    if content.get("format") != FORMAT:
        raise DataError(
            f"{path} has run format {content.get('format')!r}, but this version of foveate reads format {FORMAT}. "
            "Install the version of foveate that made the run, or train again."
        )
    for name, expected in (("task", str), ("config", dict), ("tokenisers", dict)):
        if not isinstance(content.get(name), expected):
            raise DamagedError(f"{path} has no {name}: it is damaged. Restore it from a copy of the run.")
    changes = content.get("changes", [])
    if not isinstance(changes, list) or not all(isinstance(change, dict) for change in changes):
        raise DamagedError(f"{path}: its changes are damaged. Restore it from a copy of the run.")
    return Run(Path(folder), content["task"], content["config"], content["tokenisers"], changes=tuple(changes))
