"""Models behind an address: what they answer in flight is what they answer alone."""

import random
from collections.abc import Iterator
from copy import copy, deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch

from foveate.decode import BeamConfig, GreedyConfig
from foveate.errors import DataError, UsageError
from foveate.interruption import interruptible
from foveate.storage.run import read_run
from foveate.storage.shipped import run_folder
from foveate.tasks import task_of
from foveate.tasks.language_model.served_generator import GenerationFlight, ServedGenerator, _search
from foveate.tasks.language_model.use import Generator
from foveate.tasks.served import Answered
from foveate.tasks.translate.served_translator import ServedFlight, ServedTranslator
from foveate.tasks.translate.use import Translator

TEXTS = [
    "The cat sleeps.",
    "Good morning! The small black cat is sleeping. A man is reading.",
    "First line.\n\n==WEBLATE_PART==\nSecond line. And another sentence.\n",
    "",
    "   ",
    "A",
]


@pytest.fixture(scope="module")
def served() -> ServedTranslator:
    return ServedTranslator(Translator.load("en-fr"), run_folder("en-fr"))


def questions(seed: int) -> Iterator[list[str]]:
    noise = random.Random(seed)
    for _ in range(12):
        yield [noise.choice(TEXTS) for _ in range(noise.randint(1, 4))]


@pytest.fixture(scope="module", params=[None, GreedyConfig()], ids=["beams", "greedy"])
def searching(request: pytest.FixtureRequest) -> ServedTranslator:
    translator = Translator.load("en-fr")
    translator.config = translator.config if request.param is None else request.param
    return ServedTranslator(translator, run_folder("en-fr"))


def test_questions_in_flight_get_the_answers_that_they_get_alone(searching: ServedTranslator) -> None:
    served = searching
    alone = dict(zip(TEXTS, served.answer(TEXTS, {}), strict=True))
    for seed in range(2):
        flight, noise = served.flight(), random.Random(seed)
        assert flight is not None
        waiting, answers, dropped = dict(enumerate(questions(seed))), {}, set()
        every = dict(waiting)
        while waiting or flight.busy:
            if waiting and noise.random() < 0.3:
                number = next(iter(waiting))
                flight.admit(number, waiting.pop(number))
            if noise.random() < 0.03:
                number = noise.randrange(12)
                if number in every and number not in waiting and number not in answers:
                    flight.drop(number)
                    dropped.add(number)
            answers |= dict(flight.tick())
        assert answers.keys() == every.keys() - dropped
        for number, own in answers.items():
            assert own == [alone[text] for text in every[number]]


def test_greedy_translators_answer_in_batches_where_steps_are_python(served: ServedTranslator) -> None:
    own = copy(served)
    own.reader = copy(served.reader)
    own.reader.config = GreedyConfig(no_repeat_ngram=3)  # the kernel does not know it
    assert own.flight() is None
    own.reader.config = BeamConfig(no_repeat_ngram=3)
    assert own.flight() is not None


def test_a_sentence_beyond_the_positions_is_named_by_its_words(
    served: ServedTranslator, monkeypatch: pytest.MonkeyPatch
) -> None:
    flight = ServedFlight(served)
    monkeypatch.setattr(served.reader.model, "max_length", 6)
    with pytest.raises(DataError, match=r"^A sentence has \d+ tokens and an end, but the model has 6 positions"):
        flight.admit(17, ["Good morning. The child reads a book in the garden."])
    assert not flight.busy


def test_a_refused_question_leaves_nothing_behind(served: ServedTranslator) -> None:
    flight = ServedFlight(served)
    flight.admit(1, ["A cat."])
    with pytest.raises(UsageError):
        flight.admit(1, ["Again."])
    complete = []
    while flight.busy:
        complete += flight.tick()
    assert [number for number, _ in complete] == [1]


@pytest.fixture(scope="module")
def writer() -> ServedGenerator:
    return ServedGenerator(Generator.load(Path(__file__).parents[2] / "golden/version_0_1/runs/language_model_gpt"))


def test_what_is_told_of_a_stream_is_the_answer_up_to_its_end(writer: ServedGenerator) -> None:
    """No part of an end is told before it is known whether it is one."""
    served = writer
    settings = {"max_tokens": 20, "temperature": 1.0, "seed": 3}
    (whole,) = served.answer(["ab"], settings)
    text = whole.value["text"]
    for place in range(1, len(text) - 3, 3):
        ends = [text[place : place + 3], text[place : place + 2] + "\0"]
        parts: list[str] = []
        answer = served.stream("ab", {**settings, "stop": ends}, parts.append)
        assert answer.value == {"text": text.partition(ends[0])[0], "finished": True}
        assert "".join(parts) == answer.value["text"]
    end = text[-1] + "\0"
    parts = []
    assert served.stream("ab", {**settings, "stop": end}, parts.append).value == {"text": text, "finished": False}
    assert "".join(parts) == text, "the beginning of an end that does not come is told in the end"


def test_samples_without_a_seed_differ(writer: ServedGenerator) -> None:
    def told(**settings: Any) -> set[str]:
        return {writer.answer(["ab"], {"max_tokens": 30, **settings})[0].value["text"] for _ in range(3)}

    assert len(told()) > 1
    assert len(told(seed=0)) == len(told(seed=-5)) == len(told(temperature=0)) == 1


def test_equal_texts_of_a_request_have_different_samples_unless_there_is_a_seed(writer: ServedGenerator) -> None:
    def told(**settings: Any) -> list[str]:
        answers = writer.answer(["ab"] * 3, {"max_tokens": 30, **settings})
        return [answer.value["text"] for answer in answers]

    assert len(set(told())) > 1
    assert told(seed=4) == 3 * [writer.answer(["ab"], {"max_tokens": 30, "seed": 4})[0].value["text"]]


@pytest.mark.parametrize("settings", [{}, {"target": "mot " * 1_100}])
def test_an_explanation_has_no_more_tokens_than_a_translation(
    served: ServedTranslator, settings: dict[str, str]
) -> None:
    text = "The cat sleeps." if settings else "a " * 1_100
    with pytest.raises(DataError, match=r"A sentence has 1,\d\d\d tokens, and at most 1,000 are allowed"):
        served.explain(text, settings)


@pytest.mark.parametrize("settings", [{}, {"target": "Le chat dort."}, {"site": "encoder.0.attention.attention"}])
def test_an_explanation_asks_before_each_of_its_attentions(served: ServedTranslator, settings: dict[str, str]) -> None:
    """Whatever the question at which it is interrupted, it ends there."""
    count, stops, sites = 0, 0, len(served.pattern.sites)

    def ask() -> None:
        nonlocal count
        count += 1
        if count == stops:
            raise InterruptedError

    with interruptible(ask):
        whole = served.explain(TEXTS[0], {**settings, "page": True})
    every = count
    assert every > 2 * sites, "each attention is computed once and stored once"
    assert whole["page"]
    for stops in (1, every - 2 * sites, every - sites, every):
        count = 0
        with pytest.raises(InterruptedError), interruptible(ask):
            served.explain(TEXTS[0], {**settings, "page": True})
        assert count == stops


@pytest.mark.parametrize(("site", "sizes"), [(0, "900 × 900"), (None, "301 × 900")])
def test_a_map_that_is_too_large_is_refused_before_it_is_computed(
    served: ServedTranslator, site: int | None, sizes: str
) -> None:
    count = 0

    def ask() -> None:
        nonlocal count
        count += 1

    assert served.pattern
    target = None if site == 0 else "a" * 301
    with pytest.raises(UsageError, match=sizes), interruptible(ask):
        served.explain("a" * 900, {"site": site, "target": target})
    assert not count


def test_what_a_model_does_not_know_is_named() -> None:
    runs = Path(__file__).parents[2] / "golden/version_0_1/runs"
    for folder, text, settings, unknown in (
        ("tag_transformer", "a 🙂 b\n🙃", {}, {"🙂", "🙃"}),
        ("classify_transformer", "a 🙂", {}, {"🙂"}),
        ("language_model_gpt", "ab\nab🙂", {}, {"🙂"}),
        ("masked_language_model", "a ___ 🙂 ___ b", {}, {"🙂"}),
        ("masked_language_model", "a ??? 🙂 ??? b", {"gap": "???"}, {"🙂"}),
    ):
        model = task_of(read_run(runs / folder)).side.served(runs / folder)
        named = set(model.strange(text, settings))
        assert unknown <= named, folder
        assert not any("___" in word or "?" in word or "\n" in word for word in named)


def test_lines_of_a_translation_are_told_as_they_are_complete(served: ServedTranslator) -> None:
    longest = "The old dog is eating in the garden" + 3 * " and the small black cat is sleeping in the white house"
    text = "\n".join([TEXTS[0], "", longest])
    (whole,) = served.answer([text], {})
    flight, parts = ServedFlight(served), list[str]()
    flight.admit(1, [text], {}, parts.append)
    before = 0
    while flight.busy:
        complete = flight.tick()
        before = before if complete else len(parts)
    assert complete == [(1, [whole])]
    assert "".join(parts) == whole.value["text"]
    assert before > 1, "lines are told before the last one is complete"


def test_continuations_in_flight_are_those_of_the_model_alone(writer: ServedGenerator) -> None:
    """Whatever stands beside them, with settings of their own; streams and answers are the same."""
    noise = random.Random(1)
    wishes: list[dict[str, Any]] = [
        {"temperature": 0, "max_tokens": 9},
        {"seed": 5, "max_tokens": 30},
        {"seed": 6, "top_k": 5, "temperature": 1.4, "stop": ["e", "th"], "max_tokens": 25},
        {"seed": 7, "top_p": 0.8, "max_tokens": 1},
        {"max_tokens": 40},
    ]
    prompts = ["ab", "", "A longer prompt, which is read in one call with others.", "x\ny"]
    flight, parts, answers = writer.flight(), dict[int, list[str]](), dict[int, list[Answered]]()
    waiting = {n: (noise.sample(prompts, noise.randint(1, 3)), noise.choice(wishes)) for n in range(9)}
    every = dict(waiting)
    while waiting or flight.busy:
        if waiting and noise.random() < 0.4:
            number = next(iter(waiting))
            texts, settings = waiting.pop(number)
            parts[number] = []
            flight.admit(number, texts, settings, parts[number].append if len(texts) == 1 else None)
        answers |= dict(flight.tick())
    for number, (texts, settings) in every.items():
        for text, answer in zip(texts, answers[number], strict=True):
            config = _search(settings)
            [alone] = writer.reader.generate(text, config=config, length=settings["max_tokens"])
            places = [place for end in settings.get("stop", []) if (place := alone.text.find(end)) >= 0]
            assert answer.value["text"] == (alone.text[: min(places)] if places else alone.text)
            assert answer.value["finished"] == bool(places)
        if len(texts) == 1:
            assert "".join(parts[number]) == answers[number][0].value["text"]


def test_numbers_that_are_none_refuse_their_own_question_and_no_other(writer: ServedGenerator) -> None:
    reader = deepcopy(writer.reader)
    own = ServedGenerator(reader)
    damaged = reader.ids("Q")[-1]  # unknown, and never written
    settings = {"max_tokens": 9, "temperature": 0}
    with torch.no_grad():
        reader.model.embedding.register_forward_hook(  # type: ignore[operator, union-attr]
            lambda module, inputs, output: output.masked_fill((inputs[0] == damaged)[..., None], torch.nan)
        )
    flight, parts = own.flight(), list[str]()
    flight.admit(1, ["ab", "ba"], settings)
    flight.admit(2, ["ba", "aQ"], {**settings, "max_tokens": 60})
    flight.admit(3, ["a"], settings, parts.append)
    answers = dict[int, Any]()
    while flight.busy:
        answers |= dict(flight.tick())
    assert not flight._flight.busy, "the other text of the question is not written either"
    assert isinstance(answers[2], DataError)
    assert "not numbers" in str(answers[2])
    assert answers[1] == writer.answer(["ab", "ba"], settings)
    assert answers[3] == writer.answer(["a"], settings)
    assert "".join(parts) == answers[3][0].value["text"]
    with pytest.raises(DataError, match="not numbers"):
        own.answer(["ab", "aQ"], settings)


def test_continuations_that_are_refused_or_dropped_leave_nothing_behind(writer: ServedGenerator) -> None:
    flight = GenerationFlight(writer)
    flight.admit(1, ["a", "b"], {"max_tokens": 3})
    flight.admit(2, ["c"], {"max_tokens": 4000})
    for texts, settings, reason in (
        (["d"], {"beam": 4}, "no setting 'beam'"),
        (["d"], {"temperature": -1}, "temperature is a number"),
        (["d", "a " * 400], {}, "Text 2: The prompt has"),
    ):
        with pytest.raises((UsageError, DataError), match=reason):
            flight.admit(3, texts, settings)
    flight.tick()
    flight.drop(2)
    complete = []
    while flight.busy:
        complete += flight.tick()
    assert [(number, [answer.written for answer in answers]) for number, answers in complete] == [(1, [3, 3])]
