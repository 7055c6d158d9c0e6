"""A trained captioner in use: captions of pictures, and where each of their words looks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from foveate.data.batch import Batch
from foveate.data.batching import groups
from foveate.data.reader import RowMaker
from foveate.data.row import Row
from foveate.data.tokeniser import BOS, EOS, SPECIALS, Tokeniser
from foveate.data.transcript import TextConfig
from foveate.decode import BeamConfig, DecodeConfig, Hypothesis, beam_size, decode
from foveate.decode.random_number import uniform
from foveate.errors import UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.trace import Pedigree
from foveate.inspect.value import observed
from foveate.models import Captioner
from foveate.models.glimpse import Glimpses
from foveate.tasks.caption.task import CaptionConfig
from foveate.tasks.run_model import listed
from foveate.tasks.text_writing import Writer, load_writer

BUDGET = 16_000
"""Patches of a batch."""


@dataclass(frozen=True)
class Caption:
    """The captions of a picture and their hypotheses, the best first."""

    name: str
    texts: tuple[str, ...]
    hypotheses: tuple[Hypothesis, ...]
    remarks: tuple[str, ...] = ()
    """Notes for the user on the picture, such as another size."""

    @property
    def text(self) -> str:
        """The best caption."""
        return self.texts[0]


class Describer(Writer):
    """Describes pictures with a trained model. A result depends neither on the batch size nor on its neighbours in a
    batch; one that is drawn depends on the seed and the picture's number.
    """

    model: Captioner
    unit = "patches"
    remedy = "Train a model with more positions"

    def __init__(
        self,
        model: Captioner,
        rows: RowMaker,
        tokeniser: Tokeniser,
        config: DecodeConfig = BeamConfig(),
        *,
        form: TextConfig = TextConfig(),
        max_text: int = 60,
    ) -> None:
        """A caption has less than `max_text` tokens, as those of the training data."""
        self.model, self.rows, self.tokeniser = model.eval(), rows, tokeniser
        self.config, self.form, self.max_text = config, form, max_text

    @classmethod
    def load(
        cls, run: Path | str, *, precision: str = "float32", note: Callable[[str], None] = lambda sentence: None
    ) -> "Describer":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises UsageError for a run of another task, DataError when it has no weights or is damaged.
        """
        config, rows, tokeniser, model = load_writer(Path(run), "caption", CaptionConfig, note, precision=precision)
        return cls(model, rows, tokeniser, config.decode, form=config.text, max_text=config.longest_text)._of(run)

    def caption(
        self,
        things: Iterable[Any],
        *,
        config: DecodeConfig | None = None,
        examples: Sequence[int] | None = None,
        glimpses: int | None = None,
    ) -> list[Caption]:
        """The captions of several pictures: paths, or the `rows.things(path)` of a file.

        `examples` numbers the pictures for the noise of sampling, by default from 0. `glimpses` is a seed by which hard
        attention draws each place from its weights (Xu et al. 2015, equation 8), as in training; by default it looks at
        the place with the largest weight. Raises DataError for a picture that the model cannot read, UsageError for
        glimpses of a model without such an attention.
        """
        things = listed(things, "caption", "pictures")
        rows, names = [self.row(thing) for thing in things], [str(thing) for thing in things]
        return self.of_rows(rows, names, config=config, examples=examples, glimpses=glimpses)

    @torch.inference_mode()
    def of_rows(
        self,
        rows: Sequence[Row],
        names: Sequence[str],
        *,
        config: DecodeConfig | None = None,
        examples: Sequence[int] | None = None,
        glimpses: int | None = None,
    ) -> list[Caption]:
        """The captions of rows of patches, with their names; `examples` and `glimpses` as for `caption`."""
        if glimpses is not None and not self.model.draws_places:
            raise UsageError(
                "This model draws no places. Glimpses are of hard attention that has learnt from draws: train with "
                'model.decoder.attention.normaliser = { kind = "hard", mode = "sample" }.'
            )
        config = self.config if config is None else config
        numbers = range(len(rows)) if examples is None else examples
        captions: dict[int, Caption] = {}
        for group in groups([len(row) for row in rows], BUDGET):
            grid = self.model.encode(Batch.of([rows[index] for index in group]))
            here = [numbers[index] for index in group]
            drawn = None if glimpses is None else drawn_glimpses(glimpses, here)
            answers = decode(
                self.model,
                self.model.start(grid, beam_size(config), glimpses=drawn),
                sentences=len(group),
                config=config,
                max_length=min(config.max_length, max(self.max_text - 1, 1)),
                examples=here,
            )
            for index, hypotheses in zip(group, answers, strict=True):
                texts = tuple(self.text(one.tokens) for one in hypotheses)
                captions[index] = Caption(names[index], texts, tuple(hypotheses), rows[index].remarks)
        return [captions[index] for index in range(len(rows))]

    @torch.inference_mode()
    def trace(self, text: Any, target: str | None = None) -> Trace:
        """The model's attention in a picture while it writes its caption, or a given one.

        Tracks: `source`, the places of the picture; `read`, the decoder's input; `target`, the words that it writes.
        Raises UsageError for a model without attention and for a caption with unknown words, DataError as `caption`
        does.
        """
        row = self.row(text)
        if target is None:
            (caption,) = self.of_rows([row], [str(text)])
            tokens: Sequence[int] = caption.hypotheses[0].tokens
        else:
            tokens = self.tokeniser.encode(self.form.form(target))
            if strange := self.tokeniser.strange(self.form.form(target)):
                raise UsageError(f"The model does not know {', '.join(map(repr, strange))}. Use its words.")
        batch = Batch.of([row]), Batch.of([[BOS, *tokens, EOS]])
        observation = observed(self.model, lambda: self.model(*batch))
        pieces = self.tokeniser.pieces(tokens)
        tracks = {
            "source": Track.of_settings(self._track(text)),
            "read": Track.of_pieces([SPECIALS[BOS], *pieces]),
            "target": Track.of_pieces([*pieces, SPECIALS[EOS]], text=self.tokeniser.decode(tokens)),
        }
        trace = Trace.of(observation, tracks, pedigree=Pedigree.of(self.model))
        if not trace.sites:
            raise UsageError("This model has no attention: it sees the mean of the grid. There is nothing to look at.")
        return trace

    def _track(self, thing: Any) -> dict[str, Any]:
        """The settings of the track of places, which may be fewer than the patches."""
        settings, grid = dict(self.rows.track(thing)), self.model.grid
        if grid is not None and grid != settings.get("grid"):
            places = tuple(f"{row},{column}" for row in range(grid[0]) for column in range(grid[1]))
            settings |= {"grid": grid, "labels": places}
        return settings


def drawn_glimpses(seed: int, examples: Sequence[int]) -> Glimpses:
    """Draws for these examples. Their noise differs from that of drawn words with the same seed."""
    return Glimpses(lambda numbers, step: uniform(-1 - seed, numbers, step), torch.tensor(list(examples)))
