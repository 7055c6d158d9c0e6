"""Sizes fit the machine and the data: by rules, so that the same data on the same machine give the same run."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from foveate.config import build
from foveate.data.graph import Graph
from foveate.data.graph_archive import write_graph
from foveate.data.waveform import wav
from foveate.errors import UsageError
from foveate.tasks import TASKS
from foveate.tasks.run_plan import MINUTES, Allowance, Size

SENTENCE = "the old man and the sea were there before us number"


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of some size for every task."""
    folder = tmp_path_factory.mktemp("many")
    words = [f"{SENTENCE} {number}" for number in range(30_000)]
    (folder / "pairs.tsv").write_text("".join(f"{line}\t{line}\n" for line in words))
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in words))
    (folder / "tagged.txt").write_text("".join(f"{' '.join(f'{w}/T' for w in line.split())}\n" for line in words))
    (folder / "texts.tsv").write_text("".join(f"{line}\tx\n" for line in words))
    (folder / "one.wav").write_bytes(wav(np.sin(np.arange(8_000) / 5), 8_000))
    (folder / "clips.tsv").write_text("".join(f"one.wav\t{line}\n" for line in words))
    Image.new("RGB", (8, 8), "teal").save(folder / "one.png")
    (folder / "captions.tsv").write_text("".join(f"one.png\t{line}\n" for line in words))
    chain = np.array([range(29_999), range(1, 30_000)])
    graph = Graph(features=np.ones((30_000, 9)), edges=chain, labels=np.arange(30_000) % 3, classes=("a", "b", "c"))
    write_graph(graph, folder / "graph.npz")
    (folder / "molecules.csv").write_text("smiles,y\n" + "".join(f"{'C' * (n % 30 + 1)},{n}\n" for n in range(100)))
    lengths = np.full(len(words), 40)
    np.savez(folder / "vectors.npz", inputs=np.eye(lengths.sum(), 2), lengths=lengths, labels=np.array(words))
    return folder


DATA = {
    "translate": ("source", "pairs.tsv"),
    "language_model": ("text", "text.txt"),
    "masked_language_model": ("text", "text.txt"),
    "tag": ("data", "tagged.txt"),
    "classify": ("data", "texts.tsv"),
    "transcribe": ("data", "vectors.npz"),
    "speak": ("data", "clips.tsv"),
    "caption": ("data", "captions.tsv"),
    "node": ("edges", "graph.npz"),
    "molecule": ("data", "molecules.csv"),
}


def suggested(task: str, many: Path, allowance: Allowance) -> Any:
    side, (setting, file) = TASKS[task].side, DATA[task]
    return side.suggest(build(side.config, {"data": {setting: str(many / file)}}), allowance)


@pytest.mark.parametrize("task", TASKS)
def test_the_default_ends_in_ten_minutes_and_larger_sizes_do_more(task: str, many: Path) -> None:
    small = suggested(task, many, Allowance("small", 2))
    assert small == suggested(task, many, Allowance("small", 2)), "a rule, not a measurement"
    assert "for a time of up to about 10 minutes on 2 cores" in small.reasons[-1].why
    assert set(small.others) == set(MINUTES) - {"small"}
    sizes: list[Size] = ["small", "medium", "large"]
    for size in sizes[1:]:
        assert small.others[size] == suggested(task, many, Allowance(size, 2)).settings
    alone = suggested(task, many, Allowance("small", 1)).settings["train"]["steps"]
    assert alone <= small.settings["train"]["steps"]


def test_thirty_thousand_pairs_get_a_model_that_two_cores_can_train(many: Path) -> None:
    """80 CPU minutes of 7.6 million parameters were the default before."""
    small = suggested("translate", many, Allowance("small", 2)).settings
    assert (small["model"]["kind"], small["model"]["hidden_dim"]) == ("bahdanau", 128)
    assert small["train"]["steps"] * 0.11 <= 600 * 2**0.7
    large = suggested("translate", many, Allowance("large", 2)).settings
    assert (large["model"]["kind"], large["model"]["block"]["model_dim"]) == ("transformer", 512)


def test_more_cores_are_used(many: Path) -> None:
    sixteen = suggested("translate", many, Allowance("small", 16)).settings
    assert sixteen["model"] == {"kind": "transformer"}, "whose defaults are 3 + 3 layers, 256 wide"


def test_the_lines_of_long_texts_are_kept(tmp_path: Path) -> None:
    """Few pairs are read letter by letter, and a line has more letters than the 250 tokens that are usual."""
    lines = [" ".join(f"{SENTENCE} {number}.{place}" for place in range(9)) for number in range(200)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{line}\tshort {line[:90]} {line[-5:]}\n" for line in lines))
    data = suggested("translate", tmp_path, Allowance("small", 2)).settings["data"]
    assert data["max_length"] == max(map(len, lines)) + 1
    assert data["max_tokens"] >= 2 * data["max_length"]
    (tmp_path / "pairs.tsv").write_text("".join(f"{line}\t{line} {'x' * 5_000}\n" for line in lines))
    assert suggested("translate", tmp_path, Allowance("small", 2)).settings["data"]["max_length"] == 2_000


def test_the_second_text_of_a_pair_counts(tmp_path: Path) -> None:
    lines = [f"{number}\t{' '.join([SENTENCE] * (12 + number))}\tlabel {number % 2}" for number in range(60)]
    (tmp_path / "texts.tsv").write_text("".join(f"{line}\n" for line in lines))
    side = TASKS["classify"].side
    data = {"data": str(tmp_path / "texts.tsv"), "columns": (0, 2)}
    chosen = side.suggest(build(side.config, {"data": data, "second_column": 1}), Allowance("small", 2))
    longest = max(len(line.rpartition("\t")[0]) for line in lines)
    assert chosen.settings["data"]["max_length"] >= longest + 2, "begin, and an end after each text in place of a tab"
    assert chosen.settings["model"]["encoder"] != {"kind": "rnn"}


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_size_is_refused_in_words() -> None:
    with pytest.raises(UsageError, match="size must be one of small, medium, large, got 'huge'"):
        Allowance.here("huge")  # type: ignore[arg-type]


def test_small_data_do_not_take_all_the_time_there_is() -> None:
    assert Allowance("large", 64).steps(2_000, pace=0.1) == 2_000
    assert Allowance("small", 1).steps(50_000, pace=100.0) == 100


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("kind", ["word", "character"])
def test_a_plan_has_the_vocabularies_that_the_data_give(tmp_path: Path, kind: str, joint: bool) -> None:
    """Tokenisers of words and characters have no size of their own; one that a user names comes first."""
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("a cat\tun chat\nthe cat\tle chat\nthe house\tla maison\n")
    side = TASKS["translate"].side
    settings = {f"{part}_tokeniser": {"kind": kind} for part in ("source", "target")}
    config = build(side.config, {"data": {"source": str(pairs)}, **settings, "joint_vocabulary": joint})
    columns = [[line.split("\t")[part] for line in pairs.read_text().splitlines()] for part in (0, 1)]
    trained = [
        config.source_tokeniser.train(columns[0] + columns[1] * joint),
        config.target_tokeniser.train(columns[1]),
    ]
    sizes = [trained[0].vocab_size, trained[0 if joint else 1].vocab_size]
    assert side.probe(config, (5, 5), None).vocabulary == f"vocabularies {sizes[0]:,} and {sizes[1]:,}"
    assert side.probe(config, (5, 5), 300).vocabulary == "vocabularies 300 and 300"
    pairs.unlink()
    assert side.probe(config, (5, 5), None).vocabulary == "vocabularies 8,000 and 8,000"


FEW = ["a cat", "the cat", "the house"]


@pytest.mark.parametrize("name", [name for name in DATA if name not in ("translate", "node", "molecule")])
def test_every_plan_counts_what_texts_give(tmp_path: Path, name: str) -> None:
    files = {
        "text.txt": "".join(f"{line}\n" for line in FEW),
        "tagged.txt": "".join(f"{line.replace(' ', '/D ')}/N\n" for line in FEW),
        "texts.tsv": "".join(f"{line}\tkind {number % 2}\n" for number, line in enumerate(FEW)),
        "clips.tsv": "path\ttext\n" + "".join(f"one.wav\t{line}\n" for line in FEW),
        "captions.tsv": "path\ttext\n" + "".join(f"one.png\t{line}\n" for line in FEW),
    }
    for file, content in files.items():
        (tmp_path / file).write_text(content)
    (tmp_path / "one.wav").write_bytes(wav(np.sin(np.arange(8_000) / 5), 8_000))
    Image.new("RGB", (8, 8), "teal").save(tmp_path / "one.png")
    side, (setting, file) = TASKS[name].side, (DATA | {"transcribe": ("data", "clips.tsv")})[name]
    data = {"data": {setting: str(tmp_path / file)}}
    config = build(side.config, {**data, **({"min_count": 1} if name == "tag" else {"tokeniser": {"kind": "word"}})})
    size = 8 if name == "tag" else config.tokeniser.train(FEW).vocab_size
    lengths = side.usual_lengths or (10,) * len(TASKS[name].lengths)
    words = side.probe(config, lengths, None).vocabulary
    assert re.search(rf"\b{size}\b", words), words
    assert "assumed" not in words
    if name in ("tag", "classify"):
        assert words.endswith("and 2 labels")
    assert re.search(r"\b300\b", side.probe(config, lengths, 300).vocabulary)
    (tmp_path / file).unlink()
    if name in ("language_model", "masked_language_model", "tag", "classify", "speak"):
        assert "8,000" in side.probe(config, lengths, None).vocabulary
