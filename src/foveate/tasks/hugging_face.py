"""Folders of Hugging Face: Marian models with their tokenisers, and which command serves which kind of model."""

from pathlib import Path
from typing import Any, Literal

from foveate.data.tokeniser import PAD, MarianTokeniser
from foveate.data.tokeniser.marian import order_of, vocabulary
from foveate.decode import BeamConfig
from foveate.errors import DataError, UsageError
from foveate.models import Transformer
from foveate.models.hugging_face import CONFIG, read_folder, setting
from foveate.models.marian import from_marian
from foveate.models.renumbering import renumbered
from foveate.storage.manifest import read_json
from foveate.storage.run import model_type_of

KINDS = {
    "marian": "translate",
    "gpt2": "generate",
    "llama": "generate",
    "bert": "fill",
    "roberta": "fill",
    "distilbert": "fill",
}
"""The kinds of models that are read, and the command that each serves."""
GENERATION = "generation_config.json"


def require_kind(folder: Path | str, *kinds: str) -> str:
    """Which of the kinds a Hugging Face folder holds. Raises UsageError when it is another."""
    found = model_type_of(folder)
    if found is None or found not in kinds:
        commands = "; ".join(f"{model}: foveate {command}" for model, command in KINDS.items())
        wanted = " or ".join(map(repr, kinds))
        raise UsageError(f"{folder} holds a model of the kind {found!r}, and this needs {wanted} ({commands}).")
    return found


def read_translation(folder: Path | str) -> tuple[Transformer, MarianTokeniser, MarianTokeniser, BeamConfig]:
    """A Marian model with its two tokenisers, and the way of decoding that the folder asks for."""
    require_kind(folder, "marian")
    folder = Path(folder)
    config, tensors = read_folder(folder)
    ends = {"pad": _id(config, "pad_token_id"), "end": _id(config, "eos_token_id")}
    begin = config.get("decoder_start_token_id", ends["pad"])
    if begin != ends["pad"]:
        raise DataError(f"{folder / CONFIG} begins decoding with {begin} and not with the padding, as Marian does.")
    sides: tuple[Literal["source", "target"], ...] = ("source", "target")
    source, target = (MarianTokeniser.read(folder, side, **ends) for side in sides)
    orders = {side: order_of(vocabulary(folder, side), **ends) for side in sides}
    model = from_marian(*renumbered(config, tensors, **orders))
    said = read_json(folder / GENERATION) if (folder / GENERATION).exists() else config
    return model, source, target, BeamConfig(beam=setting(said, "num_beams", 4), forbid=(PAD,))


def _id(config: dict[str, Any], name: str) -> int:
    return setting(config, name)
