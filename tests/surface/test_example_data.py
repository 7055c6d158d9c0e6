"""Examples with data of their own: the pairs are what they say they are, and the configurations train."""

import importlib.util
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from foveate import machine

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZES = (
    *(
        "--no-tune",
        "--threads",
        "1",
        "--quiet",
        "--set",
        "model.block.model_dim=16",
        "--set",
        "model.block.num_heads=2",
    ),
    *("--set", "model.block.feedforward_dim=32", "--set", "source_tokeniser.vocab_size=600"),
    *("--set", "train.steps=6", "--set", "train.validate_every=3", "--set", "train.schedule.warmup=2"),
    *("--set", "data.max_tokens=1200"),
)
PLAY = """ROMEO AND JULIET

Enter ROMEO.

ROMEO.
Is the day [aside] so young?

BENVOLIO.
But new
struck nine.

[Exit.]

ROMEO.
Ay me! sad hours seem long.
"""
CODE = '"""Sorts.\n\nReads all of the lines that it is given, and writes them in the order of the alphabet again."""\n'


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name.replace('/', '_')}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_reply_follows_its_speech_and_plays_are_complete(tmp_path: Path) -> None:
    plays = tmp_path / "plays"
    plays.mkdir()
    for number in range(12):
        (plays / f"play{number:02}_gut.txt").write_text(PLAY.replace("nine", f"nine {number}"), encoding="utf-8")
    assert load("chat/dialogue").main([str(tmp_path / "chat"), "--plays", str(plays)]) == 0
    assert rows(tmp_path / "chat" / "test.tsv") == [
        ["Is the day so young?", "But new struck nine 6."],
        ["But new struck nine 6.", "Ay me! sad hours seem long."],
    ]
    train = (tmp_path / "chat" / "train.tsv").read_text(encoding="utf-8")
    assert len(train.splitlines()) == 20
    assert "nine 6" not in train
    assert "nine 7" not in train


def test_works_are_cleaned_and_on_one_side_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for number in range(12):
        (texts / f"play{number:02}_gut.txt").write_text(f"\n\nWork {number}.  \n\n\n\nEnd.\n", encoding="utf-8")
    (texts / "play06_gut_f.txt").write_text("Worke 6.\n", encoding="utf-8")
    assert load("shakespeare/plays").main([str(texts), str(tmp_path / "plays")]) == 0
    assert (tmp_path / "plays" / "test.txt").read_text() == "Work 6.\n\nEnd.\n\n"
    assert (tmp_path / "plays" / "valid.txt").read_text() == "Work 7.\n\nEnd.\n\n"
    assert "Worke" not in (tmp_path / "plays" / "train.txt").read_text()
    assert "test: 1 works" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        load("shakespeare/plays").main([str(tmp_path), str(tmp_path / "plays")])


def test_novels_are_read_from_what_is_kept_for_r(tmp_path: Path) -> None:
    def number(value: int) -> bytes:
        return value.to_bytes(4, "big")

    values = []
    for lines in (["EMMA", "", "Bath\u00e9  "], ["Persuasion", "Sir Walter"], ["NORTHANGER ABBEY"]):
        kept = [number(9) + number(len(line.encode())) + line.encode() for line in lines]
        value = (
            b"X\n" + number(3) + number(0) * 2 + number(5) + b"UTF-8" + number(16) + number(len(lines)) + b"".join(kept)
        )
        values.append(number(len(value)) + zlib.compress(value))
    other = b"X\n" + number(2) + number(0) * 2 + number(19) + number(1)
    values.append(number(len(other)) + zlib.compress(other))
    (tmp_path / "Rdata.rdb").write_bytes(b"".join(values))
    assert load("austen/novels").main([str(tmp_path / "Rdata.rdb"), str(tmp_path)]) == 0
    texts = [(tmp_path / f"{part}.txt").read_text(encoding="utf-8") for part in ("train", "valid", "test")]
    assert texts == ["EMMA\n\nBath\u00e9\n", "NORTHANGER ABBEY\n", "Persuasion\nSir Walter\n"]


def test_summaries_are_first_lines_and_modules_are_on_one_side(tmp_path: Path) -> None:
    for number in range(40):
        module = tmp_path / "code" / f"module{number}"
        module.mkdir(parents=True)
        (module / "sort.py").write_text(CODE.replace("lines", f"lines {number}"), encoding="utf-8")
    (tmp_path / "code" / "broken.py").write_text("def :", encoding="utf-8")
    assert load("summary/docstring").main([str(tmp_path / "out"), "--code", str(tmp_path / "code")]) == 0
    parts = {part: rows(tmp_path / "out" / f"{part}.tsv") for part in ("train", "valid", "test")}
    assert sum(map(len, parts.values())) == 40
    assert min(map(len, parts.values())) >= 1
    assert all(
        summary == "Sorts." and text.startswith("Reads all") for part in parts.values() for text, summary in part
    )


def test_files_of_other_encodings_are_read_and_those_without_a_text_left_out(tmp_path: Path) -> None:
    code = tmp_path / "code"
    (code / "folder.py").mkdir(parents=True)
    (code / "mark.py").write_bytes(b"\xef\xbb\xbf" + CODE.replace("lines", "lines 1").encode())
    (code / "latin.py").write_bytes(b"# coding: latin-1\n" + CODE.replace("Sorts", "Caf\xe9").encode("latin-1"))
    for name, character in {"half": "\\ud800", "zero": "\\0"}.items():
        (code / f"{name}.py").write_text(CODE.replace("lines", f"lines {character}"), encoding="utf-8")
    (code / ".#editor.py").symlink_to(tmp_path / "nowhere")
    (code / "deep.py").write_text(f"x = {'-' * 100_000}1", encoding="utf-8")
    assert load("summary/docstring").main([str(tmp_path / "out"), "--code", str(code)]) == 0
    pairs = [row for part in ("train", "valid", "test") for row in rows(tmp_path / "out" / f"{part}.tsv")]
    assert sorted(summary for _, summary in pairs) == ["Caf\xe9.", "Sorts."]


@pytest.mark.parametrize("name", ["chat", "summary"])
def test_it_trains_a_few_steps_and_answers(foveate: Any, name: str, tmp_path: Path) -> None:
    data = tmp_path / "data"
    if name == "chat":
        assert load("chat/dialogue").main([str(data), "--count", "120"]) == 0
    else:
        assert load("summary/docstring").main([str(data), "--most", "60"]) == 0
    parts = ("--source", data / "train.tsv", "--valid-source", data / "train.tsv")
    folder = tmp_path / "run"
    said = foveate("train", "translate", EXAMPLES / name / "run.toml", *parts, "--out", folder, *SIZES)
    assert said.code == 0, said.err
    text = rows(data / "train.tsv")[0][0]
    said = foveate("translate", folder, text, "--no-tune", "--set", "max_length=12")
    assert said.code == 0, said.err
    assert said.out.count("\n") == 1
    if name == "chat":
        words = ("translate", folder, text, "--no-tune", "--set", "seed=7")
        assert foveate(*words).out == foveate(*words).out


def test_senses_are_measured_by_layer_and_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "tune", machine.current)
    results = load("polysemy/run").main(["--small", "--uses", "8", "--out", str(tmp_path)])
    assert list(results) == ["static", "static, mean of context", "layer 0", "layer 1", "layer 2"]
    assert results["static"] == pytest.approx(7 / 15)  # of the others, one less is of a use's own kind
    assert all(0 <= share <= 1 for share in results.values())
    assert (tmp_path / "senses.svg").read_text(encoding="utf-8").startswith("<svg")


def test_uses_of_the_same_kind_are_separated_from_others() -> None:
    polysemy = load("polysemy/run")
    uses = [polysemy.Use(("saw",), 0, tag) for tag in ("NOUN", "VERB") * 8]
    apart = torch.tensor([[float(use.tag == "NOUN"), float(use.tag == "VERB")] for use in uses])
    assert polysemy.separated(uses, apart) == 1.0
    assert polysemy.separated(uses, torch.ones(16, 2)) == pytest.approx(7 / 15)
