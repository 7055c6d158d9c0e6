"""A classifier of pictures, recordings or vectors behind an address."""

from collections.abc import Sequence
from typing import Any

from foveate.data.audio_file import Recording
from foveate.data.feature import Vector
from foveate.data.picture import Picture
from foveate.tasks.classify.use import RowClassifier
from foveate.tasks.served import Answered
from foveate.tasks.served_file import ServedFiles


class ServedFileClassifier(ServedFiles):
    """Labels pictures, recordings or vectors."""

    verb = "classify"
    reader: RowClassifier

    def row(self, thing: Recording | Picture | Vector, name: str) -> Any:
        return self.reader.row(thing, name)

    def of_rows(self, rows: Sequence[Any], names: Sequence[str], seconds: Sequence[float]) -> list[Answered]:
        """`{"label": …, "probabilities": {label: …}, "remarks": […]}`, the most probable first."""
        return [
            Answered({"label": one.label, "probabilities": one.probabilities, "remarks": one.remarks}, len(row))
            for one, row in zip(self.reader.of_rows(rows, names), rows, strict=True)
        ]
