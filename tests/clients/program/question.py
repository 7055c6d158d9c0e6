"""The question to a program: an address, a key or none, texts for the model `en-fr`, a text for `all`, a recording
for `asr`, a picture, and a text for `voice`. The answer is the last line that it prints: JSON.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Question:
    address: str
    key: str | None
    texts: list[str]
    text: str
    letters: dict[str, str]
    """The translations of this text, by language, which the model `all` writes."""
    recording: dict[str, Any]
    """The path of a recording, and the `text` and the `words` that the model `asr` writes."""
    picture: dict[str, str]
    """The path of a picture, the `label` of the model `pictures`, and the `caption` of `captions`."""
    speech: dict[str, str]
    """A text, and the `sha256` of the WAV file with which the model `voice` answers."""

    @classmethod
    def read(cls) -> "Question":
        return cls(**json.loads(sys.argv[1]))

    @property
    def headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"} if self.key else {}


def tell(answer: Any) -> None:
    """Print the answer."""
    print(json.dumps(answer))


@contextmanager
def fails(kind: type[Exception], words: str) -> Iterator[None]:
    """The block must end with such an error, whose message has these words."""
    try:
        yield
    except kind as error:
        if words not in str(error):
            raise AssertionError(f"{words!r} is not in the message: {error}") from error
    else:
        raise AssertionError(f"There was no {kind.__name__} with {words!r}.")
