"""Runs of every text task as exported folders, used as somebody without this package would: ONNX Runtime and JSON."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from foveate.data.batch import Batch
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.language_model.use import Generator
from foveate.tasks.masked_language_model.use import Filler
from foveate.tasks.tag.use import SentenceTagger

SMALL = ("--no-tune", "--threads", "1")
STEPS = ("train.steps=12", "train.validate_every=12", "train.save_every=12", "train.learning_rate=0.01")
BLOCK = ("model.num_layers=1", "model.block.num_heads=2", "model.block.model_dim=16", "model.block.feedforward_dim=32")
TEXT = (*BLOCK, "data.block_length=16", "data.max_tokens=128", "train.schedule.warmup=2")
BERT = tuple(setting.replace("model.", "model.encoder.") for setting in BLOCK)
SIZES = ("model.encoder.hidden_dim=8", "model.embedding_dim=8")
SHARES = 1e-5  # of probabilities

Exports = dict[str, tuple[Path, Path]]


@pytest.fixture(scope="module")
def exports(foveate: Any, tmp_path_factory: pytest.TempPathFactory) -> Exports:
    """A tiny run and its export for each task."""
    folder = tmp_path_factory.mktemp("exports")
    (folder / "tagged.txt").write_text("a/V bc/C 1/N\nbc/C a/V\n12/N a/V bc/C 1/N a/V\n" * 20)
    (folder / "labelled.tsv").write_text("aaxg\tcross\nbob\tnought\naoa\tnought\nxab\tcross\n" * 15)
    (folder / "text.txt").write_text("abcdef\n" * 100)
    data, text = ("--data", folder / "tagged.txt"), ("--text", folder / "text.txt")
    made = {
        "tag": ("tag", data, SIZES),
        "tag in pieces": ("tag", data, ("model.encoder=bert", *BERT)),
        "classify": ("classify", ("--data", folder / "labelled.tsv"), SIZES),
        "language_model": ("language_model", text, TEXT),
        "recurrent": ("language_model", text, ("model=recurrent", "model.hidden_dim=8", *TEXT[len(BLOCK) :])),
        "masked_language_model": ("masked_language_model", text, TEXT),
    }
    found = {}
    for name, (task, files, settings) in made.items():
        run, out = folder / f"{name} run", folder / f"{name} export"
        options = [word for setting in (*settings, *STEPS) for word in ("--set", setting)]
        said = foveate("train", task, *files, *SMALL, *options, "--out", run)
        assert said.code == 0, said.err
        said = foveate("export", run, "--to", "onnx", out)
        assert (said.code, said.err) == (0, "")
        found[name] = (run, out)
    return found


def load(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def symbols(path: Path) -> dict[str, int]:
    """Ids from 4 on, in the order of the file."""
    return {symbol: number for number, symbol in enumerate(load(path)["content"]["symbols"], start=4)}


def answer(file: Path, **given: Any) -> np.ndarray:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return session.run(["logits"], {name: np.asarray(value) for name, value in given.items()})[0]


def softmax(logits: np.ndarray) -> np.ndarray:
    exponents = np.exp(logits - logits.max(-1, keepdims=True))
    return exponents / exponents.sum(-1, keepdims=True)


def test_a_tagger_tags_alike(exports: Exports) -> None:
    run, out = exports["tag"]
    words, letters, labels = (
        symbols(out / "word.tokeniser.json"),
        symbols(out / "character.tokeniser.json"),
        load(out / "labels.json")["labels"],
    )
    sentences = [["a", "bc", "zebra"], ["12"]]
    spelt = [[[1, *(letters.get(letter, 3) for letter in word), 2] for word in sentence] for sentence in sentences]
    spellings, sizes, ids = np.zeros((2, 3, 7), np.int64), np.zeros((2, 3), np.int64), np.zeros((2, 3), np.int64)
    for row, sentence in enumerate(sentences):
        for place, word in enumerate(sentence):
            own = spelt[row][place]
            ids[row, place], sizes[row, place], spellings[row, place, : len(own)] = words.get(word, 3), len(own), own
    shares = softmax(answer(out / "model.onnx", words=ids, lengths=[3, 1], spellings=spellings, spelling_lengths=sizes))
    for row, expected in enumerate(SentenceTagger.load(run).tag(sentences)):
        found = shares[row, : len(sentences[row])]
        assert tuple(labels[best] for best in found.argmax(1)) == expected.tags
        np.testing.assert_allclose(found.max(1), expected.probabilities, atol=SHARES)


def test_a_tagger_of_pieces_tags_alike(exports: Exports) -> None:
    run, out = exports["tag in pieces"]
    pieces, labels = symbols(out / "piece.tokeniser.json"), load(out / "labels.json")["labels"]
    sentence = ["a", "zebra", "bc"]
    shares = softmax(
        answer(out / "model.onnx", pieces=[[1, *(pieces.get(word, 3) for word in sentence), 2]], lengths=[5])
    )[0, 1:4]
    (expected,) = SentenceTagger.load(run).tag([sentence])
    assert tuple(labels[best] for best in shares.argmax(1)) == expected.tags
    np.testing.assert_allclose(shares.max(1), expected.probabilities, atol=SHARES)


def test_a_classifier_finds_the_same_labels_as_probable(exports: Exports) -> None:
    run, out = exports["classify"]
    letters, labels = symbols(out / "text.tokeniser.json"), load(out / "labels.json")["labels"]
    texts = ["aaxg", "bob", "o?"]
    tokens = np.zeros((3, 6), np.int64)
    for row, text in enumerate(texts):
        tokens[row, : len(text) + 2] = [1, *(letters.get(letter, 3) for letter in text), 2]
    shares = softmax(answer(out / "model.onnx", tokens=tokens, lengths=[6, 5, 4]))
    for found, expected in zip(shares, TextClassifier.load(run).classify(texts), strict=True):
        for label, share in expected.probabilities.items():
            assert found[labels.index(label)] == pytest.approx(share, abs=SHARES)


@pytest.mark.parametrize("name", ["language_model", "recurrent"])
def test_a_language_model_goes_on_with_the_same_logits(name: str, exports: Exports) -> None:
    run, out = exports[name]
    letters = symbols(out / "text.tokeniser.json")
    session = onnxruntime.InferenceSession(out / "step.onnx", providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    sizes = {"rows": 1, "past": 0}
    given = {
        each.name: np.zeros([sizes.get(size, size) for size in each.shape], np.float32)
        for each in session.get_inputs()
        if each.name.startswith("state.")
    }
    tokens, read = [2, letters["a"], letters["b"]], [2, letters["a"], letters["b"]]
    model = Generator.load(run).model
    for _ in range(4):
        found = dict(zip(names, session.run(names, {"tokens": np.array([tokens]), **given}), strict=True))
        given = {key.removeprefix("new."): value for key, value in found.items() if key != "logits"}
        with torch.inference_mode():
            expected = model(Batch.of([read]))[-1]
        np.testing.assert_allclose(found["logits"][0, -1], expected.numpy(), atol=1e-5)
        tokens = [int(found["logits"][0, -1].argmax())]
        read += tokens


def test_gaps_are_filled_alike(exports: Exports) -> None:
    run, out = exports["masked_language_model"]
    letters, gap = symbols(out / "text.tokeniser.json"), load(out / "export.json")["gap"]
    tokens = [[1, 2, letters["a"], gap, letters["c"], 2]]
    logits = answer(out / "model.onnx", tokens=tokens, lengths=[6], segments=np.zeros((1, 6), np.int64))[0, 3]
    shares = softmax(logits[4:gap])
    ((best, *_),) = Filler.load(run).fill("a___c", best=1).choices
    assert [*letters][int(shares.argmax())] == best[0]
    assert shares.max() == pytest.approx(best[1], abs=SHARES)


def test_an_export_says_what_goes_in_and_what_comes_out(exports: Exports) -> None:
    for run, out in exports.values():
        said = load(out / "export.json")
        assert (said["format"], said["task"]) == ("onnx", load(run / "config.json")["task"])
        for file, sides in said["files"].items():
            session = onnxruntime.InferenceSession(out / file, providers=["CPUExecutionProvider"])
            for side, values in (("inputs", session.get_inputs()), ("outputs", session.get_outputs())):
                assert [*sides[side]] == [each.name for each in values]
                for each in values:
                    kind = "int64" if each.type == "tensor(int64)" else "float32"
                    shape = ", ".join(map(str, each.shape))
                    assert sides[side][each.name].startswith(f"{kind} [{shape}]: ")
        mentioned = set(re.findall(r"[a-z]+\.tokeniser\.json|labels\.json", json.dumps(said)))
        assert mentioned
        assert all((out / name).exists() for name in mentioned)


def documented(title: str) -> str:
    """The example under a heading of docs/export.md."""
    text = (Path(__file__).parents[2] / "docs/export.md").read_text(encoding="utf-8")
    found = re.search(rf"## {title}\n.*?```python\n(.*?)```", text, re.DOTALL)
    assert found
    return found[1]


def test_the_example_of_a_tagger_runs_as_it_is_written(
    exports: Exports, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    run, out = exports["tag"]
    (tmp_path / "tagger").symlink_to(out)
    monkeypatch.chdir(tmp_path)
    exec(documented("A tagger without this package"), {})
    expected = SentenceTagger.load(run).tag(["I saw a saw", "Time flies"])
    assert capsys.readouterr().out == "".join(f"{sentence}\n" for sentence in expected)


@pytest.mark.parametrize("name", ["language_model", "recurrent"])
def test_the_example_of_a_language_model_runs_as_it_is_written(
    name: str, exports: Exports, tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    run, out = exports[name]
    (tmp_path / "model").symlink_to(out)
    monkeypatch.chdir(tmp_path)
    prompt = [2, 4, 5]
    exec(documented("A language model continues a text").replace("[2, 101, 102]", str(prompt)), {})
    model, read = Generator.load(run).model, list(prompt)
    with torch.inference_mode():
        for _ in range(5):
            read.append(int(model(Batch.of([read]))[-1].argmax()))
    assert capsys.readouterr().out == f"{read[len(prompt) :]}\n"


def test_ctranslate2_exports_only_translators(foveate: Any, exports: Exports, tmp_path: Path) -> None:
    run, _ = exports["classify"]
    said = foveate("export", run, "--to", "ctranslate2", tmp_path / "out")
    assert said.code == 2
    assert "is a run of the task classify. Export it with `--to onnx`." in said.err


def test_what_has_no_operators_is_named(foveate: Any, exports: Exports, tmp_path: Path) -> None:
    data = exports["tag"][0].parent / "tagged.txt"
    options = ("--set", "model.encoder=ran", "--set", "train.steps=1")
    assert foveate("train", "tag", "--data", data, *SMALL, *options, "--out", tmp_path / "run").code == 0
    said = foveate("export", tmp_path / "run", "--to", "onnx", tmp_path / "out")
    assert (said.code, said.out) == (2, "")
    assert "its encoder is a recurrent attention network. Foveate's own engine runs every model." in said.err
    assert not (tmp_path / "out").exists()
