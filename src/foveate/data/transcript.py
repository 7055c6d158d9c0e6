"""Texts of recordings as a model learns them, and the store of recordings with their texts."""

import contextlib
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from foveate.config import setting
from foveate.data.pair_report import LeftOut
from foveate.data.parallel import ParallelData
from foveate.data.preparation import resumable
from foveate.data.reader import Example, RowMaker, stored_levels, stored_type
from foveate.data.row import Row
from foveate.data.store import FeatureStore, TokenStore
from foveate.data.text import normalise, short
from foveate.data.tokeniser import BOS, EOS, UNKNOWN, Tokeniser
from foveate.data.variant import varies
from foveate.errors import DataError, UsageError
from foveate.nn.ctc_loss import frames_needed
from foveate.storage.draft import draft_folder
from foveate.suggestion import listing
from foveate.voice import watched

_NAMED = 12


@dataclass(frozen=True, kw_only=True)
class TextConfig:
    """Texts are learnt in Unicode normal form C, with one space between words, and otherwise as written.

    >>> TextConfig(lowercase=True, remove=".,").form("Two,  THREE. Four")
    'two three four'
    """

    lowercase: bool = setting(False, "learn small letters only")
    remove: str = setting("", "characters that texts are read without, such as punctuation that nobody speaks: '.,?!'")

    def form(self, text: str) -> str:
        """The text that is learnt; a removed character leaves a space."""
        text = normalise(text)
        text = normalise(text.lower()) if self.lowercase else text  # Ϊ́ is two characters, and ΐ is one
        return " ".join("".join(" " if character in self.remove else character for character in text).split())

    def __str__(self) -> str:
        changes = ["in small letters"] if self.lowercase else []
        changes += [f"without {self.remove!r}"] if self.remove else []
        return "Texts are read " + (" and ".join(changes) or "as written, capitals and punctuation included")


@dataclass(frozen=True, kw_only=True)
class TranscriptReport:
    """The numbers of used and omitted recordings, with the reasons. Neither recordings nor texts are ever truncated.

    >>> print(TranscriptReport(what="recordings", total=4, max_length=500, too_long=LeftOut(1, (2,)), longest=801))
    3 of 4 recordings are used. More than 500 vectors (the longest has 801): line 2.
    """

    what: str
    total: int = 0
    max_length: int = 0
    max_text: int = 0
    empty: LeftOut = LeftOut()
    """Those without any vector: shorter than one frame."""
    too_long: LeftOut = LeftOut()
    longest: int = 0
    """The vectors of the longest, including those that were left out."""
    too_wordy: LeftOut = LeftOut()
    """Those whose text has too many tokens."""
    crowded: LeftOut = LeftOut()
    """Those with more tokens than CTC can write in their time."""
    vectors: int = 0
    tokens: int = 0
    unknown: int = 0
    strange: tuple[str, ...] = ()
    """The characters or words that are unknown, the most frequent first."""
    remarks: Mapping[str, LeftOut] = field(default_factory=dict)
    """Remarks on recordings, such as clipping, each with its lines."""
    origin: str = ""
    """A sentence on where the recordings come from, or how their texts are read."""

    @property
    def used(self) -> int:
        return self.total - sum(one.count for one in (self.empty, self.too_long, self.too_wordy, self.crowded))

    def __str__(self) -> str:
        used = f"All {self.total:,}" if self.used == self.total else f"{self.used:,} of {self.total:,}"
        sentences = [f"{used} {self.what} are used."]
        if self.empty.count:
            sentences.append(f"Shorter than one vector: {self.empty}.")
        if self.too_long.count:
            limit = f"More than {self.max_length:,} vectors (the longest has {self.longest:,})"
            sentences.append(f"{limit}: {self.too_long}.")
        if self.too_wordy.count:
            sentences.append(f"Texts of more than {self.max_text:,} tokens: {self.too_wordy}.")
        if self.crowded.count:
            sentences.append(f"More text than CTC can write in the time of the recording: {self.crowded}.")
        if self.unknown:
            share, names = 100 * self.unknown / max(self.tokens, 1), listing(map(repr, self.strange), _NAMED)
            sentences.append(f"{share:.1f} % of the tokens are unknown: {names}.")
        sentences += [f"Warning: {remark}: {lines}." for remark, lines in self.remarks.items()]
        return " ".join([*sentences, self.origin] if self.origin else sentences)


def transcribed(examples: Iterable[Any], form: TextConfig, path: str) -> Iterator[Example]:
    """Examples with `line`, `thing` and `label`, whose labels are texts, as they are learnt.

    Raises DataError, with the line, for a text that has neither a letter nor a digit.
    """
    for example in examples:
        text = form.form(example.label)
        if not any(unicodedata.category(character)[0] in "LN" for character in text):
            was = "" if text == example.label.strip() else f" (read as {short(text)})"
            raise DataError(
                f"{path}:{example.line}: the text {short(example.label)}{was} of {example.thing} has no letter and no "
                "digit, so there is nothing to learn to write. Leave the line out, or write what is said."
            )
        yield Example(example.line, example.thing, text)


def prepare_transcripts(
    folder: Path | str,
    examples: Iterable[Example],
    rows: RowMaker,
    tokeniser: Tokeniser,
    *,
    what: str,
    max_length: int,
    max_text: int,
    axes: int | None = None,
    room: Callable[[int], int] | None = None,
    varied: bool = False,
) -> tuple[ParallelData, TranscriptReport]:
    """Store the vectors and ids of recordings in a folder, which is written completely or not at all.

    Those with more than `max_length` vectors or `max_text` tokens, begin and end included, are left out and reported.
    So are those whose text CTC cannot write: `room` is the number of labels for so many vectors, and two equal ids in
    a row need a blank between them. Without `room` there is no such limit. With `varied`, as for training, the variants
    of the things are stored, too, and a recording whose variant is too long or too short is left out. An interrupted
    preparation of the same folder goes on where it stopped.

    Rows with `axes`, such as patches, all have the same places, which are not stored. Raises UsageError for things that
    are not rows of such vectors.
    """
    width = rows.input.width
    if width is None or rows.input.axes != axes:
        needs = "A transcript is of vectors in the order of time" if axes is None else "A caption is of patches"
        raise UsageError(f"{needs}, and {what} are {rows.input}.")
    tally = _Tally(TranscriptReport(what=what, max_length=max_length, max_text=max_text), tokeniser, room)
    varied = varied and varies(rows)
    vectors = partial(FeatureStore.writer, dtype=stored_type(rows), levels=stored_levels(rows))
    with (
        resumable(Path(folder), rows) as maker,
        draft_folder(Path(folder)) as draft,
        vectors(draft / "source", width) as sources,
        vectors(draft / "variants", width) if varied else contextlib.nullcontext() as variants,
        TokenStore.writer(draft / "target", tokeniser.digest(), vocab_size=tokeniser.vocab_size) as targets,
        TokenStore.writer(draft / "lines", "") as lines,
    ):
        for example in watched(examples, what):
            row, ids = maker.row(example.thing), [BOS, *tokeniser.encode(example.label), EOS]
            others = [other.values for other in maker.variants(example.thing)] if varied else []
            if tally.keeps(example, row, [len(row), *map(len, others)], ids):
                sources.append(row.values)
                targets.append(ids)
                lines.append([example.line])
                for other in others:
                    assert variants is not None
                    variants.append(other)
    return ParallelData.open(folder), tally.done()


class _Tally:
    """Counts recordings that are used or left out."""

    def __init__(self, report: TranscriptReport, tokeniser: Tokeniser, room: Callable[[int], int] | None) -> None:
        self.report, self.tokeniser, self.room = report, tokeniser, room
        self.strange, self.remarks = Counter[str](), dict[str, LeftOut]()

    def keeps(self, example: Example, row: Row, lengths: Sequence[int], ids: Sequence[int]) -> bool:
        """Whether an example is used; `lengths` are those of its row and of its variants."""
        report, line, length = self.report, example.line, max(lengths)
        for remark in row.remarks:
            self.remarks[remark] = self.remarks.get(remark, LeftOut()).add(line)
        report = replace(report, total=report.total + 1, longest=max(report.longest, length))
        used = False
        if not min(lengths):
            report = replace(report, empty=report.empty.add(line))
        elif length > report.max_length:
            report = replace(report, too_long=report.too_long.add(line))
        elif len(ids) > report.max_text:
            report = replace(report, too_wordy=report.too_wordy.add(line))
        elif self.room is not None and _frames(ids[1:-1]) > self.room(min(lengths)):
            report = replace(report, crowded=report.crowded.add(line))
        else:
            used, unknown = True, ids.count(UNKNOWN)
            if unknown:
                self.strange.update(self.tokeniser.strange(example.label))
            counts = {"vectors": lengths[0], "tokens": len(ids) - 2, "unknown": unknown}
            report = replace(report, **{name: getattr(report, name) + count for name, count in counts.items()})
        self.report = report
        return used

    def done(self) -> TranscriptReport:
        strange = tuple(name for name, _ in self.strange.most_common())
        return replace(self.report, strange=strange, remarks=self.remarks)


def _frames(ids: Sequence[int]) -> int:
    """The frames that CTC needs for ids."""
    return int(frames_needed(torch.tensor(ids, dtype=torch.int64), torch.tensor([len(ids)])))
