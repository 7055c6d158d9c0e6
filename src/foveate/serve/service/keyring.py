"""Keys: who may ask."""

import hmac
from pathlib import Path

from starlette.requests import Request

from foveate.errors import DataError, UsageError
from foveate.serve.service.refused import RefusedError

SHORTEST = 16
"""The fewest characters of a key."""


class Keyring:
    """The keys of a service. Without keys anybody may ask, which is for this machine only."""

    def __init__(self, keys: tuple[str, ...] = ()) -> None:
        self._keys = [key.encode() for key in keys]

    @classmethod
    def read(cls, path: Path) -> "Keyring":
        """Keys from a file, one in each line. Raises DataError for a file without keys, UsageError for a short key."""
        try:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"The keys cannot be read from {path}: {error}.") from error
        keys = tuple(key for key in map(str.strip, lines) if key and not key.startswith("#"))
        if not keys:
            raise DataError(
                f"{path} has no keys. Write one in each line, such as the output of `openssl rand -hex 24`."
            )
        for number, key in enumerate(keys, start=1):
            if len(key) < SHORTEST or not key.isascii():
                raise UsageError(
                    f"Key {number} of {path} has {len(key)} characters: a key needs at least {SHORTEST} of ASCII, so "
                    "that it cannot be guessed. `openssl rand -hex 24` makes one."
                )
        return cls(keys)

    @property
    def needed(self) -> bool:
        return bool(self._keys)

    def require(self, request: Request, in_body: object = None) -> None:
        """Raises RefusedError without a valid key in the header `Authorization: Bearer`, in `X-API-Key`, or in the body
        (`in_body`).
        """
        if not self._keys:
            return
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        token = token.strip() if scheme.lower() == "bearer" else ""
        offered = token or request.headers.get("x-api-key", "") or (in_body if isinstance(in_body, str) else "")
        if not offered:
            raise RefusedError(
                401,
                "A key is needed: send the header `Authorization: Bearer KEY`.",
                "key_needed",
                {"www-authenticate": "Bearer"},
            )
        # All keys are compared, each in constant time.
        if not sum(hmac.compare_digest(offered.encode("utf-8", "replace"), key) for key in self._keys):
            raise RefusedError(403, "The key is not valid.", "key_invalid")
