"""Converts a finished translation run to a small folder: bfloat16 weights, without data and checkpoints.

    python examples/english_french/ship.py RUN FOLDER --layer 1 --head 5 --when consuming

The configuration keeps the settings of the model without the paths of its data. Layer, head and moment select the
attention of the alignment; `head.py` finds it. Other files in FOLDER, such as the model card, remain.
"""

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from foveate.config import build, to_dict
from foveate.storage.checkpoint import load_weights, save_final
from foveate.storage.run import create_run, read_run
from foveate.tasks.translate.alignment_head import GuideConfig
from foveate.tasks.translate.task import DataConfig, TranslateConfig


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="the run folder of a finished training")
    parser.add_argument("folder", type=Path, help="the folder to make")
    parser.add_argument("--layer", type=int, help="layer of the alignment (the one before the last)")
    parser.add_argument("--head", type=int, help="head of the alignment (the mean of all)")
    parser.add_argument("--when", choices=["producing", "consuming"], default="producing", help="(producing)")
    arguments = parser.parse_args(argv)
    guide = GuideConfig(layer=arguments.layer, head=arguments.head, when=arguments.when)
    ship(arguments.run, arguments.folder, guide)
    return 0


def ship(run: Path, folder: Path, guide: GuideConfig) -> None:
    """Write the folder. Raises DataError if the run has no undamaged weights."""
    saved = read_run(run).require("translate")
    settings = {name: value for name, value in saved.config.items() if name != "train"}
    config = build(TranslateConfig, settings, where=f"{run}/config.json:")
    limits = DataConfig(max_length=config.data.max_length, max_tokens=config.data.max_tokens)
    tensors, which = load_weights(run)
    small = {name: tensor.bfloat16() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
    (folder / "config.json").unlink(missing_ok=True)
    create_run(folder, "translate", to_dict(replace(config, data=limits, guide=guide)), saved.tokenisers)
    for name in saved.tokenisers:
        shutil.copyfile(run / name, folder / name)
    save_final(folder, small, {"weights": which, "stored": str(torch.bfloat16).removeprefix("torch.")})
    print(f"{folder}: {sum(path.stat().st_size for path in folder.iterdir()) / 1e6:.1f} MB, alignment by {guide.place}")


if __name__ == "__main__":
    raise SystemExit(main())
