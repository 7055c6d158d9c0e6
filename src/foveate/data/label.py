"""The labels that a model predicts, for each word or for a whole text."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from foveate.config import parse_json
from foveate.errors import DataError
from foveate.storage.draft import write_file
from foveate.suggestion import did_you_mean

FORMAT = "foveate labels 1"
_SHOWN = 20


class Labels:
    """Numbered names, the most frequent first.

    >>> labels = Labels.of(["NOUN", "VERB", "NOUN"])
    >>> labels.names, labels.encode("VERB")
    (('NOUN', 'VERB'), 1)
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._numbers = {name: number for number, name in enumerate(self.names)}

    @classmethod
    def of(cls, names: Iterable[str]) -> "Labels":
        """All labels of the training data; equally frequent ones are in the order of their code points."""
        counts = Counter(names)
        return cls(sorted(counts, key=lambda name: (-counts[name], name)))

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def encode(self, name: str, where: str = "") -> int:
        """The number of a label. Raises DataError if it was not in the training data."""
        if name not in self._numbers:
            shown = ", ".join(self.names[:_SHOWN]) + (", …" if len(self.names) > _SHOWN else "")
            place = f"{where}: " if where else ""
            raise DataError(
                f"{place}the label {name!r} is not in the training data.{did_you_mean(name, self.names)} "
                f"Choose one of: {shown}."
            )
        return self._numbers[name]

    def digest(self) -> str:
        """SHA-256 of the names in their order."""
        return hashlib.sha256(json.dumps(self.names).encode("ascii")).hexdigest()

    def save(self, path: Path | str) -> None:
        """Write a JSON file, completely or not at all."""
        record = {"format": FORMAT, "digest": self.digest(), "labels": self.names}
        write_file(Path(path), (json.dumps(record, ensure_ascii=False, indent=1) + "\n").encode("utf-8"))

    @classmethod
    def load(cls, path: Path | str) -> "Labels":
        """Read the file that `save` wrote. Raises DataError if it is missing or damaged."""
        try:
            record = parse_json(Path(path).read_bytes())
            labels = cls([name for name in record["labels"] if isinstance(name, str)])
            sound = record["format"] == FORMAT and record["digest"] == labels.digest() and len(labels) > 0
        except OSError as error:
            raise DataError(f"{path}: the labels cannot be read: {error.strerror}.") from None
        except (ValueError, KeyError, TypeError):
            sound = False
        if not sound:
            raise DataError(f"{path} is damaged or not a file of labels. Restore it from a copy of the run.")
        return labels
