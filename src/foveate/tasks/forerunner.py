"""A trained translator that another one begins with: its weights, its tokenisers, its architecture."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from torch import Tensor

from foveate.config import build
from foveate.data.tokeniser import Tokeniser
from foveate.decode import BeamConfig
from foveate.errors import UsageError
from foveate.models import BahdanauConfig
from foveate.storage.checkpoint import load_weights
from foveate.storage.run import model_type_of, read_run
from foveate.storage.shipped import run_folder
from foveate.tasks.guide import GuideConfig
from foveate.tasks.initial import keep

if TYPE_CHECKING:
    from foveate.tasks.translate import TranslateConfig

Config = TypeVar("Config", bound="TranslateConfig")


@dataclass(frozen=True)
class Forerunner:
    """What a new run takes from a trained one; its data and its training are its own."""

    config: "TranslateConfig"
    source: Tokeniser
    target: Tokeniser
    weights: Mapping[str, Tensor]

    @classmethod
    def load(cls, run: Path | str) -> "Forerunner":
        """That of a run folder, or of a model that comes with foveate, by its name.

        Raises UsageError for a run of another task and for a folder of Hugging Face, DataError when there is no run, or
        it is damaged.
        """
        from foveate.tasks.translate import TranslateConfig, load_tokenisers

        folder = run_folder(run)
        if model_type_of(folder) is not None:
            raise UsageError(
                f"{run} is a folder of Hugging Face, whose vocabulary a run cannot take over. Name a translator that "
                "`foveate train translate` made, or en-fr."
            )
        saved = read_run(folder).require("translate")
        settings = {name: value for name, value in saved.config.items() if name != "train"}
        config = build(TranslateConfig, settings, where=f"{folder / 'config.json'}:")
        return cls(config, *load_tokenisers(folder, saved.tokenisers), load_weights(folder)[0])

    @property
    def parameters(self) -> int:
        return sum(weight.numel() for weight in self.weights.values())

    def into(self, config: Config) -> Config:
        """A run's configuration with these tokenisers and this architecture.

        A model that the configuration names itself may differ in what has no weights, such as dropout.
        """
        ours = self.config
        return replace(
            config,
            source_tokeniser=ours.source_tokeniser,
            target_tokeniser=ours.target_tokeniser,
            joint_vocabulary=ours.joint_vocabulary,
            model=ours.model if config.model == BahdanauConfig() else config.model,
            guide=ours.guide if config.guide == GuideConfig() else config.guide,
            decode=ours.decode if config.decode == BeamConfig() else config.decode,
        )

    def keep(self, run: Path) -> None:
        """Put the weights into a run folder, which then depends on no other."""
        keep(self.weights, run)
