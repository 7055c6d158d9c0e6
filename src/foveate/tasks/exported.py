"""What is exported of a run: the model, its vocabularies, and what the inputs and outputs of its graphs mean."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from foveate.data.tokeniser import BOS, EOS, PAD, UNKNOWN, HuggingFaceTokeniser, Tokeniser
from foveate.tasks.classify.task import TOKENISER as CLASSIFIED
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.labelling import LABELS
from foveate.tasks.language_model.use import Generator
from foveate.tasks.masked_language_model.use import Filler
from foveate.tasks.tag.task import CHARACTERS, PIECES, WORDS
from foveate.tasks.tag.use import SentenceTagger
from foveate.tasks.text import TOKENISER as READ
from foveate.tasks.translate.task import TOKENISERS
from foveate.tasks.translate.use import Translator

Note = Callable[[str], None]
COUNTED = f"how many tokens of each row are real; behind them stands {PAD}, and what is said there means nothing"
NAMED = f"of the labels in {LABELS}, in their order; softmax makes probabilities of them"


@dataclass(frozen=True)
class Exported:
    """A trained model with all that is needed to use it elsewhere."""

    task: str
    model: nn.Module
    save: Callable[[Path], None]
    """Writes the vocabularies into a folder."""
    meanings: dict[str, str]
    """Of inputs and outputs by name, or by how their names begin."""
    tokenisers: tuple[Tokeniser, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)
    """What else there is to say."""

    def meaning(self, name: str) -> str:
        """What stands under this name."""
        return next(said for beginning, said in self.meanings.items() if name.startswith(beginning))


def translator(run: Path | str, note: Note) -> Exported:
    """An encoder–decoder, whose two graphs share the names of what goes from one to the other."""
    loaded = Translator.load(run, engine="own", note=note)
    tokenisers = (loaded.source_tokeniser, loaded.target_tokeniser)
    source, target = TOKENISERS
    meanings = {
        "source": f"ids of {source} and the end, {EOS}",
        "lengths": COUNTED,
        "memory.": "what encoder.onnx gave for each sentence; rows are sentence · hypotheses + hypothesis",
        "state.": "at first what encoder.onnx gave, once for each hypothesis; then new.state.… of the step before",
        "new.state.": "the state for the next step",
        "token": f"the newest ids of {target}; {BOS} begins, {EOS} ends",
        "time": "how many steps were made before",
        "logits": f"of the ids of {target} that may come next",
    }
    return Exported(
        "translate", loaded.model, _saver(dict(zip(TOKENISERS, tokenisers, strict=True))), meanings, tokenisers
    )


def tagger(run: Path | str, note: Note) -> Exported:
    """A tagger, of words with their spellings or of pieces."""
    loaded = SentenceTagger.load(run, note=note)
    spelt = f"{BOS}, the ids of {CHARACTERS} of the word's characters, {EOS}; {UNKNOWN} for a word without any"
    meanings = {
        "words": f"ids of {WORDS}, {UNKNOWN} for words that it lacks",
        "lengths": COUNTED,
        "spellings": spelt,
        "spelling_lengths": "how many ids each spelling has, with both ends; 0 where there is no word",
        "logits": NAMED,
    }
    if loaded.vocabulary.in_pieces:
        before = f", each after {loaded.vocabulary.before!r}" if loaded.vocabulary.before else ""
        meanings["pieces"] = (
            f"{BOS}, the ids of {PIECES} of every word{before}, {EOS}; {UNKNOWN} for a word without any"
        )
        meanings["logits"] = f"at each piece, of which a word's first one counts: {NAMED}"
    return Exported("tag", loaded.model, loaded.vocabulary.save, meanings)


def classifier(run: Path | str, note: Note) -> Exported:
    """A classifier of texts."""
    loaded = TextClassifier.load(run, note=note)
    meanings = {
        "tokens": f"{BOS}, the ids of {CLASSIFIED}, {EOS}; of a pair, the second text and another {EOS} follow",
        "lengths": COUNTED,
        "logits": NAMED,
        "weights": "how much of the answer each token is: they sum to 1",
    }

    def save(folder: Path) -> None:
        loaded.tokeniser.save(folder / CLASSIFIED)
        loaded.labels.save(folder / LABELS)

    return Exported("classify", loaded.model, save, meanings)


def language_model(run: Path | str, note: Note) -> Exported:
    """A language model, which reads prompts and goes on by the same graph."""
    loaded = Generator.load(run, note=note)
    tokens = f"ids of {READ}; {EOS} stands before a text and for the end of each line"
    if isinstance(loaded.tokeniser, HuggingFaceTokeniser):
        begin = "".join(f"{token}, " for token in loaded.tokeniser.framed(""))
        tokens = f"{begin}the ids of {READ}; a text ends with {loaded.tokeniser.id_of('eos')}"
    meanings = {
        "tokens": f"{tokens}. A whole prompt, or what was chosen last; all rows that are gone on from are equally long",
        "state.": "before the first token zeros, with a past of size 0; then new.state.… of the call before",
        "new.state.": "the state for the next call",
        "logits": "after each token, of the ids that may come next",
    }
    return Exported("language_model", loaded.model, _saver({READ: loaded.tokeniser}), meanings)


def masked_language_model(run: Path | str, note: Note) -> Exported:
    """A model that fills gaps."""
    loaded = Filler.load(run, note=note)
    frame = loaded.frame
    text = f"{', '.join(map(str, frame.begin))}, the ids of {READ}, {frame.end}; {frame.gap} stands for a gap"
    meanings = {
        "tokens": f"{text}; of a pair, the second text and another {frame.end} follow",
        "lengths": COUNTED,
        "segments": "0; and 1 at the second text of a pair and its end",
        "logits": "at each token, of the ids that may stand there",
    }
    return Exported(
        "masked_language_model", loaded.model, _saver({READ: loaded.tokeniser}), meanings, extra={"gap": frame.gap}
    )


LOADERS: dict[str, Callable[[Path | str, Note], Exported]] = {
    "translate": translator,
    "tag": tagger,
    "classify": classifier,
    "language_model": language_model,
    "masked_language_model": masked_language_model,
}
"""By the task of a run."""


def _saver(tokenisers: dict[str, Tokeniser]) -> Callable[[Path], None]:
    def save(folder: Path) -> None:
        for name, tokeniser in tokenisers.items():
            tokeniser.save(folder / name)

    return save
