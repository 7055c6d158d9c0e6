"""Several sentences on one line, and what a model has never seen: what `translate` and its neighbours say."""

import builtins
import io
import sys
from pathlib import Path
from typing import Any

import pytest

from foveate import Translator
from foveate.cli import main
from foveate.decode import BeamConfig, Hypothesis, SampleConfig
from foveate.errors import DataError, SetupError
from foveate.tasks.translate.light_translator import LightTranslator
from foveate.tasks.translate.paragraph import Paragraph, ParagraphTranslator, sentences
from foveate.tasks.translate.translation import Translation

THREE = "The black cat is sleeping. Where is the house? I have two dogs."


@pytest.fixture(scope="module")
def shipped() -> Translator:
    return Translator.load("en-fr")


def said(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    assert main(arguments) == 0
    captured = capsys.readouterr()
    return captured.out, captured.err


@pytest.mark.parametrize(
    "text",
    [
        "Mr. Smith sleeps. Why? It is 3.5 a.m.",
        "One.  Two! ",
        "",
        " ",
        "no end",
        "今天天气很好。我们去公园吧！",
        "سلام. حال شما چطور است؟ خوبم.",
        "a .\t. b.  . c",
    ],
)
def test_sentences_are_the_text_again(text: str) -> None:
    assert "".join(sentences(text)) == text
    assert all(part.strip() for part in sentences(text)) or not text.strip()


def test_a_line_of_several_sentences_is_translated_one_by_one(
    shipped: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = [one.text for one in shipped.translate([part.strip() for part in sentences(THREE)])]
    assert len(alone) == 3
    out, _ = said(["translate", "en-fr", THREE, "The black cat is sleeping."], capsys)
    assert out.splitlines() == [" ".join(alone), alone[0]]
    assert said(["translate", "en-fr", THREE, "--no-split"], capsys)[0].strip() == shipped.translate(THREE).text


def test_each_line_in_is_one_line_out(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [THREE, "", "A dog.", "   "]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode() + b"\n")))
    out, _ = said(["translate", "en-fr"], capsys)
    assert len(out.splitlines()) == 4
    assert [bool(line) for line in out.splitlines()] == [True, False, True, False]


def test_each_sentence_has_its_alignment(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(["translate", "en-fr", "The cat sleeps. The dog eats.", "--align"], capsys)
    assert out.count("not looked at") == 2
    assert out.splitlines()[0].startswith("Le chat dort. Le chien")
    assert not set("▁#") & set(out)


def test_hypotheses_are_those_of_whole_lines(shipped: Translator, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(["translate", "en-fr", THREE, "--n-best", "2", "--beam", "2"], capsys)
    assert len(out.splitlines()) == 2
    assert main(["translate", "en-fr", THREE, "--n-best", "2", "--split"]) == 2
    assert "--n-best prints hypotheses of whole lines" in capsys.readouterr().err


def test_evaluation_never_splits(shipped: Translator) -> None:
    assert len(shipped.translate([THREE])) == 1
    assert len(ParagraphTranslator(shipped, split=False).translate([THREE])[0].parts) == 1
    assert len(ParagraphTranslator(shipped).translate([THREE])[0].parts) == 3


def test_a_model_that_has_learned_from_paragraphs_gets_them_whole(tmp_path: Path) -> None:
    pairs = ["a cat. a dog.\tun chat. un chien.", "a dog. a cat.\tun chien. un chat."] * 20
    (tmp_path / "pairs").write_text("\n".join(pairs) + "\n")
    run = tmp_path / "run"
    settings = ["train.steps=1", "train.validate_every=1", "source_tokeniser.kind=word", "target_tokeniser.kind=word"]
    options = [part for setting in settings for part in ("--set", setting)]
    assert main(["train", "translate", "--source", str(tmp_path / "pairs"), "--out", str(run), *options]) == 0
    translator = Translator.load(run)
    assert ParagraphTranslator(translator, run).reads_paragraphs
    assert len(ParagraphTranslator(translator, run).translate(["a cat. a dog."])[0].parts) == 1
    assert len(ParagraphTranslator(translator).translate(["a cat. a dog."])[0].parts) == 2


def test_without_the_package_texts_stay_whole_and_a_sentence_says_so(
    shipped: Translator, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = builtins.__import__

    def missing(name: str, *others: Any, **more: Any) -> Any:
        if name == "sentencex":
            raise ImportError(name)
        return found(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    monkeypatch.delitem(sys.modules, "sentencex", raising=False)
    out, err = said(["translate", "en-fr", THREE, THREE], capsys)
    assert out.splitlines() == [shipped.translate(THREE).text] * 2
    assert err.count("pip install sentencex") == 1
    assert main(["translate", "en-fr", THREE, "--split"]) == 4
    with pytest.raises(SetupError, match="sentencex"):
        sentences(THREE)


def test_what_the_model_has_never_seen_is_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = said(["translate", "en-fr", "Hello 😀 world.", "😀 again, and 你."], capsys)
    assert err.count("😀") == 1
    assert "vocabulary lacks '😀'" in err
    assert "vocabulary lacks '你' and spells it in bytes: what it says about it may be a guess." in err
    assert "vocabulary lacks" not in said(["translate", "en-fr", "The cat sleeps."], capsys)[1]


def test_parts_of_letters_are_not_printed_silently() -> None:
    from foveate.tasks.stranger import Strangers

    heard: list[str] = []
    strangers = Strangers(Translator.load("en-fr").source_tokeniser, heard.append)
    assert strangers.broken("a \ufffd b") == "a \ufffd b"
    strangers.broken("c \ufffd")
    assert len(heard) == 1
    assert "incomplete characters" in heard[0]


@pytest.mark.parametrize("word", ["System.Out", "File!Save", "Example.Com", "README.Debian", "a.B"])
def test_a_word_with_a_full_stop_inside_is_not_cut(word: str) -> None:
    assert sentences(f"Use {word} in Java. It works.") == [f"Use {word} in Java. ", "It works."]


MANY = Path(__file__).parents[2] / "examples/five_languages/model"


@pytest.mark.parametrize(
    ("to", "text", "parts"),
    [
        ("en", "Er kommt am 3. Mai 2020 an. Warum?", ["Er kommt am 3. Mai 2020 an. ", "Warum?"]),
        ("en", "А. С. Пушкин родился в Москве. Почему?", ["А. С. Пушкин родился в Москве. ", "Почему?"]),
        ("en", "黑猫在睡觉。为什么？", ["黑猫在睡觉。", "为什么？"]),
        ("zh", "Mr. Smith sleeps. Why?", ["Mr. Smith sleeps. ", "Why?"]),
    ],
)
def test_sentences_end_as_in_the_languages_that_the_model_reads(to: str, text: str, parts: list[str]) -> None:
    paragraphs = ParagraphTranslator(Translator.load(MANY).into(to))
    assert paragraphs.sentences(text) == parts
    assert set(paragraphs.languages) == ({"de", "fa", "ru", "zh"} if to == "en" else {"en"})


def test_a_space_divides_sentences_by_the_script_that_is_written() -> None:
    def joined(*texts: str) -> str:
        return Paragraph("", tuple(Translation("", (text,), ()) for text in texts)).text

    assert joined("Black sleeps.", "What?") == "Black sleeps. What?"
    assert joined("猫睡觉。", "为什么？”", "是的。") == "猫睡觉。为什么？”是的。"
    assert joined("猫睡觉.", "为什么？") == "猫睡觉. 为什么？"
    assert joined("", "a.", "", "b.") == "a. b."


def test_a_line_break_that_a_model_writes_is_a_space(shipped: Translator) -> None:
    """Its vocabulary spells in bytes, of which one is a line break."""
    tokeniser = shipped.target_tokeniser
    numbers = [tokeniser.pieces([number])[0] for number in range(tokeniser.vocab_size)]
    tokens = tuple(numbers.index(piece) for piece in ("▁chat", "<0x0A>", "<0x09>", "▁chien"))
    assert tokeniser.decode(tokens) == "chat\n\t chien"
    assert shipped.written("cat", [Hypothesis(tokens, -1.0, -1.0, True)]).text == "chat   chien"
    light = LightTranslator.load("en-fr")
    assert light.target_tokeniser.decode(tokens) == "chat\n\t chien"
    found = [Hypothesis(tokens, -1.0, -1.0, True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("foveate.tasks.translate.light_translator.search", lambda *parts, **more: found)
        assert light.translate("cat").text == "chat   chien"


def test_sentences_have_the_number_and_the_noise_of_their_text(shipped: Translator) -> None:
    """A text is sampled alike whatever stands before it, and two sentences of a text have noises of their own."""
    paragraphs, config = ParagraphTranslator(shipped), SampleConfig(seed=3)
    one, several = "A dog eats. A dog eats. A dog eats.", "The cat sleeps. Why? It is late."
    whole = paragraphs.translate([several, one], config=config)
    assert whole[1].text == paragraphs.translate([one], config=config, first=1)[0].text
    assert len({part.text for part in whole[1].parts}) > 1
    single = paragraphs.translate(["A dog eats."], config=config, first=1)[0]
    assert single.text == whole[1].parts[0].text
    short = Translator.load("en-fr")
    short.model.max_length = 40
    with pytest.raises(DataError, match="Input 2 has"):
        ParagraphTranslator(short).translate([several, "word " * 60], config=config)


def test_the_least_length_leaves_room_for_the_end(shipped: Translator) -> None:
    for translator in (shipped, LightTranslator.load("en-fr")):
        made = translator.translate("Yes.", config=BeamConfig(beam=2, min_length=20))
        assert len(made.hypotheses[0].tokens) >= 20
