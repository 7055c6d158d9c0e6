"""A translator's run in use without torch."""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveate.config import build
from foveate.data.tokeniser import EOS, Tokeniser
from foveate.data.tokeniser.language_tokeniser import translating
from foveate.errors import FoveateError
from foveate.light.light_search import CLOSE, search
from foveate.light.light_transformer import LightTransformer
from foveate.light.weight import NotSupportedError, read_weights
from foveate.search import BeamConfig, DecodeConfig, beam_size
from foveate.storage.manifest import read_file, read_json
from foveate.storage.run import model_type_of, read_run
from foveate.storage.shipped import run_folder
from foveate.tasks.translate.alignment_head import GuideConfig, Head
from foveate.tasks.translate.run_tokeniser import load_tokenisers
from foveate.tasks.translate.translation import Forced, Translation, length_limit, one_line

if TYPE_CHECKING:
    from foveate.inspect.alignment import Alignment


@dataclass(frozen=True, kw_only=True)
class Use:
    """The settings of a run for its use."""

    decode: DecodeConfig = BeamConfig()
    guide: GuideConfig = GuideConfig()


class LightTranslator:
    """Translates as `Translator` does, without torch: the same words, and scores that differ in the sixth digit.

    >>> LightTranslator.load("en-fr").translate("Good morning.").text
    'Bonjour.'

    It reads finished runs of Transformers whose parts are the usual ones. Wherever it could give another answer than
    `Translator`, it raises NotSupportedError with the reason, and for a decision between hypotheses that rounding could
    change CloseError, unless `close` is 0.
    """

    def __init__(
        self,
        model: LightTransformer,
        source_tokeniser: Tokeniser,
        target_tokeniser: Tokeniser,
        config: DecodeConfig,
        *,
        head: Head = Head(),
        close: float = CLOSE,
    ) -> None:
        self.model, self.config, self.head, self.close = model, config, head, close
        self.source_tokeniser, self.target_tokeniser = source_tokeniser, target_tokeniser

    @classmethod
    def load(
        cls, run: Path | str, *, note: Callable[[str], None] = lambda sentence: None, close: float = CLOSE
    ) -> "LightTranslator":
        """The trained model of a run folder, or one that comes with foveate. Raises NotSupportedError, also for a
        folder that is damaged or no run, which `Translator.load` explains.
        """
        try:
            return cls._load(run_folder(run, note), close)
        except (FoveateError, OSError) as error:
            raise NotSupportedError(str(error)) from None

    @classmethod
    def _load(cls, folder: Path, close: float) -> "LightTranslator":
        if model_type_of(folder) is not None:
            raise NotSupportedError("models of Hugging Face need torch")
        run = read_run(folder).require("translate")
        use = build(Use, {name: run.config[name] for name in ("decode", "guide") if name in run.config})
        source, target = load_tokenisers(folder, run.tokenisers)
        sizes = (source.vocab_size, target.vocab_size)
        config = run.config.get("model")
        model = LightTransformer(config if isinstance(config, dict) else {}, _weights(folder), *sizes)
        return cls(model, source, target, use.decode, head=use.guide.place, close=close)

    def into(self, language: str) -> "LightTranslator":
        """As `Translator.into`."""
        own = copy(self)
        own.source_tokeniser = translating(self.source_tokeniser, language)
        return own

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        config: DecodeConfig | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Any:
        """As `Translator.translate`: of a text its translation, of several a list. `numbers` matter to sampling alone,
        which is not supported.
        """
        config = self.config if config is None else config
        if isinstance(texts, str):
            return self._translated(texts, config)
        return [self._translated(text, config) for text in texts]

    def _translated(self, text: str, config: DecodeConfig) -> Translation:
        tokens = self.source_tokeniser.encode(text)
        if not tokens:
            return Translation(text, (), ())
        source = [*tokens, EOS]
        hypotheses = search(self.model, source, length_limit(len(source), config), config, close=self.close)
        return Translation(
            text, tuple(one_line(self.target_tokeniser.decode(one.tokens)) for one in hypotheses), tuple(hypotheses)
        )

    def work(self, texts: Sequence[str], config: DecodeConfig) -> float:
        """About how many multiplications the translations take: one for each weight, hypothesis and token."""
        tokens = sum(len(self.source_tokeniser.encode(text)) for text in texts)
        return float(tokens) * beam_size(config) * self.model.size

    def align(self, translations: Sequence[Translation], head: Head | None = None) -> list["Alignment"]:
        """As `Translator.align`, of translations. Raises NotSupportedError for a head that is not there."""
        return [self._aligned(translation, self.head if head is None else head) for translation in translations]

    def _aligned(self, translation: Translation, head: Head) -> "Alignment":
        from foveate.inspect.alignment import Alignment

        forced = Forced.of(translation, self.source_tokeniser, self.target_tokeniser)
        layers = self.model.crossings(forced.source, forced.target[:-1])
        layer = max(len(layers) - 2, 0) if head.layer is None else head.layer
        try:
            weights = layers[layer].mean(0) if head.head is None else layers[layer][head.head]
        except IndexError:
            raise NotSupportedError(f"{head} is not a head of this model") from None
        rows = forced.rows
        if head.when == "consuming":
            rows, weights = rows[:-1], weights[1:]
        return Alignment.of(forced.columns, rows, weights)


def _weights(folder: Path) -> dict[str, Any]:
    """The final weights of a run, which its digest describes. Raises NotSupportedError for an unfinished run."""
    final, content = read_json(folder / "model.json"), read_file(folder / "model.safetensors")
    if hashlib.sha256(content).hexdigest() != final.get("sha256"):
        raise NotSupportedError("the weights are not those that were saved")
    last = final.get("step")
    steps = [re.fullmatch(r"step-(\d{8,})", path.name) for path in (folder / "checkpoints").glob("step-*")]
    if any(int(step[1]) > (math.inf if last is None else last) for step in steps if step):
        raise NotSupportedError("the run was continued")
    return read_weights(content, final.get("stored", ""))
