"""LibreTranslate's interface: the choice of a run by languages, and the bodies that clients send."""

import asyncio
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foveate.serve.service.body import answer, fields
from foveate.serve.service.desk import directed
from foveate.serve.service.libre_translate import chosen
from foveate.serve.service.message import Card
from foveate.serve.service.refused import RefusedError


def translator(name: str, *languages: str) -> Card:
    pair = (languages[0], languages[1]) if languages else None
    return Card(name, "translate", name, "", 1, pair, 0, (), 1.0)


FRENCH, SOUNDS, MINE = translator("en-fr", "en", "fr"), translator("en-sounds"), translator("mine")


@pytest.mark.parametrize("translators", [[FRENCH, SOUNDS, MINE], [MINE, SOUNDS, FRENCH]], ids=["first", "last"])
def test_a_run_without_languages_answers_only_those_that_name_it(translators: list[Card]) -> None:
    for source, target, card in (
        ("en", "fr", FRENCH),
        ("auto", "French", FRENCH),
        ("auto", "en-sounds", SOUNDS),
        ("en", "en-sounds", SOUNDS),
        ("und", "mine", MINE),
    ):
        assert chosen(translators, source, target) is card
    for source, target in (("de", "fr"), ("en", "de"), ("auto", "und")):
        with pytest.raises(RefusedError, match=r"This service has en-fr\. The target .* is its name: .*en-sounds"):
            chosen(translators, source, target)


def test_the_only_translator_answers_all_pairs_if_its_languages_are_unknown() -> None:
    assert chosen([MINE], "da", "sv") is MINE
    with pytest.raises(RefusedError, match="This service has en-fr"):
        chosen([FRENCH], "en", "de")


def test_a_run_of_several_directions_answers_each_of_them() -> None:
    many = Card(
        "mine", "translate", "mine", "", 1, None, 0, (), 1.0, directions=(("en", "fa"), ("pt_BR", "en"), ("de", "en"))
    )
    for source, target in (("en", "fa"), ("de", "en"), ("auto", "Persian"), ("German", "en"), ("pt-br", "en-GB")):
        assert chosen([FRENCH, many], source, target) is many
    assert chosen([FRENCH, many], "auto", "fr") is FRENCH
    # The name of a run is not taken for a language with a region, unless a run writes a language of this code.
    assert chosen([many, SOUNDS], "auto", "en-sounds") is SOUNDS
    assert chosen([translator("fa"), many], "en", "fa") is many
    assert chosen([translator("fa"), many], "de", "fa").name == "fa"
    with pytest.raises(RefusedError, match=r"from de into fa\. This service has en-fr, en-fa, pt_BR-en, de-en\.$"):
        chosen([FRENCH, many], "de", "fa")


def test_a_question_names_the_language_of_its_run_in_any_spelling() -> None:
    many = Card("mine", "translate", "mine", "", 1, None, 0, (), 1.0, directions=(("en", "fa"), ("en", "pt_BR")))
    for card, to, settings in (
        (many, "Persian", {"to": "fa"}),
        (many, "pt-br", {"to": "pt_BR"}),
        (many, "xx", {"to": "xx"}),
        (FRENCH, "fr-CA", {}),
        (FRENCH, None, {"to": None}),
    ):
        assert directed(card, {"to": to, "beam": 2}) == {**settings, "beam": 2}
    for card, written in ((FRENCH, "fr"), (MINE, "one language")):
        with pytest.raises(RefusedError, match=f"The run .* writes {written} only"):
            directed(card, {"to": "de"})


def test_json_may_be_called_a_form_and_parts_are_refused_in_words() -> None:
    async def endpoint(request: Request) -> Response:
        try:
            return answer(await fields(request, 1000))
        except RefusedError as refusal:
            return answer(refusal.reason, refusal.status)

    async def ask() -> list[httpx.Response]:
        transport: Any = httpx.ASGITransport(Starlette(routes=[Route("/", endpoint, methods=["POST"])]))
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            form = {"content-type": "application/x-www-form-urlencoded"}
            return [
                await client.post("/", content=b' {"q": "a"}', headers=form),
                await client.post("/", data={"q": "{a}"}),
                await client.post("/", files={"q": b"a"}),
            ]

    as_form, braces, parts = asyncio.run(ask())
    assert as_form.json() == {"q": "a"}
    assert braces.json() == {"q": "{a}"}
    assert parts.status_code == 415
    assert "Send JSON" in parts.json()
