"""Metrics for Prometheus. No metric has a text, an address of a client or a key."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Counters:
    """The metrics of one service, in a registry of their own."""

    def __init__(self) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter("foveate_requests", "requests by route and status", ["route", "status"], registry=own)
        self.seconds = Histogram(
            "foveate_request_seconds", "time until a request was answered", ["route"], buckets=SECONDS, registry=own
        )
        self.first = Histogram(
            "foveate_first_part_seconds", "time until a stream began", ["run"], buckets=SECONDS, registry=own
        )
        self.refusals = Counter("foveate_refusals", "requests without an answer, by reason", ["code"], registry=own)
        self.tokens = Counter("foveate_tokens", "tokens that models read and wrote", ["run", "side"], registry=own)
        self.unknown = Counter(
            "foveate_unknown", "questions with words or characters that the run does not know", ["run"], registry=own
        )
        self.waiting = Gauge("foveate_waiting_characters", "cost of the requests that are not answered", registry=own)
        self.in_flight = Gauge("foveate_requests_in_flight", "requests that are not answered", registry=own)
        self.rate = Gauge("foveate_characters_per_second", "cost that is worked off in a second", registry=own)
        self.restarts = Gauge("foveate_model_process_restarts", "model processes started again", registry=own)
        self.ready = Gauge("foveate_ready", "1 while requests are admitted", registry=own)

    def text(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
