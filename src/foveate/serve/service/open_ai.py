"""OpenAI's interface: models, completions and chat completions, with server-sent events; sound is in
`open_ai_audio.py`. A translator answers a chat's last message of the user with its translation. Fields that do not
change an answer here are read over, as that interface's servers do; those that would, such as tools, are refused.

A translator of several languages is a model for each language, too, `NAME:LANGUAGE`: clients of this interface have a
field for the model's name, and none for a language.
"""

import secrets
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Literal

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from foveate.serve.service.body import answer, read
from foveate.serve.service.desk import Desk
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.message import Card, Part, Reply, settings_of
from foveate.serve.service.refused import RefusedError, missing

PREFIXES = ("/v1/completions", "/v1/chat/completions", "/v1/models", "/v1/audio/")
"""Paths whose errors have this interface's shape."""


class TextPart(msgspec.Struct):
    text: str
    type: Literal["text"] = "text"


class Message(msgspec.Struct):
    role: str
    content: str | list[TextPart] | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, list):
            return "".join(part.text for part in self.content)
        return self.content or ""


class StreamOptions(msgspec.Struct):
    include_usage: bool = False


class _Sampling(msgspec.Struct, kw_only=True):
    model: str
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    n: int | None = 1
    logprobs: bool | int | None = None
    tools: list[Any] | None = None
    to: str | None = None
    """Not of that interface: the language that a translator of several languages writes."""

    def settings(self, card: Card) -> dict[str, Any]:
        """The settings of a language model; a translator has none of them and is always as probable as it can be."""
        if card.verb == "translate":
            language = _language(card, self.model)
            if None not in (language, self.to) and language != self.to:
                raise _bad(f"The model {self.model} writes {language}, and `to` is {self.to}. Leave one out.", "to")
            return settings_of(to=self.to if language is None else language)
        length = self.max_completion_tokens if self.max_tokens is None else self.max_tokens
        return settings_of(
            max_tokens=length,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            stop=self.stop,
            to=self.to,  # which a language model refuses
        )

    def check(self) -> None:
        """Raises RefusedError (400) for what would change the answer and is not supported."""
        if self.tools:
            raise _bad("Tools are not supported. Leave them out.", "tools")
        if self.n not in (None, 1):
            raise _bad(f"n = {self.n} is not supported: one answer is given. Ask several times.", "n")
        if self.logprobs:
            raise _bad("logprobs are not supported. `/explain` has log-probabilities.", "logprobs")


class Chat(_Sampling, kw_only=True):
    messages: list[Message]

    def prompt(self, card: Card) -> str:
        """A translator reads the last message of the user, a language model all messages, a line each."""
        if card.verb != "translate":
            return "\n".join(message.text for message in self.messages)
        for message in reversed(self.messages):
            if message.role == "user":
                return message.text
        raise _bad("There is no message of the user to translate.", "messages")


class Completion(_Sampling, kw_only=True):
    prompt: str | list[str]
    echo: bool | None = False

    def check(self) -> None:
        super().check()
        if self.echo:
            raise _bad("echo is not supported: the prompt is not repeated. Leave it out.", "echo")


def routes(desk: Desk, keys: Keyring) -> list[Route]:
    async def models(request: Request) -> Response:
        keys.require(request)
        return answer({"object": "list", "data": [each for card in desk.pool.cards for each in listed(card)]})

    async def model(request: Request) -> Response:
        keys.require(request)
        name = request.path_params["name"]
        card = named(desk, name)
        if name not in [each["id"] for each in listed(card)]:
            raise missing(f"There is no model {name!r}.", "model_not_found")
        return answer({**shown(card, name), "name": name, "ready": True})  # the latter two for KServe's clients

    async def chat(request: Request) -> Response:
        keys.require(request)
        query = await read(request, Chat, desk.limits.body)
        query.check()
        card = _writer(desk, query.model)
        prompt, form = query.prompt(card), _Form("chat.completion", card, chat=True)
        if query.stream:
            return await _streamed(desk, request, card, prompt, query, form)
        reply = await desk.ask(request, card, [prompt], query.settings(card))
        return answer(form.whole([reply.values[0]], reply))

    async def completions(request: Request) -> Response:
        keys.require(request)
        query = await read(request, Completion, desk.limits.body)
        query.check()
        card = _writer(desk, query.model)
        form = _Form("text_completion", card, chat=False)
        prompts = [query.prompt] if isinstance(query.prompt, str) else query.prompt
        if query.stream:
            if len(prompts) != 1:
                raise _bad(f"A stream has one prompt, and there are {len(prompts)}. Send them one by one.", "prompt")
            return await _streamed(desk, request, card, prompts[0], query, form)
        reply = await desk.ask(request, card, prompts, query.settings(card))
        return answer(form.whole(reply.values, reply))

    return [
        Route("/v1/models", models, name="models"),
        Route("/v1/models/{name}", model, name="model"),
        Route("/v1/chat/completions", chat, methods=["POST"], name="chat completions"),
        Route("/v1/completions", completions, methods=["POST"], name="completions"),
    ]


def listed(card: Card) -> list[dict[str, Any]]:
    """A run as the models of this interface: a translator of several languages is also one for each language."""
    names = [f"{card.name}:{language}" for language in dict.fromkeys(target for _, target in card.directions)]
    return [shown(card, name) for name in (card.name, *names)]


def shown(card: Card, name: str) -> dict[str, Any]:
    """A run as a model of this interface; `digest` is the SHA-256 of its weights."""
    language = _language(card, name)
    return {
        "id": name,
        "object": "model",
        "created": card.created,
        "owned_by": "foveate",
        "task": card.verb,
        "digest": card.digest,
        "parameters": card.parameters,
        "languages": card.languages,
        "settings": card.settings,
        "reads": card.reads,
        "directions": [pair for pair in card.directions if language in (None, pair[1])],
    }


def error(refused: RefusedError) -> dict[str, Any]:
    """A refusal in this interface's shape."""
    kind = "invalid_request_error" if refused.status < 500 else "server_error"
    return {"error": {"message": refused.reason, "type": kind, "param": None, "code": refused.code}}


class _Form:
    """Answers to one request."""

    def __init__(self, kind: str, card: Card, *, chat: bool) -> None:
        self.kind, self.card, self.chat = kind, card, chat
        self.id = f"{'chatcmpl' if chat else 'cmpl'}-{secrets.token_hex(12)}"
        self.created = int(time.time())

    def whole(self, values: list[dict[str, Any]], reply: Reply) -> dict[str, Any]:
        choices = []
        for index, value in enumerate(values):
            content = (
                {"message": {"role": "assistant", "content": value["text"]}} if self.chat else {"text": value["text"]}
            )
            choices.append({"index": index, **content, "logprobs": None, "finish_reason": _reason(value)})
        return {**self._head(self.kind), "choices": choices, "usage": _usage(reply)}

    def chunk(self, text: str | None, *, reason: str | None = None, first: bool = False) -> dict[str, Any]:
        content: dict[str, Any]
        if self.chat:
            delta = {"role": "assistant", "content": ""} if first else {} if text is None else {"content": text}
            content = {"delta": delta}
        else:
            content = {"text": text or ""}
        choice = {"index": 0, **content, "logprobs": None, "finish_reason": reason}
        return {**self._head(f"{self.kind}.chunk" if self.chat else self.kind), "choices": [choice]}

    def usage(self, reply: Reply) -> dict[str, Any]:
        return {**self.chunk(None), "choices": [], "usage": _usage(reply)}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.card.name}


async def _streamed(
    desk: Desk, request: Request, card: Card, prompt: str, query: _Sampling, form: _Form
) -> StreamingResponse:
    """Events of an answer. The first part is waited for, so that a refusal has its own status."""
    parts = desk.parts(request, card, [prompt], query.settings(card), "stream")
    first = await anext(parts)
    with_usage = bool(query.stream_options and query.stream_options.include_usage)

    async def events() -> AsyncIterator[bytes]:
        if form.chat:
            yield _event(form.chunk(None, first=True))
        async with aclosing(parts):
            part: Part | Reply = first
            try:
                while isinstance(part, Part):
                    yield _event(form.chunk(part.text))
                    part = await anext(parts)
            except RefusedError as refused:
                yield _event(error(refused))
                return
        yield _event(form.chunk(None, reason=_reason(part.values[0])))
        if with_usage:
            yield _event(form.usage(part))
        yield b"data: [DONE]\n\n"

    return StreamingResponse(events(), media_type="text/event-stream", headers={"cache-control": "no-store"})


def _writer(desk: Desk, name: str) -> Card:
    """A run that writes text. Raises RefusedError for another one."""
    card = named(desk, name)
    if card.verb not in ("translate", "generate"):
        raise missing(f"The run {name} can {card.verb}, and this interface is for models that write. Use /{card.verb}.")
    return card


def named(desk: Desk, name: str) -> Card:
    """The run of a model's name. Raises RefusedError if there is none."""
    run = name.partition(":")[0]
    several = (card for card in desk.pool.cards if card.name == run and card.directions)
    return next(several, None) or desk.card(name=name)


def _language(card: Card, name: str) -> str | None:
    """The language in a model's name, behind the run's."""
    return name.removeprefix(f"{card.name}:") if name != card.name else None


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(value) + b"\n\n"


def _reason(value: dict[str, Any]) -> str:
    return "stop" if value.get("finished", True) else "length"


def _usage(reply: Reply) -> dict[str, int]:
    return {
        "prompt_tokens": reply.read,
        "completion_tokens": reply.written,
        "total_tokens": reply.read + reply.written,
    }


def _bad(reason: str, code: str) -> RefusedError:
    return RefusedError(400, reason, code)
