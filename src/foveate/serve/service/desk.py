"""The front desk: every interface asks it for answers, and it checks, admits, asks a model process and counts."""

import asyncio
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any

from starlette.requests import Request

from foveate.serve.service.admission import COMPANY, Admission, Lane, Limits, cost, forced, tokens_of
from foveate.serve.service.counter import Counters
from foveate.serve.service.file_size import units
from foveate.serve.service.language import code_among
from foveate.serve.service.message import Card, Kind, Part, Reply
from foveate.serve.service.model_pool import ModelPool
from foveate.serve.service.refused import invalid, missing, unavailable
from foveate.serve.service.upload import Freight
from foveate.suggestion import did_you_mean

PAGES = 32
"""The number of pages of answers that are kept."""
PAGE_CHARACTERS = 64_000_000
"""The characters of all pages that are kept; the last one is, however long."""


class Desk:
    """One service."""

    def __init__(self, pool: ModelPool, limits: Limits) -> None:
        self.pool, self.limits = pool, limits
        self.admission = Admission(limits, workers=len(pool.hosts))
        self.freight = Freight(limits)
        self.counters = Counters()
        self.draining = False
        self.in_flight = 0
        self._pages: OrderedDict[str, str] = OrderedDict()

    @property
    def is_ready(self) -> bool:
        """Whether requests are admitted."""
        return self.pool.is_ready and not self.draining

    def require_ready(self) -> None:
        """Raises RefusedError (503) while no request is admitted."""
        if not self.is_ready:
            raise unavailable("The service is closing." if self.draining else "The models are being loaded.")

    def card(self, verb: str | None = None, name: str | None = None, *, files: bool = False) -> Card:
        """The run of a name, or the first that can do something with texts, or with `files`. Raises RefusedError if
        there is none.
        """
        cards = self.pool.cards
        if not cards:
            raise unavailable("The models are being loaded.")
        if name is None:
            able = [card for card in cards if verb in (None, card.verb)]
            # One that reads something else says so when it is asked.
            first = next((card for card in able if (card.reads != "texts") == files), next(iter(able), None))
            if first is not None:
                return first
            raise missing(f"No run of this service can {verb}. It has {_listed(cards)}.")
        for card in cards:
            if card.name == name:
                if verb not in (None, card.verb):
                    raise invalid(f"The run {name} cannot {verb}: it can {card.verb}.")
                return card
        guess = did_you_mean(name, [card.name for card in cards])
        raise missing(f"There is no run {name!r}.{guess} This service has {_listed(cards)}.", "model_not_found")

    async def ask(
        self, request: Request, card: Card, texts: Sequence[str], settings: dict[str, Any], kind: Kind = "answer"
    ) -> Reply:
        """The answer of a run to some texts. Raises RefusedError where there is none."""
        if not texts:
            return Reply(0, [], 0, 0, 0, 0.0)
        async with aclosing(self.parts(request, card, texts, settings, kind)) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    return part
        raise unavailable("The model process ended.")

    async def parts(
        self, request: Request, card: Card, texts: Sequence[str], settings: dict[str, Any], kind: Kind
    ) -> AsyncGenerator[Part | Reply]:
        """The parts of an answer, and the whole one last."""
        require_texts(card)
        self.check(texts)
        self.check([forced(settings)])
        settings = directed(card, settings)
        if self.draining:
            raise unavailable("The service is closing.")
        characters = cost(kind, texts, settings, card.lengths)
        price = self.admission.worth(characters / card.speed) if card.speed else characters
        alone = tokens_of(settings, card.lengths) / card.pace if card.pace and kind == "answer" else 0.0
        async with aclosing(self._admitted(request, card, texts, [], settings, kind, price, alone)) as parts:
            async for part in parts:
                yield part

    async def ask_files(self, request: Request, card: Card, files: Sequence[bytes]) -> Reply:
        """The answer of a run to the contents of files. Raises RefusedError where there is none."""
        require_files(card)
        if self.draining:
            raise unavailable("The service is closing.")
        each, unit = card.price
        price = self.admission.worth(sum(each + unit * units(card.reads, content) for content in files))
        async with aclosing(self._admitted(request, card, [], files, {}, "answer", price, 0.0)) as parts:
            async for part in parts:
                if isinstance(part, Reply):
                    return part
        raise unavailable("The model process ended.")

    async def _admitted(
        self,
        request: Request,
        card: Card,
        texts: Sequence[str],
        files: Sequence[bytes],
        settings: dict[str, Any],
        kind: Kind,
        price: int,
        alone: float,
    ) -> AsyncGenerator[Part | Reply]:
        """The parts of an answer to a question that was checked, if its turn comes in time."""
        lane = _lane(card, kind, settings)
        self.admission.admit(price, alone=alone, streams=kind == "stream", lane=lane)
        self.in_flight += 1
        started, begun = time.perf_counter(), False
        leaving = asyncio.ensure_future(_left(request))
        try:
            work = self.pool.ask(
                card.name, kind, list(texts), settings, self.limits.timeout, price, leaving, list(files)
            )
            async with aclosing(work):
                async for part in work:
                    if part.unknown:
                        state = request.scope.setdefault("state", {})
                        state.setdefault("unknown", {}).update(dict.fromkeys(part.unknown))
                        self.counters.unknown.labels(card.name).inc()
                    if isinstance(part, Reply):
                        self._finished(card, part)
                    elif part.text and not begun:
                        begun = True
                        self.counters.first.labels(card.name).observe(time.perf_counter() - started)
                    yield part
        finally:
            leaving.cancel()
            self.admission.release(price, lane=lane)
            self.in_flight -= 1

    def keep(self, page: str) -> str:
        """Keep a page of the viewer for a while; returns its path."""
        name = secrets.token_urlsafe(12)
        self._pages[name] = page
        while len(self._pages) > 1 and (
            len(self._pages) > PAGES or sum(map(len, self._pages.values())) > PAGE_CHARACTERS
        ):
            self._pages.popitem(last=False)
        return f"/look/{name}"

    def page(self, name: str) -> str:
        """A page that was kept. Raises RefusedError for one that was not, or not until now."""
        if name not in self._pages:
            raise missing(f"This page is gone: the last {PAGES} are kept. Ask for the explanation again.")
        return self._pages[name]

    def measure(self) -> bytes:
        """The metrics."""
        own = self.counters
        own.rate.set(self.admission.rate)
        own.waiting.set(self.admission.waiting)
        own.in_flight.set(self.in_flight)
        own.restarts.set(self.pool.restarts)
        own.ready.set(self.is_ready)
        return own.text()

    def check(self, texts: Sequence[str]) -> None:
        """Raises RefusedError for too many texts, or too long ones, with the numbers."""
        limits = self.limits
        if len(texts) > limits.texts:
            raise invalid(f"The request has {len(texts)} texts, and at most {limits.texts} are allowed. Send fewer.")
        for number, text in enumerate(texts, start=1):
            which = f"Text {number}" if len(texts) > 1 else "The text"
            if len(text) > limits.characters:
                raise invalid(
                    f"{which} has {len(text):,} characters, and at most {limits.characters:,} are allowed. Divide it."
                )
            if text.count("\n") >= limits.lines:
                raise invalid(f"{which} has more than {limits.lines:,} lines. Divide it.")
            try:
                text.encode()
            except UnicodeEncodeError:
                raise invalid(
                    f"{which} has half of a surrogate pair, which does not stand for a character. Send whole pairs."
                ) from None

    def _finished(self, card: Card, reply: Reply) -> None:
        # The price of files is that of one alone.
        together = COMPANY if card.reads != "texts" else max(self.in_flight, len(reply.values))
        self.admission.measured(reply.cost, reply.seconds, together)
        self.counters.tokens.labels(card.name, "read").inc(reply.read)
        self.counters.tokens.labels(card.name, "written").inc(reply.written)


def _lane(card: Card, kind: Kind, settings: dict[str, Any]) -> Lane:
    """The way in which a run answers a question."""
    if kind == "explain":
        return "explanation"
    return "batch" if card.flies is None or settings.keys() - set(card.flies) else "flight"


def require_texts(card: Card) -> None:
    """Raises RefusedError for a run that reads files."""
    if card.reads != "texts":
        raise invalid(
            f"The run {card.name} reads {card.reads}, not texts. Send a file to /{card.verb}: curl -F file=@NAME."
        )


def require_files(card: Card) -> None:
    """Raises RefusedError for a run that reads texts."""
    if card.reads == "texts":
        raise invalid(f"The run {card.name} reads texts, not files. Send JSON with a text.")


def writes(card: Card, language: str) -> bool:
    """Whether a run is known to translate into a language."""
    targets = [target for _, target in card.pairs]
    return code_among(targets, language) in targets


def directed(card: Card, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of a question with the run's own code of the language that it names (`to`); without it for a
    translator that writes this language only. Raises RefusedError for one that writes another.
    """
    to = settings.get("to")
    if card.verb != "translate" or not isinstance(to, str):
        return settings
    if card.directions:
        return {**settings, "to": code_among([target for _, target in card.directions], to)}
    if not writes(card, to):
        written = card.languages[1] if card.languages else "one language"
        raise invalid(f"The run {card.name} writes {written} only. Leave `to` out, or name another run.")
    return {name: value for name, value in settings.items() if name != "to"}


def _listed(cards: Sequence[Card]) -> str:
    return ", ".join(f"{card.name} ({card.verb})" for card in cards)


async def _left(request: Request) -> None:
    """Wait until the client leaves. The body was read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
