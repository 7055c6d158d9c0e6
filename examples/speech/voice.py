"""Learns the voice of one person who reads digits, lets it read others, and asks a recogniser what it says.

    git clone https://github.com/Jakobovski/free-spoken-digit-dataset
    python examples/speech/digits.py free-spoken-digit-dataset/recordings digits/
    foveate train transcribe examples/speech/digits.toml --out asr/
    python examples/speech/voice.py free-spoken-digit-dataset/recordings --recogniser asr/ --out voice/

The script joins recordings of one speaker into strings, as digits.py does for all speakers, and writes their tables
(`--tables` stops there). A model learns to speak them by the settings of voice.toml. Then it speaks the texts of the
test strings that were not among those for training, and the recogniser, which has learnt from real recordings,
transcribes three kinds of sound:

* `recorded`: the test strings themselves;
* `frames`: sound that Griffin and Lim's algorithm makes of their log-mel frames, the best that a model of such frames
  can reach;
* `spoken`: the sound of the frames that the model writes.

The table has, in percent, errors per word (WER), the share of strings without an error, and for the model:

* **ended**: the share of texts whose end it found before the limit on the length, and the **length** of all speeches,
  as a share of that of the recordings;
* **forward**: the share of the decoder's steps that look at the letter of the step before or at a later one.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random

import digits
import torch

from foveate.data.audio_file import Clip, Recording, read_recording
from foveate.data.spectrum import log_mel
from foveate.data.text import read_lines
from foveate.data.waveform import waveform
from foveate.metrics.transcription import Edits
from foveate.tasks.speak.use import Speaker
from foveate.tasks.transcribe.use import Transcriber

sys.path.append(str(Path(__file__).parents[1]))
from figures import keep, show
from measure import Recipe, measuring

CONFIGURATION = Path(__file__).parent / "voice.toml"
RESULTS = Path(__file__).parent / "results.json"
SIZES = {"train": 1500, "valid": 50, "test": 120}
"""The numbers of strings."""
LONGEST = 5
"""The largest number of digits in a string."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = measuring(__doc__, out=Path("demo/voice"), results=RESULTS, seconds=300)
    parser.add_argument("recordings", type=Path, help="folder with 0_george_0.wav and the others")
    parser.add_argument("--recogniser", type=Path, help="a run of digits.toml, which transcribes the speech")
    parser.add_argument("--speaker", default="jackson", help="(jackson)")
    parser.add_argument("--tables", action="store_true", help="write the strings of the speaker, and stop")
    parser.add_argument("--set", action="append", default=[], metavar="SETTING", help="another than in voice.toml")
    arguments = parser.parse_args(argv)
    write(arguments.recordings, arguments.speaker, arguments.out)
    if arguments.tables:
        return 0
    if arguments.recogniser is None:
        parser.error("--recogniser is missing: a run of digits.toml that says what the voice speaks")
    recipe = Recipe(
        task="speak",
        configuration=CONFIGURATION,
        data={"data": arguments.out / "train.tsv", "valid_data": arguments.out / "valid.tsv"},
    )
    table = ", ".join([f"voice, {arguments.seconds:g} s", *arguments.set])
    recogniser, references = Transcriber.load(arguments.recogniser), test(arguments.out)
    for row, sounds in heard(references, recogniser.rows.rate).items():
        keep(table, row, 0, errors(recogniser, sounds, [text for _, text in references]), path=arguments.results)
    for seed in arguments.seeds:
        run = arguments.out / "-".join(["run", *map(digest, arguments.set), f"{seed}", f"{arguments.seconds:g}"])
        store = arguments.out / "store"
        spent = recipe.train(arguments.set, seed, run, store=store, seconds=arguments.seconds)
        figures = score(Speaker.load(run), recogniser, references)
        keep(table, "spoken", seed, {**figures, **spent}, path=arguments.results)
        show(table, path=arguments.results)
    return 0


def digest(setting: str) -> str:
    """A setting as a part of a name."""
    return "".join(letter if letter.isalnum() else "-" for letter in setting)


def write(recordings: Path, speaker: str, folder: Path) -> None:
    """Write strings of one speaker, which are always the same."""
    for part, every in digits.split(recordings).items():
        if speaker not in every:
            raise SystemExit(f"{recordings} has no {part} recordings of {speaker!r}. Speakers: {', '.join(every)}.")
        one = {speaker: every[speaker]}
        digits.write(digits.strings(one, SIZES[part], Random(f"{speaker} {part}"), longest=LONGEST), folder, part)


def test(folder: Path) -> list[tuple[Clip, str]]:
    """The test strings whose text is not among those for training."""
    known = {line.split("\t")[1] for line in read_lines(folder / "train.tsv")}
    rows = [line.split("\t") for line in read_lines(folder / "test.tsv")]
    return [(Clip(folder / name), text) for name, text in rows if text not in known]


def heard(references: Sequence[tuple[Clip, str]], rate: int) -> dict[str, list[Recording]]:
    """The recordings, and the sounds that are made of their frames alone."""
    recorded = [read_recording(clip).at(rate) for clip, _ in references]
    energies = [log_mel(torch.from_numpy(one.samples), rate, bands=40) for one in recorded]
    return {"recorded": recorded, "frames": [Recording("frames", waveform(one, rate), rate) for one in energies]}


def errors(recogniser: Transcriber, sounds: Sequence[Recording], texts: Sequence[str]) -> dict[str, float]:
    """The errors of the recogniser, in percent."""
    answers = [one.text for one in recogniser.transcribe(sounds)]
    right = sum(answer == text for answer, text in zip(answers, texts, strict=True))
    return {"WER": 100 * Edits.of_words(texts, answers).rate, "strings right": 100 * right / len(texts)}


def score(speaker: Speaker, recogniser: Transcriber, references: Sequence[tuple[Clip, str]]) -> dict[str, float]:
    """The figures of the speech of unseen texts, in percent."""
    texts = [text for _, text in references]
    speeches = speaker.speak(texts)
    sounds = [one.recording for one in speeches if one.recording is not None]
    lengths = sum(read_recording(clip).seconds for clip, _ in references)
    return {
        **errors(recogniser, sounds, texts),
        "ended": 100 * sum(one.finished for one in speeches) / len(speeches),
        "length": 100 * sum(one.seconds for one in speeches) / lengths,
        "forward": 100 * forward(speaker, texts),
    }


def forward(speaker: Speaker, texts: Sequence[str]) -> float:
    """The share of steps that look at the letter of the step before, or at a later one."""
    steps = []
    for text in texts:
        (site,) = (site for site in speaker.trace(text).sites if site.kind == "cross")
        place = site.weights(0)[0].argmax(-1)
        steps.append(place.diff(prepend=place[:1]) >= 0)
    return float(torch.cat(steps).float().mean())


if __name__ == "__main__":
    raise SystemExit(main())
