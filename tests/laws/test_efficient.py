"""What every other formula keeps to: explain = run, nothing hidden leaks, padding has no say, the future is unseen.

All in float64, so that a difference is a mistake and not a rounding.
"""

import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from foveate.attention import Attention, Mechanism, Positions, Visibility, causal, everything, padding
from foveate.attention.efficient import (
    BigbirdConfig,
    EfficientConfig,
    LinearConfig,
    LinformerConfig,
    LocalBlockConfig,
    LongformerConfig,
    PerformerConfig,
    ReformerConfig,
    SinkhornConfig,
    SparseConfig,
    SynthesizerConfig,
)
from foveate.data.batch import Batch
from foveate.decode import GreedyConfig, decode
from foveate.models import TransformerConfig
from foveate.nn import BlockConfig

SAME = {"atol": 1e-10, "rtol": 0}
HEADS, DIM = 2, 4
FACTOR, FLOOR = 8.0, {torch.float32: 1e-5, torch.bfloat16: 3e-2}
"""How much worse than the reference's own rounding a path may be, and one rounding of numbers around 1."""
CONFIGS: dict[str, EfficientConfig] = {
    "linear": LinearConfig(),
    "linear eps": LinearConfig(eps=0.01),
    "performer": PerformerConfig(num_features=6),
    "linformer": LinformerConfig(max_length=20, projected_length=3),
    "linformer own": LinformerConfig(max_length=20, projected_length=3, share="none"),
    "linformer one": LinformerConfig(max_length=20, projected_length=3, share="key_value"),
    "reformer": ReformerConfig(buckets=4, rounds=1, chunk=2),
    "reformer rounds": ReformerConfig(buckets=2, rounds=3, chunk=3),
    "reformer one bucket": ReformerConfig(buckets=1, rounds=1, chunk=2),
    "sinkhorn": SinkhornConfig(block=3),
    "sinkhorn softmax": SinkhornConfig(block=2, iterations=0),
    "synthesizer dense": SynthesizerConfig(form="dense", max_length=20),
    "synthesizer random": SynthesizerConfig(form="random", max_length=20),
    "synthesizer factorised": SynthesizerConfig(form="factorised", max_length=20, rank=3),
    "local block": LocalBlockConfig(block=3),
    "sparse": SparseConfig(block=3, summaries=1),
    "longformer": LongformerConfig(window=4, tokens=1),
    "bigbird": BigbirdConfig(block=2, window=1, tokens=1, random=1),
}
SELF_ONLY = ("reformer", "sinkhorn", "synthesizer", "local", "sparse", "longformer", "bigbird")
NOT_CAUSAL = ("linformer", "bigbird")
SHARED = ("reformer",)


@dataclass(frozen=True)
class Case:
    mechanism: Mechanism
    query: Tensor
    key: Tensor
    value: Tensor
    at: Positions
    lengths: Tensor | None = None


def built(name: str, rule: Visibility, kind: str = "self") -> Mechanism:
    torch.manual_seed(5)
    config = CONFIGS[name]
    mechanism = config.build(query_dim=DIM, key_dim=DIM, num_heads=HEADS, visibility=rule, kind=kind)
    assert isinstance(mechanism, Mechanism)
    return mechanism.double()


def rules(name: str) -> list[Visibility]:
    simple = [everything(), padding()]
    return simple if name.startswith(NOT_CAUSAL) else [*simple, causal(), causal() & padding()]


def cases(name: str, count: int = 24) -> Iterator[Case]:
    for seed in range(count):
        rng = random.Random(seed)
        mechanism = built(name, rng.choice(rules(name)), "self" if name.startswith(SELF_ONLY) else "cross")
        torch.manual_seed(seed)
        batch, keys = rng.randint(1, 3), rng.randint(1, 17)
        lengths = torch.tensor([rng.randint(0, keys) for _ in range(batch)])
        queries = keys if rng.random() < 0.7 else rng.randint(1, keys)
        side = rng.choice(["left", "right"]) if queries == keys else "right"
        given = rng.choice([None, lengths]) if queries == keys else None
        if side == "left":
            given = lengths
        at = Positions.of(queries, keys, query_start=keys - queries, key_lengths=given, side=side)
        kv_heads = HEADS if name.startswith(SHARED) else rng.choice([1, HEADS])
        key, value = (torch.randn(batch, kv_heads, keys, dim, dtype=torch.float64) for dim in (DIM, 3))
        query = torch.randn(batch, HEADS, queries, DIM, dtype=torch.float64)
        if name.startswith(SHARED):
            query = key[:, :, keys - queries :]
        yield Case(mechanism, query, key, value, at, given)


def ways(case: Case, query: Tensor, key: Tensor, value: Tensor) -> Iterator[tuple[str, Tensor]]:
    """The context by `run`, and by every path that accepts."""
    yield "run", case.mechanism.run(query, key, value, at=case.at)
    if isinstance(case.mechanism, Attention):
        placed_query, placed_key, at = case.mechanism._placed(query, key, value, case.at)
        for path in case.mechanism.paths:
            if not path.refuses(case.mechanism, placed_query, placed_key, at):
                arguments = (case.mechanism, placed_query, placed_key, value)
                yield path.name, path.run(*arguments, at=at, key_features=None, dropout=0.0)


@pytest.fixture(params=CONFIGS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def outcome(case: Case, context: Tensor, inputs: list[Tensor]) -> list[Tensor]:
    """A context with its gradients."""
    weights = list(case.mechanism.parameters())
    torch.manual_seed(1)
    direction = torch.randn(context.shape, dtype=context.dtype)
    wanted = inputs + weights
    found = torch.autograd.grad((context * direction).sum(), wanted, allow_unused=True, retain_graph=True)
    return [context, *(torch.zeros_like(x) if g is None else g for g, x in zip(found, wanted, strict=True))]


def test_explain_is_run_by_every_path_with_gradients(name: str) -> None:
    seen_paths = set()
    for case in cases(name):
        key, value = (part.clone().requires_grad_() for part in (case.key, case.value))
        query = case.query.clone().requires_grad_()
        if name.startswith(SHARED):
            query = key[:, :, -case.query.shape[2] :]
        inputs = [query, key, value] if query.is_leaf else [key, value]
        expected = outcome(case, case.mechanism.explain(query, key, value, at=case.at).context, inputs)
        for way, context in ways(case, query, key, value):
            seen_paths.add(way)
            for got, exact in zip(outcome(case, context, inputs), expected, strict=True):
                torch.testing.assert_close(got, exact, **SAME, msg=lambda text, way=way: f"{name} {way}: {text}")
                assert got.isfinite().all()
    fast = {"linear": "kernel", "performer": "kernel", "reformer": "hashed"}
    assert fast.get(name.split()[0], "run") in seen_paths


@pytest.mark.parametrize("dtype", FLOOR)
def test_in_less_precision_a_path_errs_little_more_than_the_reference(name: str, dtype: torch.dtype) -> None:
    for case in cases(name, 12):
        rounded = [part.to(dtype) for part in (case.query, case.key, case.value)]
        exact = case.mechanism.explain(*(part.double() for part in rounded), at=case.at).context
        light = replace(case, mechanism=copy.deepcopy(case.mechanism).to(dtype))
        eager = light.mechanism.explain(*rounded, at=case.at).context
        if name.startswith("reformer"):  # a vector between two buckets may fall into another
            exact = eager.double()
        for way, context in ways(light, *rounded):
            assert context.dtype == dtype
            allowed = max(FACTOR * float((eager.detach().double() - exact.detach()).abs().max()), FLOOR[dtype])
            assert float((context.detach().double() - exact.detach()).abs().max()) <= allowed, way


def test_weights_give_the_context_and_rows_sum_to_one_or_zero(name: str) -> None:
    for case in cases(name):
        seen = case.mechanism.explain(case.query, case.key, case.value, at=case.at)
        assert seen.shows == ("projected" if "linformer" in name else seen.shows)
        assert (seen.weights >= 0).all()
        assert (seen.weights[~seen.visible] == 0).all()
        sums = seen.weights.sum(-1)
        slack = 0.6 if name == "linear eps" else 1e-9
        assert ((sums - 1).abs().minimum(sums.abs()) <= slack).all()
        assert (seen.context[sums == 0] == 0).all()
        if seen.shows != "projected":
            value = case.value.repeat_interleave(HEADS // case.value.shape[1], 1)
            torch.testing.assert_close(seen.weights @ value, seen.context, **SAME)
            hidden = ~case.mechanism.visibility(case.at).expand_as(seen.weights)
            assert (seen.weights[hidden] == 0).all()


def test_only_the_kernels_sinkhorn_and_linformer_show_weights_that_run_does_not_make(name: str) -> None:
    case = next(cases(name))
    shows = case.mechanism.explain(case.query, case.key, case.value, at=case.at).shows
    expected = {"linear": "implied", "performer": "implied", "sinkhorn": "implied", "linformer": "projected"}
    assert shows == expected.get(name.split()[0], "exact")


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 1e30])
def test_what_padding_holds_reaches_nobody(name: str, poison: float) -> None:
    mechanism, lengths = built(name, padding()), torch.tensor([2, 0, 7])
    at = Positions.of(7, 7, key_lengths=lengths)
    key, value = torch.randn(2, 3, HEADS, 7, DIM, dtype=torch.float64)
    query = key if name.startswith(SHARED) else torch.randn_like(key)
    real = at.real.mT
    dirty_key, dirty_value = torch.where(real, key, poison), torch.where(real, value, poison)
    outcomes = []
    for one, other in ((key, value), (dirty_key, dirty_value)):
        one, other = one.clone().requires_grad_(), other.clone().requires_grad_()
        case = Case(mechanism, query, one, other, at)
        asked = torch.where(real, one, 0.0) if name.startswith(SHARED) else query
        for verb in (mechanism.run, mechanism.explain):
            found = verb(asked, one, other, at=at)
            outcomes.append(outcome(case, found if verb == mechanism.run else found.context, [one, other]))
    for clean, dirty in zip(outcomes[:2], outcomes[2:], strict=True):
        for one, other in zip(clean, dirty, strict=True):
            assert other.isfinite().all()
            torch.testing.assert_close(one, other, **SAME)


def test_what_the_future_holds_reaches_nobody(name: str) -> None:
    if name.startswith(NOT_CAUSAL):
        return
    mechanism = built(name, causal())
    key, value = torch.randn(2, 1, HEADS, 7, DIM, dtype=torch.float64)
    query = key if name.startswith(SHARED) else torch.randn_like(key)
    dirty = [torch.where(torch.arange(7)[:, None] >= 4, torch.nan, part) for part in (key, value)]
    asked = query if not name.startswith(SHARED) else dirty[0]
    with torch.no_grad():
        clean = mechanism.run(query, key, value)
        for found in (mechanism.run(asked, *dirty), mechanism.explain(asked, *dirty).context):
            torch.testing.assert_close(found[:, :, :4], clean[:, :, :4], **SAME)


def test_padding_has_no_say_on_either_side_and_however_much(name: str) -> None:
    for rule in rules(name):
        mechanism = built(name, rule & padding())
        for length in (1, 4, 7):
            key, value = torch.randn(2, 1, HEADS, length, DIM, dtype=torch.float64)
            query = key if name.startswith(SHARED) else torch.randn_like(key)
            lengths = torch.tensor([length])
            alone = mechanism.run(query, key, value, at=Positions.of(length, length, key_lengths=lengths))
            for room, side in ((1, "right"), (9, "right"), (1, "left"), (6, "left")):
                beside = (0, 0, 0, room) if side == "right" else (0, 0, room, 0)
                padded = [torch.nn.functional.pad(part, beside, value=7.0) for part in (query, key, value)]
                at = Positions.of(length + room, length + room, key_lengths=lengths, side=side)
                found = mechanism.run(*padded, at=at)
                found = found[:, :, :length] if side == "right" else found[:, :, room:]
                torch.testing.assert_close(found, alone, **SAME)


def test_the_jacobian_of_a_causal_mechanism_is_lower_triangular(name: str) -> None:
    if name.startswith(NOT_CAUSAL):
        return
    mechanism, length = built(name, causal()), 9

    def context(x: Tensor) -> Tensor:
        return mechanism.run(x.expand(1, HEADS, -1, -1), x.expand(1, HEADS, -1, -1), x.expand(1, HEADS, -1, -1)).sum(
            (0, 1)
        )

    x = torch.randn(length, DIM, dtype=torch.float64)
    influence = torch.autograd.functional.jacobian(context, x).abs().sum((1, 3))
    assert (influence.triu(1) == 0).all()
    assert influence.tril(-1).any()


def test_the_past_does_not_change_when_the_sequence_goes_on(name: str) -> None:
    """Causal to the letter: hashing and sorting are not differentiable, so a Jacobian alone would not see them leak."""
    if name.startswith(NOT_CAUSAL):
        return
    mechanism = built(name, causal())
    key, value = torch.randn(2, 2, HEADS, 17, DIM, dtype=torch.float64)
    query = key if name.startswith(SHARED) else torch.randn_like(key)
    whole = mechanism.run(query, key, value)
    for length in range(1, 17):
        shorter = mechanism.run(*(part[:, :, :length] for part in (query, key, value)))
        torch.testing.assert_close(shorter, whole[:, :, :length], **SAME)


def test_step_by_step_against_a_cache_with_free_room_is_the_whole(name: str) -> None:
    if name.startswith(NOT_CAUSAL):
        return
    mechanism = built(name, causal())
    key, value = torch.randn(2, 2, HEADS, 11, DIM, dtype=torch.float64)
    query = key if name.startswith(SHARED) else torch.randn_like(key)
    whole = mechanism.run(query, key, value)
    room = [torch.zeros(2, HEADS, 16, DIM, dtype=torch.float64) for _ in range(2)]
    for time in range(11):
        for cache, part in zip(room, (key, value), strict=True):
            cache[:, :, time] = part[:, :, time]
        at = Positions.of(1, 16, query_start=time)
        step = mechanism.run(query[:, :, time : time + 1], *room, at=at)
        torch.testing.assert_close(step, whole[:, :, time : time + 1], **SAME)


def test_a_plan_counts_arithmetic_and_memory(name: str) -> None:
    case = next(cases(name))
    plan = case.mechanism.plan(case.query, case.key, at=case.at)
    assert all(path.flops > 0 and path.bytes >= 0 for path in plan.paths)
    assert plan.chosen in {path.name for path in plan.paths}
    assert plan.chosen in str(plan)


def test_weights_can_be_dropped(name: str) -> None:
    mechanism = built(name, everything())
    key, value = torch.randn(2, 1, HEADS, 6, DIM, dtype=torch.float64)
    query = key if name.startswith(SHARED) else torch.randn_like(key)
    whole = mechanism.run(query, key, value)
    dropped = torch.stack([mechanism.run(query, key, value, dropout=0.3) for _ in range(400)])
    assert not torch.equal(dropped[0], dropped[1])
    torch.testing.assert_close(dropped.mean(0), whole, atol=0.4, rtol=0)


def test_it_learns_in_a_transformer_and_decodes_what_the_whole_predicts(name: str) -> None:
    """Two updates lower the loss; greedy decoding, step by step, takes the teacher-forced maximum every time."""
    torch.manual_seed(3)
    places = ["encoder_attention"]
    places += [] if name.startswith(NOT_CAUSAL) else ["decoder_attention"]
    places += [] if name.startswith(SELF_ONLY) else ["cross_attention"]
    block = BlockConfig(
        model_dim=8, num_heads=2, feedforward_dim=16, dropout=0.0, **dict.fromkeys(places, CONFIGS[name])
    )
    model = TransformerConfig(block=block, encoder_layers=1, decoder_layers=2).build(13, 13).double()
    source = Batch.of([[5, 6, 7, 8, 9, 4, 11, 2], [9, 2], [4, 4, 10, 2]])
    target = Batch.of([[1, 9, 8, 7, 2], [1, 4, 2], [1, 3, 3, 5, 5, 2]])
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(3):
        optimiser.zero_grad()
        losses.append(model.loss(source, target))
        losses[-1].backward()
        optimiser.step()
    assert losses[2] < losses[0]
    model.eval()
    with torch.no_grad():
        found = decode(model, model.start(source), sentences=3, config=GreedyConfig(max_length=15, forbid=()))
        for row, [hypothesis] in enumerate(found):
            target = [1, *hypothesis.tokens, *([2] if hypothesis.finished else [])]
            one = Batch(source.ids[row : row + 1], source.lengths[row : row + 1])
            assert model(one, Batch.of([target])).argmax(-1).tolist() == target[1:]
