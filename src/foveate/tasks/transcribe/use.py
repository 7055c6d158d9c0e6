"""A trained recogniser in use: the text of recordings, with the times of its words."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from foveate.data.batch import Batch
from foveate.data.batching import groups
from foveate.data.reader import RowMaker
from foveate.data.row import Row
from foveate.data.tokeniser import Tokeniser
from foveate.data.transcript import TextConfig
from foveate.decode import Hypothesis, TimedHypothesis
from foveate.inspect import Trace, Track
from foveate.inspect.looking import Looking
from foveate.inspect.value import observed
from foveate.models import Recogniser
from foveate.tasks.run_model import require_positions, saved, traced, trained
from foveate.tasks.transcribe.recognition import search
from foveate.tasks.transcribe.task import TranscribeConfig, open_files

ATTENDING = "`foveate train transcribe` with --set model.encoder=transformer trains one that attends."
BUDGET = 24_000
"""Vectors of a batch, padding counted."""


@dataclass(frozen=True)
class Word:
    """A word, and its start and end in seconds from the beginning of the recording; for other things, in vectors."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Transcript:
    """The text of a recording, with the times of its words where the search tells them, and other hypotheses.

    `texts` and `hypotheses` are the best first; a recording that is shorter than one vector has none.
    """

    name: str
    texts: tuple[str, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    words: tuple[Word, ...] = ()

    @property
    def text(self) -> str:
        """The best text."""
        return self.texts[0] if self.texts else ""

    @property
    def log_probability(self) -> float:
        """That of the best hypothesis, in nats; 0 without one."""
        return self.hypotheses[0].log_probability if self.hypotheses else 0.0


class Transcriber(Looking):
    """Transcribes with a trained model. A result depends neither on the batch size nor on its neighbours in a batch."""

    def __init__(
        self,
        model: Recogniser,
        rows: RowMaker,
        tokeniser: Tokeniser,
        *,
        form: TextConfig = TextConfig(),
    ) -> None:
        self.model, self.rows, self.tokeniser, self.form = model.eval(), rows, tokeniser, form

    @classmethod
    def load(
        cls,
        run: Path | str,
        *,
        precision: str = "float32",
        note: Callable[[str], None] = lambda sentence: None,
    ) -> "Transcriber":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        folder = Path(run)
        config, stored = saved(folder, "transcribe", TranscribeConfig)
        rows, tokeniser = open_files(config, folder, stored.tokenisers)
        model = trained(folder, lambda: config.built(rows, tokeniser), note)
        if precision == "bfloat16":
            model.to(torch.bfloat16)
        return cls(model, rows, tokeniser, form=config.text)._of(folder)

    @property
    def hop(self) -> float:
        """Seconds between two vectors of a row; 1 for rows that have no time."""
        return float(getattr(self.rows, "hop", 1.0))

    def transcribe(self, things: Sequence[Any]) -> list[Transcript]:
        """The texts of several things, as the reader gives them: paths, clips, or the `rows.things(path)` of a file.

        Raises DataError for a thing that the model cannot read.
        """
        rows = [self.row(thing) for thing in things]
        return self.of_rows(rows, [str(thing) for thing in things])

    @torch.inference_mode()
    def of_rows(self, rows: Sequence[Any], names: Sequence[str]) -> list[Transcript]:
        """The texts of rows of vectors, with their names."""
        results = [Transcript(name) for name in names]
        for group in groups([len(row) for row in rows], BUDGET):
            answers = search(self.model, Batch.of([rows[index] for index in group]))
            for index, hypotheses in zip(group, answers, strict=True):
                results[index] = self._transcript(names[index], hypotheses)
        return results

    def things(self, inputs: Sequence[str]) -> Iterator[Any]:
        """The things to transcribe for arguments of a command: the contents of files."""
        return (thing for path in inputs for thing in self.rows.things(path))

    def row(self, thing: Any) -> Row:
        """The row of a thing. Raises DataError for one that the model cannot read."""
        row = self.rows.row(thing)
        require_positions(
            str(thing), len(row), self.model.longest_source, "vectors", remedy="Cut it, or train with a window"
        )
        return row

    def strange(self, text: str) -> list[str]:
        """Parts of an input that the model does not know, each once: none, because inputs are files."""
        return []

    @torch.inference_mode()
    def trace(self, text: Any) -> Trace:
        """The attention of each output of the encoder. Raises UsageError for a model without attention, DataError as
        `transcribe` does.
        """
        row = self.row(text)
        observation = observed(self.model, lambda: self.model.ctc(Batch.of([row])))
        return traced(self.model, observation, Track.numbered(len(row), kind="frames"), attending=ATTENDING)

    def _transcript(self, name: str, hypotheses: Sequence[Hypothesis]) -> Transcript:
        texts = tuple(self.tokeniser.decode(one.tokens) for one in hypotheses)
        words = self._words(hypotheses[0]) if hypotheses else ()
        return Transcript(name, texts, tuple(hypotheses), words)

    def _words(self, hypothesis: Hypothesis) -> tuple[Word, ...]:
        """The words of a hypothesis whose frames are known."""
        if not isinstance(hypothesis, TimedHypothesis):
            return ()
        seconds = self.hop * self.model.stride
        words = []
        for first, last in word_spans(self.tokeniser, hypothesis.tokens):
            text = self.tokeniser.decode(hypothesis.tokens[first:last]).strip()
            start, end = hypothesis.frames[first].first, hypothesis.frames[last - 1].last + 1
            words.append(Word(text, start * seconds, end * seconds))
        return tuple(words)


def word_spans(tokeniser: Tokeniser, tokens: Sequence[int]) -> list[tuple[int, int]]:
    """The half-open ranges of the tokens of each word. Tokens of white space belong to none.

    >>> from foveate.data.tokeniser import CharacterTokeniser
    >>> letters = CharacterTokeniser.train(["one two"])
    >>> word_spans(letters, letters.encode(" one  two "))
    [(1, 4), (6, 9)]
    """
    spans: list[tuple[int, int]] = []
    first: int | None = None
    last = 0
    for place in range(len(tokens)):
        alone = tokeniser.decode(tokens[place : place + 1]).strip()
        if not alone:
            continue
        if first is not None and len(tokeniser.decode(tokens[first : place + 1]).split()) > 1:
            spans.append((first, last))
            first = None
        first = place if first is None else first
        last = place + 1
    return spans if first is None else [*spans, (first, last)]
