"""Converts a finished run of a translator or a tagger to a small folder: rounded weights, without data.

    python examples/ship.py RUN FOLDER
    python examples/ship.py RUN FOLDER --stored int8
    python examples/ship.py RUN FOLDER --mean EARLIER
    python examples/ship.py RUN FOLDER --layer 1 --head 5 --when consuming
    python examples/ship.py RUN FOLDER --capitals

The configuration keeps the settings of the model without the paths of its data and of the run that it began with.
Layer, head and moment select the attention of a translator's alignment; `english_french/head.py` finds it. With
`--capitals`, a translator that has read small letters only reads capital letters too: each gets the embedding of its
small letter. `--mean` takes the mean of the weights of RUN and of other runs of the same model, such as the one that it
began with, which may have fewer layers (Wortsman et al. 2022, "Model soups"). Other files in FOLDER, such as the model
card, remain.
"""

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from foveate.config import build, to_dict
from foveate.data.tokeniser import SPECIALS, CharacterTokeniser, load_tokeniser
from foveate.models import TransformerConfig
from foveate.models.deepening import deepened
from foveate.storage.checkpoint import load_weights, save_final
from foveate.storage.rounded_weight import Stored
from foveate.storage.run import create_run, read_run
from foveate.tasks import task_of
from foveate.tasks.translate.alignment_head import GuideConfig

SOURCE, EMBEDDING = "source.tokeniser.json", "source_embedding.weight"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run folder of a finished training")
    parser.add_argument("folder", type=Path, help="the folder to make")
    parser.add_argument("--layer", type=int, help="layer of the alignment (the one before the last)")
    parser.add_argument("--head", type=int, help="head of the alignment (the mean of all)")
    parser.add_argument("--when", choices=["producing", "consuming"], default="producing", help="(producing)")
    parser.add_argument(
        "--stored", choices=["bfloat16", "int8"], default="bfloat16", help="the type of the weights (bfloat16)"
    )
    parser.add_argument("--mean", type=Path, nargs="+", default=[], metavar="RUN", help="runs whose weights count, too")
    parser.add_argument("--capitals", action="store_true", help="read capital letters as small ones")
    arguments = parser.parse_args(argv)
    guide = GuideConfig(layer=arguments.layer, head=arguments.head, when=arguments.when)
    kinds = {"stored": arguments.stored, "capitals": arguments.capitals}
    ship(arguments.run, arguments.folder, guide, others=arguments.mean, **kinds)
    return 0


def ship(
    run: Path,
    folder: Path,
    guide: GuideConfig,
    *,
    stored: Stored = "bfloat16",
    capitals: bool = False,
    others: Sequence[Path] = (),
) -> None:
    """Write the folder. Raises DataError if a run has no undamaged weights, ValueError for the run's own folder and for
    others with another model or other tokenisers.
    """
    if folder.resolve() == run.resolve():
        raise ValueError(f"{folder} is the run itself. Name another folder.")
    saved = read_run(run)
    settings = {name: value for name, value in saved.config.items() if name != "train"}
    config: Any = build(task_of(saved).side.config, settings, where=f"{run}/config.json:")
    limits = type(config.data)(max_length=config.data.max_length, max_tokens=config.data.max_tokens)
    own = {"guide": guide, "new_vocabulary": False} if saved.task == "translate" else {}
    config = replace(config, data=limits, initialise_from=None, **own)
    tensors, which = mean_weights(run, others) if others else load_weights(run)
    (folder / "config.json").unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    digests = dict(saved.tokenisers)
    for name in digests:
        shutil.copyfile(run / name, folder / name)
    if capitals:
        tensors, digests[SOURCE] = with_capitals(tensors, folder / SOURCE)
    create_run(folder, saved.task, to_dict(config), digests)
    save_final(folder, tensors, {"weights": which}, stored=stored)
    print(f"{folder}: {sum(path.stat().st_size for path in folder.iterdir()) / 1e6:.2f} MB")


def mean_weights(run: Path, others: Sequence[Path]) -> tuple[dict[str, Tensor], str]:
    """The mean of the weights of several runs, and a short description of them. A run with fewer layers counts with
    further ones that change nothing, as RUN had them when it began.
    """
    own, weights = read_run(run), [load_weights(run)[0]]
    for path in others:
        read, tensors = read_run(path), load_weights(path)[0]
        if read.config["model"] != own.config["model"]:
            kind = task_of(own).side.config
            shallow, deep = (build(kind, {"model": each.config["model"]}).model for each in (read, own))
            alike = isinstance(shallow, TransformerConfig) and isinstance(deep, TransformerConfig)
            tensors = (deepened(tensors, shallow, deep) if alike else None) or {}
        if read.tokenisers != own.tokenisers or tensors.keys() != weights[0].keys():
            raise ValueError(f"{path} has another model or other tokenisers than {run}, so that they have no mean.")
        weights.append(tensors)
    means = {name: torch.stack([each[name] for each in weights]).mean(0) for name in weights[0]}
    return means, f"mean of {len(weights)} runs"


def with_capitals(tensors: dict[str, Tensor], path: Path) -> tuple[dict[str, Tensor], str]:
    """The weights with an embedding for the capital of each small letter, and the digest of the tokeniser, whose file
    is written again. Raises ValueError for a tokeniser of anything but characters.
    """
    tokeniser = load_tokeniser(path)
    if not isinstance(tokeniser, CharacterTokeniser):
        raise ValueError(f"{path} is not a tokeniser of characters, and capitals are letters.")
    small = [
        (number, symbol)
        for number, symbol in enumerate(tokeniser.symbols, start=len(SPECIALS))
        if symbol.upper() not in tokeniser.symbols and symbol.upper().lower() == symbol
    ]
    larger = CharacterTokeniser([*tokeniser.symbols, *(symbol.upper() for _, symbol in small)])
    larger.save(path)
    rows = tensors[EMBEDDING]
    return {**tensors, EMBEDDING: torch.cat([rows, rows[[number for number, _ in small]]])}, larger.digest()


if __name__ == "__main__":
    raise SystemExit(main())
