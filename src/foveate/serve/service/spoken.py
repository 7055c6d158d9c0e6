"""A text as a voice of the service speaks it: the answer is the content of a file."""

from starlette.requests import Request
from starlette.responses import Response

from foveate.serve.service.desk import Desk
from foveate.serve.service.message import Card

MEDIA = {"wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "opus": "audio/ogg", "pcm": "audio/pcm"}
"""The types of the formats of `foveate.data.sound_file`."""
LENGTH, CUT = "x-foveate-seconds", "x-foveate-finished"
"""Headers: the length of the sound, and `false` for speech that was cut at the longest of the model."""


async def spoken(desk: Desk, request: Request, card: Card, text: str, form: str) -> Response:
    """Raises RefusedError for a text that the voice cannot speak."""
    reply = await desk.ask(request, card, [text], {"format": form})
    (value,) = reply.values
    headers = {LENGTH: f"{value['seconds']:.3f}", **({} if value["finished"] else {CUT: "false"})}
    return Response(value["audio"], headers=headers, media_type=MEDIA[form])
