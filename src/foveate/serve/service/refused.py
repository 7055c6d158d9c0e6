"""A request that gets no answer: its status of HTTP, and the reason."""

from collections.abc import Mapping

LONGEST = 4_000
"""Characters of a reason: it quotes names of the request, which may be as long as that is."""


class RefusedError(Exception):
    """`reason` says what is wrong, where, and what to try; `code` is one word for programs."""

    def __init__(self, status: int, reason: str, code: str, headers: Mapping[str, str] | None = None) -> None:
        if len(reason) > LONGEST:
            half = LONGEST // 2
            reason = f"{reason[:half]} … {reason[-half:]}"
        super().__init__(reason)
        self.status, self.reason, self.code, self.headers = status, reason, code, dict(headers or {})


def unavailable(reason: str) -> RefusedError:
    """The models are starting, or were lost."""
    return RefusedError(503, reason, "unavailable", {"retry-after": "1"})


def invalid(reason: str) -> RefusedError:
    """The request is understood, and cannot be answered as it is."""
    return RefusedError(422, reason, "invalid_request")


def missing(reason: str, code: str = "not_found") -> RefusedError:
    return RefusedError(404, reason, code)
