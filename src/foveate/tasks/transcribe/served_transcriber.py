"""A recogniser behind an address."""

from collections.abc import Sequence
from typing import Any

from foveate.tasks.served import Answered
from foveate.tasks.served_file import ServedFiles
from foveate.tasks.transcribe.use import Transcriber, Transcript


class ServedTranscriber(ServedFiles):
    """Writes down recordings, or vectors of such."""

    verb = "transcribe"
    reader: Transcriber

    def of_rows(self, rows: Sequence[Any], names: Sequence[str], seconds: Sequence[float]) -> list[Answered]:
        """`{"text": …, "words": [{"word": …, "start": …, "end": …}], "seconds": …, "unit": …, "log_probability": …,
        "remarks": […]}`; `words` is null for a model without CTC, which tells when a word is heard. Their times have
        the unit "seconds", or "vectors" for a model of these, whose `seconds` are null.
        """
        transcripts = self.reader.of_rows(rows, names)
        return [
            Answered(self._value(one, length), len(row), len(one.hypotheses[0].tokens) if one.hypotheses else 0)
            for one, row, length in zip(transcripts, rows, seconds, strict=True)
        ]

    @property
    def longest(self) -> int | None:
        return self.reader.model.longest_source

    def _value(self, transcript: Transcript, seconds: float) -> dict[str, Any]:
        words = None
        if self.reader.model.ctc_output is not None:
            words = [
                {"word": each.label, "start": round(each.start, 3), "end": round(each.end, 3)}
                for each in transcript.words
            ]
        return {
            "text": transcript.text,
            "words": words,
            "seconds": round(seconds, 3) if self.reads == "recordings" else None,
            "unit": "seconds" if self.reads == "recordings" else "vectors",
            "log_probability": transcript.log_probability,
            "remarks": transcript.remarks,
        }
