"""Models of Hugging Face folders in use: go on from a prompt, fill gaps. Nothing of their library is needed but its
tokenisers."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from foveate.data.batch import Batch
from foveate.data.tokeniser import HuggingFaceTokeniser
from foveate.decode import DecodeConfig, SampleConfig, beam_size, decode
from foveate.errors import DataError, UsageError
from foveate.models import GPT, Llama
from foveate.models.bert_hugging_face import GAP_HEAD, from_bert
from foveate.models.bert_kin import BERTS, as_bert
from foveate.models.gpt2_hugging_face import read_gpt2
from foveate.models.hugging_face import read_folder
from foveate.models.llama_hugging_face import read_llama
from foveate.storage.run import class_of
from foveate.tasks.filler import Filler, Filling, Frame
from foveate.tasks.generator import Continuation, Generator
from foveate.tasks.hugging_face import require_kind
from foveate.tasks.language_model import score

UNSCORED = "A BERT of Hugging Face is not scored on texts: nobody says which gaps it should fill. Score runs of ours."


class GuestGenerator(Generator):
    """Goes on from prompts with a GPT-2 or a Llama of Hugging Face: a prompt is read as it stands, after the token that
    begins a text if there is one, and the model's own end of text ends a continuation."""

    model: GPT | Llama
    tokeniser: HuggingFaceTokeniser

    @classmethod
    def read(cls, folder: Path | str, *, precision: Literal["float32", "bfloat16"] = "float32") -> "GuestGenerator":
        """Raises DataError when the folder is damaged, UsageError when it holds another kind of model."""
        read = {"gpt2": read_gpt2, "llama": read_llama}
        kind = require_kind(folder, *read)
        model = read[kind](folder)
        tokeniser = HuggingFaceTokeniser.read(folder).of_model(model.embedding.num_embeddings)
        return cls(model.to(torch.bfloat16) if precision == "bfloat16" else model, tokeniser, SampleConfig())._of(
            folder
        )

    @torch.inference_mode()
    def _continued(
        self, prompt: str, config: DecodeConfig, count: int, first: int, length: int | None, lines: int | None
    ) -> list[Continuation]:
        """An empty prompt is a text's beginning."""
        read = self.ids(prompt)
        limit = config.max_length if length is None else length
        positions = self.model.max_length
        limit = limit if positions is None else min(limit, positions - len(read) + 1)
        if limit < 1:
            raise DataError(
                f"The prompt has {len(read)} tokens, but the model has {positions} positions for it and what follows. "
                "Shorten the prompt; nothing is cut off silently."
            )
        found = decode(
            self.model,
            self.model.start(Batch.of([read[:-1]] * count), beam_size(config)),
            sentences=count,
            config=replace(config, max_length=limit, min_length=min(config.min_length, limit - 1)),
            begin=read[-1],
            end=self._end,
            examples=range(first, first + count),
        )
        return [
            Continuation(prompt, self._text(read, best, lines), best) for hypotheses in found for best in hypotheses
        ]

    def evaluate(self, lines: Iterable[str], *, context: int = 0) -> dict[str, float]:
        """As `Generator.evaluate`, in blocks of as many tokens as the model has positions. Lines are joined again: a
        line's end is a token like any other here.
        """
        text = "".join(f"{line}\n" for line in lines)
        if not text:
            raise DataError("The text has no lines: there is nothing to score.")
        block = self.data.block_length if self.model.max_length is None else self.model.max_length
        if context >= block:
            raise UsageError(
                f"A context of {context} tokens leaves nothing to predict: blocks have {block}. Give less."
            )
        tokens = np.array([*self.ids(""), *self.tokeniser.encode(text)])
        data = replace(self.data, block_length=block, max_tokens=max(block, self.data.max_tokens))
        return score(self.model, tokens, data, num_bytes=len(text.encode()), context=context)

    @property
    def _end(self) -> int:
        end = self.tokeniser.id_of("eos")
        if end is None:
            raise DataError("The tokeniser says no end of text (eos_token). Fetch its tokenizer_config.json too.")
        return int(end)

    def ids(self, prompt: str) -> list[int]:
        return self.tokeniser.framed(prompt) or [self._end]

    def _labels(self, read: list[int], text: str) -> list[str]:
        labels = self.tokeniser.labels(text)
        return [*self.tokeniser.pieces(read[: len(read) - len(labels)]), *labels]

    def _text(self, read: list[int], hypothesis: Any, lines: int | None) -> str:
        before = self.tokeniser.decode(read)
        text = self.tokeniser.decode([*read, *hypothesis.tokens]).removeprefix(before)
        return text if lines is None else "\n".join(text.split("\n")[:lines])


class GuestFiller(Filler):
    """Fills gaps with a BERT of Hugging Face: [CLS] text [SEP], with [MASK] in the gaps; or [CLS] text [SEP] second
    [SEP] with a tab between them. The text stays as it is written; only the gaps change."""

    tokeniser: HuggingFaceTokeniser

    @property
    def pairs(self) -> bool:
        return self.model.config.num_segments > 1

    without_head = ""
    """The class of a model that has no head for gaps, and can only be looked at."""

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
        """A gap may be written as the tokeniser calls it, too: [MASK]."""
        return tuple(dict.fromkeys((gap, self.tokeniser.names.get("mask", gap))))

    def _filled(self, text: str, best: int, gap: str) -> Filling:
        if self.without_head:
            raise UsageError(
                f"This folder holds a {self.without_head}, which has no head that fills gaps. Look at its attention "
                "with `foveate look`, or take the folder of a model for masked language modelling."
            )
        self.require_gaps(text, gap)
        tokens, places = self.ids_and_gaps(text, gap)
        shares = self.model.logits(self.hidden(tokens)[torch.tensor(places)]).softmax(-1)
        shares[:, sorted(number for number in self.tokeniser.special if number < shares.shape[1])] = 0.0
        found = shares.topk(min(best, shares.shape[1]))
        pieces = [self.tokeniser.pieces(row) for row in found.indices.tolist()]
        choices = tuple(tuple(zip(*pair, strict=True)) for pair in zip(pieces, found.values.tolist(), strict=True))
        first, *parts = self.parts(text, gap)
        filled = first + "".join(row[0].removeprefix("##") + part for row, part in zip(pieces, parts, strict=True))
        return Filling(filled, choices)

    def evaluate(self, lines: Iterable[str]) -> dict[str, float]:
        raise UsageError(UNSCORED)

    @property
    def frame(self) -> Frame:
        """What the tokeniser puts around a text, and its token for gaps. Raises DataError when it has none."""
        mask = self.tokeniser.id_of("mask")
        if mask is None or mask >= self.model.embedding.num_embeddings:
            raise DataError("The tokeniser has no token for gaps (mask_token). Fetch its tokenizer_config.json too.")
        *begin, end = self.tokeniser.framed("")
        return Frame(begin, mask, end)
