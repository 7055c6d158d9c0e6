"""Which path runs, and by which rule."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from foveate import machine
from foveate.attention import (
    PATHS,
    AdditiveConfig,
    Alibi,
    Attention,
    Hard,
    Positions,
    Sparsemax,
    Visibility,
    causal,
    edges,
    everything,
    longformer,
    padding,
    predicate,
    window,
)
from foveate.attention.chooser import ONLY, OWN, RULES, Call
from foveate.attention.paths import BandedPath, FlexPath, MaterialisedPath, SDPAPath
from foveate.attention.paths.pairwise import unavailable

LIGHT = torch.bfloat16
Case = tuple[str, str, Callable[[], Attention], tuple[int, ...], dict[str, object]]


def additive(rule: Visibility) -> Attention:
    return Attention(AdditiveConfig(hidden_dim=64).build(query_dim=32, key_dim=32), visibility=rule)


def ring(nodes: int) -> Visibility:
    place = torch.arange(nodes)
    return edges(torch.stack([place, place.roll(1)]))


FLEX = (*PATHS, FlexPath(on_cpu=True))
CASES: list[Case] = [
    ("edges", "few pairs", lambda: additive(ring(600)), (1, 1, 600, 600, 32), {}),
    ("additive", "sums the hidden units", lambda: additive(padding()), (1, 1, 5, 7, 32), {}),
    ("flex", "skips blocks", lambda: Attention(paths=FLEX[-1:] + PATHS[-1:]), (1, 1, 4, 4, 16), {}),
    ("sdpa", "AMX", Attention, (1, 2, 300, 300, 64), {"dtype": LIGHT, "amx": True}),
    ("product", "AMX", Attention, (1, 4, 200, 200, 64), {"dtype": LIGHT, "amx": True, "training": True}),
    ("product", "large matrices", Attention, (1, 4, 200, 200, 64), {"dtype": LIGHT}),
    ("product", "large matrices", Attention, (1, 4, 200, 200, 64), {}),
    ("short", "one kernel", Attention, (1, 4, 200, 200, 64), {"slow products": True}),
    ("short", "one kernel", lambda: Attention(visibility=causal()), (2, 4, 200, 200, 64), {}),
    ("sdpa", "few pairs", lambda: Attention(bias=Alibi(2)), (1, 2, 10, 10, 64), {}),
    (
        "banded",
        "less than half",
        lambda: Attention(visibility=longformer(window=200, tokens=2)),
        (1, 1, 900, 900, 16),
        {},
    ),
    ("tiled", "tiles leave out half", lambda: Attention(visibility=causal() & padding()), (1, 1, 900, 900, 16), {}),
    ("product", "up to 128 queries", Attention, (2, 1, 30, 900, 16), {"training": True}),
    ("product", "slow gradients", Attention, (1, 1, 900, 900, 16), {"dtype": LIGHT, "training": True}),
    ("tiled", "tiles leave out half", lambda: Attention(visibility=causal(), bias=Alibi(4)), (8, 4, 256, 256, 16), {}),
    ("product", "take less time than torch's kernel", lambda: Attention(bias=Alibi(2)), (1, 2, 200, 200, 16), {}),
    ("sdpa", "keeps no scores", lambda: Attention(bias=Alibi(2)), (1, 2, 200, 200, 16), {"slow products": True}),
    ("sdpa", "keeps no scores", lambda: Attention(visibility=causal()), (1, 1, 900, 900, 16), {}),
    (
        "tiled",
        "left out",
        lambda: Attention(visibility=causal(), normaliser=Sparsemax()),
        (1, 1, 900, 900, 16),
        {"dtype": torch.float64},
    ),
    (
        "materialised",
        "all scores fit into 512 MiB",
        lambda: Attention(normaliser=Sparsemax()),
        (1, 1, 900, 900, 16),
        {},
    ),
    ("chunked", "more than 512 MiB", lambda: Attention(normaliser=Sparsemax()), (64, 1, 1100, 1100, 1), {}),
    (
        "materialised",
        "every attention",
        lambda: Attention(normaliser=Hard(mode="sample").train()),
        (64, 1, 1100, 1100, 1),
        {},
    ),
]


@pytest.mark.skipif(bool(unavailable()), reason="no compiler")
@pytest.mark.parametrize(
    ("path", "because", "built", "sizes", "how"), CASES, ids=lambda part: part if isinstance(part, str) else ""
)
def test_each_rule_chooses_its_path_and_the_plan_says_so(
    path: str,
    because: str,
    built: Callable[[], Attention],
    sizes: tuple[int, ...],
    how: dict[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("foveate.native.has_tiles", lambda: bool(how.get("amx")))
    monkeypatch.setattr("foveate.machine.has_slow_products", lambda: bool(how.get("slow products")))
    attention, plan = built(), None
    batch, heads, queries, keys, dim = sizes
    dtype = how.get("dtype", torch.float32)
    query, key = (
        torch.zeros(batch, heads, n, dim, dtype=dtype, requires_grad=bool(how.get("training"))) for n in (queries, keys)
    )
    at = Positions.of(queries, keys, key_lengths=torch.full((batch,), keys))
    plan = attention.to(dtype).plan(query, key, at=at)
    assert plan.chosen == path
    assert because in plan.rule
    assert plan.rule in str(plan)
    assert plan.rule in plan.table().splitlines()[0]


def test_every_rule_has_a_case() -> None:
    named = {(path, because) for path, because, *_ in CASES}
    for rule in RULES:
        assert any(rule.path == path and because in rule.because for path, because in named), rule


def test_a_gpu_takes_flex_for_long_rules_with_gaps_and_sdpa_for_what_that_knows() -> None:
    rule = next(rule for rule in RULES if rule.path == "flex")
    x = torch.empty(1, 1, 900, 64, device="meta")
    at = Positions.plain(900, 900, x.device)
    request = (window(left=9, right=0), causal(), padding(), everything())
    answers = [rule.applies(Call(Attention(visibility=one), x, x, at, training=False)) for one in request]
    assert answers == [True, False, False, False]


class Own(MaterialisedPath):
    """A path that the rules do not know."""

    name = "own"


class Modest(Own):
    def pays(self, formula: object, query: Tensor, key: Tensor, at: Positions) -> bool:
        return key.shape[2] > 5


def test_a_path_of_ones_own_runs_where_it_accepts_and_pays() -> None:
    few, more = torch.zeros(2, 1, 1, 9, 4)[:, :, :, :5], torch.zeros(1, 1, 6, 4)
    plan = Attention(paths=(*PATHS, Own())).plan(few[0], few[0])
    assert (plan.chosen, plan.rule) == ("own", OWN)
    modest = Attention(paths=(*PATHS, Modest()))
    assert modest.plan(few[0], few[0]).chosen != "own"
    assert modest.plan(more, more).chosen == "own"
    alone = Attention(paths=(Modest(),)).plan(few[0], few[0])
    assert (alone.chosen, alone.rule) == ("own", ONLY)


def test_a_path_that_no_rule_names_here_runs_where_it_is_the_only_one() -> None:
    x = torch.zeros(1, 1, 6, 4)
    only = Attention(visibility=window(left=1, right=0), paths=(SDPAPath(), BandedPath()), normaliser=Sparsemax())
    assert only.plan(x, x).chosen == "banded"


def test_scores_of_gigabytes_are_not_kept() -> None:
    x = torch.empty(1, 8, 60_000, 64, device="meta")
    assert Attention(paths=(MaterialisedPath(), SDPAPath())).plan(x, x).chosen == "sdpa"


@pytest.mark.skipif(bool(unavailable()), reason="no compiler")
@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(("batch", "keys", "hidden"), [(68, 40, 256), (5, 40, 256), (20, 30, 128), (68, 30, 512)])
def test_a_decoders_step_takes_the_additive_kernel(batch: int, keys: int, hidden: int, training: bool) -> None:
    """One query over keys whose features are kept, as in the default recurrent translator."""
    score = AdditiveConfig().build(query_dim=hidden, key_dim=2 * hidden)
    query = torch.zeros(batch, 1, 1, hidden, requires_grad=training)
    memory = torch.zeros(batch, 1, keys, 2 * hidden)
    at = Positions.of(1, keys, key_lengths=torch.full((batch,), keys))
    with torch.set_grad_enabled(training):
        assert Attention(score, visibility=padding()).plan(query, memory, at=at).chosen == "additive"


LONG = [(4, 1, 4096, everything()), (4, 1, 4096, padding()), (1, 1, 8192, everything()), (1, 8, 4096, everything())]


@pytest.mark.parametrize(("batch", "heads", "length", "rule"), LONG, ids=str)
def test_long_sequences_train_by_the_fused_kernel(batch: int, heads: int, length: int, rule: Visibility) -> None:
    x = torch.zeros(batch, heads, length, 64, requires_grad=True)
    at = Positions.of(length, length, key_lengths=torch.full((batch,), length))
    assert Attention(visibility=rule).plan(x, x, at=at).chosen == "sdpa"


@pytest.mark.parametrize("learning", ["query", "value", "features", "weights", None])
def test_a_backward_pass_is_reckoned_with_wherever_it_ends(
    learning: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool] = []

    def applies(call: Call) -> bool:
        calls.append(call.training)
        return True

    monkeypatch.setattr("foveate.attention.chooser.RULES", (RULES[-1]._replace(applies=applies),))
    score = AdditiveConfig().build(query_dim=4, key_dim=4).requires_grad_(learning == "weights")
    attention = Attention(score)
    query, key, value, features = torch.randn(4, 1, 1, 3, 4)
    for name, tensor in (("query", query), ("value", value), ("features", features)):
        tensor.requires_grad_(learning == name)
    for _ in range(2):
        attention.run(query, key, value, key_features=features)
    with torch.no_grad():
        attention.run(query, key, value, key_features=features)
    assert calls == ([False] if learning is None else [True, False])


@pytest.mark.skipif(bool(unavailable()), reason="no compiler")
def test_a_choice_that_was_made_while_operations_were_counted_holds_no_longer() -> None:
    """Kernels of ours cannot be part of a traced program; outside of one they run again."""
    attention, x = Attention(visibility=causal()), torch.randn(2, 2, 20, 16)
    with FlopCounterMode(display=False):
        attention.run(x, x, x)
        assert attention.plan(x, x).chosen != "short"
    assert attention.plan(x, x).chosen == "short"
    with FlopCounterMode(display=False):
        assert attention.plan(x, x).chosen != "short"


@pytest.mark.skipif(bool(unavailable()), reason="no compiler")
def test_a_choice_holds_no_longer_when_the_score_is_hooked() -> None:
    """What a kernel computes is no longer what the score does."""
    score = AdditiveConfig().build(query_dim=16, key_dim=16)
    attention, x = Attention(score), torch.randn(1, 1, 6, 16)
    attention.run(x, x, x)
    hook = score.register_forward_hook(lambda module, tensors, scores: scores * 0)
    assert attention.plan(x, x).chosen != "additive"
    torch.testing.assert_close(attention.run(x, x, x), x.mean(2, keepdim=True).expand_as(x))
    hook.remove()
    assert attention.plan(x, x).chosen == "additive"


def test_a_part_that_is_exchanged_makes_the_choice_anew() -> None:
    attention, x = Attention(visibility=predicate(lambda at: at.query >= at.key)), torch.randn(1, 1, 600, 16)
    before = attention.plan(x, x).chosen
    attention.visibility = window(left=3, right=0)
    assert (before, attention.plan(x, x).chosen) == ("sdpa", "banded")


@pytest.mark.skipif(bool(unavailable()), reason="no compiler")
def test_a_switch_of_products_makes_choices_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.machine.switch_rule._lacks_mkl", lambda: True)
    attention, x = Attention(), torch.zeros(1, 4, 200, 64)
    before = machine.use(machine.Tuning())
    try:
        slow = attention.plan(x, x).chosen
        machine.use(machine.Tuning(onednn_matmul=True))
        assert (slow, attention.plan(x, x).chosen) == ("short", "product")
    finally:
        machine.use(before)
