"""A translator in flight: its texts, the empty ones too, as `translate` gives them."""

import pytest

from foveate import Translator
from foveate.decode import Limits
from foveate.errors import UsageError
from foveate.tasks.translate.translation_flight import TranslationFlight

TEXTS = ["Good morning!", "", "A man is riding a bicycle.", "The child reads a book in the garden.", "Where are you?"]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return Translator.load("en-fr")


def test_texts_in_flight_are_translated_as_by_translate(translator: Translator) -> None:
    flight, arrived = TranslationFlight(translator, capacity=2), {}
    for number, text in enumerate(TEXTS):
        flight.admit([number], [text])
        arrived |= dict(flight.tick())
    flight.admit(["dropped", "empty"], [TEXTS[3], ""])
    flight.drop(["dropped", "empty", "unknown"])
    while flight.busy:
        arrived |= dict(flight.tick())
    assert sorted(arrived) == list(range(len(TEXTS)))
    for number, expected in enumerate(translator.translate(TEXTS)):
        assert arrived[number].source == expected.source
        assert arrived[number].texts == expected.texts


def test_other_engines_are_refused(translator: Translator) -> None:
    other = translator.by_steps()
    other.engine.name = "onnx"
    with pytest.raises(UsageError, match="engine onnx decodes whole batches"):
        TranslationFlight(other)


def test_a_batch_with_one_bad_text_is_not_admitted(translator: Translator) -> None:
    flight = TranslationFlight(translator)
    flight.admit([1], ["Hello."])
    with pytest.raises(UsageError, match="already stand for sentences"):
        flight.admit([2, 1], ["Hello.", ""])
    with pytest.raises(UsageError, match="2 names, 1 sources"):
        flight.admit([2, 3], ["Hello."])
    with pytest.raises(UsageError, match="may have only 0 tokens"):
        flight.admit([3, 4], ["", "Hello."], [Limits(), Limits(max_length=0)])
    results = []
    while flight.busy:
        results += flight.tick()
    assert [name for name, _ in results] == [1]
