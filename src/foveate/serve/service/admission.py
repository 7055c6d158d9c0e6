"""Admission: a request waits in order if its turn comes soon, and is refused at once if not.

A service that accepts everything answers nothing in time when too much is asked: all requests wait until their
deadlines. The cost of a request is known before its text is tokenised, by its characters, and the rate at which cost is
worked off is measured, so that the waiting time is known too. Runs differ in speed, and all requests have one measure,
the characters of the slowest run: the cost of a text for a faster one is less, by their speeds at the start
(`Card.speed`), and that of a file follows from the time that its run took for such files then (`Card.price`).

What is answered in flight gets half of the time while a batch is answered (`ModelProcess`), so that it waits for
explanations and for twice of what flies at most, and not for all.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from foveate.serve.service.refused import RefusedError

Lane = Literal["flight", "batch", "explanation"]
"""The ways to answer a request: in flight, in a batch or alone, or by an explanation, during which its run rests."""
HALF_LIFE = 5.0
"""Seconds of work after which a measurement counts half."""
COMPANY = 8
"""Texts that show the speed of the models when they are answered together."""
CHARACTERS_A_TOKEN = 4
AGAIN = 0.95
"""The share of the patience that may be waited for after which a full service reads requests again."""
EXPLAINING = 4
"""An explanation costs as much as this many answers."""


@dataclass(frozen=True)
class Limits:
    """The limits on requests, and on waiting."""

    body: int = 1_000_000
    """Bytes of a request."""
    texts: int = 128
    """Texts of a request."""
    characters: int = 20_000
    """Characters of a text."""
    lines: int = 2_000
    """Lines of a text."""
    upload: int = 25_000_000
    """Bytes of a request with files."""
    files: int = 16
    """Files of a request."""
    freight: int = 128_000_000
    """Bytes of all files that are being sent, wait or are answered."""
    arrival: float = 20.0
    """Seconds in which a request must have arrived whole; one that has not gets the status 408."""
    timeout: float = 30.0
    """Seconds until a request that has no answer gets the status 504."""
    wait: float = 2.0
    """Seconds that a request may have to wait for its turn; where it would be longer, it gets the status 429."""
    drain: float = 30.0
    """Seconds in which admitted requests may end after SIGTERM."""


def cost(kind: str, texts: Sequence[str], settings: Mapping[str, Any], lengths: tuple[int, int] = (0, 0)) -> int:
    """The cost of a request, in characters that are read or written. `lengths` are the tokens that the run writes
    unless the request says how many, and the most (`Card.lengths`).

    >>> cost("answer", ["four", "words"], {}), cost("stream", ["four"], {"max_tokens": 10}, (128, 4096))
    (9, 44)
    """
    read = sum(map(len, texts))
    if kind == "explain":  # the text itself is explained, and a target that is forced
        return EXPLAINING * (read + len(forced(settings)) * len(texts))
    return read + CHARACTERS_A_TOKEN * tokens_of(settings, lengths) * len(texts)


def tokens_of(settings: Mapping[str, Any], lengths: tuple[int, int]) -> int:
    """The most tokens of each continuation."""
    usual, most = lengths
    tokens = settings.get("max_tokens")
    return min(tokens, most) if isinstance(tokens, int) and tokens > 0 else usual


def forced(settings: Mapping[str, Any]) -> str:
    """The answer that an explanation is forced to have; empty where it has its own."""
    target = settings.get("target")
    return target if isinstance(target, str) else ""


class Admission:
    """Keeps the cost of what was admitted and is not answered yet, and the rate."""

    def __init__(self, limits: Limits, *, workers: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits, self.workers, self.clock = limits, workers, clock
        self.costs: dict[Lane, int] = {"flight": 0, "batch": 0, "explanation": 0}
        """The cost of the admitted requests without an answer, by how they are answered."""
        self._fastest: Lane = "batch"
        self._cost = self._seconds = 0.0
        self._slow = (0.0, 0.0)
        """The cost and seconds of slow answers with little company, which fade like the others."""
        self._initial = 0.0
        self._full = False

    def worth(self, seconds: float) -> int:
        """The cost of work that is known by its time: the characters that could be read instead."""
        return max(round(seconds * (self._initial or 1.0)), 1)

    @property
    def is_full(self) -> bool:
        """Whether a request was refused and not much has been answered since, so that others need not be read."""
        if self._full and self._ahead(self._fastest) <= AGAIN * self.rate * self._patience:
            self._full = False
        return self._full

    @property
    def waiting(self) -> int:
        """The cost of all admitted requests without an answer."""
        return sum(self.costs.values())

    @property
    def rate(self) -> float:
        """The cost that is worked off in a second by all model processes together; 0 before anything is known."""
        own = self._cost / self._seconds if self._seconds else self._initial
        return own * self.workers

    def begin(self, rate: float, *, flights: bool = False) -> None:
        """Take a rate to begin with, of one model process. `flights` says whether a run answers in flight."""
        self._initial, self._fastest = rate, "flight" if flights else "batch"

    def measured(self, cost: int, seconds: float, together: int = COMPANY) -> None:
        """So much was answered, in so many seconds since the answer before, while so many texts were in work. Few
        together take longer for each: they show how fast the models are at least, and texts without characters show
        nothing. Of several answers at once the first has all seconds, so that few are judged with those before them.
        """
        if not cost:
            return
        if together < COMPANY:
            fade = math.exp2(-seconds / HALF_LIFE)
            work, took = fade * self._slow[0] + cost, fade * self._slow[1] + seconds
            if work < self.rate / self.workers * took:
                self._slow = work, took
                return
        else:
            work, took = float(cost), seconds
        self._slow = 0.0, 0.0
        fade = math.exp2(-took / HALF_LIFE)
        self._cost, self._seconds = fade * self._cost + work, fade * self._seconds + took

    def admit(self, cost: int, *, alone: float = 0.0, streams: bool = False, lane: Lane = "batch") -> None:
        """Count a request as waiting; `lane` says how it is answered.

        Raises RefusedError (429) if its turn would come too late, and (422) if even an idle service could not answer it
        before its deadline: its tokens follow each other, which takes `alone` seconds at least. One that streams has no
        deadline for the whole.

        An idle service admits every other request.
        """
        # A slow moment must not shut out a request that is needed for measuring again: hence the initial speed too.
        speed = max(self._initial, self.rate / self.workers)
        least = max(alone, cost / speed if speed else 0.0)
        if least > self.limits.timeout and not streams:
            raise RefusedError(
                422,
                f"This request would take about {least:.0f} seconds, and an answer has to be ready within "
                f"{self.limits.timeout:g}. Divide it, or ask for fewer tokens.",
                "too_long",
            )
        if self.waiting and self.rate and self._ahead(lane, cost) / self.rate > self._patience:
            self._full = True
            raise self.busy(cost, lane=lane)
        self.costs[lane] += cost

    def busy(self, cost: int = 0, *, lane: Lane | None = None) -> RefusedError:
        """The refusal (429) of a request, without a `lane` of one that was not read."""
        wait = self._ahead(lane or self._fastest, cost) / self.rate
        return RefusedError(
            429,
            f"The service is busy: this request would wait {wait:.1f} seconds. Try again later.",
            "overloaded",
            {"retry-after": str(max(1, math.ceil(wait - self._patience)))},
        )

    @property
    def _patience(self) -> float:
        return min(self.limits.timeout / 2, self.limits.wait)

    def _ahead(self, lane: Lane, cost: int = 0) -> int:
        """The cost that is worked off before the end of a request, with its own."""
        whole = self.waiting + cost
        if lane != "flight":
            return whole
        return min(whole, self.costs["explanation"] + 2 * (self.costs["flight"] + cost))

    def release(self, cost: int, *, lane: Lane = "batch") -> None:
        """A request was answered, or nobody waits for it any more."""
        self.costs[lane] -= cost
