"""LibreTranslate's interface: its clients are Weblate, extensions of browsers, and packages of many languages."""

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foveate.serve.service.body import answer, fields, shaped
from foveate.serve.service.desk import Desk
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.language import code_among, code_of, name_of
from foveate.serve.service.message import Card, settings_of
from foveate.serve.service.refused import invalid

ANY = "und"
"""The code of what a run reads whose name has no languages; the name of the run stands for what it writes."""
AUTO = "auto"


class Translate(msgspec.Struct):
    q: str | list[str]
    target: str
    source: str = AUTO
    format: str = "text"
    alternatives: int = 0
    api_key: str | None = None


class Detect(msgspec.Struct):
    q: str
    api_key: str | None = None


def routes(desk: Desk, keys: Keyring) -> list[Route]:
    """`/languages`, `/frontend/settings` and `/health` need no key: clients ask them before they have one."""

    async def translate(request: Request) -> Response:
        values = await fields(request, desk.limits.body)
        keys.require(request, values.get("api_key"))
        query = shaped(values, Translate)
        if query.format != "text":
            raise invalid(f"The format {query.format!r} is not supported. Send plain text, with the format text.")
        translators = [card for card in desk.pool.cards if card.verb == "translate"] or [desk.card("translate")]
        card = chosen(translators, query.source, query.target)
        texts = [query.q] if isinstance(query.q, str) else query.q
        target = code_among([target for _, target in card.pairs], query.target)
        language = target if card.directions else None
        reply = await desk.ask(request, card, texts, settings_of(alternatives=query.alternatives or None, to=language))
        result: dict[str, object] = {"translatedText": _each(query.q, [value["text"] for value in reply.values])}
        if not all(value["finished"] for value in reply.values):  # not of that interface: nothing is cut silently
            result["finished"] = _each(query.q, [value["finished"] for value in reply.values])
        if query.source == AUTO:
            # Nothing is detected: this is the language that the run reads for this target, or the first of several.
            read = next((source for source, written in card.pairs if written == target), None)
            result["detectedLanguage"] = _each(query.q, [_detected(read or _pairs(card)[0][0]) for _ in texts])
        if query.alternatives:
            result["alternatives"] = _each(query.q, [value["alternatives"] for value in reply.values])
        return answer(result)

    async def detect(request: Request) -> Response:
        values = await fields(request, desk.limits.body)
        keys.require(request, values.get("api_key"))
        shaped(values, Detect)
        pairs = [pair for card in desk.pool.cards if card.verb == "translate" for pair in _pairs(card)]
        return answer([_detected(source) for source in dict.fromkeys(source for source, _ in pairs)])

    async def languages(request: Request) -> Response:
        targets: dict[str, list[str]] = {}
        for card in desk.pool.cards:
            for source, target in _pairs(card) if card.verb == "translate" else ():
                if target not in targets.setdefault(source, []):
                    targets[source].append(target)
        codes = dict.fromkeys([*targets, *(code for each in targets.values() for code in each)])
        return answer([{"code": code, "name": name_of(code), "targets": targets.get(code, [])} for code in codes])

    async def settings(request: Request) -> Response:
        pairs = [pair for card in desk.pool.cards if card.verb == "translate" for pair in _pairs(card)]
        source, target = pairs[0] if pairs else (ANY, ANY)
        return answer(
            {
                "apiKeys": keys.needed,
                "charLimit": desk.limits.characters,
                "frontendTimeout": 500,
                "keyRequired": keys.needed,
                "language": {
                    "source": {"code": source, "name": name_of(source)},
                    "target": {"code": target, "name": name_of(target)},
                },
                "suggestions": False,
                "supportedFilesFormat": [],
            }
        )

    return [
        Route("/translate", translate, methods=["POST"], name="translate"),
        Route("/detect", detect, methods=["POST"], name="detect"),
        Route("/languages", languages, name="languages"),
        Route("/frontend/settings", settings, name="frontend settings"),
    ]


def chosen(translators: Sequence[Card], source: str, target: str) -> Card:
    """The run that translates from one language into another; "auto" is any.

    A run without languages is asked for by its name as the target, unless this is the code of a language, and answers
    all pairs only where it is the only translator. Raises RefusedError if there is none.
    """
    others = [card for card in translators if not card.pairs]
    by_name = next((card for card in others if card.name == target), None)
    if by_name is not None and not any(target == written for card in translators for _, written in card.pairs):
        return by_name
    for card in translators:
        targets = [written for _, written in card.pairs]
        pair = code_among([read for read, _ in card.pairs], source), code_among(targets, target)
        if pair in card.pairs or (pair[0] == AUTO and pair[1] in targets):
            return card
    if by_name is not None or len(others) == len(translators) == 1:
        return by_name or others[0]
    known = ", ".join(dict.fromkeys("-".join(pair) for card in translators for pair in card.pairs))
    reason = f"No run translates from {code_of(source)} into {code_of(target)}."
    reason += f" This service has {known}." if known else ""
    if others:
        reason += f" The target of a run without languages is its name: {', '.join(card.name for card in others)}."
    raise invalid(reason)


def _pairs(card: Card) -> tuple[tuple[str, str], ...]:
    return card.pairs or ((ANY, card.name),)


def _detected(language: str) -> dict[str, object]:
    return {"confidence": 0.0, "language": language}


def _each(query: str | list[str], values: list[object]) -> object:
    """One value for one text, a list for a list."""
    return values[0] if isinstance(query, str) else values
