"""Engines that decode a translator's model: our own, or one that the model is exported to."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Literal, get_args

import torch

from foveate.data.batch import Batch
from foveate.decode import DecodeConfig, Hypothesis, Stepper, beam_size, decode
from foveate.errors import UsageError
from foveate.export import CTranslate2Engine, ctranslate2_refusals, onnx_engine, onnx_refusals
from foveate.models import Seq2Seq
from foveate.tasks.translate.translation import length_limit

EngineName = Literal["auto", "own", "ctranslate2", "ctranslate2-int8", "onnx"]
ENGINES: tuple[str, ...] = get_args(EngineName)
PACKAGES = {"ctranslate2": "ctranslate2", "ctranslate2-int8": "ctranslate2", "onnx": "onnxruntime"}
"""The package that an engine needs."""


class Engine:
    """Decodes with one engine, and with ours where the other would not be exact.

    "auto" is the fastest engine that is exact, which by measurement is our own. "ctranslate2" gives our words and
    scores in greedy decoding; its beam search stops earlier than ours (`CTranslate2Engine`). "ctranslate2-int8" has
    coarser weights, so that scores and some words differ. "onnx" is driven by our own search: the same words always.
    """

    def __init__(self, model: Seq2Seq, name: EngineName = "auto") -> None:
        """Raises UsageError for an engine that cannot express the model, SetupError where its package is missing."""
        if name not in ENGINES:
            raise UsageError(f"There is no engine {name!r}. Choose one of {', '.join(ENGINES)}.")
        self.model, self.name = model, name
        self._exported: CTranslate2Engine | None = None
        self._stepper: Stepper = model
        if name.startswith("ctranslate2"):
            self._exported = CTranslate2Engine(model, "int8" if name.endswith("int8") else "float32")
        elif name == "onnx":
            self._stepper = onnx_engine(model)

    def __str__(self) -> str:
        return "own" if self.name == "auto" else self.name

    def decode(
        self, sources: Sequence[Sequence[int]], examples: Sequence[int], config: DecodeConfig
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each source: ids with their end. `examples` numbers them for the noise of sampling.

        A hypothesis may be twice as long as its source and ten tokens more. Raises UsageError for settings that the
        engine does not support.
        """
        limits = length_limits(self.model, sources, config)
        if self._exported is None:
            return self._step(
                self._stepper if self._fits(sources, limits) else self.model, sources, limits, examples, config
            )
        reasons = self._exported.refuses(config)
        if reasons:
            raise UsageError(
                f"The engine {self.name} does not support these settings: {'; '.join(reasons)}. Leave out --engine."
            )
        results = self._exported.decode(sources, limits, config)
        left = [index for index, hypotheses in enumerate(results) if hypotheses is None]
        if left:
            again, allowed, numbers = ([values[at] for at in left] for values in (sources, limits, examples))
            for index, hypotheses in zip(left, self._step(self.model, again, allowed, numbers, config), strict=True):
                results[index] = hypotheses
        return [hypotheses for hypotheses in results if hypotheses is not None]

    def _fits(self, sources: Sequence[Sequence[int]], limits: Sequence[int]) -> bool:
        """Whether the engine has enough positions for these sources, and for hypotheses of these lengths."""
        limit = getattr(self._stepper, "max_length", None)
        return limit is None or max([*map(len, sources), *limits], default=0) <= limit

    def _step(
        self,
        stepper: Stepper,
        sources: Sequence[Any],
        limits: Sequence[Any],
        examples: Sequence[Any],
        config: DecodeConfig,
    ) -> list[list[Hypothesis]]:
        batch = Batch.of(sources)
        state = stepper.start(batch, beam_size(config))  # type: ignore[attr-defined]
        limit = torch.tensor(limits)
        return decode(stepper, state, sentences=batch.size, config=config, max_length=limit, examples=examples)


def availability(model: Seq2Seq | None = None) -> dict[str, str]:
    """Why each engine is unavailable for this model or on this machine; empty for those that are available."""
    reasons_of = {"own": ""}
    for name, package in PACKAGES.items():
        missing = "" if find_spec(package) else "not installed (pip install 'foveate[export]')"
        reasons: list[str] = []
        if model is not None and not missing:
            reasons = onnx_refusals(model) if name == "onnx" else ctranslate2_refusals(model)
        reasons_of[name] = missing or "; ".join(reasons)
    return reasons_of


def length_limits(model: Seq2Seq, sources: Sequence[Sequence[int]], config: DecodeConfig) -> list[int]:
    """The most tokens of each hypothesis, within the model's positions."""
    return [min(length_limit(len(source), config), model.max_length or config.max_length) for source in sources]
