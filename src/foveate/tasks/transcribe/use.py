"""A trained recogniser in use: the text of recordings, with the times of its words, and what it listened to."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from foveate.attention import Attention, Visibility
from foveate.data.audio_file import place_of
from foveate.data.batch import Batch
from foveate.data.batching import groups
from foveate.data.reader import RowMaker
from foveate.data.tokeniser import Tokeniser
from foveate.data.transcript import TextConfig
from foveate.decode import CTCConfig, Hypothesis, TimedHypothesis
from foveate.errors import DataError, UsageError
from foveate.inspect import TimeAlignment, Trace
from foveate.inspect.time_file import TimedLabel
from foveate.models import Recogniser
from foveate.tasks.run_model import listed
from foveate.tasks.text_writing import Writer, load_writer
from foveate.tasks.transcribe.listening import trace_of
from foveate.tasks.transcribe.recognition import (
    SETTLED,
    RecognitionConfig,
    require_possible,
    search,
    timed,
    usual,
)
from foveate.tasks.transcribe.task import TranscribeConfig
from foveate.tasks.transcribe.text_stream import TextStream

BUDGET = 24_000
"""Vectors of a batch, padding counted."""


@dataclass(frozen=True)
class Transcript:
    """The text of a recording, and the times of its letters and words where the model has CTC.

    `texts` and `hypotheses` are the best first; a recording that is shorter than one vector has none.
    """

    name: str
    texts: tuple[str, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    times: TimeAlignment | None = None
    remarks: tuple[str, ...] = ()
    """Notes for the user on the recording, such as silence or another rate."""

    @property
    def text(self) -> str:
        """The best text."""
        return self.texts[0] if self.texts else ""

    @property
    def log_probability(self) -> float:
        """That of the best hypothesis, in nats; 0 without one."""
        return self.hypotheses[0].log_probability if self.hypotheses else 0.0

    @property
    def words(self) -> tuple[TimedLabel, ...]:
        """Each word with its start and end, in seconds from the beginning of the file, also of a stretch of it."""
        return self.times.tier("words") if self.times else ()


class Transcriber(Writer):
    """Transcribes with a trained model. A result depends neither on the batch size nor on its neighbours in a batch.

    Times are in seconds. Rows that have no time, such as vectors of measurements, count as one a second.
    """

    model: Recogniser
    remedy = "Cut it, or train a model without positions, whose attention has a window"

    def __init__(
        self,
        model: Recogniser,
        rows: RowMaker,
        tokeniser: Tokeniser,
        config: RecognitionConfig | None = None,
        *,
        form: TextConfig = TextConfig(),
        views: Sequence[Visibility] = (),
    ) -> None:
        """`views` are the rules that the encoder has learnt to see by, beside its own.

        Raises UsageError for a search by a part that the model lacks.
        """
        self.model, self.rows, self.tokeniser, self.form = model.eval(), rows, tokeniser, form
        self.views = tuple(views)
        self.config = usual(model) if config is None else config
        require_possible(model, self.config)

    @classmethod
    def load(
        cls, run: Path | str, *, precision: str = "float32", note: Callable[[str], None] = lambda sentence: None
    ) -> "Transcriber":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        config, rows, tokeniser, model = load_writer(
            Path(run), "transcribe", TranscribeConfig, note, precision=precision
        )
        views = config.views or ()
        return cls(model, rows, tokeniser, config.decode, form=config.text, views=views)._of(run)

    @property
    def hop(self) -> float:
        """Seconds between two outputs of the encoder."""
        return float(getattr(self.rows, "hop", 1.0)) * self.model.stride

    @property
    def rules(self) -> tuple[Visibility, ...]:
        """The rules by which the attentions of the encoder see, in their order."""
        parts = self.model.encoder.modules()
        return tuple(part.visibility for part in parts if isinstance(part, Attention))

    @property
    def begin(self) -> float:
        """Seconds from the beginning of a recording to that of its first vector."""
        return float(self.rows.first - self.rows.hop / 2) if hasattr(self.rows, "first") else 0.0  # type: ignore[attr-defined]

    def transcribe(self, things: Iterable[Any], *, config: RecognitionConfig | None = None) -> list[Transcript]:
        """The texts of several things, as the reader gives them: clips, paths of recordings, or the
        `rows.things(path)` of a file.

        Raises DataError for a thing that the model cannot read.
        """
        things = listed(things, "transcribe", "recordings")
        rows = [self.row(thing) for thing in things]
        transcripts = self.of_rows(rows, [str(thing) for thing in things], config=config)
        pairs = zip(transcripts, things, strict=True)
        return [replace(one, times=one.times and self._placed(one.times, thing)) for one, thing in pairs]

    @torch.inference_mode()
    def of_rows(
        self, rows: Sequence[Any], names: Sequence[str], *, config: RecognitionConfig | None = None
    ) -> list[Transcript]:
        """The texts of rows of vectors, with their names. Times begin with the first vector."""
        config = self.config if config is None else config
        remarks = [getattr(row, "remarks", ()) for row in rows]
        results = [Transcript(name, remarks=one) for name, one in zip(names, remarks, strict=True)]
        for group in groups([len(row) for row in rows], BUDGET):
            encoded = self.model.encode(Batch.of([rows[index] for index in group]))
            answers = search(self.model, encoded, config)
            best = timed(self.model, encoded, [hypotheses[0] for hypotheses in answers])
            for index, first, hypotheses in zip(group, best, answers, strict=True):
                hypotheses = [first, *hypotheses[1:]]
                texts = tuple(self.text(one.tokens) for one in hypotheses)
                times = self._times(names[index], first, len(rows[index]))
                results[index] = Transcript(names[index], texts, tuple(hypotheses), times, remarks[index])
        return results

    @torch.inference_mode()
    def align(self, thing: Any, text: str) -> TimeAlignment:
        """The times of a known text in a recording: of its words and letters, on the best path of CTC.

        Raises UsageError for a model without CTC and for a text with unknown parts, DataError for one that does not fit
        into the recording.
        """
        if self.model.ctc_output is None:
            raise UsageError("This model has no CTC, whose paths give the times. Train with model.ctc_weight above 0.")
        row, tokens = self.row(thing), self._tokens(text)
        if not tokens:
            raise UsageError("The text is empty: there is no time for it. Write the text as in the training data.")
        encoded = self.model.encode(Batch.of([row]))
        (aligned,) = timed(self.model, encoded, [Hypothesis(tuple(tokens), 0.0, 0.0, True)])
        times = self._times(str(thing), aligned, len(row))
        if times is None:
            raise DataError(
                f"{thing} is too short for the text: it has {int(encoded.lengths[0])} outputs for {len(tokens)} tokens."
            )
        return self._placed(times, thing)

    def trace(self, text: Any, target: str | None = None) -> Trace:
        """The model's attention in a recording while it writes its transcript, or a given one: in the encoder, of the
        decoder, and beside it the frames on which CTC's tokens are heard.

        Raises UsageError for a model with neither attention nor CTC, and for a given text with unknown parts, DataError
        as `transcribe` does.
        """
        row = self.row(text)
        if target is None:
            (transcript,) = self.of_rows([row], [str(text)])
            tokens: Sequence[int] = transcript.hypotheses[0].tokens if transcript.hypotheses else ()
        else:
            tokens = self._tokens(target)
        return trace_of(self.model, row, tokens, self.tokeniser, dict(self.rows.track(text)))

    def under(self, rule: Visibility | str) -> "Transcriber":
        """This transcriber with the same weights, whose encoder sees only what the rule shows, too: counted in outputs,
        as in `chunk(8, left=4)`. It gives what a model with this rule gives, for recordings, streams and traces.

        Raises UsageError for an encoder that no rule can restrict, ValueError for text that is not a rule.
        """
        view = copy(self)
        view.model = self.model.under(Visibility.parse(rule) if isinstance(rule, str) else rule).eval()
        return view

    def stream(self, config: CTCConfig | None = None) -> TextStream:
        """The text of one recording while its samples arrive, by CTC. Without a configuration, a model without a
        decoder writes the text that `transcribe` writes. A stream cannot wait for its end, so a `settle_after` of 0
        becomes 50. Raises UsageError, with the reasons, for a model that needs the whole recording.
        """
        config = config or (self.config if isinstance(self.config, CTCConfig) else CTCConfig())
        if not config.settle_after:
            config = replace(config, settle_after=SETTLED)
        try:
            return TextStream(self.model, self.rows, self.tokeniser, config)
        except UsageError as error:
            if not self.views:
                raise
            rules = " or ".join(f'"{rule}"' for rule in self.views)
            raise UsageError(
                f"{error} This one has also learnt to see by {rules}: choose one with --set visibility=RULE, in Python "
                "with transcriber.under(RULE)."
            ) from None

    def _tokens(self, text: str) -> Sequence[int]:
        """The tokens of a known text. Raises UsageError for unknown parts."""
        formed = self.form.form(text)
        if strange := self.tokeniser.strange(formed):
            raise UsageError(
                f"The model does not know {', '.join(map(repr, strange))}: there is no time for it. Write the text as "
                "in the training data."
            )
        return self.tokeniser.encode(formed)

    def _placed(self, times: TimeAlignment, thing: Any) -> TimeAlignment:
        """Times in the file of a thing, which lasts longer than its vectors."""
        rows: Any = self.rows
        name, start = place_of(thing)
        return times.placed(start, name=name, seconds=rows.seconds(thing) if hasattr(rows, "seconds") else 0.0)

    def _times(self, name: str, hypothesis: Hypothesis, vectors: int) -> TimeAlignment | None:
        """The times of a hypothesis whose frames are known."""
        if not isinstance(hypothesis, TimedHypothesis):
            return None
        return TimeAlignment.of_frames(
            self.tokeniser.pieces(hypothesis.tokens),
            [(frames.first, frames.last + 1) for frames in hypothesis.frames],
            hop=self.hop,
            begin=self.begin,
            name=name,
            seconds=self.begin + vectors * self.hop / self.model.stride,
            words=word_spans(self.tokeniser, hypothesis.tokens),
        )


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
        if not tokeniser.decode(tokens[place : place + 1]).strip():
            continue
        if first is not None and len(tokeniser.decode(tokens[first : place + 1]).split()) > 1:
            spans.append((first, last))
            first = None
        first = place if first is None else first
        last = place + 1
    return spans if first is None else [*spans, (first, last)]
