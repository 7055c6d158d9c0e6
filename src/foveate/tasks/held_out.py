"""The division of labelled examples into those for training and those that are held out for validation."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from foveate.data.picture_array import files_of
from foveate.data.text import require_lasting
from foveate.errors import DataError
from foveate.storage.draft import disk_errors
from foveate.storage.staging import stamps
from foveate.suggestion import counted, listing

_NAMED = 10
"""Rare labels that a warning lists."""


class Parts:
    """The examples for training and those held out, read again and again from their files.

    A label that only one example has stays in training, whatever the seed draws: a model cannot be asked for a label
    that it has never met. `rare` are these labels.
    """

    def __init__(self, config: Any) -> None:
        self.data, self.read = config.data, config.read
        self.drawn: frozenset[int] = frozenset()
        self.rare: tuple[str, ...] = ()
        self.total = 0
        self._cheap = getattr(config, "reader", None) is not None
        """Whether files only list the things, which are read one by one."""
        if getattr(config, "reader", None) is None:
            require_lasting(self.data.data, self.data.valid_data)
        if self.data.valid_data is None:
            known: dict[frozenset[str], frozenset[str]] = {}  # each set once, as there may be many examples
            examples = map(frozenset, map(config.labels_of, self.read(self.data.data)))
            label_sets = [known.setdefault(labels, labels) for labels in examples]
            self.total = total = len(label_sets)
            size = min(self.data.held_out, total // 10)
            if size < 1:
                raise DataError(
                    f"{self.data.data} has {counted(total, 'example')}: too few to hold some out for validation. "
                    "Give at least 10, or a validation file with --valid-data (data.valid_data)."
                )
            counts = Counter(chain.from_iterable(label_sets))
            self.rare = tuple(sorted(label for label, count in counts.items() if count == 1))
            self.drawn = _drawn(label_sets, counts, size, config.seed)
            if not self.drawn:
                raise DataError(
                    f"Every example of {self.data.data} has a label that no other example has, so none can be held out "
                    "for validation. Give a validation file with --valid-data (data.valid_data), or more examples."
                )

    @property
    def warning(self) -> str:
        """A sentence about the labels that occur once; empty where there are none."""
        if not self.rare:
            return ""
        labels = listing(map(repr, self.rare), _NAMED)
        return (
            f"Warning: {counted(len(self.rare), 'label')} of only one example: {labels}. "
            "They are trained on and never validated; look for misspellings, or give more examples."
        )

    def path(self, part: str) -> str:
        """The file that a part comes from."""
        return self.data.valid_data if part == "valid" and self.data.valid_data is not None else self.data.data

    def origin(self, part: str) -> str:
        """A text that promises the same examples: the files with their sizes and times, and the choice among them."""
        paths = [path for path in (self.data.data, self.data.valid_data) if path is not None]
        files = [[path, *(stamps(file) for file in files_of(path))] for path in paths]
        return json.dumps([files, part, sorted(self.drawn)])

    def __call__(self, part: str) -> Iterator[Any]:
        """The examples of "train" or "valid", streamed, with a hint of their number where that is cheap."""
        examples = self.read(self.path(part))
        if self.data.valid_data is not None:
            return _Hinted(examples, sum(1 for _ in self.read(self.path(part))) if self._cheap else 0)
        chosen = (one for number, one in enumerate(examples) if (number in self.drawn) == (part == "valid"))
        return _Hinted(chosen, len(self.drawn) if part == "valid" else self.total - len(self.drawn))

    def write(self, folder: Path, written: Callable[[Any], str], head: str = "") -> dict[str, Any]:
        """Write train.tsv and valid.tsv, for runs with other seeds; `written` are the lines of an example.

        Returns the settings of `data` that name the files.
        """
        settings = {}
        for part, name in (("train", "data"), ("valid", "valid_data")):
            path, content = folder / f"{part}.tsv", "".join([head, *map(written, self(part))])
            with disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
            settings[name] = path.name
        return settings


class _Hinted:
    """An iterator with the number of its items for those who show progress."""

    def __init__(self, items: Iterator[Any], count: int) -> None:
        self.items, self.count = items, count

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self.items)

    def __length_hint__(self) -> int:
        return self.count


def _drawn(label_sets: Sequence[frozenset[str]], counts: Counter[str], size: int, seed: int) -> frozenset[int]:
    """The examples held out, a function of the seed: no label loses its last example to them.

    Where a drawn example is the last of a label, the draw goes on; without such labels it is numpy's plain choice.
    """
    generator, left, drawn = np.random.default_rng(seed), Counter(counts), set[int]()
    for number in chain(
        generator.choice(len(label_sets), size=size, replace=False).tolist(),
        generator.permutation(len(label_sets)).tolist(),
    ):
        if len(drawn) == size:
            break
        if number not in drawn and all(left[label] > 1 for label in label_sets[number]):
            drawn.add(number)
            left.subtract(label_sets[number])
    return frozenset(drawn)
