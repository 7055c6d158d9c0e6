"""A trained synthesiser in use: sound for texts, and which part of the text each frame speaks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import torch
from jaxtyping import Float
from torch import Tensor

from foveate.data.audio import AudioRows
from foveate.data.audio_file import Recording
from foveate.data.batch import Batch
from foveate.data.text import require_texts
from foveate.data.tokeniser import EOS, SPECIALS, Tokeniser
from foveate.data.transcript import TextConfig
from foveate.data.waveform import waveform
from foveate.inspect import Trace, Track
from foveate.inspect.looking import Looking
from foveate.inspect.trace import Pedigree
from foveate.inspect.trace.media import spectrogram
from foveate.inspect.value import observed
from foveate.models.synthesiser import Synthesiser, Utterance
from foveate.tasks.run_model import require_positions, require_text
from foveate.tasks.speak.task import SpeakConfig
from foveate.tasks.text_writing import load_writer


@dataclass(frozen=True, eq=False)
class Speech:
    """The speech of a text: log-mel energies of its frames, and their sound; neither for an empty text.

    `finished` is false for speech that the longest permitted number of frames has cut.
    """

    text: str
    energies: Float[Tensor, "frames bands"]
    recording: Recording | None = None
    finished: bool = True

    @property
    def seconds(self) -> float:
        return 0.0 if self.recording is None else self.recording.seconds


class Speaker(Looking):
    """Speaks with a trained model. Speech depends neither on the other texts nor on chance."""

    def __init__(
        self,
        model: Synthesiser,
        rows: AudioRows,
        tokeniser: Tokeniser,
        *,
        form: TextConfig = TextConfig(),
        max_frames: int = 3000,
    ) -> None:
        """`max_frames` is the limit on the length of a speech."""
        self.model, self.rows, self.tokeniser, self.form = model.eval(), rows, tokeniser, form
        self.max_frames = max_frames

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "Speaker":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        config, rows, tokeniser, model = load_writer(Path(run), "speak", SpeakConfig, note)
        return cls(model, rows, tokeniser, form=config.text, max_frames=config.longest)._of(run)

    @overload
    def speak(self, texts: str) -> Speech: ...  # type: ignore[overload-overlap]

    @overload
    def speak(self, texts: Sequence[str]) -> list[Speech]: ...

    @torch.inference_mode()
    def speak(self, texts: str | Sequence[str]) -> Speech | list[Speech]:
        """Speak a text, or each of several.

        Raises DataError for a text with more tokens than the model has positions.
        """
        require_texts(texts)
        if isinstance(texts, str):
            return self.speak([texts])[0]
        return [self._spoken(text) for text in texts]

    @torch.inference_mode()
    def trace(self, text: str) -> Trace:
        """The tokens that each step of the decoder looks at while it writes frames, over their sound.

        Raises UsageError for an empty text, DataError as `speak` does.
        """
        require_text(text)
        ids = self._ids(text)
        (written,) = self.model.write(Batch.of([ids]), max_frames=self.max_frames)
        speech = self._speech(text, written)
        forced = Batch.of([written.frames.float().numpy()])
        observation = observed(self.model, lambda: self.model(Batch.of([ids]), forced).refined)
        size = self.model.config.reduction
        steps = -(-len(written.frames) // size)
        tracks = {
            "source": Track.of_pieces([*self.tokeniser.labels(self.form.form(text)), SPECIALS[EOS]], text=text),
            "target": Track.of_settings(
                {
                    "labels": tuple(f"{step * size * self.rows.hop:.2f} s" for step in range(steps)),
                    "kind": "frames",
                    "hop": size * self.rows.hop,
                    "picture": spectrogram(speech.energies),
                    "sound": speech.recording,
                }
            ),
        }
        return Trace.of(observation, tracks, pedigree=Pedigree.of(self.model))

    def _spoken(self, text: str) -> Speech:
        ids = self._ids(text)
        if len(ids) == 1:
            return Speech(text, torch.zeros(0, self.model.width))
        (written,) = self.model.write(Batch.of([ids]), max_frames=self.max_frames)
        return self._speech(text, written)

    def _speech(self, text: str, written: Utterance) -> Speech:
        deviation, mean = torch.tensor(self.rows.deviation), torch.tensor(self.rows.mean)
        energies = written.refined.float() * deviation + mean
        recording = Recording(text, waveform(energies, self.rows.rate), self.rows.rate)
        return Speech(text, energies, recording, written.finished)

    def _ids(self, text: str) -> list[int]:
        ids = [*self.tokeniser.encode(self.form.form(text)), EOS]
        require_positions("The text", len(ids), self.model.max_length, "tokens, its end included")
        return ids
