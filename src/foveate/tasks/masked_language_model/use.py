"""A trained masked language model in use: fill gaps, score a text. Ours, and BERTs of Hugging Face."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from foveate.data.batch import Batch
from foveate.data.line_encoding import SegmentEncoder
from foveate.data.text import require_lines, require_texts
from foveate.data.text_pair import TAB, segmented, segments, split
from foveate.data.tokeniser import BOS, EOS, SPECIALS, HuggingFaceTokeniser, Tokeniser
from foveate.errors import DataError, UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.alignment import Alignment, join_pieces
from foveate.inspect.attribution import Answer
from foveate.inspect.looking import Looking
from foveate.inspect.self_attention import self_attention
from foveate.inspect.trace.conversion import Stored
from foveate.inspect.value import observed
from foveate.models import BERT
from foveate.models.bert_hugging_face import GAP_HEAD, from_bert
from foveate.models.bert_kin import BERTS, as_bert
from foveate.models.hugging_face_folder import read_folder
from foveate.storage.run import class_of, model_type_of
from foveate.tasks.masked_language_model.gap_answer import gap_answer
from foveate.tasks.masked_language_model.task import MaskedLanguageModelConfig, MaskedLanguageModelTask, score
from foveate.tasks.run_model import require_kind, require_numbers, require_positions, require_text, traced
from foveate.tasks.text_task import TextConfig, load_text_model, tokens_of

GAP = "___"
"""The text that marks a gap of one token."""
CANDIDATES = 3
"""The number of candidates that a trace names for each gap."""
UNSCORED = "A BERT of Hugging Face is not scored on texts: nobody says which gaps it should fill. Score runs of ours."


@dataclass(frozen=True)
class Filling:
    """A filled text, and the candidates for its gaps."""

    text: str
    """With the best token in every gap."""
    choices: tuple[tuple[tuple[str, float], ...], ...]
    """For every gap the best pieces with their probabilities."""
    tokens: tuple[tuple[int, ...], ...]
    """The ids of these pieces."""


@dataclass(frozen=True)
class Frame:
    """The special tokens that a model puts around a text and in its gaps."""

    begin: list[int]
    gap: int
    end: int


class Filler(Looking):
    """Fills gaps. Each gap is filled independently of the tokens chosen for the others."""

    without_head = ""
    """The class of a foreign model that lacks a head for gaps; empty for other models."""

    def __init__(self, model: BERT, tokeniser: Tokeniser, config: MaskedLanguageModelConfig | None = None) -> None:
        self.model, self.tokeniser = model.eval(), tokeniser
        if config is None:
            block = min(TextConfig().block_length, model.max_length - 1)
            config = MaskedLanguageModelConfig(model=model.config, data=TextConfig(block_length=block))
        self.config = config

    @classmethod
    def load(cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None) -> "Filler":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        Raises DataError when the folder is not a run, has no trained weights, or is damaged, and UsageError for a run
        of another task.
        """
        if model_type_of(run) is not None:
            return GuestFiller.read(run)
        config, tokeniser, model = load_text_model(
            Path(run), "masked_language_model", MaskedLanguageModelConfig, MaskedLanguageModelTask.initial, note
        )
        return cls(model, tokeniser, config)._of(run)

    @overload
    def fill(self, text: str, *, best: int = 5, gap: str = GAP) -> Filling: ...  # type: ignore[overload-overlap]

    @overload
    def fill(self, text: Sequence[str], *, best: int = 5, gap: str = GAP) -> list[Filling]: ...

    @torch.inference_mode()
    def fill(self, text: str | Sequence[str], *, best: int = 5, gap: str = GAP) -> Filling | list[Filling]:
        """The `best` pieces for every gap of a line; of several lines, a filling for each.

        Raises UsageError for a text without gaps, DataError for one that is too long.
        """
        require_texts(text)
        if isinstance(text, str):
            return self._filled(text, best, gap)
        return [self._filled(one, best, gap) for one in text]

    def require_head(self) -> None:
        """Raises UsageError for a model without a head that fills gaps."""
        if self.without_head:
            raise UsageError(
                f"This folder holds a {self.without_head}, which has no head that fills gaps. Look at its attention "
                "with `foveate look`, or take the folder of a model for masked language modelling."
            )

    def _filled(self, text: str, best: int, gap: str) -> Filling:
        self.require_head()
        if not isinstance(best, int) or best < 1:
            raise UsageError(f"best must be a whole number of at least 1 piece, got {best!r}.")
        if not gap:
            raise UsageError("gap is empty. Give the text that marks a gap, such as ___.")
        self.require_gaps(text, gap)
        tokens, places = self.ids_and_gaps(text, gap)
        shares, excluded = self._shares(self.model.logits(self.hidden(tokens)[torch.tensor(places)]))
        require_numbers("The text", shares)
        best_tokens = shares.topk(min(best, shares.shape[1] - excluded))
        pieces = [self.tokeniser.pieces(row) for row in best_tokens.indices.tolist()]
        choices = tuple(
            tuple(zip(*pair, strict=True)) for pair in zip(pieces, best_tokens.values.tolist(), strict=True)
        )
        ids = tuple(map(tuple, best_tokens.indices.tolist()))
        return Filling(self.filled(text, [row[0] for row in ids], gap=gap), choices, ids)

    def filled(self, text: str, ids: Sequence[int], *, gap: str = GAP) -> str:
        """A text with these tokens in its gaps, one in each; all else stays as it is written.

        Raises ValueError for another number of tokens than the text has gaps.
        """
        texts = [self.parts(one, gap) for one in (split(text) if self.pairs else (text,))]
        gaps = sum(len(parts) - 1 for parts in texts)
        if len(ids) != gaps:
            raise ValueError(f"the text has {gaps} gaps, but {len(ids)} tokens are given for them")
        left = iter(ids)
        return TAB.join(self._written(parts, [next(left) for _ in parts[1:]]) for parts in texts)

    def _shares(self, logits: Float[Tensor, "gaps vocab"]) -> tuple[Float[Tensor, "gaps known"], int]:
        """Probabilities of the tokens that may fill gaps, and how many of the columns stand for other tokens."""
        logits = logits[:, : self.tokeniser.vocab_size]
        logits[:, : len(SPECIALS)] = -torch.inf
        return logits.softmax(-1), len(SPECIALS)

    def _written(self, parts: Sequence[str], ids: Sequence[int]) -> str:
        """Parts of a text with these tokens between them; gaps side by side are decoded together."""
        written, before, run = parts[0], parts[0], list[int]()
        for token, part in zip(ids, parts[1:], strict=True):
            run.append(token)
            if part:
                written += self._decoded(run, written, before) + part
                before, run = part, []
        return written + self._decoded(run, written, before) if run else written

    def _decoded(self, run: Sequence[int], written: str, before: str) -> str:
        """The text of tokens after what is written, which ends with the part `before`: a space that begins a word is
        written where there is none yet.
        """
        alone = self.tokeniser.decode(run).removeprefix("##")
        if not written or written[-1].isspace():
            return alone
        known = self.tokeniser.encode(before)
        shorter, longer = self.tokeniser.decode(known), self.tokeniser.decode([*known, *run])
        return longer.removeprefix(shorter) if longer.startswith(shorter) else alone

    @torch.inference_mode()
    def trace(self, text: str, *, gap: str = GAP, stored: Stored = "float16") -> Trace:
        """The attention of each token of a text, with gaps or without; a gap's note has its best candidates, a line
        each. Raises UsageError for an empty text, DataError for one that is too long.
        """
        require_text(text)
        tokens, places = self.ids_and_gaps(text, gap)
        observation = observed(self.model, lambda: self.hidden(tokens))
        track = Track.of_pieces(self._labels(text, gap, tokens, places), text=text)
        if places and not self.without_head:
            notes = dict(zip(places, self._filled(text, CANDIDATES, gap).choices, strict=True))
            lines = [
                [f"{join_pieces([piece])} {share:.0%}" for piece, share in notes.get(place, ())]
                for place in range(len(track))
            ]
            track = replace(track, notes=tuple(map("\n".join, lines)))
        return traced(self.model, observation, track, stored=stored)

    def answer(self, text: str, *, gap: str = GAP) -> Answer:
        """The best pieces for the gaps of a text, and the model to ask which words mattered for them: each piece of a
        word becomes a gap or the unknown token, or is removed.

        Raises UsageError for a text without gaps, DataError as `fill` does.
        """
        self.require_head()
        self.require_gaps(text, gap)
        tokens, places = self.ids_and_gaps(text, gap)
        labels = self._labels(text, gap, tokens, places)
        trace = partial(self.trace, text, gap=gap, stored="float32")
        return gap_answer(self.model, tokens, places, labels, self.tokeniser, self.frame.gap, self._vectors, trace)

    @torch.inference_mode()
    def align(self, text: str, *, gap: str = GAP, layer: int | None = None) -> Alignment | None:
        """The attention of each gap: a row for every gap, or for every token of a text without gaps; the mean of a
        layer's heads.

        Raises DataError as `fill` does.
        """
        tokens, places = self.ids_and_gaps(text, gap)
        pieces = self._labels(text, gap, tokens, places)
        alignment = self_attention(self.model, lambda: self.hidden(tokens), pieces, layer=layer)
        if alignment is None or not places:
            return alignment
        return Alignment.of(pieces, [gap] * len(places), alignment.weights[places])

    def evaluate(self, lines: Iterable[str]) -> dict[str, float]:
        """Loss, perplexity and accuracy of the gaps in a text, which are drawn as those of validation are.

        Raises DataError for a text without lines, and for a line without a tab where the model reads pairs; TypeError
        for a single text.
        """
        require_lines(lines)
        return score(self.model, self._rows(list(lines)), self.config, self.tokeniser.vocab_size)

    @property
    def frame(self) -> "Frame":
        """The special tokens of the model. A stream begins with the end of a line, a line alone does not."""
        begin = [BOS, EOS] if self.config.segments is None else [BOS]
        return Frame(begin, self.tokeniser.vocab_size, EOS)

    @property
    def pairs(self) -> bool:
        """Whether a tab separates two texts: in a stream it is like any other character."""
        return self.config.segments is not None

    def _rows(self, lines: list[str]) -> list[np.ndarray]:
        columns = self.config.segments
        if columns is None or not lines:
            return [tokens_of(lines, self.tokeniser)]
        encoder = SegmentEncoder(self.tokeniser, self.config.data.block_length)
        block = encoder([segmented(number, line, columns, "the text") for number, line in enumerate(lines, start=1)])
        rows = block.arrays("")
        if block.report.left_out.count or not rows:
            raise DataError(f"There is nothing to score, or not all of it. {block.report}".strip())
        return [*encoder.head.arrays(""), *rows]

    def hidden(self, tokens: list[int]) -> Float[Tensor, "tokens model_dim"]:
        """The encoder's last vectors for one line."""
        return self._vectors([tokens])

    def _vectors(self, rows: Sequence[Sequence[int]]) -> Float[Tensor, "tokens model_dim"]:
        """The encoder's last vectors for several lines, one after the other."""
        text = Batch.of(rows)
        kinds = segments(text.ids, kinds=self.model.config.num_segments, end=self.frame.end) if self.pairs else None
        return self.model.encode(text, kinds)[0]

    def require_gaps(self, text: str, gap: str) -> None:
        """Raises UsageError for a text without a gap."""
        if not any(sign in text for sign in self.signs(gap)):
            known = " or ".join(self.signs(gap))
            raise UsageError(f"There is no gap in {text!r}. Write {known} where a token is missing.")

    def signs(self, gap: str) -> tuple[str, ...]:
        """The texts that mark a gap."""
        return (gap,)

    def parts(self, text: str, gap: str) -> list[str]:
        """The parts of a text between its gaps."""
        first, *others = self.signs(gap)
        for sign in others:
            text = text.replace(sign, first)
        return text.split(first)

    def parts_to_read(self, text: str, gap: str) -> list[str]:
        """The parts between the gaps of a text, or of both texts of a pair."""
        return [part for one in (text.split(TAB) if self.pairs else [text]) for part in self.parts(one, gap)]

    def parts_to_encode(self, text: str, gap: str) -> list[str]:
        """The parts of a text between its gaps, as they are encoded."""
        return self.parts(text, gap)

    def ids_and_gaps(self, text: str, gap: str) -> tuple[list[int], list[int]]:
        """The tokens of a line with its gaps, and the indices of these."""
        frame = self.frame
        tokens, places = list(frame.begin), []
        for one in split(text) if self.pairs else (text,):
            for number, part in enumerate(self.parts_to_encode(one, gap)):
                if number:
                    places.append(len(tokens))
                    tokens.append(frame.gap)
                tokens += self.tokeniser.encode(part) if part else []
            tokens.append(frame.end)
        require_positions("The text", len(tokens), self.model.max_length)
        return tokens, places

    def _labels(self, text: str, gap: str, tokens: list[int], places: list[int]) -> list[str]:
        """The labels of the tokens: gaps and unknown pieces are shown as they are written."""
        labels: list[str] = []
        for one in split(text) if self.pairs else (text,):
            for number, part in enumerate(self.parts_to_encode(one, gap)):
                labels += [gap] if number else []
                labels += self.tokeniser.labels(part) if part else []
            labels += self.tokeniser.pieces([self.frame.end])
        return [*self.tokeniser.pieces(tokens[: len(self.frame.begin)]), *labels]


class GuestFiller(Filler):
    """Fills gaps with a BERT of Hugging Face: [CLS] text [SEP], with [MASK] in the gaps; or [CLS] text [SEP] second
    [SEP] with a tab between them. The text stays as it is written; only the gaps change."""

    tokeniser: HuggingFaceTokeniser

    @property
    def pairs(self) -> bool:
        return self.model.config.num_segments > 1

    @classmethod
    def read(cls, folder: Path | str) -> "GuestFiller":
        """Raises DataError when the folder is damaged, UsageError when it holds another kind of model."""
        require_kind(folder, *BERTS)
        tokeniser, (config, tensors) = HuggingFaceTokeniser.read(folder), read_folder(folder)
        model = from_bert(config, tensors)
        filler = cls(model, tokeniser.of_model(model.embedding.num_embeddings))
        if GAP_HEAD not in as_bert(config, tensors)[1]:
            filler.without_head = class_of(config)
        return filler._of(folder)

    def signs(self, gap: str) -> tuple[str, ...]:
        """A gap may also be written as the tokeniser's own token, such as [MASK]."""
        return tuple(dict.fromkeys((gap, self.tokeniser.names.get("mask", gap))))

    def _shares(self, logits: Float[Tensor, "gaps vocab"]) -> tuple[Float[Tensor, "gaps known"], int]:
        shares = logits.softmax(-1)
        special = sorted(number for number in self.tokeniser.special if number < shares.shape[1])
        shares[:, special] = 0.0
        return shares, len(special)

    def parts_to_encode(self, text: str, gap: str) -> list[str]:
        """As of `Filler`, without spaces that belong to the token for gaps, as in RoBERTa."""
        *before, last = super().parts_to_encode(text, gap)
        return [*(part.rstrip() for part in before), last] if self.tokeniser.takes_spaces("mask") else [*before, last]

    def _written(self, parts: Sequence[str], ids: Sequence[int]) -> str:
        written, *others = parts
        owns = self.tokeniser.takes_spaces("mask")
        for token, part in zip(ids, others, strict=True):
            word = self.tokeniser.decode([token]).removeprefix("##")
            if owns and written.endswith(" "):  # the piece has a space of its own, or goes on with the word before
                written = written[:-1] + word
            else:
                written += word.lstrip() if not written or written[-1].isspace() else word
            written += part
        return written

    def evaluate(self, lines: Iterable[str]) -> dict[str, float]:
        raise UsageError(UNSCORED)

    @property
    def frame(self) -> Frame:
        """The tokeniser's special tokens around a text, and its token for gaps. Raises DataError if it lacks one."""
        mask = self.tokeniser.id_of("mask")
        if mask is None or mask >= self.model.embedding.num_embeddings:
            raise DataError("The tokeniser has no token for gaps (mask_token). Fetch its tokenizer_config.json too.")
        framed = self.tokeniser.framed("")
        if not framed:
            raise DataError(
                "The tokeniser puts no tokens around a text, such as [CLS] and [SEP]. Fetch all of its files again."
            )
        *begin, end = framed
        return Frame(begin, mask, end)
