"""Models behind an address: what they answer in flight is what they answer alone."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from foveate.errors import UsageError
from foveate.interruption import interruptible
from foveate.storage.run import read_run
from foveate.storage.shipped import run_folder
from foveate.tasks import task_of
from foveate.tasks.language_model.served_generator import ServedGenerator, _cut, _overlap
from foveate.tasks.language_model.use import Generator
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


def test_questions_in_flight_get_the_answers_that_they_get_alone(served: ServedTranslator) -> None:
    alone = dict(zip(TEXTS, served.answer(TEXTS, {}), strict=True))
    for seed in range(2):
        flight, noise = ServedFlight(served), random.Random(seed)
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


def test_a_refused_question_leaves_nothing_behind(served: ServedTranslator) -> None:
    flight = ServedFlight(served)
    flight.admit(1, ["A cat."])
    with pytest.raises(UsageError):
        flight.admit(1, ["Again."])
    complete = []
    while flight.busy:
        complete += flight.tick()
    assert [number for number, _ in complete] == [1]


def test_a_text_ends_before_the_first_of_its_ends() -> None:
    assert _cut("one. two! three", ("!", ".")) == ("one", True)
    assert _cut("one", ("!",)) == ("one", False)
    assert [_overlap(text, "<end>") for text in ("a", "a<", "a<en", "<end", "n<")] == [0, 1, 3, 4, 1]


def test_what_is_told_of_a_stream_is_the_answer_up_to_its_end() -> None:
    """No part of an end is told before it is known whether it is one."""
    run = Path(__file__).parents[2] / "golden/version_0_1/runs/language_model_gpt"
    served = ServedGenerator(Generator.load(run))
    settings = {"max_tokens": 20, "temperature": 1.0, "seed": 3}
    (whole,) = served.answer(["ab"], settings)
    text = whole.value["text"]
    for place in range(1, len(text) - 3, 3):
        ends = [text[place : place + 3], text[place : place + 2] + "\0"]
        parts: list[str] = []
        answer = served.stream("ab", {**settings, "stop": ends}, parts.append)
        assert answer.value == {"text": text.partition(ends[0])[0], "finished": True}
        assert "".join(parts) == answer.value["text"]


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


@pytest.mark.parametrize(("site", "sizes"), [(0, "3000 × 3000"), (None, "301 × 3000")])
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
        served.explain("a" * 3000, {"site": site, "target": target})
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
