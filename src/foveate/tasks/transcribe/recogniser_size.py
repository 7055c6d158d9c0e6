"""Sizes that suit the recordings of a recogniser, with their reasons."""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from foveate.config import to_dict
from foveate.data.audio import AudioReader
from foveate.data.audio_file import SUFFIXES
from foveate.data.augmentation import AugmentationConfig
from foveate.data.feature import VectorReader
from foveate.data.reader import Example, Reader
from foveate.data.text import read_lines
from foveate.errors import DataError
from foveate.suggestion import counted
from foveate.tasks.run_plan import SAMPLE, Allowance, Reason, Suggestion, training_table, with_others
from foveate.tasks.transcribe.task import TranscribeConfig

FIRST = 100
"""Recordings that lengths are chosen by."""
FEW_WORDS = 200
"""With this many different words or fewer, each of them often, a word is one token."""
OFTEN = 20
HOURS = 20
"""Below so many hours of sound, speeds are varied, which takes as much room for each speed."""
SPEEDS = (0.9, 1.0, 1.1)
BATCH, EPOCHS = 4_000, 60
"""The vectors of a batch, and how often the data are read."""
OUTPUTS = 2.0
"""The outputs for each token of a usual text: a blank fits between any two."""


@dataclass(frozen=True, kw_only=True)
class _Recordings:
    """The facts about recordings that sizes are chosen by."""

    reader: Reader
    what: str
    total: int
    vectors: float
    """The mean number of vectors."""
    longest: int
    hop: float | None
    words: float
    """The mean number of words of a text."""
    characters: float
    different: int
    """Different words."""
    rarest: int
    """The number of times that most words occur at least."""
    longest_text: int

    @property
    def seconds(self) -> float:
        """The length of all recordings; 0 for vectors that have no time."""
        return self.total * self.vectors * (self.hop or 0.0)


def suggest(config: TranscribeConfig, allowance: Allowance) -> Suggestion:
    """Choose reader, tokeniser, model, batches and steps for the recordings. Raises DataError if there are none."""
    path, own = config.data.data, config.reader != TranscribeConfig().reader
    if not own and _is_listed(path):
        config = replace(config, reader=VectorReader())
    examples = config.read(path)
    sample = list(islice(examples, SAMPLE))
    total = len(sample) + sum(1 for _ in examples)
    if not sample:
        raise DataError(f"{path} has no {config.what}. Give {config.what} with their texts to learn from.")
    reader = config.reader if own else config.reader.suited(sample[:FIRST])
    recordings = _facts(reader, sample, total)
    if not own and isinstance(reader, AudioReader) and recordings.seconds < HOURS * 3600:
        recordings = replace(recordings, reader=replace(reader, augmentation=AugmentationConfig(speeds=SPEEDS)))
    return with_others(lambda allowance: _suggested(recordings, allowance), allowance)


def _is_listed(path: str) -> bool:
    """Whether a file holds vectors, or lists files of vectors."""
    suffix = Path(path).suffix.lower()
    if suffix == ".npz" or suffix in SUFFIXES or not Path(path).is_file():
        return suffix == ".npz"
    return next(read_lines(path), "").partition("\t")[0].strip().lower().endswith(".npy")


def _facts(reader: Reader, sample: list[Example], total: int) -> _Recordings:
    first = sample[:FIRST]
    rows = reader.learn(first)
    lengths = [len(rows.row(one.thing)) for one in first]
    words = Counter(word for one in sample for word in one.label.split())
    counts = sorted(words.values())
    return _Recordings(
        reader=reader,
        what=reader.what,
        total=total,
        vectors=max(sum(lengths) / len(lengths), 1),
        longest=max(lengths),
        hop=getattr(rows, "hop", None),
        words=words.total() / len(sample),
        characters=sum(len(one.label) for one in sample) / len(sample),
        different=len(words),
        rarest=counts[len(counts) // 10],
        longest_text=max(len(one.label) for one in sample),
    )


def _suggested(recordings: _Recordings, allowance: Allowance) -> Suggestion:
    tokeniser, why, tokens = _tokeniser(recordings)
    model, about, pace = _model(recordings, tokens, allowance.tier)
    longest = max(2 * recordings.longest, 400)
    text = max(2 * recordings.longest_text, 100)
    budget = max(BATCH, longest + text)
    batches = recordings.total * recordings.vectors / budget
    steps = allowance.steps(min(max(int(EPOCHS * batches), 1_000), 100_000), pace=pace * budget / BATCH)
    plain = to_dict(TranscribeConfig(reader=recordings.reader))
    varied = getattr(recordings.reader, "augmentation", None) is not None
    return Suggestion(
        {
            "reader": plain["reader"],
            "tokeniser": tokeniser,
            "model": model,
            "data": {"max_length": longest, "max_text": text, "max_tokens": budget},
            "train": training_table(steps, rate=2e-3, metric="character_error"),
        },
        _sentence(recordings),
        (
            Reason("reader", f"{recordings.reader.about}{', and three speeds' if varied else ''}"),
            Reason("tokeniser", why),
            Reason("model", f"{about}, {allowance}"),
        ),
        lengths=(round(recordings.vectors), max(round(tokens), 1)),
    )


def _sentence(recordings: _Recordings) -> str:
    usual = f"{recordings.vectors:.0f} vectors"
    if recordings.hop is not None:
        minutes = recordings.total * recordings.vectors * recordings.hop / 60
        usual = f"{recordings.vectors * recordings.hop:.1f} seconds ({minutes:.0f} minutes in all)"
    return (
        f"{counted(recordings.total, recordings.what.removesuffix('s'))} of about {usual}; a text has "
        f"{recordings.words:.1f} words and {recordings.characters:.0f} characters."
    )


def _tokeniser(recordings: _Recordings) -> tuple[dict[str, Any], str, float]:
    """The tokeniser, a reason, and the tokens of a usual text."""
    if recordings.different <= FEW_WORDS and recordings.rarest >= OFTEN and recordings.words >= 1:
        why = f"{recordings.different} different words, each of them often, so one token each"
        return {"kind": "word"}, why, recordings.words
    return {"kind": "character"}, "many different words, so characters", recordings.characters


def _model(recordings: _Recordings, tokens: float, tier: int) -> tuple[dict[str, Any], str, float]:
    """The model, its description, and the seconds of one core that a step of `BATCH` vectors takes, as measured."""
    layers, width, pace = ((4, 128, 0.3), (6, 192, 0.75), (8, 256, 1.6))[tier]
    factor = next((one for one in (8, 4, 2) if recordings.vectors / one >= OUTPUTS * tokens), 1)
    audio = isinstance(recordings.reader, AudioReader) and recordings.reader.stack == 1
    spectra = 1 + recordings.reader.deltas if isinstance(recordings.reader, AudioReader) else 1
    subsampling = {"kind": "plane", "spectra": spectra} if audio else {"kind": "convolution"}
    block = {
        "model_dim": width,
        "num_heads": 4,
        "feedforward_dim": 2 * width,
        "norm": "pre",
        "dropout": 0.1,
        "encoder_attention": {"visibility": "window(left=16, right=16)"},
    }
    model = {
        "subsampling": {**subsampling, "factor": factor, "hidden_dim": width},
        "encoder": {"kind": "transformer", "block": block, "num_layers": layers},
    }
    about = f"an output for each {counted(factor, 'vector')}; a Transformer of {layers} layers, {width} wide"
    return model, f"{about}, which sees 16 outputs to each side; CTC", pace / factor
