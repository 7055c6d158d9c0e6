"""Files and settings with which every task trains in a moment."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from foveate.data.graph import Graph
from foveate.data.graph_archive import write_graph
from foveate.data.waveform import wav

WORDS = ["the", "old", "man", "and", "the", "sea", "were", "there", "before", "us"]
LINES = [" ".join(WORDS[number % 3 : number % 7 + 3]) for number in range(120)]
ENCODER = {"encoder": {"kind": "rnn", "hidden_dim": 8}, "embedding_dim": 6}
BLOCK = {"num_layers": 1, "block": {"model_dim": 8, "num_heads": 2, "feedforward_dim": 8}}
ATTENTIVE = {"kind": "bahdanau", "hidden_dim": 8, "embedding_dim": 6, "maxout_dim": 6}
TEXT = {"text": "lines.txt", "block_length": 16, "max_tokens": 32}


def table(first: str, names: tuple[str, ...] = ()) -> str:
    """A table with a header, where names are given, and a row for each line."""
    return "".join("\t".join(row) + "\n" for row in ([names] if names else []) + [(first, line) for line in LINES])


def write_files(folder: Path) -> None:
    """Writes the files that `SETTINGS` name."""
    texts = {
        "lines.txt": "".join(f"{line}\n" for line in LINES),
        "pairs.tsv": "".join(f"{line}\t{line[::-1]}\n" for line in LINES),
        "tagged.txt": "".join(" ".join(f"{word}/{word[0]}" for word in line.split()) + "\n" for line in LINES),
        "texts.tsv": "".join(f"{line}\tkind {number % 3}\n" for number, line in enumerate(LINES)),
        "linked.tsv": "".join(f"{line}\t{line}\t0-0\n" for line in LINES),
        "clips.tsv": table("one.wav", ("path", "text")),
        "captions.tsv": table("one.png", ("path", "text")),
        "molecules.csv": "smiles,y\n" + "".join(f"{'C' * (n % 30 + 1)}O,{n}\n" for n in range(90)),
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "one.wav").write_bytes(wav(np.sin(np.arange(4_000) / 5), 8_000))
    Image.new("RGB", (8, 8), "teal").save(folder / "one.png")
    ring = np.array([range(60), [*range(1, 60), 0]])
    features, labels = np.eye(60, 12, dtype=np.float32) + 0.1, np.arange(60) % 3
    write_graph(Graph(features=features, edges=ring, labels=labels, classes=("a", "b", "c")), folder / "graph.npz")


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
    "node": {"data": {"edges": "graph.npz"}},
    "molecule": {"data": {"data": "molecules.csv"}},
}

WORD = {"kind": "word"}
TRANSFORMER = {"kind": "transformer", "encoder_layers": 1, "decoder_layers": 1, "block": BLOCK["block"]}
LINKED = {"source": "linked.tsv", "columns": [0, 1], "links_column": 2, "max_tokens": 200}
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "guided": ("translate", {"data": LINKED, "model": TRANSFORMER, "source_tokeniser": WORD, "target_tokeniser": WORD}),
    "luong": (
        "translate",
        {
            "data": {"source": "pairs.tsv", "max_tokens": 200},
            "model": {"kind": "luong", "hidden_dim": 8, "embedding_dim": 6},
            "source_tokeniser": WORD,
            "target_tokeniser": WORD,
        },
    ),
    "pieces": ("tag", {**SETTINGS["tag"], "model": {"encoder": {"kind": "bert", **BLOCK}}}),
    "ran": (
        "language_model",
        {"data": TEXT, "model": {"kind": "ran", "model_dim": 16, "num_heads": 2, "head_dim": 8, "window": 4}},
    ),
    "recurrent": (
        "language_model",
        {"data": TEXT, "model": {"kind": "recurrent", "embedding_dim": 8, "hidden_dim": 8}},
    ),
}
"""More models of a task, by name."""
