"""Reads and writes a Hugging Face model folder (`config.json` and `model.safetensors`) without their library.

Names are those on disk, which are stable, not those in memory, which differ between versions of the library.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from foveate.attention import AttentionConfig
from foveate.errors import DataError, FoveateError, UsageError
from foveate.nn.feedforward import Activation
from foveate.nn.room import within_tensors
from foveate.nn.transformer_block import BlockConfig
from foveate.storage.draft import draft_folder
from foveate.storage.manifest import read_json
from foveate.storage.tensor import read_tensors, write_tensors
from foveate.suggestion import listing

Model = TypeVar("Model", bound=nn.Module)
CONFIG, WEIGHTS = "config.json", "model.safetensors"
INDEX = f"{WEIGHTS}.index.json"
"""Maps tensors to files, in folders with several weight files."""
ACTIVATIONS: dict[str, Activation] = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Names of activations in the library, with our names."""
LARGEST = 2**24
"""The limit on any size of a model."""


def read_folder(folder: Path | str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Configuration and tensors, from one or several files. Raises DataError if a file is missing or damaged."""
    folder = Path(folder)
    files = folder_files(folder)
    for file in (folder / CONFIG, *files):
        if not file.exists():
            raise DataError(f"{folder} has no {file.name}. Give the folder of a model, with {CONFIG} and {WEIGHTS}.")
    config, tensors = read_json(folder / CONFIG), dict[str, Tensor]()
    for file in files:
        tensors |= read_tensors(file)
    return config, tensors


def folder_files(folder: Path) -> list[Path]:
    """The weight files of a folder. Raises DataError for an index that names none."""
    parts = _parts(folder / INDEX) if (folder / INDEX).exists() else [WEIGHTS]
    return [folder / name for name in parts]


def _parts(index: Path) -> list[str]:
    """The weight files beside an index that it names. Raises DataError if the index names none."""
    named = read_json(index).get("weight_map")
    names = sorted(set(named.values())) if isinstance(named, dict) and named else []
    if not names or not all(isinstance(name, str) and name == Path(name).name for name in names):
        raise DataError(f"{index} does not name the weight files. Download the folder again.")
    return names


def write_folder(
    folder: Path | str, config: Mapping[str, Any], tensors: Mapping[str, Tensor], **others: Mapping[str, Any]
) -> None:
    """Write a new folder, completely or not at all; `others` are further files of JSON, by their names without ending.

    Raises UsageError if the path exists.
    """
    if Path(folder).exists():
        raise UsageError(f"{folder} already exists and would be overwritten. Name a new folder.")
    with draft_folder(Path(folder)) as draft:
        for name, settings in {Path(CONFIG).stem: config, **others}.items():
            written = json.dumps(dict(settings), indent=2, sort_keys=True) + "\n"
            (draft / f"{name}.json").write_text(written, encoding="utf-8")
        write_tensors(draft / WEIGHTS, tensors, {"format": "pt"})


def setting(config: Mapping[str, Any], name: str, default: int | None = None) -> int:
    """A whole number, required unless there is a default. Raises DataError if it is missing or not a whole number."""
    value = config.get(name)
    value = default if value is None else value
    if value is None:
        raise DataError(f"config.json lacks {name!r}. Pass the config.json that belongs to the weights.")
    if type(value) is not int or not 0 <= value <= LARGEST:
        raise DataError(f"config.json has {name}={_brief(value)}, which must be a whole number from 0 to {LARGEST:,}.")
    return value


def number(config: Mapping[str, Any], name: str, default: float) -> float:
    """A number. Raises DataError for other values."""
    value = config.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or abs(value) > sys.float_info.max:
        raise DataError(f"config.json has {name}={_brief(value)}, which must be a number.")
    return float(value)


@contextlib.contextmanager
def described() -> Iterator[None]:
    """Turn the errors of our configurations into DataError, because the values come from a file."""
    try:
        yield
    except FoveateError:
        raise
    except ValueError as error:
        raise DataError(f"config.json describes no model that can be built: {error}.") from None


def require(config: Mapping[str, Any], name: str, value: Any, default: Any = None) -> None:
    """Raise DataError if a setting requires another architecture."""
    actual = config.get(name, default)
    if actual != value:
        raise DataError(
            f"config.json has {name}={_brief(actual)}, which this model does not support; it needs {value!r}."
        )


def activation_of(config: Mapping[str, Any], name: str, default: str) -> Activation:
    """Our name of the activation. Raises DataError if it is not supported."""
    theirs = config.get(name, default)
    if not isinstance(theirs, str) or theirs not in ACTIVATIONS:
        raise DataError(
            f"config.json has {name}={_brief(theirs)}, which this model does not support; it needs one of "
            f"{', '.join(ACTIVATIONS)}."
        )
    return ACTIVATIONS[theirs]


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def their_name(activation: Activation) -> str:
    """The library's name of an activation, the first of several."""
    return next(theirs for theirs, ours in ACTIVATIONS.items() if ours == activation)


def built(make: Callable[[], Model], tensors: Mapping[str, Tensor]) -> Model:
    """The model of `make` in evaluation mode. Raises DataError, before memory is taken, for one that is far larger than
    the tensors.
    """
    with within_tensors(tensors, config=CONFIG, file=WEIGHTS):
        return make().eval()


def block_names(parts: Mapping[str, str], num_layers: int, place: str) -> dict[str, str]:
    """Our name of every weight and bias in the blocks of a model, with its name in a file, which begins with `place`;
    `parts` are our names of the parts of a block, with theirs.
    """
    return {
        f"blocks.{layer}.{own}.{kind}": f"{place}.{layer}.{theirs}.{kind}"
        for layer in range(num_layers)
        for own, theirs in parts.items()
        for kind in ("weight", "bias")
    }


def is_standard(block: BlockConfig, *, norm: str, attention: Any) -> bool:
    """Whether a block has biases, norms in this order, dropout as theirs, and scaled dot-product attention; `attention`
    is the one that a model uses.
    """
    return (block.norm, block.bias, block.feedforward_dropout) == (norm, True, 0.0) and attention == AttentionConfig()


def load(
    model: nn.Module,
    tensors: Mapping[str, Tensor],
    *,
    optional: Collection[str] = (),
    ignored: Collection[str] = (),
) -> None:
    """Load tensors, under our names, into the model.

    `optional` tensors may be missing and then keep their initial values; `ignored` tensors are not loaded. Raises
    DataError for other missing or unknown tensors, and for a wrong shape.
    """
    own = model.state_dict()
    missing = sorted(own.keys() - tensors.keys() - set(optional))
    unknown = sorted(tensors.keys() - own.keys() - set(ignored))
    for what, names in (("lack", missing), ("hold unknown tensors:", unknown)):
        if names:
            raise DataError(
                f"The weights {what} {listing(names, 3)}. Check that {CONFIG} and {WEIGHTS} come from one "
                "folder, and that it holds a model of this kind."
            )
    for name in own.keys() & tensors.keys():
        if tensors[name].shape != own[name].shape:
            raise DataError(
                f"The tensor {name} has shape {tuple(tensors[name].shape)}, but {CONFIG} makes it "
                f"{tuple(own[name].shape)}. The two files belong to different models: take both from one folder."
            )
    with torch.no_grad():
        for name in own.keys() & tensors.keys():
            own[name].copy_(tensors[name])
