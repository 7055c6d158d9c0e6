"""Sizes that suit the recordings of a recogniser, with their reasons."""

from collections import Counter
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from foveate.config import to_dict
from foveate.data.feature import VectorReader
from foveate.data.reader import Example, Reader
from foveate.data.text import read_lines
from foveate.errors import DataError
from foveate.suggestion import counted
from foveate.tasks.run_plan import SAMPLE, Allowance, Reason, Suggestion, with_others
from foveate.tasks.transcribe.task import TranscribeConfig

FIRST = 100
"""Recordings that lengths are chosen by."""
FEW_WORDS = 200
"""With this many different words or fewer, each of them often, a word is one token."""
OFTEN = 20
SECONDS = 0.01
"""The time of a vector, where it is not known: that of a frame of speech."""


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


def suggest(config: TranscribeConfig, allowance: Allowance) -> Suggestion:
    """Choose reader, tokeniser, model, batches and steps for the recordings. Raises DataError if there are none."""
    path = config.data.data
    listed = _is_listed(path) and config.reader == TranscribeConfig().reader
    config = TranscribeConfig(data=config.data, reader=VectorReader() if listed else config.reader, text=config.text)
    examples = config.read(path)
    sample = list(islice(examples, SAMPLE))
    total = len(sample) + sum(1 for _ in examples)
    if not sample:
        raise DataError(f"{path} has no {config.what}. Give {config.what} with their texts to learn from.")
    things = [one.thing for one in sample[:FIRST]]
    reader = config.reader if listed or config.reader != TranscribeConfig().reader else config.reader.suited(things)
    recordings = _facts(reader, sample, total)
    return with_others(lambda allowance: _suggested(recordings, allowance), allowance)


def _is_listed(path: str) -> bool:
    """Whether a file holds vectors, or lists files of vectors."""
    if Path(path).suffix == ".npz":
        return True
    return Path(path).is_file() and next(read_lines(path), "").partition("\t")[0].strip().endswith(".npy")


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
    model, about, pace = _model(recordings, allowance.tier)
    longest = max(2 * recordings.longest, 400)
    text = max(2 * recordings.longest_text, 100)
    budget = max(8_000, longest + text)
    batches = recordings.total * recordings.vectors / budget
    steps = allowance.steps(min(max(int(60 * batches), 1_000), 100_000), pace=pace * budget / 8_000)
    interval = max(steps // 20, 50)
    return Suggestion(
        {
            "reader": to_dict(TranscribeConfig(reader=recordings.reader))["reader"],
            "tokeniser": tokeniser,
            "model": model,
            "data": {"max_length": longest, "max_text": text, "max_tokens": budget},
            "train": {
                "steps": steps,
                "learning_rate": 2e-3,
                "schedule": {"kind": "cosine", "warmup": min(200, max(steps // 10, 1))},
                "validate_every": interval,
                "save_every": interval,
                "metric": "character_error",
            },
        },
        _sentence(recordings),
        (
            Reason("reader", recordings.reader.about),
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


def _model(recordings: _Recordings, tier: int) -> tuple[dict[str, Any], str, float]:
    """The model, its description, and the seconds of one core that a step of 8,000 vectors takes."""
    layers, width, pace = ((4, 128, 0.4), (6, 192, 1.0), (8, 256, 2.2))[tier]
    block = {
        "model_dim": width,
        "num_heads": 4,
        "feedforward_dim": 4 * width,
        "norm": "pre",
        "dropout": 0.1,
        "encoder_attention": {"visibility": "window(left=16, right=16)"},
    }
    model = {
        "subsampling": {"kind": "convolution", "factor": 4, "hidden_dim": width},
        "encoder": {"kind": "transformer", "block": block, "num_layers": layers},
    }
    return model, f"a Transformer of {layers} layers, {width} wide, that sees 16 outputs to each side, and CTC", pace
