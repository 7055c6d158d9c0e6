"""One model of several languages, from its data to the command line, Python and a service."""

import importlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import openai
import pytest
import torch
from tests.surface.letter_languages import train, write_pairs
from tests.surface.service_process import ServiceProcess

from foveate import Translator
from foveate.config import build
from foveate.errors import DataError, UsageError
from foveate.storage.run import read_run
from foveate.tasks.served import Answered, Served
from foveate.tasks.side import Asked
from foveate.tasks.translate.light_translator import LightTranslator
from foveate.tasks.translate.served_translator import ServedTranslator
from foveate.tasks.translate.side import SIDE
from foveate.tasks.translate.task import DataConfig, TranslateConfig, TranslateTask

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("directions") / "pairs.tsv", capitals="up", following="next")


@pytest.fixture(scope="module")
def several(table: Path) -> Path:
    return train(table)


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
    said = foveate("translate", "en-fr", "Yes.", "--to", "fr").err
    assert "one direction only" in said
    assert "leave out --to fr" in said
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
    with pytest.raises(UsageError, match=r"name one of them as `to`\. It writes next, up"):
        served.answer(["a b c"], {})
    with pytest.raises(UsageError, match="Did you mean 'next'"):
        served.answer(["a b c"], {"to": "nxt"})


def test_questions_for_several_languages_are_answered_in_one_flight(several: Path) -> None:
    served = ServedTranslator(Translator.load(several), several)
    texts, noise = ["a b c", "f e d\n\n==PART==\nb b", "", "c", "a f b"], random.Random(3)
    alone = {(to, text): served.answer([text], {"to": to})[0] for to in ("up", "next") for text in texts}
    assert alone["up", "a b c"] != alone["next", "a b c"]
    flight = served.flight()
    assert flight is not None
    assert flight.serves("stream", {"to": "up"})
    assert not flight.serves("answer", {"to": "up", "beam": 2})
    every = {
        number: (noise.choice(("up", "next")), noise.choices(texts, k=noise.randint(1, 3))) for number in range(12)
    }
    waiting, answers, told = dict(every), dict[int, list[Answered]](), dict[int, list[str]]()
    while waiting or flight.busy:
        if waiting and noise.random() < 0.5:
            number = next(iter(waiting))
            to, asked = waiting.pop(number)
            tell = told.setdefault(number, []).append if len(asked) == 1 else None
            flight.admit(number, asked, {"to": to}, tell)
        answers |= dict(flight.tick())
    for number, (to, asked) in every.items():
        assert answers[number] == [alone[to, text] for text in asked]
        assert number not in told or "".join(told[number]) == alone[to, asked[0]].value["text"]
    for settings in ({}, {"to": "fr"}, {"to": ["up"]}):
        with pytest.raises(UsageError, match="next, up"):
            flight.admit(99, ["a"], settings)
    assert not flight.busy


def test_every_interface_of_a_service_names_the_language(several: Path) -> None:
    text, tensor = "a b c", {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a b c"]}
    with ServiceProcess(f"all={several}") as service:

        def asked(path: str, **fields: Any) -> Any:
            return service.client.post(path, json=fields).json()

        for to, expected in (("up", "A B C"), ("next", "b c d")):
            assert asked("/translate", q=text, source="en", target=to) == {"translatedText": expected}
            assert asked("/explain", source=text, to=to)["columns"][0] == f"<2{to}>"
            predicted = asked("/v1/models/all:predict", instances=[text], parameters={"to": to})["predictions"]
            assert [each["text"] for each in predicted] == [expected]
            whole = asked("/v2/models/all/infer", inputs=[tensor], parameters={"to": to})["outputs"][0]
            assert whole["data"] == [expected]
            assert asked("/models/all", inputs=text, parameters={"tgt_lang": to}) == [{"translation_text": expected}]
            client = openai.OpenAI(base_url=f"{service.address}/v1", api_key="none", max_retries=0)
            messages: Any = [{"role": "user", "content": text}]
            chat = client.chat.completions.create
            assert chat(model="all", messages=messages, extra_body={"to": to}).choices[0].message.content == expected
            parts = chat(model=f"all:{to}", messages=messages, stream=True)
            assert "".join(part.choices[0].delta.content or "" for part in parts) == expected
            model: Any = client.models.retrieve(f"all:{to}")
            assert (model.directions, model.settings) == ([["en", to]], ["beam", "alternatives", "to"])
        assert [each.id for each in client.models.list()] == ["all", "all:next", "all:up"]
        (languages,) = [each["targets"] for each in service.client.get("/languages").json() if each["code"] == "en"]
        assert sorted(languages) == ["next", "up"]
        assert asked("/detect", q=text) == [{"confidence": 0.0, "language": "en"}]
        automatic = asked("/translate", q=[text], source="auto", target="up")
        assert automatic["detectedLanguage"] == [{"confidence": 0.0, "language": "en"}]
        instances = [text, {"source": text, "to": "next"}]
        explained = asked("/v1/models/all:explain", instances=instances, parameters={"to": "up", "words": False})
        assert [each["columns"][0] for each in explained["explanations"]] == ["<2up>", "<2next>"]
        for path, fields, words in (
            ("/v1/models/all:predict", {"instances": [text]}, "name one of them as `to`. It writes next, up"),
            ("/v1/models/all:predict", {"instances": [text], "to": "up"}, "unknown field `to`"),
            ("/v2/models/all/infer", {"inputs": [tensor], "parameters": {"to": "fr"}}, "one of next, up, got 'fr'"),
            ("/models/all", {"inputs": text}, "name one as tgt_lang"),
            ("/explain", {"source": text}, "name one of them as `to`"),
            ("/v1/chat/completions", {"model": "all:nexd", "messages": messages}, "Did you mean 'next'"),
            ("/v1/chat/completions", {"model": "all:up", "to": "next", "messages": messages}, "Leave one out"),
        ):
            refused = service.client.post(path, json=fields)
            assert refused.status_code in (400, 422)
            assert words in refused.text


def test_a_comparison_translates_each_pair_into_its_language(several: Path, tmp_path: Path) -> None:
    settings = {name: value for name, value in read_run(several).config.items() if name != "train"}
    config = build(TranslateConfig, settings)
    task = TranslateTask.open(config, several)
    task.model = Translator.load(several).model
    assert SIDE.usual_metrics(task) == ("chrf", "perplexity")
    test = tmp_path / "test.tsv"
    test.write_text("en-up\ta b c\tA B C\nen-next\ta b c\tb c d\nen-up\tc c c\tC C C\n")
    request = Asked(metrics=("chrf", "sentence_error", "perplexity"), test={"source": str(test)}, lengths=(9,))
    SIDE.require_given(task, request)
    with torch.no_grad():
        values = SIDE.score(task, config, tmp_path, request).values
    assert values["chrf"] == 100
    assert values["sentence_error"] == 0
    test.write_text("en-fr\ta\tb\n")
    with pytest.raises(UsageError, match="does not translate en-fr"):
        SIDE.require_given(task, request)


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

    with pytest.raises(DataError, match=r"has pairs of en-fr, but the model has only en-next, en-up.* new_vocabulary"):
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
