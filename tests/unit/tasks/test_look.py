"""One text or several, a trace of any, and a first look, for everything that reads text."""

import re
import sys
import threading
import types
import webbrowser
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foveate.attention import Attention
from foveate.attention.explanation import explaining
from foveate.data.batch import Batch
from foveate.data.label import Labels
from foveate.data.tokeniser import CharacterTokeniser, WordTokeniser
from foveate.errors import DataError
from foveate.inspect import Alignment, Trace, observe, steps
from foveate.inspect.attribution import attention_rollout
from foveate.models import BERTConfig, GPTConfig, TransformerConfig
from foveate.models.classifier import ClassifierConfig
from foveate.models.tagger import TaggerConfig
from foveate.nn.encoder import TransformerEncoderConfig
from foveate.nn.transformer_block import BlockConfig
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.language_model.use import Generator
from foveate.tasks.masked_language_model.use import Filler
from foveate.tasks.tag.task import WordVocabulary
from foveate.tasks.tag.use import SentenceTagger
from foveate.tasks.translate.alignment_head import Head
from foveate.tasks.translate.translation import Translation
from foveate.tasks.translate.use import Translator

LINES = ["the cat sat", "a dog sat on the cat"]
BLOCK = BlockConfig(model_dim=64, num_heads=2, feedforward_dim=96)
POST = BlockConfig(model_dim=64, num_heads=2, feedforward_dim=96, norm="post")
ENCODER = TransformerEncoderConfig(block=BLOCK, num_layers=2)
WORDS = WordTokeniser.train(LINES)
SPELLING = CharacterTokeniser.train(LINES)


def translator() -> Translator:
    model = TransformerConfig(block=BLOCK, encoder_layers=2, decoder_layers=2).build(WORDS.vocab_size, WORDS.vocab_size)
    return Translator(model, WORDS, WORDS)


def generator() -> Generator:
    return Generator(GPTConfig(block=BLOCK, num_layers=2).build(WORDS.vocab_size), WORDS)


def filler() -> Filler:
    return Filler(BERTConfig(block=POST, num_layers=2, max_length=32).build(WORDS.vocab_size + 1), WORDS)


def tagger(pieces: bool = False) -> SentenceTagger:
    encoder: Any = BERTConfig(block=POST, num_layers=2, max_length=32) if pieces else ENCODER
    vocabulary = WordVocabulary(WORDS, SPELLING, Labels(["D", "N"]), in_pieces=pieces)
    sizes = WORDS.vocab_size, 2, SPELLING.vocab_size
    return SentenceTagger(TaggerConfig(encoder=encoder).build(*sizes), vocabulary)


def classifier() -> TextClassifier:
    return TextClassifier(ClassifierConfig(encoder=ENCODER).build(WORDS.vocab_size, 2), WORDS, Labels(["D", "N"]))


READERS = (translator, generator, filler, tagger, classifier)
each_reader = pytest.mark.parametrize("make", READERS, ids=lambda make: make.__name__)


def test_one_text_gives_what_a_list_of_it_gives() -> None:
    text = LINES[0]
    reader = translator()
    assert reader.translate(text) == reader.translate([text])[0]
    assert isinstance(reader.translate(text), Translation)
    assert reader.align(text) == reader.align([reader.translate(text)])[0] == reader.align(reader.translate(text))
    assert isinstance(reader.align(text), Alignment)
    assert tagger().tag(text).words == ("the", "cat", "sat")
    assert classifier().classify(text).text == text
    going, gaps = generator(), filler()
    assert going.generate([text, text], length=3)[0] == going.generate(text, length=3)
    assert gaps.fill(["the ___ sat", "a ___"])[0] == gaps.fill("the ___ sat")


def test_each_continuation_of_several_prompts_has_its_own_noise() -> None:
    going = generator()
    one, other = going.generate(["the cat", "the cat"], count=2, length=8)
    assert [*one, *other] == going.generate("the cat", count=4, length=8)


@each_reader
def test_whatever_reads_text_traces_it_along_its_words(make: Any) -> None:
    trace = make().trace("the cat sat")
    assert isinstance(trace, Trace)
    labels = trace.tracks["source"].labels
    assert [label for label in labels if not label.startswith("<")] == ["the", "cat", "sat"]
    assert all(site.key == "source" for site in trace.sites if site.kind == "self" and "decoder" not in site.name)


def test_a_tagger_notes_its_tags_and_a_gap_its_candidates() -> None:
    reader, gaps = tagger(), filler()
    assert reader.trace("the cat sat").tracks["source"].notes == reader.tag("the cat sat").tags
    track = gaps.trace("the ___ sat").tracks["source"]
    assert track.notes is not None
    lines = track.notes[track.labels.index("___")].split("\n")
    (choices,) = gaps.fill("the ___ sat", best=3).choices
    assert [float(line.split()[-1].removesuffix("%")) for line in lines] == [round(100 * share) for _, share in choices]
    assert [note for note in track.notes if note] == ["\n".join(lines)]


@each_reader
def test_words_that_are_not_in_the_vocabulary_stand_as_they_were_written(make: Any) -> None:
    labels = make().trace("the HELLO sat").tracks["source"].labels
    assert [label for label in labels if not label.startswith("<")] == ["the", "HELLO", "sat"]


def test_a_tagger_that_reads_pieces_has_them_along_its_axes() -> None:
    reader = tagger(pieces=True)
    trace = reader.trace("cat sat")
    assert trace.tracks["source"].labels == ("<s>", " ", *"cat", " ", *"sat", "</s>")
    first, second = reader.tag("cat sat").tags
    assert trace.tracks["source"].notes == ("", first, "", "", "", second, "", "", "", "")
    assert {site.key for site in trace.sites} == {"source"}


def test_a_translation_that_is_given_is_traced() -> None:
    trace = translator().trace("the cat", "a dog", gold=[(0, 1)])
    assert trace.tracks["target"].labels[:2] == ("a", "dog")
    assert trace.gold == ((0, 1),)


def test_rows_of_a_head_that_looks_after_reading_have_the_token_that_was_read() -> None:
    """Their weights are those of the alignment, also where links are given and for the words that mattered."""
    reader = translator()
    reader.head = Head(0, 1, "consuming")
    written = reader.forced("the cat", "a dog sat")
    trace = reader.trace("the cat", "a dog sat")
    own, other = (each for each in trace.sites if each.kind == "cross")
    assert (own.name, own.query, other.query) == (trace.opens[0], "read", "target")
    (aligned,) = reader.align([written])
    rows = [trace.tracks["read"].labels.index(word) for word in ("a", "dog", "sat")]
    np.testing.assert_allclose(own.weights(1)[0][rows].float(), aligned.weights[:3], atol=2e-3)
    linked = reader.trace("the cat", "a dog sat", gold=[(0, 1), (2, 0), (3, 2)])
    assert linked.gold == ((1, 1), (3, 0)), "nothing reads the end"
    assert {each.query for each in linked.sites if each.kind == "cross"} == {"read"}
    answer = reader.answer(written)
    np.testing.assert_array_equal(answer.view.rows, [1, 2, 3])
    np.testing.assert_array_equal(answer.seen_at(other.name, None).view.rows, [0, 1, 2])
    rolled = attention_rollout(answer).scores
    reader.head = Head(0, 1)
    np.testing.assert_allclose(rolled, attention_rollout(reader.answer(written)).scores, err_msg="all layers take part")
    assert {each.query for each in reader.trace("the cat", "a dog sat").sites if each.kind == "cross"} == {"target"}


@each_reader
def test_a_look_is_a_page_in_the_browser(
    make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    reader = make()
    trace = reader.look("the cat sat")
    assert isinstance(trace, Trace)
    (page,) = tmp_path.glob("foveate-*/look.html")
    assert opened == [page.as_uri()]
    assert "<html" in page.read_text()[:200]
    assert str(page) in capsys.readouterr().err
    reader.look("the cat sat", page=tmp_path / "mine.html")
    assert (tmp_path / "mine.html").exists()
    assert len(opened) == 1


def test_a_look_needs_no_folder_after_loading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    reader = tagger()._of("deep")
    reader.look("the cat sat", page="mine.html")
    assert "<title>deep: the cat sat</title>" in Path("mine.html").read_text()


def test_a_look_in_a_notebook_is_the_trace_which_shows_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))  # type: ignore[arg-type]
    monkeypatch.setattr(webbrowser, "open", lambda _: pytest.fail("a notebook needs no browser"))
    trace = filler().look("the cat sat")
    assert "iframe" in trace._repr_html_()


def test_looking_changes_nothing() -> None:
    reader = translator()
    before = reader.translate(LINES)
    reader.trace(LINES[0])
    assert reader.translate(LINES) == before
    assert not torch.is_inference_mode_enabled()


@each_reader
def test_steps_of_every_reader_go_from_the_query_to_the_context(make: Any) -> None:
    """Whatever the model runs in one piece: values are there, and the context follows from them."""
    torch.manual_seed(5)
    trace = make().trace("the cat sat")
    assert trace.pedigree.difference is not None
    assert trace.pedigree.difference < 1e-4
    for number, site in enumerate(trace.sites):
        walked = steps(trace, number, site.heads - 1, site.queries - 1)
        assert [step.symbol[0] for step in walked][-3:] == ["α", "α", "c"], site.name
        assert walked.remark == ""


def test_values_of_a_trace_are_those_that_attention_mixes() -> None:
    torch.manual_seed(5)
    going = generator()
    site = going.trace("the cat sat").sites[1]
    with explaining(), observe(going.model) as recording, torch.inference_mode():
        going.model(Batch.of([going.ids("the cat sat")]))
    _, record = recording
    assert torch.equal(site.tensors["value"], recording.values[id(record)][0].half())


def test_a_model_answers_in_one_thread_while_it_is_traced_in_another() -> None:
    """A trace changes nothing in the model, not even while its pass is repeated."""
    torch.manual_seed(5)
    going = generator()
    batch, main = Batch.of([going.ids("the cat sat")]), threading.current_thread()
    sites = [module for module in going.model.modules() if isinstance(module, Attention)]
    normalisers = [site.normaliser for site in sites]
    alone, passes = going.model(batch), []

    def look(*_: object) -> None:
        if threading.current_thread() is main:
            with ThreadPoolExecutor(1) as pool:
                same = torch.equal(pool.submit(going.model, batch).result(), alone)
            passes.append(same and all(site.normaliser is part for site, part in zip(sites, normalisers, strict=True)))

    hook = next(going.model.children()).register_forward_hook(look)
    trace = going.trace("the cat sat")
    hook.remove()
    assert passes == [True, True]
    assert trace.sites[1].tensors.keys() >= {"value"}


def test_texts_beyond_the_limit_say_why_values_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.inspect.value.LONGEST", 2)
    walked = steps(generator().trace("the cat sat"), 0, 0, 1)
    assert walked[-1].symbol == "α₁"
    assert walked.remark.startswith("The trace has no values here, so α·v and the context are missing.")


@pytest.mark.usefixtures("unchecked")
def test_arguments_other_than_texts_are_refused_in_a_sentence() -> None:
    verbs = (translator().translate, generator().generate, filler().fill, tagger().tag, classifier().classify)
    for verb in verbs:
        with pytest.raises(TypeError, match=r"^A text or a list of texts is needed, not int: 5\.$"):
            verb(5)
        with pytest.raises(TypeError, match=r"^Text 2 of the list is not a text but int: 5\.$"):
            verb(["the ___", 5])
    for make in READERS:
        with pytest.raises(TypeError, match="not int"):
            make().trace(5)
    assert len(tagger().tag([["the", "cat"], "sat"])) == 2


@pytest.mark.usefixtures("unchecked")
def test_align_says_what_it_takes() -> None:
    reader = translator()
    for both in ((["the cat"], ["a dog"]), ("the cat", "a dog")):
        with pytest.raises(TypeError, match=r"is a Head, not (list|str)\. .*translator\.forced\(source, target\)"):
            reader.align(*both)
    for wrong in (5, [5], b"ab"):
        with pytest.raises(TypeError, match="takes a translation, a text, or a list of these"):
            reader.align(wrong)  # type: ignore[call-overload]


@each_reader
def test_a_reader_says_what_it_is(make: Any) -> None:
    reader = make()
    count = sum(part.numel() for part in reader.model.parameters())
    assert repr(reader) == f"<{type(reader).__name__}: {type(reader.model).__name__} with {count:,} parameters>"


def test_a_loaded_reader_names_its_folder() -> None:
    assert re.fullmatch(r"<Translator of .*english_french: \w+ with [\d,]+ parameters>", repr(Translator.load("en-fr")))


def test_a_tagger_names_the_words_that_it_cannot_read() -> None:
    """A word of known letters is read by its spelling, where spellings are read; of others the word is named."""
    text = "the zebra acts zebra"
    assert tagger().strange(text) == ["zebra"]
    assert tagger(pieces=True).strange(text) == ["zebra"]
    silent = TaggerConfig(encoder=ENCODER, character_dim=0).build(WORDS.vocab_size, 2, SPELLING.vocab_size)
    assert SentenceTagger(silent, tagger().vocabulary).strange(text) == ["zebra", "acts"]


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize(
    ("word", "message"),
    [("the cat", "'the cat', is more than one word"), ("a\u00a0cat", "is more than one word"), ("", "'', is empty")],
)
def test_a_list_of_words_has_one_word_in_each_item(word: str, message: str, pieces: bool) -> None:
    with pytest.raises(DataError, match=rf"^Sentence 2: word 2, .*{message}\. "):
        tagger(pieces).tag([["the"], ["the", word, "sat"]])


@pytest.mark.usefixtures("unchecked")
def test_one_text_is_looked_at_and_several_are_refused_in_words() -> None:
    for make in READERS:
        with pytest.raises(TypeError, match="One text at a time is looked at, not list"):
            make().trace(["the cat", "a dog"])


@pytest.mark.usefixtures("unchecked")
def test_texts_of_an_array_are_read_as_those_of_a_list() -> None:
    texts = np.array(["the cat", "a dog"])
    reader = classifier()
    assert [each.text for each in reader.classify(texts)] == list(texts)
    assert len(tagger().tag(texts)) == len(translator().translate(texts)) == 2
