"""Messages between the front and a model process: a length in four bytes, then MessagePack."""

import socket
import struct
from typing import Any, Literal

import msgspec

Kind = Literal["answer", "stream", "explain"]
_SIZE = struct.Struct("<I")


class Question(msgspec.Struct, tag=True, frozen=True):
    """Texts or files for a run. `left` are the seconds until nobody waits for the answer any more, `cost` is in
    characters (see `admission`).
    """

    number: int
    run: str
    kind: Kind
    texts: list[str]
    settings: dict[str, Any]
    left: float
    cost: int
    files: list[bytes] = []
    """The contents of files, for a run that reads these instead of texts."""

    @property
    def things(self) -> list[Any]:
        """The texts or files."""
        return self.files or self.texts


class Drop(msgspec.Struct, tag=True, frozen=True):
    """Nobody waits for the answer to a question."""

    number: int


class Card(msgspec.Struct, frozen=True):
    """A loaded run."""

    name: str
    verb: str
    folder: str
    digest: str
    parameters: int
    languages: tuple[str, str] | None
    created: int
    settings: tuple[str, ...]
    speed: float
    """Cost that was worked off in a second when the run was loaded; 0 for a run that reads files (see `price`)."""
    lengths: tuple[int, int] = (0, 0)
    """The tokens of a continuation unless a request says how many, and the most."""
    pace: float = 0.0
    """The tokens of one continuation in a second, without company; 0 for a model that does not continue texts."""
    directions: tuple[tuple[str, str], ...] = ()
    """The languages that a translator of several directions translates between; a request says which with `to`."""
    reads: str = "texts"
    """Texts, recordings, pictures or vectors; all but texts are files."""
    price: tuple[float, float] = (0.0, 0.0)
    """The seconds of work for each file, and for each second of sound, pixel or vector, when the run was loaded."""
    flies: tuple[str, ...] | None = None
    """The settings with which texts are answered in flight; None for a run that answers in batches only."""

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The languages that the run is known to translate between."""
        return self.directions or ((self.languages,) if self.languages else ())


class Ready(msgspec.Struct, tag=True, frozen=True):
    """All runs are loaded and have answered once."""

    cards: list[Card]


class Failed(msgspec.Struct, tag=True, frozen=True):
    """The runs cannot be loaded."""

    reason: str
    exit_code: int


class Part(msgspec.Struct, tag=True, frozen=True):
    """More text of a streamed answer."""

    number: int
    text: str
    unknown: tuple[str, ...] = ()
    """As in a reply. A stream says it in its first part, and not in its reply."""


class Reply(msgspec.Struct, tag=True, frozen=True):
    """The answer to a question: values as JSON has them, and the tokens that were read and written."""

    number: int
    values: list[Any]
    read: int
    written: int
    cost: int
    seconds: float
    """The cost of the batch, and the seconds in which it was answered."""
    unknown: tuple[str, ...] = ()
    """Words or characters of the texts that the model does not know, each once."""


class Refusal(msgspec.Struct, tag=True, frozen=True):
    """The reason why a question has no answer, with the status of HTTP."""

    number: int
    status: int
    reason: str


class Beat(msgspec.Struct, tag=True, frozen=True):
    """The loop of the model process turns."""


ToModel = Question | Drop
FromModel = Ready | Failed | Part | Reply | Refusal | Beat

_encoder = msgspec.msgpack.Encoder()
_to_model = msgspec.msgpack.Decoder(ToModel)
_from_model = msgspec.msgpack.Decoder(FromModel)


def packed(message: ToModel | FromModel) -> bytes:
    """A message with its length."""
    content = _encoder.encode(message)
    return _SIZE.pack(len(content)) + content


def encodable(text: str) -> str:
    """A text with escapes for what UTF-8 cannot have, such as some bytes in the name of a folder."""
    return text.encode(errors="backslashreplace").decode()


def size_of(header: bytes) -> int:
    """The length of the message after its header."""
    return int(_SIZE.unpack(header)[0])


def from_model(content: bytes) -> FromModel:
    """A message of a model process."""
    return _from_model.decode(content)


def receive(connection: socket.socket) -> ToModel | None:
    """Wait for a message of the front; None where the front has ended."""
    header = _exactly(connection, _SIZE.size)
    content = None if header is None else _exactly(connection, size_of(header))
    return None if content is None else _to_model.decode(content)


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    content = bytearray()
    while len(content) < size:
        try:
            more = connection.recv(min(size - len(content), 1 << 16))
        except OSError:  # also a connection that another thread has closed
            return None
        if not more:
            return None
        content += more
    return bytes(content)


def settings_of(**settings: Any) -> dict[str, Any]:
    """Settings without those that a request left out."""
    return {name: value for name, value in settings.items() if value is not None and value is not msgspec.UNSET}
