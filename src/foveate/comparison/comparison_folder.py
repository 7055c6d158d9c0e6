"""The folder of a comparison, which refuses results that do not belong together.

out/comparison.json             what is compared: task, budget, digests of the data, every variant's configuration
out/data/train.tsv, valid.tsv   what is held out, where no validation file was given: the same for every seed
out/prepared/<digest>/          tokenisers and stored tokens, once for all cells that share them
out/cells/<variant>/seed-0/     an ordinary run folder, and cell.json: what was measured
out/results.json, cells.csv, curves.csv, lengths.csv, report.html, figures/
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from foveate.comparison.design import Design, folder_names
from foveate.config import to_dict
from foveate.errors import DataError, UsageError
from foveate.storage.draft import TEMPORARY, disk_errors, remove_stale
from foveate.storage.manifest import file_digest, read_json, write_json
from foveate.storage.run import create_run, read_run
from foveate.storage.symbolic_link import require_unlinked
from foveate.suggestion import missing_file
from foveate.train import require_measured
from foveate.train.recipe import direction
from foveate.train.resumption import differences

FORMAT = 1
DESIGN, CELL, HELD_OUT = "comparison.json", "cell.json", "held-out.json"


@dataclass
class Folder:
    """The folder of a comparison."""

    path: Path
    design: Design
    digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the training and validation files, by setting."""
    test_digests: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the test files, by setting."""
    names: dict[str, str] = field(default_factory=dict)
    """The folder of each variant."""

    @classmethod
    def begin(cls, path: Path, design: Design, *, write: bool = True) -> "Folder":
        """Open the comparison in a folder, or create one there; with `write=False` nothing is written.

        Raises UsageError if the comparison there has other data, another budget or other settings, or if a model cannot
        be built; DataError if a data file is missing.
        """
        if not (path / DESIGN).exists() and path.exists() and (not path.is_dir() or any(_strangers(path))):
            raise UsageError(f"{path} holds something else than a comparison. Name another folder.")
        folder = cls(path, design)
        data = design.base.data
        files = {name: getattr(data, name) for name in design.side.entry.files if getattr(data, name, None)}
        folder.digests = {name: _digest(file) for name, file in files.items()}
        folder.test_digests = {name: _digest(file) for name, file in design.asked.test.items()}
        before = read_json(path / DESIGN) if (path / DESIGN).exists() else {}
        if before:
            require_unlinked(path)
        folder._require_same(before)
        names = list(dict.fromkeys([*before.get("variants", {}), *design.variants]))
        folder.names = folder_names(names)
        if not write:
            return folder
        with disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            remove_stale(path)
        folder._hold_out()
        folder._require_same_examples()
        variants = {name: folder._plain(config) for name, config in design.variants.items()}
        write_json(path / DESIGN, {**folder._common, "variants": {**before.get("variants", {}), **variants}})
        return folder

    def cell(self, variant: str, seed: int) -> Path:
        """The run folder of a variant with a seed."""
        return self.path / "cells" / self.names[variant] / f"seed-{seed}"

    def config(self, variant: str, seed: int) -> Any:
        """The configuration of a cell."""
        config = self.design.variants[variant]
        return replace(config, seed=seed, train=replace(config.train, seed=seed))

    def prepare(self, variant: str) -> Path:
        """The folder with the prepared data of a variant; variants with the same data share it."""
        side, config = self.design.side, self.design.variants[variant]
        content = [side.data_settings(self._plain(config)), self._common]
        if getattr(config, "initialise_from", None) is not None:  # the weights to begin with are beside the data
            content.append(to_dict(config)["model"])
        key = json.dumps(content, sort_keys=True)
        place = self.path / "prepared" / hashlib.sha256(key.encode()).hexdigest()[:12]
        if not (place / "config.json").exists():
            with _naming(variant):
                task = side.prepare(config, place)
            create_run(place, side.entry.name, to_dict(config), task.digests)
        return place

    def open(self, variant: str, seed: int) -> Any:
        """The task of a cell with its initial weights. Raises UsageError if its model cannot be built."""
        place = self.prepare(variant)
        with _naming(variant):
            return self.design.side.open(self.config(variant, seed), place)

    def _require_same_examples(self) -> None:
        """Raises UsageError if tokenisers leave out different examples because these become too long."""
        examples = {}
        for name, config in self.design.variants.items():
            task = self.open(name, self.design.seeds[0])
            with _naming(name):
                require_measured(task, config.train)
            examples[name] = len(task.training) if hasattr(task, "training") else None  # tokenisers leave some out
        first = examples[self.design.first]
        for name, count in examples.items():
            if count != first:
                raise UsageError(
                    f"{self.design.first} is trained on {first} examples, {name} on {count}: its tokeniser makes other "
                    "examples too long. Raise data.max_length until none is left out."
                )

    def share(self, variant: str, cell: Path) -> dict[str, str]:
        """Put a variant's data into the run folder of a cell; returns the digests of the tokenisers."""
        place = self.prepare(variant)
        with disk_errors(cell):
            for path in place.rglob("*"):
                target = cell / path.relative_to(place)
                if path.is_dir() or path == place / "config.json":
                    continue
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                _link(path, target)
        return read_run(place).tokenisers

    def require_own(self, variant: str, seed: int, config: Mapping[str, Any]) -> None:
        """Raises UsageError if the run in a cell's folder has other settings."""
        expected, actual = self._plain(self.config(variant, seed)), self._without_files(config)
        if self.design.budget.kind == "tokens":  # how many steps that is, its own batches say
            actual = {**actual, "train": {**actual["train"], "steps": expected["train"]["steps"]}}
        changed = differences(actual, expected)
        if changed:
            listed = "\n".join(f"  {path}: {change}" for path, change in changed.items())
            raise UsageError(
                f"{self.cell(variant, seed)} holds a run with other settings than this comparison's:\n{listed}\n"
                "Remove it, and it is trained anew."
            )

    @property
    def _common(self) -> dict[str, Any]:
        design, data = self.design, self.design.base.data
        columns = getattr(data, "columns", None)
        return {
            "format": FORMAT,
            "task": design.side.entry.name,
            "budget": str(design.budget),
            "split": design.base.seed if self._holds_out else None,
            "columns": None if columns is None else list(columns),
            "held_out": getattr(data, "held_out", None) if self._holds_out else None,
            "data": self.digests,
        }

    @property
    def _holds_out(self) -> bool:
        """Whether no validation file is given."""
        return not any(name.startswith("valid") for name in self.digests)

    def _require_same(self, before: Mapping[str, Any]) -> None:
        if not before:
            return
        if before.get("format") != FORMAT:
            raise DataError(
                f"{self.path / DESIGN} has format {before.get('format')!r}, but this version of foveate reads "
                f"{FORMAT}. Compare anew in another folder."
            )
        variants = before.get("variants")
        if not isinstance(variants, dict) or not all(isinstance(variant, dict) for variant in variants.values()):
            raise DataError(f"{self.path / DESIGN} is damaged. Restore it, or compare in another folder.")
        shared = [name for name in self.design.variants if name in before["variants"]]
        # Comparisons of earlier versions do not say which columns they read and how many examples they held out.
        before = {name: self._common[name] for name in ("columns", "held_out")} | dict(before)
        now = {**self._common, "variants": {name: self._plain(self.design.variants[name]) for name in shared}}
        old = {**before, "variants": {name: before["variants"][name] for name in shared}}
        changed = differences(old, now)
        if changed:
            listed = "\n".join(f"  {path}: {_short(change)}" for path, change in changed.items())
            raise UsageError(
                f"{self.path} holds a comparison that differs in more than variants and seeds:\n{listed}\n"
                "Results of different data, budgets or settings are not put into one table. Name another folder."
            )

    def _hold_out(self) -> None:
        """Hold out validation examples once, so that all seeds have the same ones."""
        marker = self.path / "data" / HELD_OUT
        record = read_json(marker) if marker.exists() else {}
        if record.get("of") != self._common:
            if self._holds_out:
                with disk_errors(marker):
                    marker.parent.mkdir(exist_ok=True)
                write_json(marker, {})  # the folder is a comparison's, even if this is interrupted
            settings = self.design.side.hold_out(self.design.base, self.path / "data")
            record = {"of": self._common, "settings": settings}
            if settings:
                write_json(marker, record)
        if record["settings"]:
            place = (self.path / "data").absolute()
            files = {name: str(place / part) for name, part in record["settings"].items() if isinstance(part, str)}
            columns = record["settings"].get("columns")
            settings = {**record["settings"], **files, **({"columns": tuple(columns)} if columns else {})}
            variants = {
                name: replace(config, data=replace(config.data, **settings))
                for name, config in self.design.variants.items()
            }
            self.design = replace(self.design, variants=variants)

    def _plain(self, config: Any) -> dict[str, Any]:
        return self._without_files(to_dict(config))

    def _without_files(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Plain data without the paths of files, whose digests are compared instead, and with the direction of the
        metric, which earlier versions always wrote.
        """
        excluded = {*self.design.side.entry.files, "columns", "held_out"}
        data, train = config["data"], config["train"]
        return {
            **config,
            "data": {name: part for name, part in data.items() if name not in excluded},
            "train": {**train, "better": train["better"] or direction(train["metric"])},
        }


@contextmanager
def _naming(variant: str) -> Iterator[None]:
    """Adds the variant's name to an error in its settings."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"variant {variant}: {error}") from error


def _strangers(path: Path) -> list[Path]:
    """The files in a folder that do not belong to an unfinished comparison."""
    ours = {".lock", "prepared", *(["data"] if (path / "data" / HELD_OUT).exists() else [])}
    return [entry for entry in path.iterdir() if entry.name not in ours and not entry.name.startswith(TEMPORARY)]


def _digest(file: str) -> str:
    path = Path(file)
    if path.is_dir():
        raise DataError(
            f"{path} is a folder, and a comparison tells data by the digest of one file. Name a table of its files."
        )
    if not path.is_file():
        raise DataError(missing_file(path))
    return file_digest(path)


def _short(change: str) -> str:
    """The change with shortened digests."""
    return " → ".join(f"{part[:12]}…" if len(part) == 64 else part for part in change.split(" → "))


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(path, target)
