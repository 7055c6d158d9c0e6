"""OpenAI's interface for sound: transcriptions, which are asked for by a form with a recording, and speech.

What a run does not know is not made up: its language is repeated from the request, and there are no segments. A voice
is that of its recordings, whatever the name in the request.
"""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from foveate.serve.service.body import PARTS, answer, read
from foveate.serve.service.desk import Desk
from foveate.serve.service.keyring import Keyring
from foveate.serve.service.message import Card
from foveate.serve.service.open_ai import named
from foveate.serve.service.refused import RefusedError, invalid, missing
from foveate.serve.service.spoken import MEDIA, spoken
from foveate.serve.service.upload import Upload, type_of

FORMATS = ("json", "text", "verbose_json")
GRANULARITIES = "timestamp_granularities[]"
UNSUPPORTED = ("prompt", "include", "chunking_strategy", "keywords", "languages", "known_speaker")
"""The beginnings of the names of fields that would change an answer."""


class Speech(msgspec.Struct, kw_only=True):
    """`voice` is read over: a run has one voice."""

    model: str
    input: str
    voice: Any = None
    response_format: str | None = None
    speed: float | None = None
    instructions: str | None = None
    stream_format: str | None = None

    @property
    def form(self) -> str:
        """The format of the answer; that interface's own default is MP3."""
        return self.response_format or "mp3"

    def check(self) -> None:
        """Raises RefusedError (400) for what would change the sound and is not supported."""
        if self.form not in MEDIA:
            raise _bad(f"response_format = {self.form!r:.40} is not supported. Known: {', '.join(MEDIA)}.")
        if self.speed not in (None, 1):
            raise _bad(f"speed = {self.speed:g} is not supported: a run speaks as fast as its voice. Leave it out.")
        if self.instructions:
            raise _bad("instructions are not supported: a run has one way to speak. Leave them out.")
        if self.stream_format not in (None, "audio"):
            raise _bad("Streams of speech are not supported. Leave `stream_format` out.")


def routes(desk: Desk, keys: Keyring) -> list[Route]:
    async def speech(request: Request) -> Response:
        keys.require(request)
        query = await read(request, Speech, desk.limits.body)
        query.check()
        card = _able(desk, query.model, "speak")
        return await spoken(desk, request, card, query.input, query.form)

    async def transcriptions(request: Request) -> Response:
        keys.require(request)
        if type_of(request) != PARTS:
            raise RefusedError(415, f"A transcription is asked for by a form of several parts ({PARTS}).", "type")
        async with desk.freight.upload(request) as upload:
            name, form = upload.one("model"), _format(upload)
            if name is None:
                raise invalid("The form has no field `model`, which names a run.")
            card = _able(desk, name, "transcribe")
            if card.reads != "recordings":
                raise missing(f"The run {name} reads {card.reads}, and this path is for recordings. Use /transcribe.")
            if len(upload.files) != 1:
                raise _bad(f"A transcription has one file, and there are {len(upload.files)}. Send them one by one.")
            reply = await desk.ask_files(request, card, upload.files)
            return _answered(reply.values[0], form, upload)

    return [
        Route("/v1/audio/transcriptions", transcriptions, methods=["POST"], name="transcriptions"),
        Route("/v1/audio/speech", speech, methods=["POST"], name="speech"),
    ]


def _able(desk: Desk, name: str, verb: str) -> Card:
    """The run of a model's name. Raises RefusedError (404) for one that does something else."""
    card = named(desk, name)
    if card.verb != verb:
        raise missing(f"The run {name} can {card.verb}, and this path is for models that {verb}. Use /{card.verb}.")
    return card


def _format(upload: Upload) -> str:
    """The format of the answer. Raises RefusedError (400) for what would change the answer and is not supported."""
    form = upload.one("response_format") or "json"
    if form not in FORMATS:
        raise _bad(f"response_format = {form!r:.40} is not supported. Known: {', '.join(FORMATS)}.")
    for name, values in upload.fields.items():
        if name.startswith(UNSUPPORTED) and any(values):
            raise _bad(f"{name:.40} is not supported: the text is the most probable one. Leave it out.")
    try:
        temperature = float(upload.one("temperature") or 0)
    except ValueError:
        temperature = -1.0
    if temperature != 0:
        raise _bad("A temperature other than 0 is not supported: the text is the most probable one. Leave it out.")
    if (upload.one("stream") or "false").lower() not in ("false", "0"):
        raise _bad("Streams of transcriptions are not supported. Leave `stream` out.")
    if wishes := _granularities(upload):
        if form != "verbose_json":
            raise _bad(f"{GRANULARITIES} are for response_format = verbose_json. Leave them out.")
        if wishes != {"word"}:
            raise _bad(f"{GRANULARITIES} can be `word`: a run does not divide recordings into segments.")
    return form


def _granularities(upload: Upload) -> set[str]:
    return set(upload.fields.get(GRANULARITIES, ()))


def _answered(value: dict[str, Any], form: str, upload: Upload) -> Response:
    if form == "text":
        return PlainTextResponse(value["text"] + "\n")
    usage = {"type": "duration", "seconds": value["seconds"]}
    if form == "json":
        return answer({"text": value["text"], "usage": usage})
    if value["words"] is None and _granularities(upload):
        raise _bad(f"This run has no CTC, which tells when a word is heard. Leave {GRANULARITIES} out.")
    words = {} if value["words"] is None else {"words": value["words"]}
    head = {"task": "transcribe", "language": upload.one("language") or "", "duration": value["seconds"]}
    return answer({**head, "text": value["text"], **words, "usage": usage})


def _bad(reason: str) -> RefusedError:
    return RefusedError(400, reason, "unsupported")
