"""What a configuration costs, before anything is trained."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode

from foveate.attention import Mechanism, Plan, record
from foveate.data.batch import Batch
from foveate.data.tokeniser import SPECIALS
from foveate.errors import UsageError
from foveate.models import Seq2Seq
from foveate.nn.loss import cross_entropy
from foveate.nn.multihead import MultiHeadAttention
from foveate.tasks.translate import TranslateConfig, build_model

VOCABULARY = 8000
"""Assumed where a tokeniser takes its size from the data."""
PROBES = 3


@dataclass(frozen=True)
class Site:
    """One attention of the model at this size."""

    name: str
    kind: str
    shape: tuple[int, int, int, int]
    plan: Plan
    packed: bool
    """Whether a kernel for tokens without padding runs in training, in place of a path."""


@dataclass(frozen=True)
class Costs:
    """Parameters, arithmetic, memory and time of one training step, and the path of every attention."""

    model: str
    parameters: int
    vocabularies: tuple[int, int]
    batch: tuple[int, int, int]
    flops: float
    seconds: float
    sites: tuple[Site, ...]

    @property
    def training_bytes(self) -> int:
        """Weights, gradients and two moments, in float32; activations come on top."""
        return 16 * self.parameters

    def __str__(self) -> str:
        rows, source, target = self.batch
        tokens = rows * target
        lines = [
            f"{self.model}: {self.parameters:,} parameters (vocabularies {self.vocabularies[0]:,} and "
            f"{self.vocabularies[1]:,})",
            f"memory of weights, gradients and AdamW's moments: {self.training_bytes / 2**20:,.0f} MiB",
            f"a batch: {rows} pairs of {source} and {target} tokens; one step: {self.flops / 1e9:,.1f} GFLOP, "
            f"{self.seconds * 1e3:,.0f} ms here, {tokens / self.seconds:,.0f} target tokens per second",
        ]
        lines += [line for group in _alike(self.sites) for line in _described(group)]
        return "\n".join(lines if self.sites else [*lines, "no attention: the decoder reads one fixed vector"])


def _alike(sites: Sequence[Site]) -> list[list[Site]]:
    """Sites with the same question and the same answer, together."""
    groups: dict[tuple[object, ...], list[Site]] = {}
    for site in sites:
        groups.setdefault((site.kind, site.shape, site.plan.because, site.packed), []).append(site)
    return list(groups.values())


def _described(group: Sequence[Site]) -> list[str]:
    """What these attentions are, and what every path says to them."""
    _, heads, query, key = group[0].shape
    many = "1 head" if heads == 1 else f"{heads} heads"
    lines = ["", *(f"{site.name}" for site in group), f"  {group[0].plan.because}, {many} × {query} × {key}"]
    if group[0].packed:
        lines.append("  → packed: one kernel over tokens without padding; with padding it would be")
    return [*lines, *(f"  {line}" for line in group[0].plan.table().splitlines())]


def plan(
    config: TranslateConfig, *, lengths: tuple[int, int], vocab: int | None = None, bfloat16: bool = False
) -> Costs:
    """Probe the model with a random batch of the configured token budget and the given lengths.

    Raises UsageError when the model has too few positions for these lengths, or a vocabulary has no room for text.
    """
    sides = (config.source_tokeniser, config.source_tokeniser if config.joint_vocabulary else config.target_tokeniser)
    source_vocab, target_vocab = (getattr(side, "vocab_size", None) or vocab or VOCABULARY for side in sides)
    model = build_model(config, source_vocab, target_vocab)
    _require_fit(model, lengths, (source_vocab, target_vocab))
    rows = max(config.data.max_tokens // sum(lengths), 1)
    generator = torch.Generator().manual_seed(0)

    def side(length: int, size: int) -> Batch:
        return Batch(
            torch.randint(len(SPECIALS), size, (rows, length), generator=generator), torch.full((rows,), length)
        )

    source, target = side(lengths[0], source_vocab), side(lengths[1] + 1, target_vocab)
    counter = FlopCounterMode(display=False)
    with counter:
        _step(model, source, target, bfloat16)
    seconds = statistics.median(_timed(model, source, target, bfloat16) for _ in range(PROBES))
    return Costs(
        type(model).__name__,
        model.parameter_count(),
        (source_vocab, target_vocab),
        (rows, *lengths),
        float(counter.get_total_flops()),
        seconds,
        _sites(model, source, target),
    )


def _require_fit(model: Seq2Seq, lengths: tuple[int, int], vocabularies: tuple[int, int]) -> None:
    longest = max(lengths[0], lengths[1] + 1)
    if model.max_length is not None and longest > model.max_length:
        raise UsageError(
            f"The model has {model.max_length} positions, the batch needs {longest}. Raise model.position.max_length, "
            "or plan for less with --source-length and --target-length."
        )
    if min(vocabularies) <= len(SPECIALS):
        raise UsageError(
            f"A vocabulary of {min(vocabularies)} has no room for text beside the {len(SPECIALS)} special tokens. "
            "Raise --vocab."
        )


def _step(model: Seq2Seq, source: Batch, target: Batch, bfloat16: bool) -> None:
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        loss = cross_entropy(model(source, target), Seq2Seq.predicted(target))
    loss.backward()
    model.zero_grad()


def _timed(model: Seq2Seq, source: Batch, target: Batch, bfloat16: bool) -> float:
    started = time.perf_counter()
    _step(model, source, target, bfloat16)
    return time.perf_counter() - started


def _sites(model: Seq2Seq, source: Batch, target: Batch) -> tuple[Site, ...]:
    with torch.no_grad(), record(model.eval()) as seen:
        model(source, target)
    modules = dict(model.named_modules())
    sites = []
    for at in seen:
        mechanism, around = modules[at.name], modules.get(at.name.rpartition(".")[0])
        if isinstance(mechanism, Mechanism):
            tokens = at.query.new_zeros(1, at.query.shape[1] * at.query.shape[3])
            packed = isinstance(around, MultiHeadAttention) and not around.refuses_packed(tokens, max(at.shape[2:]))
            plan = mechanism.plan(at.query.requires_grad_(), at.key, at=at.at)
            sites.append(Site(at.name, at.kind, at.shape, plan, packed))
    return tuple(sites)
