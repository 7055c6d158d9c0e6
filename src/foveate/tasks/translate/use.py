"""A trained translation model in use: translate, align, trace. Ours, and Marian models of Hugging Face."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Literal, overload

import torch

from foveate.attention import record
from foveate.data.batch import Batch
from foveate.data.batching import groups
from foveate.data.text import require_texts
from foveate.data.tokeniser import BOS, EOS, MarianTokeniser, Tokeniser
from foveate.data.tokeniser.language_tokeniser import translating
from foveate.data.tokeniser.marian_tokeniser import order_of, vocabulary
from foveate.decode import BeamConfig, DecodeConfig, Hypothesis, beam_size
from foveate.errors import DataError, UsageError
from foveate.inspect import Trace
from foveate.inspect.alignment import Alignment
from foveate.inspect.attribution import Answer
from foveate.inspect.looking import Looking
from foveate.models import Ensemble, Seq2Seq, Transformer
from foveate.models.hugging_face_folder import CONFIG, read_folder, setting
from foveate.models.marian import from_marian
from foveate.models.renumbering import renumbered
from foveate.nn.loss import cross_entropy
from foveate.nn.precision import Precision, set_precision
from foveate.storage.manifest import read_json
from foveate.storage.run import model_type_of
from foveate.storage.shipped import run_folder
from foveate.tasks.run_model import require_kind, require_text, saved, trained
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.translate.engine import Engine, EngineName
from foveate.tasks.translate.foreign_search import search_of
from foveate.tasks.translate.head import choose, crossings
from foveate.tasks.translate.run_tokeniser import load_tokenisers
from foveate.tasks.translate.task import TranslateConfig, build_model
from foveate.tasks.translate.translation import Translation, one_line
from foveate.tasks.translate.translation_answer import translation_answer
from foveate.tasks.translate.translation_trace import require_alone, reread, trace_of

GENERATION = "generation_config.json"


class Translator(Looking):
    """Translates with a trained model. A result depends neither on the batch size nor on its neighbours in a batch."""

    def __init__(
        self,
        model: Seq2Seq,
        source_tokeniser: Tokeniser,
        target_tokeniser: Tokeniser,
        config: DecodeConfig | None = None,
        *,
        engine: EngineName = "auto",
        head: Head = Head(),
    ) -> None:
        self.model = model.eval()
        self.engine = Engine(self.model, engine)
        self.source_tokeniser, self.target_tokeniser = source_tokeniser, target_tokeniser
        self.config = BeamConfig() if config is None else config
        self.head = head
        self._own_heads: list[Head] = []

    @classmethod
    def load(
        cls,
        run: Path | str,
        *,
        precision: Precision = "float32",
        engine: EngineName = "auto",
        note: Callable[[str], None] = lambda sentence: None,
    ) -> "Translator":
        """The trained model of a run folder, or one that comes with foveate, by its name.

        Of an unfinished run it is the best checkpoint.

        In bfloat16 weights take half the memory and products are faster on machines that know it; scores are a little
        less exact. int8 computes the products of our own engine in whole numbers: faster still, and coarser; weights
        stay in float32. `engine` says what decodes (`foveate.tasks.translate.engine`). `note` receives a sentence about
        anything that was passed over.

        Raises DataError when the folder is not a run, has no trained weights, or is damaged, and UsageError for a model
        or an engine without int8.
        """
        if precision == "int8" and engine not in ("auto", "own"):
            raise UsageError(f"int8 is a precision of our own engine. Leave out the precision, or the engine {engine}.")
        folder = run_folder(run, note)
        if model_type_of(folder) is not None:
            return cls.read(folder, precision=precision, engine=engine)
        config, stored = saved(folder, "translate", TranslateConfig)
        source, target = load_tokenisers(folder, stored.tokenisers)
        model = trained(folder, lambda: build_model(config, source.vocab_size, target.vocab_size), note)
        set_precision(model, precision)
        return cls(model, source, target, config.decode, engine=engine, head=config.guide.place)._of(folder)

    @classmethod
    def read(
        cls,
        folder: Path | str,
        *,
        precision: Precision = "float32",
        engine: EngineName = "auto",
    ) -> "Translator":
        """The Marian model of a Hugging Face folder, as OPUS-MT shares them; `load` calls it for such folders.

        Raises DataError when the folder is damaged, UsageError when it holds another kind of model.
        """
        model, source, target, config = read_translation(folder)
        set_precision(model, precision)
        return cls(model, source, target, config, engine=engine)._of(folder)

    @classmethod
    def ensemble(cls, translators: Sequence["Translator"]) -> "Translator":
        """One translator of several, which chooses each token by the mean of their probabilities (`Ensemble`).

        An alignment is the mean of theirs, each by its own head unless another is asked for. The first sets decoding.
        Weights are shared. The ensemble itself has no trace: each translator has one, also of the ensemble's words
        (`trace(text, target)`).

        Raises UsageError for fewer than two, for tokenisers or languages that differ, and for another engine than our
        own.
        """
        model = Ensemble([model for each in translators for model in each.models])
        first = translators[0]
        for number, other in enumerate(translators[1:], start=2):
            name = f"Translator {number} of the ensemble" + (f" ({other.origin})" if other.origin else "")
            for side in ("source_tokeniser", "target_tokeniser"):
                own, theirs = getattr(first, side), getattr(other, side)
                if own.digest() != theirs.digest():
                    raise UsageError(
                        f"{name} has another {side.replace('_', ' ')} than the first, so that their tokens differ. "
                        "Train both from the same text with other seeds and a --valid-source of their own, or one with "
                        "initialise_from the other."
                    )
                if getattr(own, "to", None) != getattr(theirs, "to", None):
                    raise UsageError(f"{name} writes another language than the first: {theirs.to}, not {own.to}.")
        for each in translators:
            if each.engine.name not in ("auto", "own"):
                raise UsageError(f"An ensemble decodes with our own engine. Leave out the engine {each.engine.name}.")
        whole = cls(model, first.source_tokeniser, first.target_tokeniser, first.config, head=first.head)
        whole._own_heads = [head for each in translators for head in each._heads(None)]
        return whole

    @property
    def attends(self) -> bool:
        """Whether the model has cross-attention, and each model of an ensemble."""
        return all(
            any(
                getattr(module, "kind", "") == "cross" and not name.startswith("encoder.")
                for name, module in model.named_modules()
            )
            for model in self.models
        )

    @property
    def models(self) -> list[Seq2Seq]:
        """The model, or those of an ensemble."""
        return list(self.model.members) if isinstance(self.model, Ensemble) else [self.model]  # type: ignore[arg-type]

    def _heads(self, head: Head | None) -> list[Head]:
        """The head of each model: in an ensemble its own, unless another than the first's is asked for."""
        if self._own_heads and head in (None, self.head):
            return self._own_heads
        return [self.head if head is None else head] * len(self.models)

    def forced(self, source: str, target: str) -> Translation:
        """A given translation as if the model had made it, with the model's probability of it.

        Raises DataError for an empty source, or a side with more tokens than the model has positions.
        """
        tokens = tuple(self.target_tokeniser.encode(target))
        self._require_positions(len(tokens), "The target", target)
        sources = self.encode(source, "The source")
        if not sources:
            raise DataError("The source is empty: there is nothing to translate. Give at least one character.")
        log_probability = self._score(Batch.of([sources]), Batch.of([[BOS, *tokens, EOS]]))
        hypothesis = Hypothesis(tokens, log_probability, log_probability, True)
        return Translation(source, (self.target_tokeniser.decode(tokens),), (hypothesis,))

    def score(self, translation: Translation) -> float:
        """ln p of the tokens of the best hypothesis when they are forced: what decoding gave them, unless the model was
        changed since, or another engine rounds otherwise.
        """
        batch, _, _ = reread(self, translation)
        return self._score(*batch)

    @torch.inference_mode()
    def _score(self, source: Batch, target: Batch) -> float:
        return -float(cross_entropy(self.model(source, target), Seq2Seq.predicted(target)))

    def by_steps(self) -> "Translator":
        """The translator with our own engine, which sees every change of the model; exported weights are a copy."""
        own = copy(self)
        own.engine = Engine(self.model, "own")
        return own

    def into(self, language: str) -> "Translator":
        """The translator with the language that a model of several languages writes next, by its code. Weights are
        shared.

        Raises UsageError for a language that the model does not write, and for a model of one direction.
        """
        own = copy(self)
        own.source_tokeniser = translating(self.source_tokeniser, language)
        return own

    def trace(self, text: str, target: str | None = None, *, gold: Iterable[tuple[int, int]] | None = None) -> Trace:
        """The attention of the model when it read a text and wrote its translation, or when it is made to write
        `target`: in the encoder, in the decoder, and across. `gold` are links (target, source) that a person drew.

        Raises UsageError for an empty text and for a model without attention, DataError as `translate` does.
        """
        require_alone(self)
        require_text(text)
        translation = self.translate(text) if target is None else self.forced(text, target)
        return trace_of(self, translation, gold=gold)

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, texts: str, *, config: DecodeConfig | None = None, first: int = 0, numbers: Sequence[int] | None = None
    ) -> Translation: ...

    @overload
    def translate(
        self,
        texts: Sequence[str],
        *,
        config: DecodeConfig | None = None,
        first: int = 0,
        numbers: Sequence[int] | None = None,
    ) -> list[Translation]: ...

    @torch.inference_mode()
    def translate(
        self,
        texts: str | Sequence[str],
        *,
        config: DecodeConfig | None = None,
        first: int = 0,
        numbers: Sequence[int] | None = None,
    ) -> Translation | list[Translation]:
        """Translate a text, or each of several; an empty text has no hypotheses.

        `first` is the number of the first text where `texts` is a part of more: the noise of sampling depends on it.
        Where the texts are sentences, `numbers` has for each the number of the text that it is from, one after another.

        A hypothesis may be twice as long as its source and ten tokens more; one that reaches this limit says
        `finished=False`. Raises DataError for a text with more tokens than the model has positions.
        """
        require_texts(texts)
        if isinstance(texts, str):
            return self.translate([texts], config=config, first=first, numbers=numbers)[0]
        config = self.config if config is None else config
        numbers = range(first, first + len(texts)) if numbers is None else numbers
        sources = [self.encode(text, f"Input {number + 1}") for number, text in zip(numbers, texts, strict=True)]
        earlier = Counter[int]()
        streams = []
        for number in numbers:  # the first sentence of a text has the noise of the text
            streams.append(number + (earlier[number] << 32))
            earlier[number] += 1
        results: list[Translation] = [Translation(text, (), ()) for text in texts]
        for group in groups([len(source) * beam_size(config) for source in sources]):
            examples = [streams[index] for index in group]
            decoded_group = self.engine.decode([sources[index] for index in group], examples, config)
            for index, hypotheses in zip(group, decoded_group, strict=True):
                results[index] = self.written(texts[index], hypotheses)
        return results

    def written(self, text: str, hypotheses: Sequence[Hypothesis]) -> Translation:
        """The translation of a text from its hypotheses."""
        decoded = tuple(one_line(self.target_tokeniser.decode(best.tokens)) for best in hypotheses)
        return Translation(text, decoded, tuple(hypotheses))

    @overload
    def align(self, translations: Translation | str, head: Head | None = None) -> Alignment: ...  # type: ignore[overload-overlap]

    @overload
    def align(self, translations: Sequence[Translation | str], head: Head | None = None) -> list[Alignment]: ...

    @torch.inference_mode()
    def align(
        self, translations: Translation | str | Sequence[Translation | str], head: Head | None = None
    ) -> Alignment | list[Alignment]:
        """The attention for each token of each best hypothesis: rows are target tokens, columns source tokens.
        A text is translated first; one translation has one alignment.

        The last row is the end symbol's, where the hypothesis has one; nothing consumes the last token, so that with
        `when="consuming"` there is no row for it. One teacher-forced pass gives exactly the weights of decoding.
        Without `head` it is the model's own, which `guide` of its configuration names. Raises UsageError for a model
        without attention.
        """
        if isinstance(translations, Translation | str):
            return self.align([translations], head)[0]
        if head is not None and not isinstance(head, Head):
            raise TypeError(
                f"The second argument of `align` is a Head, not {type(head).__name__}. To align a text with a target "
                "of your own: `translator.align(translator.forced(source, target))`."
            )
        if not isinstance(translations, Sequence) or not all(
            isinstance(each, Translation | str) for each in translations
        ):
            raise TypeError("`align` takes a translation, a text, or a list of these.")
        alignments: list[Alignment] = []
        for each in translations:
            translation = self.translate(each) if isinstance(each, str) else each
            batch, columns, rows = reread(self, translation)
            maps = _crossings(self.models, self._heads(head), batch, (len(rows), len(columns)))
            count = min(map(len, maps))
            weights = torch.stack([each[:count] for each in maps]).mean(0).numpy()
            alignments.append(Alignment.of(columns, rows[:count], weights))
        return alignments

    def answer(self, translation: Translation | str) -> Answer:
        """A translation, of a text its own, and the model to ask what mattered for each of its words.

        A word of the source is removed, or each of its pieces becomes the unknown token. Raises UsageError for an
        empty text, DataError as `translate` does.
        """
        require_alone(self)
        best = self.translate(translation) if isinstance(translation, str) else translation
        if not best.hypotheses:
            raise UsageError("The text is empty: there is nothing to look at.")
        batch, source, written = reread(self, best)
        look = partial(trace_of, self, best, stored="float32")
        return translation_answer(self.model, batch, source, written, look, later=self.head.when == "consuming")

    def encode(self, text: str, name: str) -> list[int]:
        """The ids that the model reads, with their end; none for an empty text. `name` says in an error which it is.

        Raises DataError for a text with more tokens than the model has positions.
        """
        tokens = self.source_tokeniser.encode(text)
        self._require_positions(len(tokens), name, text)
        return [*tokens, EOS] if tokens else []

    def _require_positions(self, count: int, name: str, text: str) -> None:
        limit = self.model.max_length
        if limit is not None and count + 1 > limit:
            shown = repr(text) if len(text) <= 40 else f"{text[:40]!r} …"
            raise DataError(
                f"{name} has {count} tokens and an end, but the model has {limit} positions: {shown}. "
                "Split it into sentences; nothing is cut off silently."
            )


def _crossings(
    models: Sequence[Seq2Seq], heads: Sequence[Head], batch: tuple[Batch, Batch], shape: tuple[int, int]
) -> list[torch.Tensor]:
    """The weights (target, source) of a head of each model in a teacher-forced pass over one pair. A row is that of
    the token that it produces or consumes; nothing consumes the last one.
    """
    maps = []
    for number, (model, head) in enumerate(zip(models, heads, strict=True), start=1):
        with record(model) as recording:
            model(*batch)
        try:
            weights = choose(crossings(recording, shape), head)[0].float()
        except UsageError as error:
            raise error if len(models) == 1 else UsageError(f"Model {number} of the ensemble: {error}") from None
        maps.append(weights[1:] if head.when == "consuming" else weights)
    return maps


def read_translation(folder: Path | str) -> tuple[Transformer, MarianTokeniser, MarianTokeniser, BeamConfig]:
    """A Marian model with its two tokenisers, and the folder's configuration of decoding."""
    require_kind(folder, "marian")
    folder = Path(folder)
    config, tensors = read_folder(folder)
    ends = {"pad": setting(config, "pad_token_id"), "end": setting(config, "eos_token_id")}
    begin = config.get("decoder_start_token_id", ends["pad"])
    if begin != ends["pad"]:
        raise DataError(f"{folder / CONFIG} begins decoding with {begin} and not with the padding, as Marian does.")
    sides: tuple[Literal["source", "target"], ...] = ("source", "target")
    source, target = (MarianTokeniser.read(folder, side, **ends) for side in sides)
    orders = {side: order_of(vocabulary(folder, side), **ends) for side in sides}
    model = from_marian(*renumbered(config, tensors, **orders))
    path = folder / GENERATION if (folder / GENERATION).exists() else folder / CONFIG
    return model, source, target, search_of(read_json(path), model.max_length, path)
