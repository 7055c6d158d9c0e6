"""Before training: the models and steps that fit a time, and the costs of a configuration.

The sizes are rules, not measurements: the same data on the same machine give the same configuration. The seconds that a
step takes were measured once, on one core of an x86 server of 2 cores with AVX-512 (22 November 2026), and are within a
factor of two on others. `plan`, and training before step 1, measure them on this machine.
"""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from foveate.attention import AttentionRecord, Mechanism, Plan, record
from foveate.data.batch import Batch
from foveate.data.text import require_lasting
from foveate.data.tokeniser import BOS, EOS, SPECIALS, ByteConfig
from foveate.errors import FoveateError, UsageError
from foveate.nn.multihead import MultiHeadAttention
from foveate.suggestion import counted

Example = TypeVar("Example")
Size = Literal["small", "medium", "large"]
MINUTES: dict[Size, int] = {"small": 10, "medium": 60, "large": 480}
"""A small model is ready after a coffee, a medium one after lunch, a large one in the morning."""
GAIN = 0.7
"""c cores do the work of c to the power of this: small products do not fill them."""
SAMPLE = 20_000
"""Examples that are looked at closely; the rest is only counted."""
TIERS = (3_000, 20_000)
"""Core seconds from which on a larger model is the better one. At 900 on 30,000 sentence pairs the narrow models won:
perplexity 27 of a Transformer 128 wide, 43 of one 192 wide, 22 of a GRU 128 wide, each after 250 core seconds."""


@dataclass(frozen=True)
class Allowance:
    """The time that a training may take.

    >>> small = Allowance("small", cores=2)
    >>> round(small.work), small.tier, small.steps(50_000, pace=0.11)
    (975, 0, 8800)
    >>> Allowance("large", cores=2).tier
    2
    """

    size: Size = "small"
    cores: int = 1

    @classmethod
    def here(cls, size: Size | None = None, threads: int | None = None) -> "Allowance":
        """For the cores that torch uses, or so many threads. Raises UsageError for a size that there is not."""
        if size is not None and size not in MINUTES:
            raise UsageError(f"size must be one of {', '.join(MINUTES)}, got {size!r}.")
        return cls(size or "small", threads or torch.get_num_threads())

    @property
    def minutes(self) -> int:
        return MINUTES[self.size]

    @property
    def work(self) -> float:
        """Seconds of one core."""
        return 60 * self.minutes * self.cores**GAIN

    @property
    def tier(self) -> int:
        """0, 1 or 2: which models fit."""
        return sum(self.work >= limit for limit in TIERS)

    def steps(self, desired: int, *, pace: float, least: int = 100) -> int:
        """The number of steps for the data, within the time; `pace` are seconds of one core for each step."""
        fitting = int(self.work / pace)
        return max(min(desired, fitting // 100 * 100 if fitting >= 1000 else fitting), least)

    def __str__(self) -> str:
        return f"for a time of up to about {self.minutes} minutes on {counted(self.cores, 'core')}"


@dataclass(frozen=True)
class Reason:
    """The reason for some settings."""

    name: str
    why: str
    paths: tuple[str, ...] = ()
    """The settings, or tables of them; by default the one of this name."""

    @property
    def about(self) -> tuple[str, ...]:
        return self.paths or (self.name,)


@dataclass(frozen=True)
class Suggestion:
    """Settings for a configuration, and why."""

    settings: dict[str, Any]
    facts: str
    """The size of the data, in words."""
    reasons: tuple[Reason, ...]
    size: Size = "small"
    others: Mapping[Size, dict[str, Any]] = field(default_factory=dict)
    """The settings that other sizes would have."""
    lengths: tuple[int, ...] = ()
    """Tokens of a usual example, in the order of the entry's `lengths`."""


def with_others(choose: Callable[[Allowance], Suggestion], allowance: Allowance) -> Suggestion:
    """The choice for a size, with the settings for other sizes."""
    sizes = {size: choose(replace(allowance, size=size)).settings for size in MINUTES if size != allowance.size}
    return replace(choose(allowance), size=allowance.size, others=sizes)


def sample_of(examples: Iterator[Example], most: int) -> tuple[list[Example], int]:
    """The first examples, and the number of all."""
    sample = list(islice(examples, most))
    return sample, len(sample) + sum(1 for _ in examples)


def training_table(steps: int, *, rate: float, warmup: int = 200, interval: int = 50, **others: Any) -> dict[str, Any]:
    """The settings of training for so many steps: a learning rate that falls by a cosine after at most so many steps
    of warmup, and twenty validations, or fewer, with at least so many steps between them.
    """
    interval = max(steps // 20, interval)
    return {
        "steps": steps,
        "learning_rate": rate,
        "schedule": {"kind": "cosine", "warmup": min(warmup, max(steps // 10, 1))},
        "validate_every": interval,
        "save_every": interval,
        **others,
    }


BEGINNING = ("initialise_from", "new_vocabulary")
"""Settings that say what a run begins with, on which the sizes depend."""
VOCABULARY = 8000
"""The assumed size, where a tokeniser takes it from the data."""
LABELS = 10
"""The assumed number of labels, which the data determine."""


PROBES = 3
"""Steps that are timed."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Probe:
    """A model and a random batch of the configured size, for measuring a step of training.

    `vocabulary` and `batch` are descriptions, `tokens` is the size of the batch, counted in `unit`.
    """

    model: nn.Module
    loss: Callable[[], Tensor]
    vocabulary: str
    batch: str
    tokens: int
    unit: str
    remarks: tuple[str, ...] = ()
    """Further lines on the model, such as its latency."""
    others: Sequence[tuple[Callable[[], Tensor], float]] = ()
    """Losses of batches with fewer rows, and their sizes as shares of this one, where training has batches of many
    sizes: a batch that comes again and again takes up to a quarter less time than one of another size.
    """


def fewer(loss_of: Callable[[int], Callable[[], Tensor]], rows: int) -> list[tuple[Callable[[], Tensor], float]]:
    """The `others` of a probe, by the loss of a batch of so many rows."""
    return [(loss_of(less), less / rows) for less in range(rows - 1, max(rows - 1 - PROBES, 0), -1)]


def beginning(path: str, read: Callable[[str], Iterator[Example]]) -> list[Example]:
    """The first examples of a file; none where no file is named, or it cannot be read: the figures of a model can be
    had before its data.
    """
    with contextlib.suppress(FoveateError):
        require_lasting(path)
        return list(islice(read(path), SAMPLE)) if path else []
    return []


def vocabulary(tokeniser: Any, default: int | None = None, texts: Callable[[], Sequence[str]] = list) -> int:
    """The size of a tokeniser's vocabulary: by its configuration, by a default, or what it learns from texts. Raises
    UsageError for one without room for text.
    """
    fixed = ByteConfig().train([]).vocab_size if isinstance(tokeniser, ByteConfig) else None
    size = fixed or getattr(tokeniser, "vocab_size", None) or default
    if size is None and (sample := texts()):
        size = tokeniser.train(sample).vocab_size
    size = size or VOCABULARY
    if size <= len(SPECIALS):
        raise UsageError(
            f"A vocabulary of {size} has no room for text beside the {len(SPECIALS)} special tokens. Raise --vocab."
        )
    return int(size)


def made_up(rows: int, length: int, vocab: int) -> Batch:
    """Random text without padding, the same every time."""
    ids = torch.randint(len(SPECIALS), vocab, (rows, length), generator=torch.Generator().manual_seed(0))
    return Batch(ids, torch.full((rows,), length), rows * length)


def noise(rows: int, length: int, width: int) -> Batch:
    """Vectors of noise without padding, the same every time."""
    values = torch.randn(rows, length, width, generator=torch.Generator().manual_seed(0))
    return Batch(values, torch.full((rows,), length), rows * length)


def spelled(rows: int, length: int, vocab: int) -> Batch:
    """Made-up texts between begin and end, in which no token follows itself where there are several."""
    ids = torch.arange(length) % max(vocab - len(SPECIALS), 1) + len(SPECIALS)
    whole = torch.cat([torch.tensor([BOS]), ids, torch.tensor([EOS])]).expand(rows, -1)
    return Batch(whole, torch.full((rows,), length + 2), rows * (length + 2))


def require_fit(positions: int | None, longest: int, options: str) -> None:
    """Raises UsageError for lengths that the model has no positions for; `options` are those that change them."""
    if positions is not None and longest > positions:
        raise UsageError(
            f"The model has {positions} positions, the batch needs {longest}. Raise max_length, of "
            f"the model's positions or attention, or plan for less with {options}."
        )


@dataclass(frozen=True)
class Site:
    """One attention of the model at this size: calls of one shape."""

    name: str
    kind: str
    shape: tuple[int, int, int, int]
    """batch, heads, query, key of one call."""
    calls: int
    """The number of calls in one step of training, as of a decoder's steps, or of windows."""
    plan: Plan
    """The plan of one call."""
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
            *probe.remarks,
        ]
        groups: dict[tuple[object, ...], list[Site]] = {}
        for site in self.sites:
            question = (site.kind, site.shape, site.calls, site.plan.because, site.packed, site.stepped)
            groups.setdefault(question, []).append(site)
        lines += [line for group in groups.values() for line in _described(group)]
        return "\n".join(lines if self.sites else [*lines, "no attention: what is read goes through fixed vectors"])


def plan(probe: Probe, *, bfloat16: bool = False) -> Costs:
    """Make some steps with the batch, and ask every attention of the model for its path."""
    from torch.utils.flop_counter import FlopCounterMode  # a tenth of a second, which other commands do not spend

    counter = FlopCounterMode(display=False)
    with counter:
        _step(probe, probe.loss, bfloat16)
    return Costs(
        probe=probe,
        parameters=sum(weight.numel() for weight in probe.model.parameters() if weight.requires_grad),
        flops=float(counter.get_total_flops()),
        seconds=timed(probe, bfloat16=bfloat16),
        sites=_sites(probe, bfloat16),
    )


def timed(probe: Probe, *, bfloat16: bool = False) -> float:
    """Seconds of a step with the batch, the median of some."""
    losses = probe.others or [(probe.loss, 1.0)] * PROBES
    return statistics.median(_step(probe, loss, bfloat16) / share for loss, share in losses)


def _step(probe: Probe, loss_of: Callable[[], Tensor], bfloat16: bool) -> float:
    """Seconds of a step."""
    started = time.perf_counter()
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        loss = loss_of()
    loss.backward()
    probe.model.zero_grad()
    return time.perf_counter() - started


def _sites(probe: Probe, bfloat16: bool) -> tuple[Site, ...]:
    """Every attention, once for each shape and number type of its calls."""
    calls: dict[tuple[object, ...], list[AttentionRecord]] = {}
    cast = torch.autocast("cpu", torch.bfloat16, enabled=bfloat16)
    with torch.no_grad(), cast, record(probe.model.eval(), gradient=True) as recording:
        probe.loss()
        for call in recording:  # here: behind the block, a decoder's steps are one record
            calls.setdefault((call.name, call.shape, call.query.dtype), []).append(call)
    modules = dict(probe.model.named_modules())
    sites = []
    for (at, *_), count in ((alike, len(alike)) for alike in calls.values()):
        mechanism, around = modules[at.name], modules.get(at.name.rpartition(".")[0])
        # The rule and the bias of the call: those of a graph's edges are not the module's own.
        planned = at.formula if isinstance(at.formula, Mechanism) else mechanism
        if isinstance(planned, Mechanism):
            tokens = at.query.new_zeros(1, at.query.shape[1] * at.query.shape[3])
            packed = isinstance(around, MultiHeadAttention) and not around.refuses_packed(tokens, max(at.shape[2:]))
            with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
                chosen = planned.plan(at.query.detach().requires_grad_(), at.key, at=at.at)
            sites.append(Site(at.name, at.kind, at.shape, count, chosen, packed, at.at.previous is not None))
    return tuple(sites)


def _described(group: Sequence[Site]) -> list[str]:
    """The attentions of a group, and the answer of every path."""
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
