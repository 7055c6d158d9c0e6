"""Our own interface: `/tag`, `/classify`, `/fill`, `/generate`, `/predict` and `/speak` for texts, `/transcribe`,
`/caption` and `/classify` for files, and `/explain`, an answer with its weights.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from foveate.serve.service.body import PARTS, answer, read
from foveate.serve.service.desk import PAGES, Desk, writes
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.message import Card, settings_of
from foveate.serve.service.refused import RefusedError, invalid
from foveate.serve.service.spoken import spoken
from foveate.serve.service.upload import JSON, type_of

Setting = str | int | float | bool | list[str] | None
VERBS = ("tag", "classify", "fill", "generate", "predict")
FILE_VERBS = ("transcribe", "caption")


class Ask(msgspec.Struct, forbid_unknown_fields=True):
    """`text`, or several; `run` is needed only where several can do the same."""

    text: str | list[str]
    run: str | None = None
    settings: dict[str, Setting] = {}


class Speak(msgspec.Struct, forbid_unknown_fields=True):
    """The answer is the content of a file."""

    text: str
    run: str | None = None
    format: str = "wav"


class Explain(msgspec.Struct, forbid_unknown_fields=True):
    """See `foveate.tasks.served.Served.explain`."""

    source: str
    target: str | None = None
    to: str | None = None
    run: str | None = None
    site: str | int | None = None
    head: int | None = None
    words: bool = True
    top: int | None = None
    page: bool = False
    hops: int | None = None


def routes(desk: Desk, keys: Keyring) -> list[Route]:
    def of(verb: str) -> Route:
        async def endpoint(request: Request) -> Response:
            keys.require(request)
            if verb in ("classify", "tag") and _is_file(type_of(request)):
                return await of_files(request, verb)
            query = await read(request, Ask, desk.limits.body)
            card = desk.card(verb, query.run)
            texts = [query.text] if isinstance(query.text, str) else query.text
            reply = await desk.ask(request, card, texts, query.settings)
            return answer(reply.values[0] if isinstance(query.text, str) else reply.values)

        return Route(f"/{verb}", endpoint, methods=["POST"], name=verb)

    async def of_files(request: Request, verb: str) -> Response:
        async with desk.freight.upload(request) as upload:
            upload.require_fields("run")
            card = desk.card(verb, upload.one("run"), files=True)
            reply = await desk.ask_files(request, card, upload.files)
            return answer(reply.values[0] if len(upload.files) == 1 else reply.values)

    def for_files(verb: str) -> Route:
        async def endpoint(request: Request) -> Response:
            keys.require(request)
            if type_of(request) == JSON:
                raise RefusedError(415, f"/{verb} reads files, not JSON: curl -F file=@NAME.", "type")
            return await of_files(request, verb)

        return Route(f"/{verb}", endpoint, methods=["POST"], name=verb)

    async def speak(request: Request) -> Response:
        keys.require(request)
        query = await read(request, Speak, desk.limits.body)
        return await spoken(desk, request, desk.card("speak", query.run), query.text, query.format)

    async def explain(request: Request) -> Response:
        keys.require(request)
        query = await read(request, Explain, desk.limits.body)
        (value,) = await explained(desk, request, [query])
        return answer(value)

    return [
        *map(of, VERBS),
        *map(for_files, FILE_VERBS),
        Route("/speak", speak, methods=["POST"], name="speak"),
        Route("/explain", explain, methods=["POST"], name="explain"),
    ]


def _is_file(kind: str) -> bool:
    """Whether a body of this type has files; that of JSON may have any other type."""
    return kind in (PARTS, "application/octet-stream") or kind.startswith(("audio/", "image/", "video/"))


async def explained(desk: Desk, request: Request, queries: Sequence[Explain]) -> list[dict[str, Any]]:
    """The answers with their weights, and the digest of the model that gave them; `page` is the path of the viewer's
    page of an answer.

    Those with equal settings are one question, and all questions are admitted before the first is answered.
    """
    if sum(bool(query.page) for query in queries) > PAGES:
        raise invalid(f"At most {PAGES} pages are kept: ask for fewer at once.")
    groups: dict[tuple[Any, ...], list[int]] = {}
    for place, query in enumerate(queries):
        groups.setdefault((_asked(desk, query).name, *_settings(query).items()), []).append(place)
    tasks = [
        asyncio.create_task(
            desk.ask(
                request,
                desk.card(name=run),
                [queries[place].source for place in places],
                dict(settings),
                kind="explain",
            )
        )
        for (run, *settings), places in groups.items()
    ]
    try:
        replies = await asyncio.gather(*tasks)
    finally:  # one that was refused ends the others
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    answers: list[dict[str, Any]] = [{}] * len(queries)
    for (run, *_), places, reply in zip(groups, groups.values(), replies, strict=True):
        for place, value in zip(places, reply.values, strict=True):
            page = {"page": desk.keep(value["page"])} if "page" in value else {}
            answers[place] = {"run": run, **value, **page}
    return answers


def _settings(query: Explain) -> dict[str, Any]:
    """The settings of a question. Raises RefusedError for impossible ones."""
    if query.top is not None and query.top < 1:
        raise invalid(f"top is a number of weights in each row, 1 or more, got {query.top}.")
    return settings_of(
        target=query.target,
        to=query.to,
        site=query.site,
        head=query.head,
        words=query.words,
        top=query.top,
        page=query.page or None,
        hops=query.hops,
    )


def _asked(desk: Desk, query: Explain) -> Card:
    """The run that a question names; otherwise the first that writes its language, or translates, or the first."""
    translators = [card for card in desk.pool.cards if card.verb == "translate"]
    if query.run is not None or not translators:
        return desk.card(name=query.run)
    return next((card for card in translators if query.to is not None and writes(card, query.to)), translators[0])
