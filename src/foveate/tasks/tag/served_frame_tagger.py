"""A tagger of recordings or vectors behind an address."""

from collections.abc import Sequence
from typing import Any

from foveate.tasks.served import Answered
from foveate.tasks.served_file import ServedFiles
from foveate.tasks.tag.frame_use import FrameLabeller, LabelledFrames


class ServedFrameTagger(ServedFiles):
    """Labels each vector of a recording, or of an array of vectors."""

    verb = "tag"
    reader: FrameLabeller

    def of_rows(self, rows: Sequence[Any], names: Sequence[str], seconds: Sequence[float]) -> list[Answered]:
        """`{"segments": [{"label": …, "start": …, "end": …, "probability": …}], "unit": …, "remarks": […]}`; segments
        are runs of equal labels, their times in the unit "seconds", or "vectors" where vectors have no time, and their
        probability is the mean of those of their vectors.
        """
        lengths = [length or None for length in seconds]
        answers = self.reader.of_rows(rows, names, lengths)
        return [Answered(_value(one), len(row), len(row)) for one, row in zip(answers, rows, strict=True)]


def _value(labelled: LabelledFrames) -> dict[str, Any]:
    segments = [
        {"label": one.label, "start": round(one.start, 6), "end": round(one.end, 6), "probability": sure}
        for one, sure in zip(labelled.segments, labelled.segment_probabilities, strict=True)
    ]
    unit = "vectors" if labelled.clock is None else "seconds"
    return {"segments": segments, "unit": unit, "remarks": labelled.remarks}
