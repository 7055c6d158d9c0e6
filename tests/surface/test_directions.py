"""One model of several languages, from its data to the command line, Python and a service."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from foveate import Translator
from foveate.config import build
from foveate.errors import DataError, UsageError
from foveate.storage.run import read_run
from foveate.tasks.served import Served
from foveate.tasks.translate.light_translator import LightTranslator
from foveate.tasks.translate.served_translator import ServedTranslator
from foveate.tasks.translate.task import DataConfig, TranslateConfig, TranslateTask

EXAMPLES = Path(__file__).parents[2] / "examples"
LETTERS = "abcdef"
SETTINGS = (
    *("data.direction_column=0", "data.temperature=3", "data.max_tokens=512", "data.held_out=20"),
    *("source_tokeniser=word", "joint_vocabulary=true", "model=transformer", "model.share=all"),
    *("model.encoder_layers=1", "model.decoder_layers=1", "model.block.model_dim=32", "model.block.num_heads=2"),
    *("model.block.feedforward_dim=64", "model.block.dropout=0", "label_smoothing=0"),
    *("train.steps=150", "train.learning_rate=8e-3", "train.validate_every=75", "train.schedule.warmup=20"),
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters, which become capitals in the language `up`, and the letter after each in the language `next`."""
    path = tmp_path_factory.mktemp("directions") / "pairs.tsv"
    rows = []
    for first in LETTERS:
        for second in LETTERS:
            for third in LETTERS:
                word = f"{first} {second} {third}"
                rows.append(f"en-up\t{word}\t{word.upper()}")
                if third in "abc":
                    rows.append(f"en-next\t{word}\t{' '.join(chr(ord(letter) + 1) for letter in word.split())}")
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def several(table: Path, foveate: Any) -> Path:
    run = table.parent / "run"
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    said = foveate("train", "translate", "--source", table, "--out", run, *settings, "--no-tune", "--threads", "1")
    assert said.code == 0, said.err
    return run


def test_the_tag_decides_what_one_model_writes(foveate: Any, several: Path) -> None:
    translator = Translator.load(several)
    assert translator.into("up").translate("a b c").text == "A B C"
    assert translator.into("next").translate("a b c").text == "b c d"
    for language, text in (("up", "A B C"), ("next", "b c d")):
        assert LightTranslator.load(several).into(language).translate("a b c").text == text
        assert foveate("translate", several, "a b c", "--to", language).out == f"{text}\n"
    alignment = translator.into("next").align("a b c")
    assert alignment.source == ("<2next>", "a", "b", "c", "</s>")


def test_commands_name_the_language(foveate: Any, several: Path, table: Path, tmp_path: Path) -> None:
    said = foveate("translate", several, "a b")
    assert said.code == 2
    assert "several languages: next, up. Name one with --to" in said.err
    assert "does not write 'fr', but next, up" in foveate("translate", several, "a b", "--to", "fr").err
    assert "one direction only" in foveate("translate", "en-fr", "Yes.", "--to", "fr").err
    page = tmp_path / "page.html"
    assert foveate("look", several, "a b", "--to", "up", "--html", page).code == 0
    assert foveate("look", several, "a b", "--to", "up", "--why").code == 0
    tests = tmp_path / "tests.tsv"
    tests.write_text("a b\tA B\nc d\tC D\n")
    scored = foveate("evaluate", several, "--source", tests, "--to", "up", "--metrics", "bleu,chrf", "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out)["chrF2"]["value"] > 50
    gold = tmp_path / "gold.links"
    gold.write_text("0-0 1-1\n0-0 1-1\n")
    aligned = foveate("evaluate", several, "--source", tests, "--to", "up", "--gold", gold, "--per-head", "--json")
    assert aligned.code == 0, aligned.err  # the tag is no word of the source


def test_a_service_is_told_the_language(several: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served: Served = ServedTranslator(Translator.load(several), several)
    assert [each.value["text"] for each in served.answer(["a b c"], {"to": "up"})] == ["A B C"]
    assert served.answer(["a b c"], {"to": "next"})[0].value["text"] == "b c d"
    assert served.explain("a b c", {"to": "next"})["columns"][0] == "<2next>"
    monkeypatch.setattr(Translator, "trace", None)  # the sample is traced once for all languages
    assert served.explain("a b c", {"to": "up"})["columns"][0] == "<2up>"
    assert served.flight() is None
    with pytest.raises(UsageError, match="to is the language to write, one of next, up, got None"):
        served.answer(["a b c"], {})


def test_every_direction_and_domain_is_scored(
    several: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for example in ("english_french", "five_languages"):
        monkeypatch.syspath_prepend(str(EXAMPLES / example))
    (tmp_path / "test.en-up.letters.tsv").write_text("a b c d\tA B C D\na b c a b c\tA B C A B C\n")
    (tmp_path / "test.en-next.letters.tsv").write_text("a b c\tb c d\n")
    before = set(sys.modules)
    program = importlib.import_module("direction_scores")
    out = tmp_path / "scores.json"
    assert program.main([str(several), str(tmp_path), "--out", str(out)]) == 0
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").is_relative_to(EXAMPLES):
            del sys.modules[name]
    rows = {row["direction"]: row for row in json.loads(out.read_text())["rows"]}
    assert {direction: row["sentences"] for direction, row in rows.items()} == {"en-up": 2, "en-next": 1}
    assert rows["en-next"]["chrf"] == 100
    assert "tok:13a" in rows["en-up"]["signature"]
    assert "| en-next | letters | 1 |" in capsys.readouterr().out
    written = json.loads(out.with_suffix(".translations.json").read_text(encoding="utf-8"))
    assert written["en-next letters"] == ["b c d"]


def test_data_of_other_directions_are_refused(table: Path, several: Path, tmp_path: Path) -> None:
    def prepared(text: str, **settings: Any) -> None:
        path = tmp_path / "data.tsv"
        path.write_text(text * 12)
        data = DataConfig(source=str(path), valid_source=str(path), **settings)
        TranslateTask.prepare(TranslateConfig(data=data, initialise_from=str(several)), tmp_path / "run")

    with pytest.raises(DataError, match=r"has pairs of en-fr, but the model has only en-next, en-up"):
        prepared("en-fr\ta\tb\n", direction_column=0)
    with pytest.raises(DataError, match=r"data.tsv:1: 'a' is not a direction"):
        prepared("a\ta\tb\n", direction_column=0)
    with pytest.raises(DataError, match=r"do not say their directions"):
        prepared("a\tb\n")
    with pytest.raises(UsageError, match=r"data.shares: The model does not translate en-fr, but en-next, en-up"):
        prepared("en-up\ta\tA\n", direction_column=0, shares={"en-fr": 2.0})
    with pytest.raises(ValueError, match="temperature balances directions"):
        DataConfig(temperature=2.0)
    with pytest.raises(ValueError, match="shares balance directions"):
        DataConfig(shares={"en-up": 2.0})
    with pytest.raises(ValueError, match="shares of en-up must be a finite number above 0, got 0"):
        DataConfig(direction_column=0, shares={"en-up": 0.0})


def test_batches_and_report_have_the_directions_of_the_data(several: Path) -> None:
    config = build(
        TranslateConfig, {name: value for name, value in read_run(several).config.items() if name != "train"}
    )
    task = TranslateTask.open(config, several)
    tags = {task.source_tokeniser.into(to).encode("a")[0]: to for to in ("next", "up")}
    shown = set()
    for step in range(task.steps_per_epoch):
        batch = task.batch(step)
        (to,) = {tags[int(first)] for first in batch.source.ids[:, 0]}
        words = [task.target_tokeniser.decode(row.tolist()) for row in batch.target.ids]
        assert all(text.isupper() == (to == "up") for text in words)
        shown.add(to)
    assert shown == {"next", "up"}
    assert "--to next" in (several / "report.html").read_text(encoding="utf-8")
