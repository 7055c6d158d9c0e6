"""A recogniser behind an address."""

from collections.abc import Sequence
from typing import Any

from foveate.tasks.served import Answered
from foveate.tasks.served_file import ServedFiles
from foveate.tasks.transcribe.use import Transcriber, Transcript


class ServedTranscriber(ServedFiles):
    """Writes down recordings."""

    verb = "transcribe"
    reader: Transcriber

    def of_rows(self, rows: Sequence[Any], names: Sequence[str], seconds: Sequence[float]) -> list[Answered]:
        """`{"text": …, "words": [{"word": …, "start": …, "end": …}], "seconds": …, "log_probability": …, "remarks":
        […]}`; `words` is null for a model without CTC, which tells when a word is heard.
        """
        transcripts = self.reader.of_rows(rows, names)
        return [
            Answered(self._value(one, length), len(row), len(one.hypotheses[0].tokens) if one.hypotheses else 0)
            for one, row, length in zip(transcripts, rows, seconds, strict=True)
        ]

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
            "seconds": round(seconds, 3),
            "log_probability": transcript.log_probability,
            "remarks": transcript.remarks,
        }
