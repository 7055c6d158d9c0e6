"""What a configuration costs, before anything is trained."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from foveate.attention import AttentionRecord, Mechanism, Plan, record
from foveate.nn.multihead import MultiHeadAttention
from foveate.tasks.probe import Probe

PROBES = 3


@dataclass(frozen=True)
class Site:
    """One attention of the model at this size: calls of one shape."""

    name: str
    kind: str
    shape: tuple[int, int, int, int]
    """batch, heads, query, key of one call."""
    calls: int
    """How many there are in one step of training: a decoder's steps, or windows."""
    plan: Plan
    """Of one call."""
    packed: bool
    """Whether a kernel for tokens without padding runs in training, in place of a path."""
    stepped: bool
    """Whether every call hands its weights on to the next one: then they are made, whatever the plan."""


@dataclass(frozen=True, kw_only=True)
class Costs:
    """Parameters, arithmetic, memory and time of one training step, and the path of every attention."""

    probe: Probe
    parameters: int
    flops: float
    seconds: float
    sites: tuple[Site, ...]

    @property
    def training_bytes(self) -> int:
        """Weights, gradients and two moments, in float32; activations come on top."""
        return 16 * self.parameters

    def __str__(self) -> str:
        probe = self.probe
        lines = [
            f"{type(probe.model).__name__}: {self.parameters:,} parameters ({probe.vocabulary})",
            f"memory of weights, gradients and AdamW's moments: {self.training_bytes / 2**20:,.0f} MiB",
            f"a batch: {probe.batch}; one step: {self.flops / 1e9:,.1f} GFLOP, "
            f"{self.seconds * 1e3:,.0f} ms here, {probe.tokens / self.seconds:,.0f} {probe.unit} per second",
        ]
        lines += [line for group in _alike(self.sites) for line in _described(group)]
        return "\n".join(lines if self.sites else [*lines, "no attention: what is read goes through fixed vectors"])


def plan(probe: Probe, *, bfloat16: bool = False) -> Costs:
    """Make some steps with the batch, and ask every attention of the model for its path."""

    def step() -> float:
        started = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            loss = probe.loss()
        loss.backward()
        probe.model.zero_grad()
        return time.perf_counter() - started

    counter = FlopCounterMode(display=False)
    with counter:
        step()
    return Costs(
        probe=probe,
        parameters=sum(weight.numel() for weight in probe.model.parameters() if weight.requires_grad),
        flops=float(counter.get_total_flops()),
        seconds=statistics.median(step() for _ in range(PROBES)),
        sites=_sites(probe, bfloat16),
    )


def _sites(probe: Probe, bfloat16: bool) -> tuple[Site, ...]:
    modules = dict(probe.model.named_modules())
    sites = []
    for calls in _calls(probe, bfloat16):
        at = calls[0]
        mechanism, around = modules[at.name], modules.get(at.name.rpartition(".")[0])
        if isinstance(mechanism, Mechanism):
            tokens = at.query.new_zeros(1, at.query.shape[1] * at.query.shape[3])
            packed = isinstance(around, MultiHeadAttention) and not around.refuses_packed(tokens, max(at.shape[2:]))
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                chosen = mechanism.plan(at.query.detach().requires_grad_(), at.key, at=at.at)
            stepped = at.at.previous is not None
            sites.append(Site(at.name, at.kind, at.shape, len(calls), chosen, packed, stepped))
    return tuple(sites)


def _calls(probe: Probe, bfloat16: bool) -> list[list[AttentionRecord]]:
    """Every call of every attention, those of one site, shape and number type together."""
    calls: dict[tuple[object, ...], list[AttentionRecord]] = {}
    cast = torch.autocast("cpu", torch.bfloat16, enabled=bfloat16)
    with torch.no_grad(), cast, record(probe.model.eval(), gradient=True) as recording:
        probe.loss()
        for call in recording:  # here: behind the block, a decoder's steps are one record
            calls.setdefault((call.name, call.shape, call.query.dtype), []).append(call)
    return list(calls.values())


def _alike(sites: Sequence[Site]) -> list[list[Site]]:
    """Sites with the same question and the same answer, together."""
    groups: dict[tuple[object, ...], list[Site]] = {}
    for site in sites:
        question = (site.kind, site.shape, site.calls, site.plan.because, site.packed, site.stepped)
        groups.setdefault(question, []).append(site)
    return list(groups.values())


def _described(group: Sequence[Site]) -> list[str]:
    """What these attentions are, and what every path says to them."""
    site = group[0]
    _, heads, query, key = site.shape
    many = "1 head" if heads == 1 else f"{heads} heads"
    size = f"{query} × {key}" if site.calls == 1 else f"{site.calls} × ({query} × {key})"
    lines = ["", *(site.name for site in group), f"  {site.plan.because}, {many} × {size}"]
    if site.stepped:
        return [*lines, "  → all weights are made: each call hands them on to the next one"]
    if site.packed:
        lines.append("  → packed: one kernel over tokens without padding; with padding it would be")
    return [*lines, *(f"  {line}" for line in site.plan.table().splitlines())]
