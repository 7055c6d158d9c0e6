"""Graphs: weights of the edges that come into each node, in time and memory linear in the number of edges.

Rules, and biases that judge single pairs, receive each edge as an example of its own with one query and one key. Any
other bias is asked about nodes and the keys that they see, because it may tell examples apart.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import dropout as drop

from foveate.attention.bias import Bias, bias_values, is_by_pair
from foveate.attention.check import require_equal_width
from foveate.attention.claim import describes
from foveate.attention.normaliser import Normaliser, softmax_temperature, tells_place
from foveate.attention.paths.edge_position import by_edge, chosen_places, lined_up, of_edges
from foveate.attention.paths.edge_sum import Lists, neighbour_context, serves
from foveate.attention.paths.path import (
    Cost,
    Formula,
    Inputs,
    ShippedPath,
    context_type,
    cutting_reasons,
    empty_reasons,
    share_heads,
)
from foveate.attention.position import Positions
from foveate.attention.score import EdgeScore, PairNetwork, form_of, is_factored
from foveate.attention.score.form import CALLED, Features
from foveate.attention.visibility import EdgeList, Visibility
from foveate.attention.visibility.rule import joined

NODES = 64
"""Nodes per call of a bias that does not judge single pairs."""


class _EdgeForm(NamedTuple):
    """A score of the rows at the two ends of an edge."""

    of_query: Features
    of_key: Features
    pairs: Callable[[Tensor, Tensor], Tensor]


class EdgeWeights(NamedTuple):
    """The weights of a graph's edges: the caller's in the caller's order, then the self-loops that were added."""

    edges: Int[Tensor, "2 edges"]
    weights: Float[Tensor, "batch heads edges"]
    added: Bool[Tensor, " edges"]
    """True for self-loops that the rule added."""


@dataclass(frozen=True, eq=False)
class _Graph:
    """The distinct edges between these nodes, as places among queries and keys, sorted by target."""

    source: Int[Tensor, " edges"]
    target: Int[Tensor, " edges"]
    visible: Bool[Tensor, "#batch #heads edges"] | None
    """The answer of the rules beside the graph; None: everything is visible."""
    nodes: Positions
    """The positions of the call."""

    @cached_property
    def at(self) -> Positions:
        """Positions with one example for each edge of each example."""
        return by_edge(self.nodes, self.source, self.target)

    @cached_property
    def lists(self) -> Lists:
        """The edges of each node, for the kernel."""
        return Lists(self.source, self.target, self.nodes.query.shape[2], self.nodes.key.shape[-1])

    @cached_property
    def is_source(self) -> Bool[Tensor, "key 1"] | None:
        """The keys that some node sees; None where all are."""
        mask = torch.zeros(self.nodes.key.shape[-1], 1, dtype=torch.bool, device=self.source.device)
        mask[self.source] = True
        return None if bool(mask.all()) else mask


class EdgesPath(ShippedPath):
    """Attention over a graph's edges, for scores that compare rows in pairs."""

    name = "edges"

    def refuses(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> list[str]:
        graph, beside = split(formula.visibility)
        if graph is None:
            return [f"{formula.visibility} is not a graph"]
        reasons = cutting_reasons(formula) + empty_reasons(query, key)
        if not beside.by_pair:
            reasons.append(f"{beside} does not judge single pairs")
        if _edge_form(formula.score) is None:
            reasons.append(f"{type(formula.score).__name__} does not compare rows in pairs")
        if (
            at.previous is not None
            or at.query_bucket is not None
            or not (lined_up(at.query[..., 0]) and lined_up(at.key[..., 0, :]))
        ):
            reasons.append("nodes do not stand one after the other")
        return reasons

    def cost(self, formula: Formula, query: Tensor, key: Tensor, at: Positions) -> Cost:
        graph, _ = split(formula.visibility)
        number = key.shape[2] if graph is None or graph.self_loops else 0
        number += 0 if graph is None else graph.index.shape[1]
        pairs = float(query.shape[0] * query.shape[1] * number)
        # Every edge moves two rows and a value, where a dense product would use each many times.
        return Cost(4.0 * pairs * key.shape[3], 4.0 * pairs * key.shape[3] * query.element_size())

    def context(self, inputs: Inputs) -> Tensor:
        formula, query, key, value, at, key_features, dropout = inputs
        graph = _graph(formula.visibility, at)
        temperature = softmax_temperature(formula.normaliser)
        if temperature is not None and formula.reweight is None and graph.visible is None:
            form, values = form_of(formula.score), _precise(share_heads(value, query.shape[1]))
            queries, features = _features(formula, query, key, graph, key_features)
            if serves(form, queries, values, len(graph.source)) and features.dtype == torch.float32:
                assert form is not None
                bias = None if formula.bias is None else _edge_biases(formula.bias, graph, torch.float32)
                sides = queries, features, values, graph.lists
                context = neighbour_context(form, *sides, bias=bias, temperature=temperature, dropout=dropout)
                return context.to(context_type(value))
        weights = _weights(formula, query, key, graph, key_features)
        # Sums over a node's edges, both ways: half precision would lose the small ones.
        values = _silenced(_precise(share_heads(value, query.shape[1]))[:, :, graph.source], graph)
        dropped = drop(weights, dropout) if dropout else weights
        weighed = dropped[..., None] * values
        context = weighed.new_zeros(*query.shape[:3], value.shape[3])
        return context.index_add(2, graph.target, weighed).to(context_type(value))


def edge_weights(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch kv_heads key key_dim"],
    *,
    at: Positions | None = None,
) -> EdgeWeights:
    """The weight of every edge, before dropout, in the order in which the caller gave the edges.

    An edge to or from a node that is not there weighs 0. An edge that was given twice is one edge, reported twice.
    Queries and keys are those that are scored, after any transforms.

    >>> from foveate.attention import Attention, Dot, edges
    >>> attention = Attention(Dot(), visibility=edges([[1, 0, 2], [2, 1, 0]], self_loops=True))
    >>> x = torch.zeros(1, 1, 3, 2)
    >>> seen = edge_weights(attention, x, x)
    >>> seen.edges.tolist(), seen.weights.flatten().tolist(), seen.added.int().tolist()
    ([[1, 0, 2, 0, 1, 2], [2, 1, 0, 0, 1, 2]], [0.5, 0.5, 0.5, 0.5, 0.5, 0.5], [0, 0, 0, 1, 1, 1])
    """
    at = Positions.of(query.shape[2], key.shape[2], device=query.device) if at is None else at
    rule, _ = split(formula.visibility)
    if rule is None:
        raise ValueError(
            f"{formula.visibility} has no edges to weigh. Use edges(...), alone or joined to others by `&`."
        )
    if reasons := EdgesPath().refuses(formula, query, key, at):
        raise ValueError(f"These edges cannot be weighed one by one: {'; '.join(reasons)}. Use `explain`.")
    graph = _graph(formula.visibility, at)
    weights = _weights(formula, query, key, graph, None).to(query.dtype)
    first, low, keys = int(at.query[0, 0, 0, 0]), int(at.key[0, 0, 0, 0]), key.shape[2]
    own = rule.index.to(at.device)
    loops = _loops(rule, at)
    index = torch.cat([own, loops[:, ~torch.isin(loops[0], own[0][own[0] == own[1]])]], dim=1)
    source, target = index[0] - low, index[1] - first
    here = (source >= 0) & (source < keys) & (target >= 0) & (target < query.shape[2])
    pairs = (target * keys + source) * here
    codes = torch.cat([graph.target * keys + graph.source, pairs.new_full((1,), torch.iinfo(torch.int64).max)])
    place = torch.searchsorted(codes, pairs)
    place = torch.where(here & (codes[place] == pairs), place, len(codes) - 1)
    of_edges = torch.cat([weights, weights.new_zeros(*weights.shape[:2], 1)], dim=2)[:, :, place]
    added = torch.arange(index.shape[1], device=at.device) >= own.shape[1]
    return EdgeWeights(index, of_edges, added)


@torch.no_grad()
def edge_statistic(
    formula: Formula,
    query: Float[Tensor, "batch heads query query_dim"],
    key: Float[Tensor, "batch heads key key_dim"],
    at: Positions,
) -> Float[Tensor, "batch heads query"]:
    """The normaliser's number of every node, for records."""
    graph, normaliser = _graph(formula.visibility, at), formula.normaliser
    scores = _scores(formula, query, key, graph, None)
    nothing = torch.zeros(1, 1, 1, 1, dtype=torch.bool, device=query.device)
    numbers = normaliser.statistic(scores.new_zeros(*query.shape[:3], 1), nothing)
    for rows, place, _, visible in _tables(graph, query.shape[2]):
        here = normaliser.statistic(scores[:, :, place], visible)
        if tells_place(normaliser):
            sources = graph.source[place].expand(*here.shape, -1)
            chosen = sources.gather(-1, here.long().clamp(min=0)[..., None])[..., 0]
            here = torch.where(here >= 0, chosen.to(here.dtype), here)
        numbers[:, :, rows] = here
    return numbers


def _edge_form(score: object) -> _EdgeForm | None:
    """The way a score compares the rows at the two ends of an edge; None where it only scores all pairs."""
    form = form_of(score)
    if form is not None:
        return None if form.depends_on_places else _EdgeForm(form.of_query, form.of_key, form.pairs)
    if is_factored(score) and isinstance(score, EdgeScore) and describes(score, "pairs", (*CALLED, "compare")):
        return _EdgeForm(score.query_features, score.key_features, score.pairs)
    return None


def split(visibility: Visibility) -> tuple[EdgeList | None, Visibility]:
    """The graph in a rule, and the rules that `&` joins to it."""
    parts = visibility.parts
    for place, rule in enumerate(parts):
        if (graph := rule.graph) is not None:
            return graph, joined((*parts[:place], *parts[place + 1 :]))
    return None, visibility


def _graph(visibility: Visibility, at: Positions) -> _Graph:
    """The edges at these positions, which keep them."""
    bare = replace(at)  # without the facts: they would hold themselves
    if not visibility.lasting:
        return _edges_at(visibility, bare)
    return at.known(("edges", visibility), lambda: _edges_at(visibility, bare))


def _edges_at(visibility: Visibility, at: Positions) -> _Graph:
    rule, beside = split(visibility)
    assert rule is not None
    queries, keys = at.query.shape[2], at.key.shape[-1]
    index = torch.cat([rule.index.to(at.device), _loops(rule, at)], dim=1)
    source, target = (
        (index[0] - at.key[0, 0, 0, :1], index[1] - at.query[0, 0, :1, 0]) if queries and keys else index[:, :0]
    )
    here = (source >= 0) & (source < keys) & (target >= 0) & (target < queries)
    code = (target[here] * keys + source[here]).unique()
    target, source = code // max(keys, 1), code % max(keys, 1)
    graph = _Graph(source, target, None, at)
    if not beside.hides:
        return graph
    visible = of_edges(beside(graph.at), len(source))
    if visible.shape[0] == visible.shape[1] == 1:
        shown = visible[0, 0]
        return _Graph(source[shown], target[shown], None, at)
    return _Graph(source, target, visible, at)


def _loops(rule: EdgeList, at: Positions) -> Int[Tensor, "2 loops"]:
    """An edge from each node to itself, where it is both a query and a key."""
    if not rule.self_loops:
        return torch.zeros(2, 0, dtype=torch.long, device=at.device)
    both = at.query[0, 0, :, 0]
    both = both[torch.isin(both, at.key[0, 0, 0])]
    return torch.stack([both, both])


def _weights(
    formula: Formula, query: Tensor, key: Tensor, graph: _Graph, key_features: Tensor | None
) -> Float[Tensor, "batch heads edges"]:
    """The weight of each edge among those into its node."""
    scores = _scores(formula, query, key, graph, key_features)
    if (temperature := softmax_temperature(formula.normaliser)) is not None:
        weights = _softmax(scores if temperature == 1.0 else scores / temperature, graph, query.shape[2])
    else:
        weights = _by_rows(formula.normaliser, scores, graph, query.shape[2])
    if formula.reweight is None:
        return weights
    return weights * _edge_biases(formula.reweight, graph, weights.dtype).exp().to(weights.dtype)


def _edge_biases(bias: Bias, graph: _Graph, dtype: torch.dtype) -> Float[Tensor, "#batch #heads edges"]:
    """The bias of every edge."""
    if not len(graph.source):
        return torch.zeros(1, 1, 0, device=graph.at.device)
    if is_by_pair(bias):
        return of_edges(bias_values(bias, graph.at, dtype), len(graph.source))
    nodes, degree = graph.target.unique_consecutive(return_counts=True)
    parts, start = [], 0
    for targets, counts in zip(nodes.split(NODES), degree.split(NODES), strict=True):
        stop = start + int(counts.sum())
        sources, column = graph.source[start:stop].unique(return_inverse=True)
        answer = bias_values(bias, chosen_places(graph.nodes, targets, sources), dtype)
        answer = answer.expand(-1, -1, len(targets), len(sources))
        row = torch.arange(len(targets), device=column.device).repeat_interleave(counts)
        parts.append(answer[:, :, row, column])
        start = stop
    return torch.cat(parts, dim=2)


def _softmax(scores: Float[Tensor, "batch heads edges"], graph: _Graph, nodes: int) -> Tensor:
    if graph.visible is not None:
        scores = torch.where(graph.visible, scores, -torch.inf)
    into, rows = graph.target.expand_as(scores), (*scores.shape[:2], nodes)
    with torch.no_grad():
        highest = scores.new_full(rows, -torch.inf).scatter_reduce(2, into, scores, "amax")
        highest = torch.where(highest == -torch.inf, 0.0, highest)[:, :, graph.target]
    powers = (scores - highest).exp()
    total = powers.new_zeros(rows).index_add(2, graph.target, powers)[:, :, graph.target]
    return powers / torch.where(total == 0, 1.0, total)


def _by_rows(normaliser: Normaliser, scores: Float[Tensor, "batch heads edges"], graph: _Graph, nodes: int) -> Tensor:
    tables, edges = [], []
    for _, place, there, visible in _tables(graph, nodes):
        tables.append(normaliser(scores[:, :, place], visible)[:, :, there])
        edges.append(place[there])
    return torch.cat(tables, 2)[:, :, torch.cat(edges).argsort()] if edges else scores


def _tables(graph: _Graph, nodes: int) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Tables whose rows are nodes of similar degree, so that fewer than half of the places are empty: for each table
    its nodes, the number of the edge at each place, whether there is one, and whether it is visible.
    """
    degree = graph.target.bincount(minlength=nodes)
    start = degree.cumsum(0) - degree
    doublings = degree.float().log2().ceil()
    for doubling in doublings[degree > 0].unique():
        rows = (doublings == doubling).nonzero()
        place = torch.arange(int(degree[rows].max()), device=rows.device)
        there, place = place < degree[rows], place + start[rows]
        place = torch.where(there, place, 0)
        visible = there[None, None] if graph.visible is None else there & graph.visible[:, :, place]
        yield rows[:, 0], place, there, visible


def _scores(
    formula: Formula, query: Tensor, key: Tensor, graph: _Graph, key_features: Tensor | None
) -> Float[Tensor, "batch heads edges"]:
    """score(q, k) + bias"""
    form = _edge_form(formula.score)
    assert form is not None
    queries, features = _features(formula, query, key, graph, key_features)
    scores = form.pairs(queries[:, :, graph.target], _silenced(features[:, :, graph.source], graph))
    return scores if formula.bias is None else scores + _edge_biases(formula.bias, graph, scores.dtype)


def _features(
    formula: Formula, query: Tensor, key: Tensor, graph: _Graph, key_features: Tensor | None
) -> tuple[Float[Tensor, "batch heads query feature"], Float[Tensor, "batch heads key feature"]]:
    """The features of both sides that the score compares."""
    form, heads = _edge_form(formula.score), query.shape[1]
    assert form is not None
    if key_features is None:
        # Keys that no node sees may hold NaN, which must not reach the gradients of the score's weights.
        shared = share_heads(key, heads)
        features = form.of_key(shared if graph.is_source is None else torch.where(graph.is_source, shared, 0.0))
    else:
        features = key_features.expand(-1, heads, -1, -1)
    queries = form.of_query(query)
    require_equal_width(type(formula.score).__name__, queries, features)
    if isinstance(network := form_of(formula.score), PairNetwork):
        network.require_agreement(formula.score, queries, features)
    return _precise(queries), _precise(features)


def _precise(rows: Tensor) -> Tensor:
    return rows.to(torch.promote_types(rows.dtype, torch.float32))


def _silenced(rows: Float[Tensor, "batch heads edges dim"], graph: _Graph) -> Tensor:
    """Zeros in the rows of hidden edges: 0 · NaN is NaN."""
    return rows if graph.visible is None else torch.where(graph.visible[..., None], rows, 0.0)
