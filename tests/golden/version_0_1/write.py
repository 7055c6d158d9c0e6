"""Writes the run folders, traces, export and answers that stand here, which version 0.1.0 made at commit 6fe13db.

    python tests/golden/version_0_1/write.py        # with version 0.1.0 of foveate, and no other

Later versions have to open and to continue them, so they are not made anew: a folder that a later version writes proves
nothing about this one.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import torch
from behaviour import DATA, EXPORT, HERE, QUIET, RUNS, TRACES, command, described, outputs, reported, resumed, scores
from torch import nn

from foveate.attention import (
    Additive,
    Alibi,
    Attention,
    Cosine,
    General,
    Hard,
    Location,
    Positions,
    RelativeBuckets,
    ShawRelative,
    Sparsemax,
    Visibility,
    around,
    causal,
    edges,
    padding,
    window,
)
from foveate.inspect import Trace, Track, read_trace, write_trace
from foveate.inspect.trace import Pedigree, observe
from foveate.machine import Tuning, use
from foveate.machine.file import keep

FILES = {
    "pairs.tsv": [f"the {a} {b} sleeps\tle {b} {a} dort" for a in "abcdef" for b in "ijklmn"],
    "letters.txt": ["abc ab", "bca cab", "cab"] * 12,
    "words.txt": ["red fish swim", "blue birds sing"] * 12,
    "word_pairs.tsv": ["red fish\tfish swim", "blue birds\tbirds sing", "red birds\tbirds sing"] * 8,
    "tagged.txt": ["I/P saw/V a/D saw/N", "a/D dog/N saw/V I/P"] * 10,
    "labelled.tsv": ["red fish swim\tfish", "blue birds sing\tbirds", "birds\tbirds"] * 8,
    "labelled_pairs.tsv": ["yes\tred fish\tfish swim", "no\tred fish\tbirds sing"] * 10,
}
BLOCK = "{ model_dim = 8, num_heads = 2, feedforward_dim = 12 }"
SEQ2SEQ = ("model.hidden_dim=8", "model.embedding_dim=8")
TEXT = ("data.block_length=16", "data.max_tokens=64", f"model.block={BLOCK}", "model.num_layers=1")
WORDS = ("source_tokeniser=word", "target_tokeniser=word")
ENCODER = f'model.encoder={{ kind = "transformer", num_layers = 1, block = {BLOCK} }}'
LOCAL = 'model.attention={ kind = "local_predictive", window = 2, hidden_dim = 4 }'
LOCATION = 'model.attention={ score = { kind = "location", max_length = 16 } }'
RUN: dict[str, tuple[str, ...]] = {
    "translate_bahdanau": ("translate", *SEQ2SEQ, "model.maxout_dim=8", "model.attention.score.hidden_dim=8", *WORDS),
    "translate_luong": ("translate", "model=luong", *SEQ2SEQ, *WORDS),
    "translate_local": ("translate", "model=luong", LOCAL, *SEQ2SEQ, *WORDS),
    "translate_location": ("translate", "model=luong", LOCATION, *SEQ2SEQ, *WORDS),
    "translate_fixed_context": ("translate", "model=fixed_context", *SEQ2SEQ, *WORDS),
    "translate_transformer": (
        *("translate", "model=transformer", f"model.block={BLOCK}"),
        *("model.encoder_layers=1", "model.decoder_layers=2", 'source_tokeniser={ kind = "character" }'),
        'target_tokeniser={ kind = "character" }',
    ),
    "language_model_gpt": ("language_model", "tokeniser=character", *TEXT),
    "language_model_llama": (
        *("language_model", "model=llama", "tokeniser=character", "model.model_dim=8", "model.num_heads=2"),
        *("model.num_kv_heads=1", "model.feedforward_dim=12", "model.num_layers=1"),
        *("data.block_length=16", "data.max_tokens=64"),
    ),
    "language_model_recurrent": (
        *("language_model", "model=recurrent", "tokeniser=character", "model.hidden_dim=8"),
        *("data.block_length=16", "data.max_tokens=64"),
    ),
    "language_model_ran": (
        *("language_model", "model=ran", "tokeniser=character", "model.model_dim=8", "model.num_heads=2"),
        *("model.window=4", "data.block_length=16", "data.max_tokens=64"),
    ),
    "masked_language_model": ("masked_language_model", "tokeniser=word", *TEXT, "model.max_length=32"),
    "masked_language_model_pairs": (
        *("masked_language_model", "tokeniser=word", "segments=[0, 1]", *TEXT, "model.max_length=32"),
    ),
    "tag_rnn": ("tag", "model.encoder.hidden_dim=4", "model.embedding_dim=8", "model.character_dim=4"),
    "tag_transformer": ("tag", ENCODER, "model.embedding_dim=8", "model.character_dim=0"),
    "tag_begun": ("tag", "initialise_from=masked_language_model"),
    "classify_rnn": ("classify", "model.encoder.hidden_dim=4", "model.embedding_dim=8", "tokeniser=character"),
    "classify_transformer": ("classify", ENCODER, "model.embedding_dim=8", "tokeniser=word"),
    "classify_cnn": (
        *("classify", 'model.encoder={ kind = "cnn", hidden_dim = 8 }', "model.embedding_dim=8", "tokeniser=word"),
        "model.pooling=max",
    ),
    "classify_pairs_begun": (
        *("classify", "second_column=2", "data.columns=[1, 0]"),
        "initialise_from=masked_language_model_pairs",
    ),
}
"""Runs by name: the task and its settings."""
CALIBRATED = "tag_transformer"
"""The run of a machine with rates of its own, as `foveate doctor --calibrate` kept them."""
READ = {
    "translate": ("source", "pairs.tsv"),
    "language_model": ("text", "letters.txt"),
    "masked_language_model": ("text", "words.txt"),
    "tag": ("data", "tagged.txt"),
    "classify": ("data", "labelled.tsv"),
}
OTHER = {
    "masked_language_model_pairs": ("text", "word_pairs.tsv"),
    "classify_pairs_begun": ("data", "labelled_pairs.tsv"),
}
TRAIN = ("train.steps=40", "train.validate_every=40", "train.save_every=40", "train.schedule=constant")
RATE = {"tag": 0.005, "classify": 0.002}
SHORT = {"tag": ("data.max_length=20",), "classify": ("data.max_length=20",), "translate": ("data.max_tokens=128",)}
LOOKED = {
    "translate_bahdanau": "the a i sleeps",
    "translate_local": "the a i sleeps",
    "translate_location": "the a i sleeps",
    "translate_transformer": "the a i",
    "language_model_gpt": "abc ab",
    "language_model_llama": "abc ab",
    "masked_language_model": "red ___ swim",
    "tag_transformer": "I saw a saw",
    "classify_transformer": "red fish swim",
    "classify_pairs_begun": "red fish\tfish swim",
}
"""Runs that a text is looked at with."""
ELSEWHERE = Path(tempfile.gettempdir(), "foveate-0.1.0")
"""Where the runs were trained. Their configurations name files by themselves, without a folder."""
PEDIGREE = Pedigree(model="golden", foveate="0.1.0", created="2026-11-22T00:00:00+00:00", difference=1e-7)
Maker = Callable[[], tuple[Attention, Positions]]
QUERIES, KEYS, WIDTH = 7, 9, 6


class Product(nn.Module):
    """A score that no trace knows: its map is kept pair by pair."""

    def forward(self, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return torch.sin(query @ key.mT)


def crossing(score: object, **parts: object) -> tuple[Attention, Positions]:
    return Attention(score, kind="cross", **parts), Positions.of(QUERIES, KEYS)  # type: ignore[arg-type]


def looking(visibility: Visibility, **parts: object) -> tuple[Attention, Positions]:
    return Attention(visibility=visibility, **parts), Positions.of(KEYS, KEYS)  # type: ignore[arg-type]


def padded() -> tuple[Attention, Positions]:
    at = Positions.of(QUERIES, KEYS, key_lengths=torch.tensor([KEYS - 2]))
    return Attention(General(query_dim=WIDTH, key_dim=WIDTH), visibility=padding(), kind="cross"), at


MADE: dict[str, Maker] = {
    "additive": lambda: crossing(Additive(query_dim=WIDTH, key_dim=WIDTH, hidden_dim=4, num_heads=2)),
    "general_padded": padded,
    "cosine": lambda: crossing(Cosine()),
    "location": lambda: crossing(Location(query_dim=WIDTH, max_length=12)),
    "unknown_score": lambda: crossing(Product()),
    "sparsemax": lambda: looking(causal(), normaliser=Sparsemax()),
    "hard": lambda: looking(causal(), normaliser=Hard(mode="argmax")),
    "window": lambda: looking(window(left=2, right=1)),
    "around": lambda: looking(around(left=2, right=2) & padding()),
    "two_rules": lambda: looking(causal() & (window(left=1, right=0) | ~window(left=5, right=0))),
    "alibi": lambda: looking(causal(), bias=Alibi(num_heads=2)),
    "relative_buckets": lambda: looking(causal(), bias=RelativeBuckets(num_heads=2)),
    "shaw": lambda: (Attention(ShawRelative(head_dim=WIDTH, radius=3)), Positions.of(KEYS, KEYS)),
    "graph": lambda: looking(edges(torch.tensor([[0, 1, 2, 3, 5, 8, 8], [1, 2, 0, 4, 5, 0, 8]]))),
}


def trace_of(maker: Maker) -> Trace:
    attention, at = maker()
    for weight in attention.parameters():
        nn.init.normal_(weight)
    model = nn.ModuleDict({"layer": nn.ModuleList([attention.eval()])})
    with observe(model) as seen, torch.no_grad():
        query, key = torch.randn(1, 2, at.query.shape[2], WIDTH), torch.randn(1, 2, KEYS, WIDTH)
        attention.run(query, key, torch.randn(1, 2, KEYS, WIDTH), at=at)
    tracks = {"source": Track.of_pieces([f"▁k{place}" for place in range(KEYS)])}
    if attention.kind == "cross":
        tracks["target"] = Track.of_pieces([f"▁q{place}" for place in range(QUERIES)])
    return Trace.of(seen, tracks, pedigree=PEDIGREE)


def keep_rates() -> None:
    """Some rates as those of this machine, where nobody else's are."""
    os.environ["XDG_CACHE_HOME"] = str(ELSEWHERE / "cache")
    rates = json.loads(files("foveate.attention").joinpath("rates.json").read_text(encoding="utf-8"))["rates"]
    keep(Tuning(rates={name: rates[name] for name in sorted(rates, key=lambda name: len(rates[name]))[:4]}))


def write_run(name: str) -> None:
    task, *settings = RUN[name]
    setting, file = OTHER.get(name, READ[task])
    toml = Path(f"{name}.toml")
    toml.write_text(f'data = {{ {setting} = "{file}" }}\n', encoding="utf-8")  # a relative path stays one
    rate = f"train.learning_rate={RATE.get(task, 0.02)}"
    words = (word for each in (*settings, *TRAIN, rate, *SHORT.get(task, ())) for word in ("--set", each))
    command("train", task, toml, "--out", name, *words, *(QUIET[1:] if name == CALIBRATED else QUIET))
    use(Tuning())
    Path(name, ".lock").unlink()
    Path(name, "report.html").unlink()
    shutil.copytree(name, RUNS / name)


def answers() -> dict[str, object]:
    """What this version computes from what is here."""
    runs = {}
    for run in sorted(RUNS.iterdir()):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(shutil.copytree(run, Path(folder) / run.name))
            os.chdir(DATA)
            runs[run.name] = {"outputs": outputs(copy), "scores": scores(copy), "report": reported(copy)}
            runs[run.name]["resumed"] = resumed(copy)
    traces = {path.stem: described(read_trace(path)) for path in sorted(TRACES.iterdir())}
    return {"runs": runs, "traces": traces}


def write() -> None:
    for folder in (RUNS, TRACES, EXPORT, DATA):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    for name, lines in FILES.items():
        (DATA / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    shutil.rmtree(ELSEWHERE, ignore_errors=True)
    shutil.copytree(DATA, ELSEWHERE)
    os.chdir(ELSEWHERE)
    keep_rates()
    for name in RUN:
        write_run(name)
    for name, text in LOOKED.items():
        command("look", RUNS / name, text, "--trace", TRACES / f"{name}.trace", *QUIET[:1])
    for name, maker in MADE.items():
        torch.manual_seed(7)
        write_trace(trace_of(maker), TRACES / f"{name}.trace")
    command("export", RUNS / "classify_transformer", "--to", "onnx", EXPORT / "classify_transformer")
    text = json.dumps(answers(), ensure_ascii=False, separators=(",", ":"))
    shutil.rmtree(ELSEWHERE)
    (HERE / "answers.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    torch.set_num_threads(1)
    write()
