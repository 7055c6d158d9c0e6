"""The tokeniser of a Hugging Face folder, with the ids of its model."""

import json
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal

from foveate.data.tokeniser.tokeniser import Tokeniser, require_known
from foveate.errors import DataError, SetupError
from foveate.storage.manifest import read_json

WHOLE, WORDPIECE, BPE = "tokenizer.json", "vocab.txt", ("vocab.json", "merges.txt")
Role = Literal["pad", "bos", "eos", "cls", "sep", "mask", "unk"]
USUAL: dict[str, str] = {"pad": "[PAD]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]", "unk": "[UNK]"}
"""The names of BERT's special tokens, unless a file contains others."""
BYTE = re.compile("<0x[0-9A-F]{2}>")
"""The piece of a byte in vocabularies that fall back to bytes."""
END_OF_TEXT = "<|endoftext|>"
ROBERTA: dict[str, str] = {
    "pad": "<pad>",
    "bos": "<s>",
    "eos": "</s>",
    "cls": "<s>",
    "sep": "</s>",
    "mask": "<mask>",
    "unk": "<unk>",
}
"""The names of RoBERTa's special tokens, unless a file contains others."""
GPT: dict[str, str] = {"bos": END_OF_TEXT, "eos": END_OF_TEXT}
"""The names of GPT-2's special tokens, unless a file contains others."""
ADDED = "added_tokens.json"
FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")
"""Settings of the search for an added token in a text."""


class HuggingFaceTokeniser(Tokeniser):
    """Converts text to the ids of a Hugging Face model and back, with the methods of our tokenisers. Special ids are
    those of the model (`id_of`).

    The files are `tokenizer.json`, or `vocab.txt` (WordPiece, like BERT), or `vocab.json` and `merges.txt` (byte pairs,
    like GPT-2). Texts are never truncated, even if a file asks for it, and special tokens written in a text are
    ordinary text.
    """

    kind: ClassVar[str] = "hugging_face"

    def __init__(self, inner: Any, names: dict[str, str] | None = None) -> None:
        """`inner` is a `tokenizers.Tokenizer`; `names` maps roles to names of special tokens."""
        inner.no_truncation()
        inner.no_padding()
        inner.encode_special_tokens = True
        self.inner, self.names = inner, dict(names or {})
        self.vocab_size = int(inner.get_vocab_size(with_added_tokens=True))
        self.known: int | None = None
        """The number of ids of the model, if known. Some tokenisers have more, which texts must not contain."""

    @classmethod
    def read(cls, folder: Path | str) -> "HuggingFaceTokeniser":
        """Read a folder. Raises DataError for a missing or damaged tokeniser, SetupError without `tokenizers`."""
        folder = Path(folder)
        tokenizers, settings = _tokenizers(), _settings(folder)
        names = {role: name for role in _roles() if (name := _name(settings.get(f"{role}_token"))) is not None}
        try:
            if (folder / WHOLE).exists():
                inner = tokenizers.Tokenizer.from_file(str(folder / WHOLE))
                return cls(_spaced(inner, settings), {**_usual(folder, inner), **names})
            if (folder / WORDPIECE).exists():
                names = {**USUAL, **names}
                return cls(_extended(_wordpiece(folder / WORDPIECE, settings, names), folder, settings), names)
            if all((folder / name).exists() for name in BPE):
                usual = ROBERTA if _model_type(folder) == "roberta" else GPT
                names = {**usual, **names}
                return cls(_extended(_bytes(folder, settings, names), folder, settings), names)
        except DataError:
            raise
        except Exception as error:  # the library raises plain Exception
            raise DataError(f"The tokeniser in {folder} cannot be read: {error}. Fetch the folder again.") from None
        raise DataError(
            f"{folder} has no tokeniser: neither {WHOLE} nor {WORDPIECE} nor {' with '.join(BPE)}. "
            "Fetch these files too, as models are shared with them."
        )

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without special ones."""
        return self._within(self.inner.encode(text, add_special_tokens=False).ids)

    def framed(self, text: str, second: str | None = None) -> list[int]:
        """The ids of one or two texts with the special tokens that the model expects, such as [CLS] and [SEP]."""
        return self._within(self.inner.encode(text, second).ids)

    def of_model(self, vocab_size: int) -> "HuggingFaceTokeniser":
        """Return this tokeniser, and set the number of ids; texts with larger ids are errors from now on."""
        self.known = vocab_size
        return self

    def _within(self, ids: Sequence[int]) -> list[int]:
        if self.known is not None and max(ids, default=0) >= self.known:
            raise DataError(
                f"The tokeniser gives the id {max(ids):,}, and the model has {self.known:,}. Take both from one folder."
            )
        return list(ids)

    def spans(self, text: str, *, framed: bool = False) -> list[tuple[int, int]]:
        """The start and end character of each token; they are equal for special tokens."""
        return list(self.inner.encode(text, add_special_tokens=framed).offsets)

    def surfaces(self, text: str) -> list[str]:
        return [text[first:last] for first, last in self.spans(text)]

    def unknown(self, token: int) -> bool:
        return token == self.id_of("unk")

    def is_partial(self, token: int) -> bool:
        """Decoders such as Llama's read all bytes in a row at once: if one is wrong, all of them are. Special ids are
        skipped, so that bytes before and after them stand in a row.
        """
        return token in self.special or bool(BYTE.fullmatch(self.inner.id_to_token(token) or ""))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; special ones are skipped."""
        known = require_known(ids, self.vocab_size)
        return str(
            self.inner.decode([token for token in known if token not in self.special], skip_special_tokens=False)
        )

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self.inner.id_to_token(token) or f"<{token}>" for token in require_known(ids, self.vocab_size)]

    def content(self) -> dict[str, Any]:
        return {"inner": json.loads(self.inner.to_str()), "names": self.names}

    @classmethod
    def of(cls, content: dict[str, Any]) -> "HuggingFaceTokeniser":
        """Make the tokeniser from its `content`."""
        return cls(_tokenizers().Tokenizer.from_str(json.dumps(content["inner"])), content["names"])

    def id_of(self, role: Role) -> int | None:
        """The id of a special token; None if the tokeniser does not have it."""
        name = self.names.get(role)
        id = None if name is None else self.inner.token_to_id(name)
        return None if id is None else int(id)

    def takes_spaces(self, role: Role) -> bool:
        """Whether a special token takes the spaces before it."""
        token = self.inner.get_added_tokens_decoder().get(self.id_of(role))
        return token is not None and bool(token.lstrip)

    @cached_property
    def special(self) -> frozenset[int]:
        """The ids of special tokens, which are not text."""
        marked = {number for number, token in self.inner.get_added_tokens_decoder().items() if token.special}
        named = {self.inner.token_to_id(name) for name in self.names.values()}
        return frozenset(marked | (named - {None}))


def _settings(folder: Path) -> dict[str, Any]:
    """The settings in the files beside a tokeniser."""
    settings: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (folder / name).exists():
            settings |= read_json(folder / name)
    return settings


def _roles() -> Sequence[str]:
    return ("pad", "bos", "eos", "cls", "sep", "mask", "unk")


def _name(value: Any) -> str | None:
    """A token's text; older files write the token as an object."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _wordpiece(path: Path, settings: dict[str, Any], names: dict[str, str]) -> Any:
    """The tokeniser of BERT: words and punctuation, split greedily into pieces, between [CLS] and [SEP]."""
    parts = _tokenizers()
    lines = path.read_text(encoding="utf-8").split("\n")
    vocab = {token: number for number, token in enumerate(lines[:-1] if lines[-1] == "" else lines)}
    missing = [names[role] for role in ("unk", "cls", "sep") if names[role] not in vocab]
    if missing:
        raise DataError(f"{path} lacks {', '.join(missing)}, which BERT's tokeniser needs. Fetch the folder again.")
    inner = parts.Tokenizer(parts.models.WordPiece(vocab, unk_token=names["unk"], max_input_chars_per_word=100))
    inner.normalizer = parts.normalizers.BertNormalizer(
        lowercase=bool(settings.get("do_lower_case", True)),
        strip_accents=settings.get("strip_accents"),
        handle_chinese_chars=bool(settings.get("tokenize_chinese_chars", True)),
    )
    inner.pre_tokenizer = parts.pre_tokenizers.BertPreTokenizer()
    frame = [(names[role], vocab[names[role]]) for role in ("sep", "cls")]
    inner.post_processor = parts.processors.BertProcessing(*frame)
    inner.decoder = parts.decoders.WordPiece()
    inner.add_special_tokens([name for name in names.values() if name in vocab])
    return inner


def _bytes(folder: Path, settings: dict[str, Any], names: dict[str, str]) -> Any:
    """The tokeniser of GPT-2: bytes of words, merged in the order of `merges.txt`. RoBERTa's puts a text between the
    tokens that are named `cls` and `sep`.
    """
    parts = _tokenizers()
    vocab, merges = (str(folder / name) for name in BPE)
    inner = parts.Tokenizer(parts.models.BPE.from_file(vocab, merges))
    prefix = bool(settings.get("add_prefix_space", False))
    inner.pre_tokenizer = parts.pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    inner.decoder = parts.decoders.ByteLevel()
    known = json.loads((folder / BPE[0]).read_text(encoding="utf-8"))
    around: list[Role] = [role for role in ("sep", "cls") if role in names]
    around = ["bos"] if not around and settings.get("add_bos_token") else around
    missing = [names[role] for role in around if names[role] not in known]
    if missing:
        raise DataError(f"{folder / BPE[0]} lacks {', '.join(missing)}, which each text gets. Fetch the folder again.")
    frame = [(names[role], known[names[role]]) for role in around]
    if len(frame) == 2:
        inner.post_processor = parts.processors.RobertaProcessing(*frame, add_prefix_space=prefix)
    elif around == ["bos"]:
        single, pair = f"{names['bos']} $A", f"{names['bos']} $A {names['bos']}:1 $B:1"
        inner.post_processor = parts.processors.TemplateProcessing(single=single, pair=pair, special_tokens=frame)
    inner.add_special_tokens([_special(name, names, parts) for name in sorted(set(names.values())) if name in known])
    return inner


def _model_type(folder: Path) -> str:
    path = folder / "config.json"
    return str(read_json(path).get("model_type")) if path.exists() else ""


def _usual(folder: Path, inner: Any) -> dict[str, str]:
    """The names of special tokens that models of this kind have, if the tokeniser knows them."""
    usual = {"bert": USUAL, "distilbert": USUAL, "roberta": ROBERTA, "gpt2": GPT}.get(_model_type(folder), {})
    return {role: name for role, name in usual.items() if inner.token_to_id(name) is not None}


def _spaced(inner: Any, settings: dict[str, Any]) -> Any:
    """A whole tokeniser of bytes, with the setting `add_prefix_space` of the file beside it, as the library has it."""
    prefix = settings.get("add_prefix_space")
    if prefix is not None and isinstance(inner.pre_tokenizer, _tokenizers().pre_tokenizers.ByteLevel):
        inner.pre_tokenizer.add_prefix_space = bool(prefix)
    return inner


def _extended(inner: Any, folder: Path, settings: dict[str, Any]) -> Any:
    """A tokeniser with the further tokens that the files beside its vocabulary name.

    Raises DataError for a token with another id than the files say.
    """
    parts = _tokenizers()
    for number, token in sorted(_added(folder, settings).items()):
        name = _name(token)
        flags = {flag: bool(value) for flag, value in token.items() if flag in FLAGS}
        inner.add_tokens([parts.AddedToken(name, **flags)])
        if inner.token_to_id(name) != number:
            raise DataError(
                f"The files beside the vocabulary in {folder} give the token {name!r} the id {number}, and with the "
                f"vocabulary it has {inner.token_to_id(name)}. Fetch the folder again."
            )
    return inner


def _added(folder: Path, settings: dict[str, Any]) -> dict[int, dict[str, Any]]:
    """The tokens that were added to a vocabulary by their ids, and how each is found in a text."""
    listed = settings.get("added_tokens_decoder")
    if listed:
        return {int(number): token for number, token in listed.items()}
    path = folder / ADDED
    named = read_json(path) if path.exists() else {}
    return {number: {"content": name} for name, number in named.items()}


def _special(name: str, names: dict[str, str], parts: Any) -> Any:
    """A special token. RoBERTa's token for gaps takes the spaces before it."""
    takes = name == names.get("mask") and "cls" in names
    return parts.AddedToken(name, lstrip=takes, special=True)


def _tokenizers() -> Any:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.normalizers
        import tokenizers.pre_tokenizers
        import tokenizers.processors
    except ImportError:
        raise SetupError(
            "Tokenisers of Hugging Face folders need the package tokenizers. Run: pip install 'foveate[hf]'"
        ) from None
    return tokenizers
