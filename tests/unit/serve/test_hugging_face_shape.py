"""Hugging Face's shapes: words with their places, and groups of words."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as some

from foveate.serve.service.hugging_face_shape import FillMask, TokenClassification, Translation
from foveate.serve.service.message import Card
from foveate.serve.service.refused import RefusedError

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC", "NOUN")


def tagged(text: str, tags: list[str]) -> dict[str, list[object]]:
    return {"words": list(text.split()), "tags": list(tags), "probabilities": [0.5] * len(tags)}


def test_groups_are_those_of_the_pipeline_for_token_classification() -> None:
    text = "Ada Lovelace  met Charles in  London ."
    value = tagged(text, ["B-PER", "I-PER", "O", "B-PER", "O", "B-LOC", "O"])
    groups = TokenClassification(aggregation_strategy="simple").shaped(value, text)
    assert [(each["entity_group"], each["word"]) for each in groups] == [
        ("PER", "Ada Lovelace"),
        ("PER", "Charles"),
        ("LOC", "London"),
    ]
    words = TokenClassification().shaped(value, text)
    assert [each["entity"] for each in words] == ["B-PER", "I-PER", "B-PER", "B-LOC"]
    assert len(TokenClassification(ignore_labels=[]).shaped(value, text)) == 7


@given(some.lists(some.tuples(some.sampled_from(["a", "b a", "\u2003é", "aa"]), some.sampled_from(TAGS)), max_size=8))
def test_groups_divide_the_words_in_order(pairs: list[tuple[str, str]]) -> None:
    text = "  ".join(word for word, _ in pairs)
    value = tagged(text, [tag for word, tag in pairs for _ in word.split()])
    words = TokenClassification(ignore_labels=[]).shaped(value, text)
    assert [text[each["start"] : each["end"]] for each in words] == text.split()
    groups = TokenClassification(ignore_labels=[], aggregation_strategy="simple").shaped(value, text)
    starts, ends = [each["start"] for each in words], [each["end"] for each in words]
    assert all(text[each["start"] : each["end"]] == each["word"] for each in groups)
    # Each group begins after the end of the one before it, and together they have every word.
    bounds = [(starts.index(each["start"]), ends.index(each["end"])) for each in groups]
    assert [index for first, last in bounds for index in range(first, last + 1)] == list(range(len(words)))
    for first, last in bounds:
        kinds = {tag.removeprefix("B-").removeprefix("I-") for tag in value["tags"][first : last + 1]}  # type: ignore[attr-defined]
        assert len(kinds) == 1
        assert not any(str(tag).startswith("B-") for tag in value["tags"][first + 1 : last + 1])


def test_places_of_words_are_those_in_the_text_as_it_was_sent() -> None:
    sent = "12 Cafe\u0301 \u212b\u2000A\u030a"
    value = tagged(unicodedata.normalize("NFC", sent), ["NOUN"] * 4)
    words = TokenClassification().shaped(value, sent)
    assert [sent[each["start"] : each["end"]] for each in words] == [each["word"] for each in words] == sent.split()


def test_gaps_of_no_texts_are_none() -> None:
    card = Card("gaps", "fill", "gaps", "", 1, None, 0, (), 1.0)
    assert FillMask().settings(card, []) == {}


def test_a_translator_of_several_languages_is_told_one_and_refuses_other_pairs() -> None:
    directions = (("en", "fr"), ("de", "en"), ("en", "pt_BR"))
    card = Card("all", "translate", "all", "", 1, None, 0, ("to",), 1.0, directions=directions)
    assert Translation(tgt_lang="French").settings(card, ["a"]) == {"to": "fr"}
    assert Translation(src_lang="en", tgt_lang="pt_BR").settings(card, ["a"]) == {"to": "pt_BR"}
    assert Translation(src_lang="de", tgt_lang="en").settings(card, ["a"]) == {"to": "en"}
    for parameters in (Translation(), Translation(src_lang="en"), Translation(src_lang="de", tgt_lang="fr")):
        with pytest.raises(RefusedError) as refusal:
            parameters.settings(card, ["a"])
        assert refusal.value.status == 422
