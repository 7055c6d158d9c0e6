"""A validation has the same bits whoever computes its batches, and in whichever order."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from foveate.config import build
from foveate.data.waveform import wav
from foveate.nn.measurement import SharedValidation
from foveate.tasks import TASKS
from foveate.tasks.molecule import task as molecule_task

WORDS = ["the", "old", "man", "and", "the", "sea", "were", "there", "before", "us"]
LINES = [" ".join(WORDS[number % 3 : number % 7 + 3]) for number in range(120)]
ENCODER = {"encoder": {"kind": "rnn", "hidden_dim": 8}, "embedding_dim": 6}
BLOCK = {"num_layers": 1, "block": {"model_dim": 8, "num_heads": 2, "feedforward_dim": 8}}
ATTENTIVE = {"kind": "bahdanau", "hidden_dim": 8, "embedding_dim": 6, "maxout_dim": 6}
TEXT = {"text": "lines.txt", "block_length": 16, "max_tokens": 32}


def table(first: str, names: tuple[str, ...] = ()) -> str:
    """A table with a header, where names are given, and a row for each line."""
    return "".join("\t".join(row) + "\n" for row in ([names] if names else []) + [(first, line) for line in LINES])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    texts = {
        "lines.txt": "".join(f"{line}\n" for line in LINES),
        "pairs.tsv": "".join(f"{line}\t{line[::-1]}\n" for line in LINES),
        "tagged.txt": "".join(" ".join(f"{word}/{word[0]}" for word in line.split()) + "\n" for line in LINES),
        "texts.tsv": "".join(f"{line}\tkind {number % 3}\n" for number, line in enumerate(LINES)),
        "clips.tsv": table("one.wav", ("path", "text")),
        "captions.tsv": table("one.png", ("path", "text")),
        "molecules.csv": "smiles,y\n" + "".join(f"{'C' * (n % 30 + 1)}O,{n}\n" for n in range(90)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "one.wav").write_bytes(wav(np.sin(np.arange(4_000) / 5), 8_000))
    Image.new("RGB", (8, 8), "teal").save(folder / "one.png")
    return folder


SETTINGS: dict[str, dict[str, Any]] = {
    "translate": {"data": {"source": "pairs.tsv", "max_tokens": 200}, "model": ATTENTIVE},
    "language_model": {"data": TEXT, "model": {"kind": "gpt", **BLOCK}},
    "masked_language_model": {"data": TEXT, "model": BLOCK},
    "tag": {"data": {"data": "tagged.txt", "max_length": 20, "max_tokens": 20}, "model": ENCODER},
    "classify": {"data": {"data": "texts.tsv", "max_length": 60, "max_tokens": 60}, "model": ENCODER},
    "transcribe": {"data": {"data": "clips.tsv", "max_tokens": 300, "max_length": 100}},
    "speak": {"data": {"data": "clips.tsv", "max_tokens": 300, "max_length": 100}},
    "caption": {
        "data": {"data": "captions.tsv", "valid_data": "captions.tsv", "max_tokens": 90},
        "reader": {"kind": "image", "patch": 4},
    },
    "molecule": {"data": {"data": "molecules.csv"}},
}


def backwards(counts: list[int]) -> Callable[[Callable[[int], Any], int], list[Any]]:
    """Does the last piece first, and sends each answer as the processes of a run do; notes how many there were."""

    def each(work: Callable[[int], Any], count: int) -> list[Any]:
        counts.append(count)
        answers = {number: json.loads(json.dumps(work(number))) for number in reversed(range(count))}
        return [answers[number] for number in range(count)]

    return each


@pytest.mark.parametrize("name", SETTINGS)
def test_the_order_of_batches_and_their_way_to_the_sum_change_no_bit(
    name: str, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(files)
    monkeypatch.setattr(molecule_task, "TOGETHER", 2)
    side, counts = TASKS[name].side, list[int]()
    task = side.prepare(build(side.config, SETTINGS[name]), tmp_path / "run", lambda sentence: None)
    assert isinstance(task, SharedValidation)
    task.model.eval()
    with torch.no_grad():
        assert task.measured(backwards(counts)) == task.validate()
    assert counts[0] > 1
