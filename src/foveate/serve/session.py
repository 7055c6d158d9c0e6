"""The state of a server: traces by name, and a model for running them again."""

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from foveate.errors import UsageError
from foveate.inspect import Trace, TraceProvider
from foveate.inspect.alignment import readable
from foveate.inspect.answer_switch import Ablator
from foveate.inspect.rerun import Rerunner

BESIDE = "beside"
"""The name of the other model's trace."""
KEPT = 8
"""The number of reruns whose traces are kept."""


class Session:
    """One trace, that of another model for the same text, and the traces of reruns."""

    def __init__(
        self,
        trace: Trace,
        rerunner: Rerunner | None = None,
        ablator: Ablator | None = None,
        *,
        beside: Trace | None = None,
    ) -> None:
        self.main, self.rerunner, self.ablator = TraceProvider(trace), rerunner, ablator
        self.beside = None if beside is None else TraceProvider(beside)
        self._others: OrderedDict[str, TraceProvider] = OrderedDict()
        self._made = 0
        self._lock = Lock()

    def provider(self, name: str | None) -> TraceProvider:
        """The provider of the trace, or of a rerun. Raises UsageError for one that was discarded."""
        if not name:
            return self.main
        if name == BESIDE and self.beside is not None:
            return self.beside
        with self._lock:
            if name not in self._others:
                raise UsageError(f"There is no trace {name!r}. The last {KEPT} reruns are kept: run it again.")
            return self._others[name]

    def meta(self, name: str | None) -> dict[str, Any]:
        """The header of a trace, and what can be asked of the model behind it."""
        ablates = {} if name or self.ablator is None else {"ablates": self.ablator.track}
        beside = {} if name or self.beside is None else {"beside": BESIDE}
        attached = self.rerunner is not None and name != BESIDE
        return {**self.provider(name).meta(), "attached": attached, "text": True, **ablates, **beside}

    def rerun(
        self, source: str, target: str | None, heads_off: Sequence[tuple[int, int]], tokens_off: Sequence[int]
    ) -> dict[str, Any]:
        """Run the model again and keep its trace under the name in the result."""
        if self.rerunner is None:
            raise UsageError("No model is attached: this is a stored trace. Open a run folder to run it again.")
        done = self.rerunner(source, target, heads_off=self._named(heads_off), tokens_off=tokens_off)
        with self._lock:
            self._made += 1
            name = f"rerun-{self._made}"
            self._others[name] = TraceProvider(done.trace.named(self.main.trace.pedigree.run))
            while len(self._others) > KEPT:
                self._others.popitem(last=False)
        return {
            "trace": name,
            "output": list(readable(done.output)),
            "before": list(readable(done.before)),
            "changed": done.changed,
            "log_probability": done.log_probability,
            "log_probability_before": done.log_probability_before,
        }

    def ablate(
        self, heads_off: Sequence[tuple[int, int]], tokens_off: Sequence[int], site: int, head: int | None
    ) -> dict[str, Any]:
        """The answer with some heads and tokens switched off, and the weights of a site and a head (None: the mean)."""
        if self.ablator is None:
            raise UsageError("No model is attached: this is a stored trace. Open a run folder to switch words off.")
        trace = self.main.trace
        off = self._named(heads_off)
        self._named([(site, head or 0)])
        return self.ablator(heads_off=off, tokens_off=tokens_off, site=site, head=head).header(trace.tracks)

    def _named(self, heads: Sequence[tuple[int, int]]) -> list[tuple[str, int]]:
        """Heads by the names of their sites. Raises UsageError for one that does not exist."""
        sites = self.main.trace.sites
        for site, head in heads:
            if not (0 <= site < len(sites) and 0 <= head < sites[site].heads):
                raise UsageError(f"There is no head {head} at site {site}.")
        return [(sites[site].name, head) for site, head in heads]
