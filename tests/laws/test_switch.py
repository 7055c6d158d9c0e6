"""What is written with words or heads switched off scores the same when it is forced with the same switches."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from importlib.util import find_spec
from typing import Any, get_args

import numpy as np
import pytest
import torch

from foveate.attention import AdditiveConfig, Attention, AttentionConfig
from foveate.attention.efficient import EfficientConfig, LinformerConfig, SinkhornConfig
from foveate.data.label import Labels
from foveate.data.tokeniser import CharacterTokeniser, WordTokeniser
from foveate.decode import BeamConfig
from foveate.errors import UsageError
from foveate.inspect import Trace
from foveate.inspect.ablation import switched_off
from foveate.inspect.answer_switch import (
    Ablation,
    Ablator,
    ModelAblator,
    TextAblator,
    looking,
    single_switches,
    words_of,
)
from foveate.inspect.trace import Track, observe
from foveate.models import BahdanauConfig, BERTConfig, GPTConfig, LuongConfig, TransformerConfig
from foveate.models.classifier import ClassifierConfig
from foveate.models.tagger import TaggerConfig
from foveate.nn.encoder import TransformerEncoderConfig
from foveate.nn.prepared import flat_block
from foveate.nn.transformer_block import BlockConfig
from foveate.serve import Session
from foveate.tasks.classify.use import TextClassifier
from foveate.tasks.language_model.use import Generator
from foveate.tasks.masked_language_model.use import Filler
from foveate.tasks.sight import ReadingSight
from foveate.tasks.tag.task import WordVocabulary
from foveate.tasks.tag.use import SentenceTagger
from foveate.tasks.translate.engine import PACKAGES, EngineName
from foveate.tasks.translate.translation_ablator import TranslationAblator
from foveate.tasks.translate.translation_rerunner import TranslationRerunner
from foveate.tasks.translate.translation_trace import trace_of
from foveate.tasks.translate.use import Translator

TEXT = "a red dog saw"
KNOWN = WordTokeniser.train([TEXT])
LETTERS = CharacterTokeniser.train([TEXT])
NAMES = Labels(["x", "y", "z"])
BLOCK = BlockConfig(model_dim=16, num_heads=2, feedforward_dim=24)
TRANSLATORS: dict[str, Any] = {
    "transformer": TransformerConfig(block=BLOCK, encoder_layers=1, decoder_layers=2),
    "transformer pre": TransformerConfig(block=replace(BLOCK, norm="pre"), encoder_layers=1, decoder_layers=1),
    "bahdanau": BahdanauConfig(embedding_dim=16, hidden_dim=16, maxout_dim=16),
    "luong": LuongConfig(embedding_dim=16, hidden_dim=16, attention=AttentionConfig(score=AdditiveConfig())),
}
SWITCHES: dict[str, Any] = {"words": {"keys": [1, 2]}, "heads": {"head": 0}}


def strong(model: Any) -> Any:
    """A model whose attention matters: weights of the size that training makes."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(0.1 * torch.randn_like(parameter))
    return model


def translator(name: str, engine: EngineName = "own") -> Translator:
    torch.manual_seed(2)
    model = strong(TRANSLATORS[name].build(*[KNOWN.vocab_size] * 2))
    return Translator(model, KNOWN, KNOWN, BeamConfig(beam=4, max_length=6), engine=engine)


def off(model: Any, trace: Trace, switches: Any) -> AbstractContextManager[None]:
    return switched_off(
        model, heads=heads_of(trace, switches), keys=switches.get("keys", ()), sites=looking(trace, "source")
    )


def heads_of(trace: Trace, switches: Any) -> list[tuple[str, int]]:
    """The first head of every site, as a switch names it."""
    return [(site.name, switches["head"]) for site in trace.sites] if "head" in switches else []


CASES = [
    pytest.param(name, path, id=f"{name}, {path}")
    for name in TRANSLATORS
    for path in (["kernel", "plain"] if name.startswith("transformer") else ["plain"])
]


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
@pytest.mark.parametrize(("name", "path"), CASES)
def test_what_is_written_with_switches_scores_the_same_when_it_is_forced(
    name: str, path: str, switches: Any, beam: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "plain":  # steps by torch alone, without our kernels
        monkeypatch.setattr(flat_block, "kernels", lambda: None)
        monkeypatch.setattr("foveate.nn.prepared.flat_step.kernels", lambda: None)
    using = translator(name)
    using.config = BeamConfig(beam=beam, num_best=min(beam, 2), max_length=6)
    first = using.translate(TEXT)
    trace, whole = trace_of(using, first), using.score(first)
    with off(using.model, trace, switches):
        written = using.translate(TEXT)
        for text, hypothesis in zip(written.texts, written.hypotheses, strict=True):
            forced = using.score(replace(written, texts=(text,), hypotheses=(hypothesis,)))
            assert forced == pytest.approx(hypothesis.log_probability, abs=1e-4)
        assert abs(using.score(first) - whole) > 1e-3, "the switches change nothing, and prove nothing"
    assert using.score(first) == whole


@pytest.mark.parametrize("engine", get_args(EngineName))
def test_switches_reach_the_answer_whatever_engine_wrote_it_before(engine: EngineName) -> None:
    switches = SWITCHES["words"] | SWITCHES["heads"]
    if engine in PACKAGES and find_spec(PACKAGES[engine]) is None:
        pytest.skip(f"{PACKAGES[engine]} is not installed")
    using, own = translator("transformer", engine), translator("transformer")
    first = own.translate(TEXT)
    trace = trace_of(own, first)
    with off(own.model, trace, switches):
        written = own.translate(TEXT)
        score = own.score(written)
    assert written.text != first.text, "the switches change no word, and prove nothing"
    site, chosen, tokens = trace.sites[trace.opening[0]].name, heads_of(trace, switches), switches["keys"]
    before = using.translate(TEXT)
    answer = TranslationAblator(using, before, trace)(heads_off=chosen, tokens_off=tokens, site=site, head=None)
    assert answer.tracks["target"].text == written.text
    assert answer.log_probability_before == pytest.approx(own.score(before), abs=1e-4)
    again = TranslationAblator(using, written, trace, forced=True)
    forced = again(heads_off=chosen, tokens_off=tokens, site=site, head=None)
    assert forced.log_probability == pytest.approx(written.hypotheses[0].log_probability, abs=1e-3)
    assert forced.log_probability == pytest.approx(score, abs=1e-5)
    assert forced.tracks["target"].text == written.text
    rerun = TranslationRerunner(using, before, trace)(TEXT, None, heads_off=chosen, tokens_off=tokens)
    assert rerun.trace.tracks["target"].text == written.text


def tagger() -> SentenceTagger:
    vocabulary = WordVocabulary(KNOWN, LETTERS, NAMES, in_pieces=False)
    layers = TransformerEncoderConfig(block=BLOCK, num_layers=2)
    return SentenceTagger(
        strong(TaggerConfig(encoder=layers).build(KNOWN.vocab_size, 3, LETTERS.vocab_size)), vocabulary
    )


def classifier() -> TextClassifier:
    layers = TransformerEncoderConfig(block=BLOCK, num_layers=2)
    return TextClassifier(strong(ClassifierConfig(encoder=layers).build(KNOWN.vocab_size, 3)), KNOWN, NAMES)


def generator() -> Generator:
    return Generator(strong(GPTConfig(block=BLOCK, num_layers=2).build(KNOWN.vocab_size)), KNOWN)


def filler() -> Filler:
    return Filler(strong(BERTConfig(block=BLOCK, num_layers=2, max_length=32).build(KNOWN.vocab_size + 1)), KNOWN)


@pytest.mark.parametrize("switches", SWITCHES.values(), ids=SWITCHES)
def test_a_label_has_the_probability_that_classifying_with_the_switches_gives_it(switches: Any) -> None:
    torch.manual_seed(1)
    using = classifier()
    trace, before = using.trace(TEXT), using.classify(TEXT)
    site, head = trace.sites[trace.opening[0]].name, trace.opening[1]
    answer = TextAblator(using, TEXT, trace)(
        heads_off=heads_of(trace, switches), tokens_off=switches.get("keys", ()), site=site, head=head
    )
    with off(using.model, trace, switches):
        now = using.classify(TEXT)
    assert answer.log_probability == pytest.approx(np.log(now.probabilities[before.label]), abs=1e-4)
    assert answer.log_probability_before == pytest.approx(np.log(before.probabilities[before.label]), abs=1e-4)
    assert answer.log_probability != answer.log_probability_before
    assert answer.tracks["target"].labels == (now.label,)


READERS: dict[str, Callable[[], Any]] = {"tags": tagger, "label": classifier, "GPT": generator, "gaps": filler}


def ablator(name: str) -> tuple[Ablator, Trace]:
    torch.manual_seed(5)
    if name in TRANSLATORS:
        using = translator(name)
        first = using.translate(TEXT)
        trace = trace_of(using, first)
        return TranslationAblator(using, first, trace), trace
    text = "a red ___ saw" if name == "gaps" else TEXT
    reader = READERS[name]()
    trace = reader.trace(text)
    return TextAblator(reader, text, trace), trace


@pytest.mark.parametrize("name", [*TRANSLATORS, *READERS])
def test_without_switches_the_answer_stays_and_a_word_that_is_off_is_hidden(name: str) -> None:
    asked, trace = ablator(name)
    number, head = trace.opening
    site = trace.sites[number]
    same = asked(heads_off=(), tokens_off=(), site=site.name, head=head)
    assert same.log_probability == same.log_probability_before
    assert same.header(trace.tracks)["sequences"] == {}
    weights = [site.weights(each) for each in (range(site.heads) if head is None else [head])]
    mean = np.mean([np.where(True if rule is None else rule, weight, 0) for weight, rule in weights], axis=0)
    np.testing.assert_allclose(np.nan_to_num(same.weights), mean, atol=5e-3)
    changed = asked(heads_off=(), tokens_off=(2,), site=site.name, head=head)
    assert np.isnan(changed.weights[:, 2]).all()
    assert changed.log_probability != same.log_probability
    silent = asked(
        heads_off=[(site.name, each) for each in range(site.heads)], tokens_off=(), site=site.name, head=None
    )
    assert not np.nan_to_num(silent.weights).any()
    again = asked(heads_off=(), tokens_off=(), site=site.name, head=head)
    assert again.log_probability == same.log_probability, "what was switched off is on again"
    for tokens, said in (
        ([99], "no token 99"),
        ([-1, 2], "no token -1"),
        (range(len(trace.tracks["source"])), "leave one on"),
    ):
        with pytest.raises(UsageError, match=said):
            asked(heads_off=(), tokens_off=tokens, site=site.name, head=head)


@pytest.mark.parametrize("name", ["transformer", "tags"])
def test_a_page_has_the_answers_of_the_server(name: str) -> None:
    asked, trace = ablator(name)
    number, head = trace.opening
    switches = single_switches(asked, trace)
    assert [(each.tokens_off[0], each.tokens_off[-1] + 1) for each in switches] == words_of(trace.tracks["source"])
    for each in switches[:2]:
        alone = asked(heads_off=(), tokens_off=each.tokens_off, site=trace.sites[number].name, head=head)
        assert alone.header(trace.tracks) == each.header(trace.tracks)


@pytest.mark.parametrize("kind", get_args(EfficientConfig))
def test_a_word_that_is_off_reaches_nothing_wherever_switches_are_offered(kind: Any) -> None:
    torch.manual_seed(1)
    layers = TransformerEncoderConfig(block=replace(BLOCK, encoder_attention=kind()), num_layers=1)
    using = TextClassifier(strong(ClassifierConfig(encoder=layers).build(KNOWN.vocab_size, 3)), KNOWN, NAMES)
    sights = [ReadingSight(using, text) for text in (TEXT, TEXT.replace("red", "saw"))]
    assert (sights[0].ablator is None) == (kind in (LinformerConfig, SinkhornConfig))
    if sights[0].ablator is None:
        return
    for off, alike in (([2], True), ([], False)):
        first, second = (
            sight.ablator(heads_off=(), tokens_off=off, site="pooling.attention", head=None).weights for sight in sights
        )
        assert np.allclose(first, second, atol=1e-6, equal_nan=True) == alike


class Twice(torch.nn.Module):
    """One attention, which reads the words and then its own answer."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()

    def forward(self, x: Any) -> Any:
        for _ in range(2):
            x = self.attention.run(query=x, key=x, value=2 * x)
        return x


class TwiceAblator(ModelAblator):
    def read(self) -> Trace:
        return twice(self.model)

    def score(self) -> None:
        return None


def twice(model: Any) -> Trace:
    with observe(model) as recording, torch.no_grad():
        model(torch.arange(12.0).view(1, 1, 3, 4) / 6)
    return Trace.of(recording, tracks={"source": Track.of_pieces("abc")}, stored="float32")


def test_of_two_sites_with_one_name_the_chosen_one_is_shown() -> None:
    trace = twice(model := Twice())
    session = Session(trace, ablator=TwiceAblator(model, "source", trace))
    assert len({site.name for site in trace.sites}) == 1 < len(trace.sites)
    for number, site in enumerate(trace.sites):
        shown = session.ablate([], [], number, None)["weights"]
        np.testing.assert_allclose(np.array(shown), site.weights(0)[0], atol=1e-4)
    assert session.ablate([], [], 0, None)["weights"] != session.ablate([], [], 1, None)["weights"]


def test_a_page_has_no_number_that_json_lacks() -> None:
    cost = {"log_probability": -np.inf, "log_probability_before": np.nan}
    header = Ablation(tokens_off=(0,), tracks={}, weights=np.array([[np.nan, 0.5]]), **cost).header({})
    assert json.loads(json.dumps(header, allow_nan=False)) == {
        "tokens_off": [0], "sequences": {}, "weights": [[None, 0.5]], **dict.fromkeys(cost),
    }  # fmt: skip


def test_keys_of_something_else_than_an_attention_are_not_silently_left_on() -> None:
    model = torch.nn.ModuleDict({"a": Attention(), "b": torch.nn.Linear(2, 2)})
    with pytest.raises(UsageError, match="'b' is not an Attention"), switched_off(model, keys=[0], sites=["a", "b"]):
        pass


def test_what_is_not_there_is_not_switched_off_in_silence() -> None:
    site = Attention()
    model, x = torch.nn.ModuleDict({"a": site}), torch.randn(1, 2, 3, 4)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"heads": [("a", -1)]}, "A head to switch off is counted from 0, got -1"),
        ({"heads": [("a", 2)]}, "There is no head 2: this site has 2, counted from 0"),
        ({"keys": [-1], "sites": ["a"]}, "A key to switch off is counted from 0, got -1"),
        ({"keys": [0]}, "Keys are switched off at sites, and none is named"),
    ]
    for switches, message in cases:
        with pytest.raises(UsageError, match=message), switched_off(model, **switches):
            site.run(query=x, key=x, value=x)
