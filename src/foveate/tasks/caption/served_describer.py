"""A captioner behind an address."""

from collections.abc import Sequence
from typing import Any

from foveate.tasks.caption.use import Describer
from foveate.tasks.served import Answered
from foveate.tasks.served_file import ServedFiles


class ServedDescriber(ServedFiles):
    """Describes pictures."""

    verb = "caption"
    reader: Describer

    def of_rows(self, rows: Sequence[Any], names: Sequence[str], seconds: Sequence[float]) -> list[Answered]:
        """`{"text": …, "log_probability": …, "remarks": […]}`"""
        answers = []
        # A picture alone has the number 0 for what is drawn, so that a caption does not depend on its neighbours.
        for one, row in zip(self.reader.of_rows(rows, names, examples=[0] * len(rows)), rows, strict=True):
            best = one.hypotheses[0]
            value = {"text": one.text, "log_probability": best.log_probability, "remarks": one.remarks}
            answers.append(Answered(value, len(row), len(best.tokens)))
        return answers
