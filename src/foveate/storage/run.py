"""The run folder: one place that knows what a run is called and which version wrote it.

run/config.json                 what the run is: task, configuration, format
run/source.tokeniser.json       and target.tokeniser.json, with their digests
run/data/{train,valid}/         token stores
run/checkpoints/step-…/         see `checkpoint`
run/metrics.jsonl, best.json    what was measured
run/model.safetensors, .json    the weights for use, with their digest
run/report.html
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from foveate.errors import DataError, UsageError
from foveate.storage.draft import disk_errors
from foveate.storage.link import require_unlinked
from foveate.storage.manifest import DamagedError, read_json, write_json
from foveate.storage.shipped import SHIPPED, run_folder
from foveate.suggestion import missing_file

FORMAT = 1
BEGINNING = ".beginning"
"""A file in a folder whose run is being prepared."""
GUESTS = {
    "marian": "translate",
    "gpt2": "language_model",
    "llama": "language_model",
    "bert": "masked_language_model",
    "roberta": "masked_language_model",
    "distilbert": "masked_language_model",
}
"""Kinds of models in folders of Hugging Face, and the task that each serves as a run would."""
ENCODERS = frozenset(kind for kind, task in GUESTS.items() if task == "masked_language_model")
READ = {
    "translate": "runs of translate and Marian models",
    "language_model": "runs of language_model, GPT-2 and Llama",
    "masked_language_model": "runs of masked_language_model, and BERT, RoBERTa and DistilBERT with a head for gaps",
    "classify": "runs of classify, and BERT, RoBERTa and DistilBERT ForSequenceClassification",
    "tag": "runs of tag, which may begin with the encoder of a BERT (`foveate train tag --set initialise_from=FOLDER`)",
}
"""What is read for each task, in words."""
CLASSIFIER = "ForSequenceClassification"
"""How the class of a model is called that was fine-tuned to classify."""


@dataclass(frozen=True)
class Run:
    """What `config.json` says."""

    folder: Path
    task: str
    config: dict[str, Any]
    tokenisers: dict[str, str]
    """Digests of the tokenisers that the model was trained with, by file name."""
    guest: str = ""
    """The class of a model in a folder of Hugging Face; empty for a run."""
    changes: tuple[dict[str, Any], ...] = ()
    """What was changed for the run to go on: the old and the new value by the setting's dotted path."""

    def require(self, task: str) -> "Run":
        """This run. Raises UsageError when it is of another task."""
        if self.task != task and self.guest:
            raise UsageError(
                f"{self.folder} holds a {self.guest} of Hugging Face, which is not read here: this is for "
                f"{READ.get(task, f'runs of {task}')}. `foveate look {self.folder} TEXT` shows what it looks at."
            )
        if self.task != task:
            raise UsageError(
                f"{self.folder} is a run of the task {self.task}, and this is for runs of {task}. Name such a run, or "
                f"see `foveate --help` for what can be done with {self.task}."
            )
        return self


def require_new(folder: Path) -> None:
    """Raises UsageError when a run cannot begin in this folder because something is there already.

    What a start left that came to nothing is no obstacle: see `begin_run`. Hidden files are none either.
    """
    _require_no_run(folder)
    entries = folder.iterdir() if folder.exists() else iter(())
    others = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    if others and not (folder / BEGINNING).exists():
        shown = ", ".join(others[:3]) + (f" and {len(others) - 3:,} more" if len(others) > 3 else "")
        raise UsageError(
            f"{folder} is not empty and holds no run: it has {shown}. Name a folder that is new, for example "
            f"{folder / 'run'}."
        )


def begin_run(folder: Path) -> None:
    """Makes a folder in which a run is being prepared, marked so that another start may use it if this one fails.

    Raises UsageError as `require_new` does.
    """
    require_new(folder)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / BEGINNING).touch()


def create_run(folder: Path, task: str, config: Mapping[str, Any], tokenisers: Mapping[str, str] | None = None) -> None:
    """Makes a folder a run, whatever has been prepared in it. Raises UsageError when it is one already."""
    _require_no_run(folder)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    content = {"format": FORMAT, "task": task, "tokenisers": dict(tokenisers or {}), "config": dict(config)}
    write_json(folder / "config.json", content)
    with disk_errors(folder):
        (folder / BEGINNING).unlink(missing_ok=True)


def change_run(run: Run, config: Mapping[str, Any], change: Mapping[str, Any]) -> Run:
    """Gives a run other settings and keeps what was changed beside them."""
    changed = replace(run, config=dict(config), changes=(*run.changes, dict(change)))
    content = {"format": FORMAT, "task": run.task, "tokenisers": run.tokenisers, "config": changed.config}
    write_json(run.folder / "config.json", {**content, "changes": list(changed.changes)})
    return changed


def _require_no_run(folder: Path) -> None:
    if (folder / "config.json").exists():
        raise UsageError(
            f"{folder} holds a run already. Continue it with `foveate resume {folder}`, or name another folder."
        )
    require_unlinked(folder)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"{folder} is a file. Name a folder for the run.")


def model_type_of(folder: Path | str) -> str | None:
    """Which kind of model a folder of Hugging Face holds; None for any other folder."""
    path = Path(folder) / "config.json"
    if not path.exists():
        return None
    content = read_json(path)
    kind = content.get("model_type")
    return kind if isinstance(kind, str) and "format" not in content else None


def tells_a_label(content: Mapping[str, Any]) -> bool:
    """Whether the model in a folder of Hugging Face was fine-tuned to tell one of several labels."""
    labels = content.get("id2label")
    one = isinstance(labels, dict) and len(labels) == 1
    other = content.get("problem_type") in ("regression", "multi_label_classification")
    return class_of(content).endswith(CLASSIFIER) and not one and not other


def class_of(content: Mapping[str, Any]) -> str:
    """The class that wrote a folder of Hugging Face, or the kind of its model."""
    names = content.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else str(content.get("model_type"))


def read_run(folder: Path) -> Run:
    """Open a run folder; a folder of Hugging Face is one without settings.

    Raises DataError when there is none, or when another version wrote it.
    """
    folder = run_folder(str(folder)) if str(folder) in SHIPPED else folder
    path = Path(folder) / "config.json"
    if (Path(folder) / "export.json").exists():
        raise DataError(
            f"{folder} is no run but an export, for other programs. Give the run it was made from; "
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
                f"{folder} holds a {class_of(content)}, a model of the kind {kind!r}; of Hugging Face, "
                f"{', '.join(GUESTS)} are read. Any model in memory can be recorded: foveate.inspect.hugging_face."
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
