"""A trained language model in use: continue a prompt, score a text. Ours, and GPT-2 and Llama of Hugging Face."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import overload

import numpy as np
import torch
from jaxtyping import Int

from foveate.data.batch import Batch
from foveate.data.text import require_lines, require_texts
from foveate.data.tokeniser import BOS, EOS, PAD, SPECIALS, UNKNOWN, HuggingFaceTokeniser, Tokeniser
from foveate.data.tokeniser.running_text import RunningText
from foveate.decode import BeamConfig, DecodeConfig, Hypothesis, Prompt, SampleConfig, beam_size, decode
from foveate.errors import DataError, UsageError
from foveate.inspect import Trace
from foveate.inspect.alignment import Alignment
from foveate.inspect.attribution import Answer
from foveate.inspect.looking import Looking
from foveate.inspect.self_attention import self_attention
from foveate.inspect.trace.conversion import Stored
from foveate.inspect.value import observed
from foveate.models import GPT, LanguageModel, Llama
from foveate.models.gpt2_hugging_face import read_gpt2
from foveate.models.llama_hugging_face import read_llama
from foveate.nn.precision import Precision, set_precision
from foveate.storage.run import model_type_of
from foveate.tasks.language_model.task import LanguageModelTask, LanguageModelTaskConfig, score, text_bytes
from foveate.tasks.language_model.text_answer import text_answer
from foveate.tasks.run_model import require_kind, require_positions, require_text, traced
from foveate.tasks.text_task import TextConfig, load_text_model, text_of, tokens_of

ATTENDING = "`foveate train language_model` with --set model=gpt trains one that attends."
NEVER = (PAD, BOS, UNKNOWN)
"""Special tokens, which are never generated."""


@dataclass(frozen=True)
class Continuation:
    """A prompt and its continuation by a model."""

    prompt: str
    text: str
    hypothesis: Hypothesis

    def __str__(self) -> str:
        return self.prompt + self.text


class Generator(Looking):
    """Continues prompts. A continuation depends neither on its neighbours nor on the number of continuations."""

    unwritten = 1
    """The tokens before a prompt that messages about its length do not count."""

    def __init__(
        self,
        model: LanguageModel,
        tokeniser: Tokeniser,
        config: DecodeConfig | None = None,
        data: TextConfig | None = None,
    ) -> None:
        self.model, self.tokeniser = model.eval(), tokeniser
        self.config = SampleConfig() if config is None else config
        self.data = TextConfig() if data is None else data

    @classmethod
    def load(
        cls,
        run: Path | str,
        *,
        precision: Precision = "float32",
        note: Callable[[str], None] = lambda sentence: None,
    ) -> "Generator":
        """The trained model of a run folder; of an unfinished run, its best checkpoint.

        `note` receives a sentence about anything that was passed over. Raises DataError when the folder is not a run,
        has no trained weights, or is damaged, and UsageError for a run of another task.
        """
        if model_type_of(run) is not None:
            return GuestGenerator.read(run, precision=precision)
        config, tokeniser, model = load_text_model(
            Path(run), "language_model", LanguageModelTaskConfig, LanguageModelTask.initial, note
        )
        set_precision(model, precision)
        return cls(model, tokeniser, config.decode, config.data)._of(run)

    @overload
    def generate(  # type: ignore[overload-overlap]
        self,
        prompt: str = "",
        *,
        config: DecodeConfig | None = None,
        count: int = 1,
        first: int = 0,
        length: int | None = None,
        lines: int | None = None,
    ) -> list[Continuation]: ...

    @overload
    def generate(
        self,
        prompt: Sequence[str],
        *,
        config: DecodeConfig | None = None,
        count: int = 1,
        first: int = 0,
        length: int | None = None,
        lines: int | None = None,
    ) -> list[list[Continuation]]: ...

    def generate(
        self,
        prompt: str | Sequence[str] = "",
        *,
        config: DecodeConfig | None = None,
        count: int = 1,
        first: int = 0,
        length: int | None = None,
        lines: int | None = None,
    ) -> list[Continuation] | list[list[Continuation]]:
        """`count` continuations of a prompt, or so many hypotheses of a beam, best first; of several prompts, such a
        list for each. `length` is the most tokens of each, `lines` the most lines.

        An empty prompt is a line's beginning. Where the model has a limit of positions, prompt and continuation share
        it (`room`); the noise of sampling follows from `first`, the number of the first continuation. Raises DataError
        for a prompt that leaves no position free, UsageError for more continuations than the search has.
        """
        require_texts(prompt)
        config = _continuing(self.config if config is None else config, count)
        if lines is not None and (not isinstance(lines, int) or lines < 1):
            raise UsageError(f"lines must be a whole number of at least 1 line, got {lines!r}.")
        if isinstance(prompt, str):
            return self._continued(prompt, config, count, first, length, lines)
        starts = range(first, first + count * len(prompt), count)
        return [
            self._continued(one, config, count, start, length, lines) for one, start in zip(prompt, starts, strict=True)
        ]

    @torch.inference_mode()
    def _continued(
        self, prompt: str, config: DecodeConfig, count: int, first: int, length: int | None, lines: int | None
    ) -> list[Continuation]:
        read = self.ids(prompt)
        config, end = self._ending(config, self._limit(read, config, length), lines)
        count = 1 if isinstance(config, BeamConfig) else count
        groups = decode(
            self.model,
            self.model.start(Batch.of([read[:-1]]), count * beam_size(config)),  # the prompt is read once
            sentences=count,
            config=config,
            begin=read[-1],
            end=end,
            examples=range(first, first + count),
        )
        return [
            Continuation(prompt, self._text(read, best, lines), best) for hypotheses in groups for best in hypotheses
        ]

    def prompt(self, text: str, config: DecodeConfig | None, *, length: int | None = None, example: int = 0) -> Prompt:
        """A prompt for batches in flight, which is continued as by `generate`.

        Raises UsageError for beam search, DataError as `generate` does.
        """
        read, config = self.ids(text), self.config if config is None else config
        config, end = self._ending(config, self._limit(read, config, length), None)
        if isinstance(config, BeamConfig):
            raise UsageError(
                "Texts in flight are continued greedily or by sampling, and this model's configuration has beam "
                "search. Give another one: config=SampleConfig()."
            )
        return Prompt(tokens=read, config=config, end=end, example=example)

    def running(self, read: Sequence[int]) -> RunningText:
        """The text of tokens that will come after those that were read."""
        return RunningText(self._written, read, is_partial=self.tokeniser.is_partial)

    def room(self, prompt: str) -> int | None:
        """The most tokens that can follow a prompt, for which the model has positions; None without a limit."""
        return self._room(self.ids(prompt))

    def _room(self, read: Sequence[int]) -> int | None:
        return None if self.model.max_length is None else self.model.max_length - len(read) + 1

    def _limit(self, read: Sequence[int], config: DecodeConfig, length: int | None) -> int:
        """The most tokens of a continuation, for which the model has positions."""
        if length is not None and (not isinstance(length, int) or length < 1):
            raise UsageError(f"length must be a whole number of at least 1 token, got {length!r}.")
        limit = config.max_length if length is None else length
        if (room := self._room(read)) is not None:
            limit = min(limit, room)
        if limit < 1:
            raise DataError(
                f"The prompt has {len(read) - self.unwritten} tokens, but the model has {self.model.max_length} "
                "positions for it and what follows. Shorten the prompt; nothing is cut off silently."
            )
        return limit

    def _ending(self, config: DecodeConfig, limit: int, lines: int | None) -> tuple[DecodeConfig, int]:
        """The settings that decode at most `limit` tokens, and the token that ends a continuation."""
        # A text goes on after a line's end, so nothing ends it but its length; PAD, which is never chosen, stands for
        # the end that never comes.
        endless = lines is None or lines > 1
        forbidden, least = tuple({*config.forbid, *NEVER}), 0 if endless else min(config.min_length, limit - 1)
        return replace(config, forbid=forbidden, min_length=least, max_length=limit), PAD if endless else EOS

    def evaluate(self, lines: Iterable[str], *, context: int = 0) -> dict[str, float]:
        """Loss, perplexity, bits per byte and accuracy of a text, in blocks as long as those of training.

        Bits per byte compare models of different tokens. `context` tokens of each block are only read, so that no
        prediction but those at the text's beginning knows less. Raises DataError for a text without lines, and
        UsageError for a context that leaves nothing to predict, TypeError for a single text.
        """
        require_lines(lines)
        if context < 0:
            raise UsageError(f"context must be at least 0 tokens, got {context}.")
        text = list(lines)
        if context >= self.data.block_length:
            raise UsageError(
                f"A context of {context} tokens leaves nothing to predict: blocks have {self.data.block_length}. "
                "Give less; half a block is usual."
            )
        return score(self.model, self._stream(text), self.data, num_bytes=text_bytes(text), context=context)

    @torch.inference_mode()
    def trace(self, text: str, *, stored: Stored = "float16") -> Trace:
        """The attention of each token of a text. Raises UsageError for an empty text and for a recurrent model,
        DataError as `generate` does.
        """
        require_text(text)
        read = self.fitting(text)
        observation = observed(self.model, lambda: self.model(Batch.of([read])))
        return traced(self.model, observation, self._labels(read, text), text, attending=ATTENDING, stored=stored)

    @torch.inference_mode()
    def align(self, text: str, *, layer: int | None = None) -> Alignment | None:
        """The attention of each token of a text when the next token is predicted: the mean of a layer's heads.

        None for a recurrent model, which looks at nothing. Raises DataError as `generate` does.
        """
        read = self.fitting(text)
        pieces = self._labels(read, text)
        return self_attention(self.model, lambda: self.model(Batch.of([read])), pieces, layer=layer)

    def answer(self, text: str) -> Answer:
        """The words of a text after the first, as predictions, and the model to ask which earlier words mattered: a
        word is removed, or each of its pieces becomes the unknown token.

        Raises UsageError for a text of one word, DataError as `generate` does.
        """
        require_text(text)
        read = self.fitting(text)
        trace = partial(self.trace, text, stored="float32")
        return text_answer(self.model, read, self._labels(read, text), self.tokeniser, trace)

    def _labels(self, read: list[int], text: str) -> list[str]:
        """The pieces of a text as the model reads them; unknown ones are shown as they are written."""
        lines = [[SPECIALS[EOS], *self.tokeniser.labels(line)] for line in text.split("\n")]
        return [label for line in lines for label in line]

    def fitting(self, text: str) -> list[int]:
        """The tokens of a text. Raises DataError if the model has fewer positions."""
        read = self.ids(text)
        require_positions("The text", len(read), self.model.max_length, "tokens, its beginning included")
        return read

    def _stream(self, lines: list[str]) -> Int[np.ndarray, " tokens"]:
        return tokens_of(lines, self.tokeniser)

    def ids(self, prompt: str) -> list[int]:
        """The tokens of a prompt, after a line's end."""
        read = [EOS]
        for number, line in enumerate(prompt.split("\n")):
            read += [EOS] if number else []
            read += self.tokeniser.encode(line)
        return read

    def _text(self, read: list[int], hypothesis: Hypothesis, lines: int | None) -> str:
        """The text after the prompt. Both are decoded at once: a piece at the start of a line may lose its space."""
        text = self.text_after(read, hypothesis.tokens)
        return text if lines is None else "\n".join(text.split("\n")[:lines])

    def text_after(self, read: Sequence[int], tokens: Sequence[int]) -> str:
        """The text of the tokens after those that were read."""
        return self._decoded([*read, *tokens]).removeprefix(self._decoded([*read]))

    def _decoded(self, tokens: list[int]) -> str:
        return self._written(tokens[1:])

    def _written(self, tokens: list[int]) -> str:
        """The text of consecutive tokens."""
        return text_of(self.tokeniser, tokens)


class GuestGenerator(Generator):
    """Goes on from prompts with a GPT-2 or a Llama of Hugging Face: a prompt is read as it stands, after the token that
    begins a text if there is one, and the model's own end of text ends a continuation."""

    model: GPT | Llama
    tokeniser: HuggingFaceTokeniser
    unwritten = 0

    @classmethod
    def read(cls, folder: Path | str, *, precision: Precision = "float32") -> "GuestGenerator":
        """A text is scored in blocks of as many tokens as the model has positions.

        Raises DataError when the folder is damaged, UsageError when it holds another kind of model.
        """
        read = {"gpt2": read_gpt2, "llama": read_llama}
        kind = require_kind(folder, *read)
        model = read[kind](folder)
        tokeniser = HuggingFaceTokeniser.read(folder).of_model(model.embedding.num_embeddings)
        data = TextConfig()
        if model.max_length is not None:
            block = model.max_length
            data = replace(data, block_length=block, max_tokens=max(block, data.max_tokens))
        set_precision(model, precision)
        return cls(model, tokeniser, SampleConfig(), data)._of(folder)

    def _ending(self, config: DecodeConfig, limit: int, lines: int | None) -> tuple[DecodeConfig, int]:
        # Padding and begin have other ids here, and the model may write them: 0 and 1 are "!" and a quotation mark.
        forbidden = () if config.forbid == SampleConfig().forbid else config.forbid
        least = min(config.min_length, limit - 1)
        return replace(config, forbid=forbidden, min_length=least, max_length=limit), self._end

    def _stream(self, lines: list[str]) -> Int[np.ndarray, " tokens"]:
        """The tokens of the joined lines: the end of a line is a token like any other here."""
        if not lines:
            raise DataError("The text has no lines: there is nothing to score.")
        return np.array([*self.ids(""), *self.tokeniser.encode("".join(f"{line}\n" for line in lines))])

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

    def _decoded(self, tokens: list[int]) -> str:
        return self._written(tokens)

    def _written(self, tokens: list[int]) -> str:
        return self.tokeniser.decode(tokens)


def _continuing(config: DecodeConfig, count: int) -> DecodeConfig:
    """The search for `count` continuations. Raises UsageError for more than it has."""
    if not isinstance(count, int) or count < 1:
        raise UsageError(f"count must be a whole number of at least 1 continuation, got {count!r}.")
    if count == 1 or isinstance(config, SampleConfig):
        return config
    if not isinstance(config, BeamConfig):
        raise UsageError(
            f"{count} continuations are asked for, and greedy search has one. Sample (kind=sample), or give a beam."
        )
    if count > config.beam:
        raise UsageError(
            f"{count} continuations are asked for, and a beam of {config.beam} keeps fewer. Give a beam of {count}."
        )
    return replace(config, num_best=count)
