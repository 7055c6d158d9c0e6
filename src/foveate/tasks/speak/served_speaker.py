"""A voice behind an address."""

from collections.abc import Mapping, Sequence
from typing import Any

from foveate.data.sound_file import FORMATS, sound_file
from foveate.errors import UsageError
from foveate.tasks.served import Answered, Served, numbered, require_settings
from foveate.tasks.speak.use import Speaker


class ServedSpeaker(Served):
    """Speaks texts."""

    verb = "speak"
    settings = ("format",)
    sample: tuple[str, Mapping[str, Any]] = ("Hello.", {})
    reader: Speaker

    def answer(self, texts: Sequence[str], settings: Mapping[str, Any]) -> list[Answered]:
        """`{"audio": …, "format": …, "seconds": …, "finished": …}`: the content of a file, which JSON has as base64. It
        is not finished where the longest speech of the model has cut it.
        """
        require_settings(settings, self.settings)
        form = settings.get("format", "wav")
        if form not in FORMATS:
            raise UsageError(f"format is one of {', '.join(FORMATS)}, got {form!r}.")
        return numbered(texts, lambda text: self._spoken(text, form))

    def summary(self, text: str) -> dict[str, Any]:
        """An explanation has the weights of a text, without its sound."""
        return {}

    def _spoken(self, text: str, form: str) -> Answered:
        speech = self.reader.speak(text)
        if speech.recording is None:
            raise UsageError("The text is empty: there is nothing to speak. Leave it out.")
        value = {
            "audio": sound_file(speech.recording.samples, speech.recording.rate, form),
            "format": form,
            "seconds": round(speech.seconds, 3),
            "finished": speech.finished,
        }
        return Answered(value, self.tokens(text), len(speech.energies))
