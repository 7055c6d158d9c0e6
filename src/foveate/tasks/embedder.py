"""Vectors of sentences from a BERT, as sentence-transformers makes them: close for texts of similar meaning."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, overload

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from foveate.config import parse_json
from foveate.data.batch import Batch
from foveate.data.batching import groups
from foveate.data.text import require_texts
from foveate.data.tokeniser import HuggingFaceTokeniser
from foveate.errors import DataError, UsageError
from foveate.inspect import Trace, Track
from foveate.inspect.looking import Looking
from foveate.inspect.value import observed
from foveate.models import BERT
from foveate.models.bert_hugging_face import read_bert
from foveate.models.bert_kin import BERTS
from foveate.nn.packing import Packing
from foveate.storage.manifest import read_file, read_json
from foveate.tasks.run_model import require_kind, require_numbers, traced

Mode = Literal["mean", "cls", "max"]
MODES: dict[str, Mode] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
}
"""The names in a folder for the ways to make one vector of all: the first, the largest of each feature, or the mean.
Several stand one after the other in this order, as in sentence-transformers."""


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """The settings that make one vector of the hidden vectors of a text."""

    modes: tuple[Mode, ...] = ("mean",)
    """The vectors of several modes are concatenated."""
    normalised: bool = False
    max_length: int | None = None
    """Tokens that a text may have, special ones counted; None: as many as the model has positions."""
    lowercase: bool = False
    """Whether texts are read in small letters."""
    prompt: str = ""
    """Stands before each text that the model reads."""

    @classmethod
    def read(cls, folder: Path | str) -> "EmbeddingConfig":
        """The configuration in `modules.json` of a sentence-transformers folder, with the prompt that is its default;
        the mean if there is no such file.

        Raises DataError for steps that are not known here.
        """
        folder = Path(folder)
        if not (folder / "modules.json").exists():
            return cls()
        modes: tuple[Mode, ...] = ()
        normalised, pooled = False, True
        for step in _steps(folder / "modules.json"):
            kind = str(step["type"]).rpartition(".")[2]
            if kind == "Pooling":
                pooling = read_json(folder / step["path"] / "config.json")
                modes, pooled = _modes(pooling, folder), pooling.get("include_prompt", True)
            elif kind == "Normalize":
                normalised = True
            elif kind != "Transformer":
                raise DataError(f"{folder / 'modules.json'} has a step {kind!r:.60}, which is not known here.")
        path = folder / "sentence_bert_config.json"
        settings = read_json(path) if path.exists() else {}
        limit = settings.get("max_seq_length")
        if limit is not None and (type(limit) is not int or limit < 2):
            raise DataError(f"{path} has max_seq_length={limit!r:.60}, which must be a whole number of tokens.")
        lowercase = settings.get("do_lower_case") is True
        return cls(
            modes=modes or ("mean",),
            normalised=normalised,
            max_length=limit,
            lowercase=lowercase,
            prompt=_prompt(folder / "config_sentence_transformers.json", pooled),
        )


class Embedder(Looking):
    """Texts to vectors. A vector depends neither on its neighbours nor on how many texts are read together.

    Reference: Reimers and Gurevych 2019, section 3.
    """

    def __init__(self, model: BERT, tokeniser: HuggingFaceTokeniser, config: EmbeddingConfig | None = None) -> None:
        self.model, self.tokeniser = model.eval(), tokeniser
        self.config = EmbeddingConfig() if config is None else config

    @classmethod
    def read(cls, folder: Path | str) -> "Embedder":
        """A folder of sentence-transformers, or any BERT's. Raises DataError when it is damaged."""
        require_kind(folder, *BERTS)
        model = read_bert(folder)
        tokeniser = HuggingFaceTokeniser.read(folder).of_model(model.embedding.num_embeddings)
        return cls(model, tokeniser, EmbeddingConfig.read(folder))._of(folder)

    @overload
    def embed(self, texts: str, *, shorten: bool = False) -> Float[Tensor, " dim"]: ...

    @overload
    def embed(self, texts: Sequence[str], *, shorten: bool = False) -> Float[Tensor, "texts dim"]: ...

    @torch.inference_mode()
    def embed(self, texts: str | Sequence[str], *, shorten: bool = False) -> Float[Tensor, "*texts dim"]:
        """A vector of a text, or one for each of several. With `shorten` a text with too many tokens is cut, without it
        is refused.

        Raises DataError for a text that is too long.
        """
        require_texts(texts)
        if isinstance(texts, str):
            return self.embed([texts], shorten=shorten)[0]
        rows = [self._tokens(self._form(text), number, shorten) for number, text in enumerate(texts, start=1)]
        dim = self.model.output_dim * len(self.config.modes)
        vectors = torch.zeros(len(rows), dim, dtype=self.model.embedding.weight.dtype)
        for group in groups([len(row) for row in rows]):
            vectors[group] = self._vectors([rows[each] for each in group])
        for number, vector in enumerate(vectors, start=1):
            require_numbers(f"Text {number}", vector, "vectors")
        return vectors

    def similarity(
        self, texts: str | Sequence[str], others: str | Sequence[str] | None = None
    ) -> Float[Tensor, "texts others"]:
        """The cosine of the angle between the vectors of texts: 1 for the same direction. One text is a list of one."""
        texts = [texts] if isinstance(texts, str) else texts
        others = [others] if isinstance(others, str) else others
        one = normalize(self.embed(texts), dim=-1)
        return one @ (one if others is None else normalize(self.embed(others), dim=-1)).mT

    @torch.inference_mode()
    def trace(self, text: str) -> Trace:
        """The attention of a text's tokens, with the characters of each. Raises DataError as `embed` does."""
        text = self._form(text)
        tokens = self._tokens(text, 1, False)
        observation = observed(self.model, lambda: self.model.encode(Batch.of([tokens]))[0])
        offsets = tuple((float(a), float(b)) for a, b in self.tokeniser.spans(text, framed=True))
        track = replace(Track.of_pieces(self.tokeniser.pieces(tokens), text=text), offsets=offsets)
        return traced(self.model, observation, track)

    def _form(self, text: str) -> str:
        """A text as the model reads it."""
        text = f"{self.config.prompt}{text}"
        return text.lower() if self.config.lowercase else text

    def _tokens(self, text: str, number: int, shorten: bool) -> list[int]:
        tokens = self.tokeniser.framed(text)
        limit = min(self.config.max_length or self.model.max_length, self.model.max_length)
        if len(tokens) <= limit:
            return tokens
        if not shorten:
            raise DataError(
                f"Text {number} has {len(tokens)} tokens, but the model reads {limit}. Split it, or cut it with "
                "shorten=True; nothing is cut off silently."
            )
        return [*tokens[: limit - 1], tokens[-1]]

    def _vectors(self, rows: list[list[int]]) -> Float[Tensor, "texts dim"]:
        hidden, packing = self.model.encode(Batch.of(rows))
        joined = torch.cat([_pooled(hidden, packing, mode) for mode in self.config.modes], -1)
        return normalize(joined, dim=-1) if self.config.normalised else joined


def _pooled(hidden: Float[Tensor, "tokens dim"], packing: Packing, mode: Mode) -> Float[Tensor, "texts dim"]:
    """One vector for each text."""
    if mode == "cls":
        return hidden[packing.starts[:-1]]
    texts = [hidden[start:stop] for start, stop in zip(packing.starts[:-1], packing.starts[1:], strict=True)]
    return torch.stack([text.mean(0) if mode == "mean" else text.amax(0) for text in texts])


def _prompt(path: Path, pooled: bool) -> str:
    """The prompt that a file of settings makes the default. Raises DataError for one that it lacks, and for one whose
    tokens are not `pooled`.
    """
    settings = read_json(path) if path.exists() else {}
    name = settings.get("default_prompt_name")
    if name is None:
        return ""
    prompts = settings.get("prompts")
    prompt = prompts.get(name) if isinstance(prompts, dict) else None
    if not isinstance(prompt, str):
        raise DataError(
            f"{path} names the prompt {name!r:.60}, which is not among its prompts. Fetch the folder again."
        )
    if prompt and not pooled:
        raise DataError(
            f"{path} has a prompt, whose tokens are not pooled (include_prompt). Embeddings of this kind are not made "
            "here."
        )
    return prompt


def _steps(path: Path) -> list[dict[str, Any]]:
    """The modules that a text passes through, in order."""
    try:
        steps = parse_json(read_file(path))
    except ValueError:
        steps = None
    if isinstance(steps, list) and all(map(_is_step, steps)):
        return steps
    raise DataError(f"{path} is not a list of steps with a type and a path. Download the folder again.")


def _is_step(step: object) -> bool:
    """Whether a step has a type, and a path inside the folder."""
    texts = isinstance(step, dict) and all(isinstance(step.get(name), str) for name in ("type", "path"))
    return texts and ".." not in Path(step["path"]).parts and not Path(step["path"]).is_absolute()  # type: ignore[index]


def _modes(pooling: dict[str, Any], folder: Path) -> tuple[Mode, ...]:
    names = [name for name, chosen in pooling.items() if name.startswith("pooling_mode_") and chosen is True]
    unknown = [name for name in names if name not in MODES]
    if unknown:
        raise DataError(f"{folder} uses the pooling {', '.join(unknown)}, which foveate does not support.")
    if not names:
        raise UsageError(f"{folder} does not specify a pooling method. Give an EmbeddingConfig.")
    return tuple(mode for name, mode in MODES.items() if name in names)
