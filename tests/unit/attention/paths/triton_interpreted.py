"""Additive attention on a GPU, interpreted on a CPU: run by test_pairwise_triton.py in a process of its own.

Prints as JSON, for each case, its error (gradients included) as a part of what is allowed.
"""

import json
from collections.abc import Callable

import torch
from torch import Tensor

from foveate.attention import Additive, Alibi, Attention, GATv2Score, Positions, Softmax, Visibility
from foveate.attention.paths import pairwise_triton
from foveate.attention.paths.path import Inputs
from foveate.attention.visibility import causal, everything, nothing, padding, window

Cases = dict[str, Callable[[], float]]
FLOOR = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""One rounding of a number around 1, with some room."""


def site(
    rule: Visibility, heads: int = 2, hidden: int = 6, scale: float = 1.0, graph: bool = False, **rest: object
) -> Attention:
    torch.manual_seed(0)
    kind = GATv2Score if graph else Additive
    score = kind(query_dim=8, key_dim=6, hidden_dim=hidden, num_heads=heads)
    with torch.no_grad():
        score.query_weight *= scale
        score.key_weight *= scale
    return Attention(score, visibility=rule, **rest)


def inputs(batch: int, heads: int, kv_heads: int, queries: int, keys: int, width: int) -> list[Tensor]:
    torch.manual_seed(1)
    shapes = (heads, queries, 8), (kv_heads, keys, 6), (kv_heads, keys, width)
    return [torch.randn(batch, *shape) for shape in shapes]


def outcome(attention: Attention, tensors: list[Tensor], at: Positions, explained: bool) -> list[Tensor]:
    """The context and all gradients."""
    tensors = [tensor.detach().requires_grad_() for tensor in tensors]
    if explained:
        context = attention.explain(*tensors, at=at).context
    else:
        context = pairwise_triton.context(Inputs(attention, *tensors, at))
    direction = torch.linspace(-1, 1, context.numel()).view_as(context).to(context.dtype)
    expected = [*tensors, *attention.parameters()]
    return [context.detach(), *torch.autograd.grad((context * direction).sum(), expected)]


def compared(
    attention: Attention, tensors: list[Tensor], at: Positions | None = None, dtype: torch.dtype = torch.float32
) -> float:
    """The largest error as a part of the allowed one: 8 times the reference's own, against float64."""
    at = at or Positions.of(tensors[0].shape[2], tensors[1].shape[2])
    outcomes = []
    for kind, explained in ((dtype, False), (dtype, True), (torch.float64, True)):
        outcomes.append(outcome(attention.to(kind), [tensor.to(kind) for tensor in tensors], at, explained))
    worst = 0.0
    for mine, eager, exact in zip(*outcomes, strict=True):
        if not exact.numel():
            assert mine.shape == exact.shape
            continue
        size = exact.abs().max().clamp(min=1.0)
        allowed = max(8 * float((eager.double() - exact).abs().max() / size), FLOOR[dtype])
        error = float((mine.double() - exact).abs().max() / size)
        worst = max(worst, error / allowed) if error == error else float("inf")
    return worst


def rules() -> Cases:
    lengths = torch.tensor([9, 3, 0])
    at = Positions.of(9, 9, key_lengths=lengths)
    listed = (
        everything(),
        nothing(),
        causal(),
        ~causal(),
        padding(),
        causal() & padding(),
        window(left=2, right=1),
        window(left=1, right=0) & padding(),
        padding() & ~window(left=1, right=0),
        causal() | padding(),
    )
    return {f"{rule}": lambda rule=rule: compared(site(rule), inputs(3, 2, 1, 9, 9, 4), at) for rule in listed}


def shapes() -> Cases:
    sizes = {
        "one of everything": (1, 1, 1, 1, 1, 1),
        "a single query": (2, 2, 2, 1, 9, 4),
        "no examples": (0, 2, 2, 5, 7, 4),
        "more queries and keys than a tile has": (1, 1, 1, 35, 70, 3),
        "groups of heads": (2, 4, 2, 5, 7, 5),
        "values of odd width": (1, 2, 1, 5, 7, 17),
        "values too wide for a tile": (1, 1, 1, 18, 7, 300),
    }
    cases: Cases = {}
    for name, size in sizes.items():
        cases[name] = lambda size=size: compared(site(everything(), heads=size[1], hidden=5), inputs(*size))
    cases["one score for all heads"] = lambda: compared(site(everything(), heads=1), inputs(1, 2, 2, 5, 7, 4))
    cases["queries that stand later"] = lambda: compared(
        site(causal()), inputs(1, 2, 2, 3, 9, 4), Positions.of(3, 9, query_start=6)
    )
    cases["wide values under a rule"] = lambda: compared(site(~causal(), heads=1), inputs(1, 1, 1, 18, 18, 300))
    return cases


def parts() -> Cases:
    small = inputs(1, 2, 2, 9, 9, 4)

    class Learned(torch.nn.Module):
        def __init__(self, queries: int) -> None:
            super().__init__()
            self.table = torch.nn.Parameter(torch.randn(1, 2, queries, 9))

        def forward(self, at: Positions) -> Tensor:
            return self.table if self.table.shape[2] == 1 else self.table[:, :, at.query.flatten()]

    cases: Cases = {
        "a temperature": lambda: compared(site(causal(), normaliser=Softmax(temperature=0.3)), small),
        "a bias": lambda: compared(site(causal(), bias=Alibi(2)), small),
        "float16": lambda: compared(site(causal()), small, dtype=torch.float16),
        "bfloat16": lambda: compared(site(causal()), small, dtype=torch.bfloat16),
    }
    several = inputs(1, 2, 2, 35, 70, 4)
    cases["graph attention"] = lambda: compared(site(everything(), graph=True, hidden=5), several)
    cases["graph attention of zeros"] = lambda: compared(site(everything(), graph=True, scale=0.0), several)
    cases["graph attention, causal, bfloat16"] = lambda: compared(
        site(causal(), graph=True, bias=Alibi(2)), small, dtype=torch.bfloat16
    )
    cases["graph attention over values too wide for a tile"] = lambda: compared(
        site(window(left=3, right=2), graph=True), inputs(1, 2, 2, 18, 18, 300)
    )
    for queries in (1, 9):
        cases[f"a bias that learns, {queries} rows"] = lambda queries=queries: compared(
            site(causal(), bias=Learned(queries)), small
        )
    for scale in (30.0, 1000.0):
        cases[f"features {scale:g} times as large"] = lambda scale=scale: compared(site(causal(), scale=scale), small)
    return cases


def opposed(of_query: float, of_key: float) -> float:
    """Features far apart whose sum is moderate: their exponentials would overflow or vanish."""
    torch.manual_seed(0)
    query, key, vector, value = (torch.randn(shape) for shape in ((1, 2, 3, 5), (1, 2, 4, 5), (2, 5), (1, 2, 4, 3)))
    query[:, 0, :, ::2] += of_query
    key[:, 0, :, ::2] += of_key

    def plain(query: Tensor, key: Tensor, vector: Tensor, value: Tensor) -> Tensor:
        scores = (torch.tanh(query[..., :, None, :] + key[..., None, :, :]) * vector[:, None, None]).sum(-1)
        return scores.softmax(-1) @ value

    answers = []
    for function, kind in ((pairwise_triton.attend, torch.float32), (plain, torch.float32), (plain, torch.float64)):
        tensors = [tensor.to(kind).requires_grad_() for tensor in (query, key, vector, value)]
        context = function(*tensors)
        answers.append([context.detach(), *torch.autograd.grad(context.square().sum(), tensors)])
    worst = 0.0
    for mine, eager, exact in zip(*answers, strict=True):
        allowed = max(8 * float((eager.double() - exact).abs().max()), 1e-5)
        worst = max(worst, float((mine.double() - exact).abs().max()) / allowed)
    return worst


def hidden_things_do_not_leak(graph: bool = False) -> float:
    """0 where NaN in hidden keys and values changes nothing and empty rows have zeros and finite gradients."""
    at = Positions.of(9, 9, key_lengths=torch.tensor([9, 3, 0]))
    tensors, attention = inputs(3, 2, 2, 9, 9, 4), site(causal() & padding(), graph=graph)
    clean = outcome(attention, tensors, at, False)
    for tensor in tensors[1:]:
        tensor[1, :, 3:], tensor[2] = float("nan"), float("nan")
    poisoned = outcome(attention, tensors, at, False)
    same = all(torch.equal(one, other) for one, other in zip(clean, poisoned, strict=True))
    return 0.0 if same and bool((poisoned[0][2] == 0).all()) else 1.0


def hidden_things_do_not_leak_into_graph_attention() -> float:
    return hidden_things_do_not_leak(graph=True)


def a_value_that_is_no_number_reaches_those_who_see_it() -> float:
    tensors = inputs(1, 2, 2, 5, 5, 4)
    tensors[2][:, :, 3] = float("nan")
    context = pairwise_triton.context(Inputs(site(causal()), *tensors, Positions.of(5, 5)))
    return float(context.isnan().any(-1)[0, 0].tolist() != [False, False, False, True, True])


def a_key_that_is_no_number_reaches_those_who_see_it() -> float:
    tensors = inputs(1, 2, 2, 5, 5, 4)
    tensors[1][:, :, 3] = float("nan")
    context, of_query, *_ = outcome(site(causal()), tensors, Positions.of(5, 5), False)
    blind = [False, False, False, True, True]
    return float(any(part.isnan().any(-1)[0, 0].tolist() != blind for part in (context, of_query)))


def blocks_change_nothing() -> float:
    tensors, attention, at = inputs(2, 2, 2, 35, 9, 4), site(everything()), Positions.of(35, 9)
    whole, before = outcome(attention, tensors, at, False), pairwise_triton.ROOM
    pairwise_triton.ROOM = 1
    cut = outcome(attention, tensors, at, False)
    pairwise_triton.ROOM = before
    return max(float((one - other).abs().max()) for one, other in zip(whole, cut, strict=True)) / 1e-5


def gradients_are_the_same_every_time() -> float:
    tensors, attention, at = inputs(1, 2, 2, 20, 70, 4), site(everything()), Positions.of(20, 70)
    pair = (outcome(attention, tensors, at, False) for _ in range(2))
    return 0.0 if all(torch.equal(one, other) for one, other in zip(*pair, strict=True)) else 1.0


def kept_key_features_give_the_same() -> float:
    attention, (query, key, value) = site(padding()), inputs(3, 2, 2, 9, 9, 4)
    at = Positions.of(9, 9, key_lengths=torch.tensor([9, 3, 0]))
    features = attention.key_features(key)
    one = pairwise_triton.context(Inputs(attention, query, key, value, at, features))
    built = pairwise_triton.context(Inputs(attention, query, key, value, at))
    return float((one - built).abs().max()) / 1e-6


def dropped_weights_are_dropped() -> float:
    """The mean over many draws is the context; a third of it is noise."""
    attention, tensors = site(everything()), inputs(400, 2, 2, 3, 9, 4)
    tensors = [tensor[:1].expand_as(tensor) for tensor in tensors]
    at = Positions.of(3, 9)
    noisy = pairwise_triton.context(Inputs(attention, *tensors, at, dropout=0.3))
    plain = attention.explain(*tensors, at=at).context
    return 0.0 if not torch.equal(noisy[0], plain[0]) and float((noisy.mean(0) - plain[0]).abs().max()) < 0.1 else 1.0


def second_derivatives_are_explain_s() -> float:
    attention, at = site(causal() & padding(), bias=Alibi(2)), Positions.of(9, 9, key_lengths=torch.tensor([9, 3, 0]))
    answers = []
    for explained in (False, True):
        tensors = [tensor.requires_grad_() for tensor in inputs(3, 2, 2, 9, 9, 4)]
        if explained:
            context = attention.explain(*tensors, at=at).context
        else:
            context = pairwise_triton.context(Inputs(attention, *tensors, at))
        expected = [*tensors, *attention.parameters()]
        first = torch.autograd.grad(context.sin().sum(), expected, create_graph=True)
        answers.append(torch.autograd.grad(sum(slope.square().sum() for slope in first), expected))
    return max(float((one - other).abs().max()) for one, other in zip(*answers, strict=True)) / 1e-3


def no_keys_and_no_queries_are_no_error() -> float:
    """A context of zeros, or none."""
    right = True
    for queries, keys, width in ((3, 0, 4), (0, 3, 4), (0, 3, 300), (0, 0, 4)):
        got = outcome(site(everything()), inputs(1, 2, 2, queries, keys, width), Positions.of(queries, keys), False)
        right = right and got[0].shape == (1, 2, queries, width) and all(bool((part == 0).all()) for part in got)
    return 0.0 if right else 1.0


def the_check_is_passed_where_there_are_no_gradients_and_in_autocast() -> float:
    pairwise_triton.unavailable.cache_clear()
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
        return float(pairwise_triton.unavailable(torch.device("cpu")) != "")


def extremes() -> Cases:
    pairs = ((30.0, -29.0), (-45.0, 45.5), (1e30, -1e30), (9.9, 9.9), (80.0, 3.0))
    return {f"features around {one:g} and {other:g}": lambda far=(one, other): opposed(*far) for one, other in pairs}


def promises() -> Cases:
    one = (
        hidden_things_do_not_leak,
        hidden_things_do_not_leak_into_graph_attention,
        a_value_that_is_no_number_reaches_those_who_see_it,
        a_key_that_is_no_number_reaches_those_who_see_it,
        blocks_change_nothing,
        gradients_are_the_same_every_time,
        kept_key_features_give_the_same,
        dropped_weights_are_dropped,
        second_derivatives_are_explain_s,
        no_keys_and_no_queries_are_no_error,
        the_check_is_passed_where_there_are_no_gradients_and_in_autocast,
    )
    return {case.__name__.replace("_", " "): case for case in one}


def main() -> None:
    torch.set_num_threads(1)
    answer = {"unavailable": pairwise_triton.unavailable(torch.device("cpu"))}
    for group in (rules, shapes, parts, extremes, promises):
        answer[group.__name__] = {name: case() for name, case in group().items()}
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
