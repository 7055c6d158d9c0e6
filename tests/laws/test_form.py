"""A score of a user's own that says its form is fast, small and exported by that one class, and exact without it."""

import copy
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from foveate.attention import (
    PATHS,
    Attention,
    General,
    PairNetwork,
    PairScore,
    Positions,
    Product,
    ProductScore,
    ScaledDot,
    Sparsemax,
    causal,
    edges,
    padding,
    record,
    window,
)
from foveate.attention.efficient.linear import LinearAttention
from foveate.attention.paths.pairwise import pair_weights
from foveate.attention.score import form_of, require_true_form
from foveate.data.batch import Batch
from foveate.errors import UsageError
from foveate.export import onnx_engine, onnx_refusals
from foveate.inspect import Trace, Track
from foveate.inspect.step import steps
from foveate.inspect.trace import read_trace, standalone, write_trace
from foveate.models import LuongConfig, Transformer, TransformerConfig
from foveate.models.gpt import GPTConfig
from foveate.nn.transformer_block import BlockConfig

WIDTH, FEATURES, HEADS, LENGTH = 16, 5, 2, 37
LONG = 4_200
"""A map of this length has 17.6 million pairs, which a trace does not keep one by one."""
GRAPH = edges(torch.randint(0, LENGTH, (2, 90), generator=torch.Generator().manual_seed(0)), self_loops=True)


class Metric(nn.Module):
    """2 · relu(q A) · (k B): a product of features, with every method written out."""

    def __init__(self, query_dim: int = WIDTH, key_dim: int = WIDTH) -> None:
        super().__init__()
        self.ours, self.theirs = (nn.Parameter(torch.randn(dim, FEATURES) / 4) for dim in (query_dim, key_dim))

    def query_features(self, query: Tensor) -> Tensor:
        return (query @ self.ours).relu()

    def key_features(self, key: Tensor) -> Tensor:
        return key @ self.theirs

    def compare(self, query_features: Tensor, key_features: Tensor) -> Tensor:
        return 2 * query_features @ key_features.mT

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return self.compare(self.query_features(query), self.key_features(key))

    def form(self) -> Product:
        return Product(self.query_features, self.key_features, scale=2.0)

    def onnx(self, graph, x, *, side):
        product = graph.op("MatMul", x, graph.weight(self.ours if side == "query" else self.theirs))
        return graph.op("Relu", product) if side == "query" else product


class Projected(ProductScore):
    """q · (k B), from the base class."""

    def __init__(self, query_dim: int = WIDTH, key_dim: int = WIDTH) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(key_dim, query_dim) / 4)

    def key_features(self, key: Tensor) -> Tensor:
        return key @ self.weight

    def onnx(self, graph, x, *, side):
        return graph.op("MatMul", x, graph.weight(self.weight)) if side == "key" else x


@dataclass(frozen=True)
class Halved:
    """q · k / 2: a plain class, whose queries and keys are multiplied as they are."""

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT / 2

    def form(self) -> Product:
        return Product(scale=0.5)


class Joined(PairScore):
    """vᵀ tanh(q A + k B)"""

    def __init__(self, query_dim: int = WIDTH, key_dim: int = WIDTH) -> None:
        super().__init__()
        self.ours, self.theirs = (nn.Parameter(torch.randn(dim, FEATURES) / 4) for dim in (query_dim, key_dim))
        self.vector = nn.Parameter(torch.randn(1, FEATURES))

    def query_features(self, query: Tensor) -> Tensor:
        return query @ self.ours

    def key_features(self, key: Tensor) -> Tensor:
        return key @ self.theirs

    def onnx(self, graph, x, *, side):
        return graph.op("MatMul", x, graph.weight(self.ours if side == "query" else self.theirs))


class Bent(Joined):
    """vᵀ LeakyReLU(q A + k B), where another class said what tanh says."""

    slope = 0.1


class Distance(nn.Module):
    """−c |q − k|²: a formula that nobody else knows."""

    def __init__(self, query_dim: int = WIDTH, key_dim: int = WIDTH) -> None:
        super().__init__()
        self.strength = nn.Parameter(torch.tensor(0.1))

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return -self.strength * torch.cdist(query, key).square()


PRODUCTS, NETWORKS = (Metric, Projected, Halved), (Joined, Bent)
SCORES = (*PRODUCTS, *NETWORKS, Distance)


def given(length: int = LENGTH, heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return tuple(torch.randn(2, heads, length, WIDTH, requires_grad=True) for _ in range(3))


def refusing(attention: Attention, *tensors: Tensor) -> dict[str, tuple[str, ...]]:
    """The reasons of every path, by its name."""
    return {path.name: path.reasons for path in attention.plan(*tensors).paths}


@pytest.mark.parametrize(
    "rule", [padding(), causal(), window(left=4, right=1), GRAPH], ids=["all", "past", "near", "graph"]
)
@pytest.mark.parametrize("kind", SCORES)
def test_every_path_that_accepts_computes_what_explain_says_with_its_gradients(kind, rule) -> None:
    attention, tensors = Attention(kind(), visibility=rule), given()
    at = Positions.of(LENGTH, LENGTH, key_lengths=torch.tensor([LENGTH, LENGTH - 8]))
    above = torch.randn(2, HEADS, LENGTH, WIDTH)
    wanted = [*tensors, *attention.parameters()]
    expected = attention.explain(*tensors, at=at).context
    slopes = torch.autograd.grad((expected * above).sum(), wanted)
    accepted = [path for path in PATHS if not path.refuses(attention, *tensors[:2], at)]
    assert len(accepted) >= 2  # chunked and materialised take everything
    for path in accepted:
        context = path.run(attention, *tensors, at=at, key_features=None, dropout=0.0)
        torch.testing.assert_close(context, expected, atol=1e-5, rtol=1e-4, msg=path.name)
        for mine, right in zip(torch.autograd.grad((context * above).sum(), wanted), slopes, strict=True):
            torch.testing.assert_close(mine, right, atol=2e-4, rtol=1e-3, msg=path.name)


@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_product_runs_on_the_paths_for_dot_products_and_keeps_no_pairs(kind) -> None:
    attention, (query, key, _) = Attention(kind(), visibility=causal()), given()
    reasons = refusing(attention, query, key)
    assert all(reasons[name] == () for name in ("sdpa", "product", "short"))
    assert attention.plan(query, key).chosen not in ("materialised", "chunked")
    assert refusing(Attention(kind(), visibility=GRAPH), query, key)["edges"] == ()
    long = torch.zeros(1, 1, LONG, WIDTH)
    assert next(path.bytes for path in attention.plan(long, long).paths if path.name == "sdpa") == 0.0


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_network_over_pairs_runs_in_the_kernel_for_them(kind) -> None:
    attention, (query, key, _) = Attention(kind()), given()
    assert attention.plan(query, key).chosen == "additive"
    assert refusing(Attention(kind(), visibility=GRAPH), query, key)["edges"] == ()


def test_a_score_without_a_form_is_refused_by_kernels_in_words() -> None:
    query, key, _ = given()
    reasons = refusing(Attention(Distance()), query, key)
    assert reasons["sdpa"] == ("Distance is not a dot product",)
    assert reasons["additive"] == ("Distance is not a sum of tanh or leaky ReLU",)
    assert reasons["materialised"] == ()


@pytest.mark.parametrize("kind", [*PRODUCTS, *NETWORKS])
def test_without_its_form_a_score_is_as_exact_by_a_slower_path(kind) -> None:
    score, tensors = kind(), given()
    slow = Attention(lambda query, key: score(query, key))
    assert slow.plan(*tensors[:2]).chosen in ("materialised", "chunked")
    torch.testing.assert_close(slow.run(*tensors), Attention(score).run(*tensors), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("kind", [Metric, Halved])
def test_a_form_that_is_deleted_leaves_the_score_exact(kind, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors, attention = given(), Attention(kind())
    fast = attention.run(*tensors)
    monkeypatch.delattr(kind, "form")
    slow = Attention(attention.score)
    assert form_of(slow.score) is None
    assert slow.plan(*tensors[:2]).chosen in ("materialised", "chunked")
    torch.testing.assert_close(slow.run(*tensors), fast, atol=1e-5, rtol=1e-4)


class ComparedAnew(Metric):
    def compare(self, query_features: Tensor, key_features: Tensor) -> Tensor:
        return super().compare(query_features, key_features).tanh()


class FeaturedAnew(Metric):
    def query_features(self, query: Tensor) -> Tensor:
        return super().query_features(query).tanh()


class ProjectedAnew(Projected):
    def key_features(self, key: Tensor) -> Tensor:
        return super().key_features(key).tanh()


class CalledAnew(Projected):
    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return super().forward(query, key).tanh()


class PairedAnew(Joined):
    def pairs(self, query_features: Tensor, key_features: Tensor) -> Tensor:
        return 0 * super().pairs(query_features, key_features)


@pytest.mark.parametrize(
    ("kind", "kept"),
    [
        (ComparedAnew, False),
        (FeaturedAnew, False),
        (ProjectedAnew, True),  # the base class asks the features that there are
        (CalledAnew, False),
        (PairedAnew, False),
    ],
)
def test_a_subclass_keeps_the_form_only_where_it_still_holds(kind, kept: bool) -> None:
    attention, tensors = Attention(kind()), given()
    assert (form_of(attention.score) is not None) == kept
    torch.testing.assert_close(attention.run(*tensors), attention.explain(*tensors).context, atol=1e-5, rtol=1e-4)


def test_a_method_that_is_put_into_a_score_or_its_class_ends_its_form() -> None:
    score = Metric()
    assert form_of(score) is not None
    score.form = lambda: None  # type: ignore[method-assign]
    assert form_of(score) is None
    del score.form
    score.compare = lambda query, key: torch.zeros(1)  # type: ignore[method-assign]
    assert form_of(score) is None

    class Own(Metric):
        pass

    assert form_of(Own()) is not None
    Own.forward = lambda self, query, key: query @ key.mT  # type: ignore[method-assign]
    assert form_of(Own()) is None


@torch.no_grad()
def test_a_hook_is_seen_after_a_path_was_chosen() -> None:
    attention, tensors = Attention(General(query_dim=WIDTH, key_dim=WIDTH)), given()
    attention.run(*tensors)
    attention.score.register_forward_hook(lambda module, inputs, scores: 3 * scores)
    torch.testing.assert_close(attention.run(*tensors), attention.explain(*tensors).context, atol=1e-5, rtol=1e-4)


def test_features_of_different_widths_are_refused_by_every_path() -> None:
    class Uneven(ProductScore):
        def key_features(self, key: Tensor) -> Tensor:
            return key[..., :-1]

    query, key, value = given()
    for attention in (Attention(Uneven()), Attention(Uneven(), visibility=GRAPH), Attention(ScaledDot())):
        wide = query if isinstance(attention.score, Uneven) else torch.cat([query, query], -1)
        at = Positions.of(LENGTH, LENGTH)
        for path in PATHS:
            if not path.refuses(attention, wide, key, at):
                with pytest.raises(ValueError, match="needs queries and keys of one width"):
                    path.run(attention, wide, key, value, at=at, key_features=None, dropout=0.0)


@torch.no_grad()
@pytest.mark.parametrize("kind", [*PRODUCTS, *NETWORKS])
def test_a_long_trace_is_as_small_as_its_features_and_shows_what_explain_says(kind, tmp_path: Path) -> None:
    attention = Attention(kind(), visibility=causal())
    x = torch.randn(1, 1, LONG, WIDTH)
    with record(attention) as seen:
        attention.run(x, x, x)
    rows = slice(LONG - 3, LONG)
    tile = attention.explain(x[:, :, rows], x, x, at=Positions.of(3, LONG, query_start=rows.start)).weights
    torch.testing.assert_close(seen.records[0].weights(rows), tile, atol=1e-6, rtol=1e-4)
    trace = Trace.of(seen, {"words": Track.numbered(LONG)})
    path = write_trace(trace, tmp_path / "long.trace")
    assert sum(each.stat().st_size for each in path.iterdir()) < 500_000  # all pairs would be 35 million bytes
    (site,) = read_trace(path).sites
    torch.testing.assert_close(site.weights(0, rows)[0], tile[0, 0], atol=2e-5, rtol=2e-2)


@torch.no_grad()
def test_a_long_trace_of_a_score_without_a_form_is_refused_in_words() -> None:
    attention, x = Attention(Distance()), torch.randn(1, 1, LONG, WIDTH)
    with record(attention) as seen:
        attention.run(x, x, x)
    with pytest.raises(UsageError, match="The score Distance has to be stored pair by pair"):
        Trace.of(seen, {"words": Track.numbered(LONG)})


@torch.no_grad()
@pytest.mark.parametrize("kind", SCORES)
def test_a_page_and_the_steps_of_a_row_end_at_the_weights(kind) -> None:
    attention, (query, key, value) = Attention(kind(), normaliser=Sparsemax()), given()
    with record(attention) as seen:
        attention.run(query, key, value)
    trace = Trace.of(seen, {"words": Track.numbered(LENGTH)})
    weights = attention.explain(query, key, value).weights[0, 1, 7]
    row = trace.sites[0].weights(1, slice(7, 8))[0][0]
    torch.testing.assert_close(row, weights, atol=5e-3, rtol=2e-2)
    last = list(steps(trace, 0, 1, 7))[-1]
    shown = torch.tensor(last.numbers)
    assert last.symbol.startswith("α")
    torch.testing.assert_close(shown, row[torch.tensor(last.keys)], atol=1e-3, rtol=1e-3)
    assert kind.__name__ in trace.sites[0].formula
    page = standalone(trace)
    assert page.startswith("<!doctype html>")
    assert "<script" in page


def test_the_symbol_of_a_score_stands_in_the_formula() -> None:
    class Named(Projected):
        def key_features(self, key: Tensor) -> Tensor:
            return key

        def symbol(self, head_dim: int) -> str:
            return f"q·k in {head_dim}"

    attention, (query, key, value) = Attention(Named()), given()
    with torch.no_grad(), record(attention) as seen:
        attention.run(query, key, value)
    assert Trace.of(seen, {"words": Track.numbered(LENGTH)}).sites[0].formula == "softmax(q·k in 16)"


@pytest.mark.parametrize("kind", [*PRODUCTS, *NETWORKS])
@torch.inference_mode()
def test_graphs_for_other_engines_have_the_score(kind) -> None:
    torch.manual_seed(0)
    model = LuongConfig(embedding_dim=8, hidden_dim=WIDTH).build(20, 20).eval()
    model.attention.score = kind(WIDTH, WIDTH) if kind is not Halved else kind()
    source, token = Batch.of([[5, 6, 7, 2], [8, 2]]), torch.tensor([1, 1])
    engine = onnx_engine(model)
    ours, theirs = model.start(source, 1), engine.start(source, 1)
    for _ in range(3):
        ours, expected = model.step(ours, token)
        theirs, logits = engine.step(theirs, token)
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
        token = expected.argmax(1)


def test_graphs_refuse_a_score_that_cannot_write_itself() -> None:
    class Silent(Joined):
        onnx = None

    block = BlockConfig(model_dim=2 * WIDTH, num_heads=2, feedforward_dim=8, norm="pre")
    model = GPTConfig(block=block, num_layers=1).build(20).eval()
    site = next(module for module in model.modules() if isinstance(module, Attention))
    site.score = Joined()
    assert onnx_refusals(model) == []
    site.score = Distance()
    assert "its score is Distance" in onnx_refusals(model)[0]
    site.score = Silent()
    assert "its score Silent has no method onnx(graph, x, side=) that writes its features" in onnx_refusals(model)[0]


def test_a_pair_network_needs_no_base_class() -> None:
    class Sum:
        """tanh(a · q + a · k), of one hidden unit."""

        def __call__(self, query: Tensor, key: Tensor) -> Tensor:
            return torch.tanh(query.mean(-1)[..., None] + key.mean(-1)[..., None, :])

        def form(self) -> PairNetwork:
            return PairNetwork(*2 * [lambda x: x.mean(-1, keepdim=True)])

    attention, tensors = Attention(Sum(), visibility=GRAPH), given()
    assert refusing(attention, *tensors[:2])["edges"] == ()
    torch.testing.assert_close(attention.run(*tensors), attention.explain(*tensors).context, atol=1e-5, rtol=1e-4)


@torch.no_grad()
def test_linear_attention_is_kept_as_its_features() -> None:
    attention, (query, key, value) = LinearAttention(visibility=causal()), given()
    with record(attention) as seen:
        attention.run(query, key, value)
    (site,) = Trace.of(seen, {"words": Track.numbered(LENGTH)}).sites
    assert site.score == {"kind": "product", "factor": 1.0}
    assert site.formula == "proportional(φ(q)·φ(k)) over causal()"
    weights = attention.explain(query, key, value).weights
    for head in range(HEADS):
        torch.testing.assert_close(site.weights(head)[0], weights[0, head], atol=2e-3, rtol=1e-2)


def test_an_unrelated_attribute_called_form_is_not_a_form() -> None:
    class Poem(Distance):
        form = "sonnet"

    assert form_of(Poem()) is None
    tensors, attention = given(), Attention(Poem())
    torch.testing.assert_close(attention.run(*tensors), attention.explain(*tensors).context, atol=1e-5, rtol=1e-4)


def test_what_is_prepared_for_decoding_follows_the_scale_of_a_score() -> None:
    class Scaled:
        scale = 0.3

        def __call__(self, query: Tensor, key: Tensor) -> Tensor:
            return self.scale * query @ key.mT

        def form(self) -> Product:
            return Product(scale=self.scale)

    @torch.inference_mode()
    def logits(model: Transformer) -> Tensor:
        state, token = model.start(Batch.of([[5, 6, 7, 2], [8, 9, 2]]), 1), torch.tensor([1, 1])
        state, _ = model.step(state, token)
        return model.step(state, token + 4)[1]

    torch.manual_seed(0)
    block = BlockConfig(model_dim=2 * WIDTH, num_heads=2, feedforward_dim=8)
    model = TransformerConfig(block=block, encoder_layers=1, decoder_layers=1).build(20, 20).eval()
    score = Scaled()
    for site in (module for module in model.modules() if isinstance(module, Attention)):
        site.score = score
    before = logits(model)
    score.scale = 3.0
    after, fresh = logits(model), logits(copy.deepcopy(model))
    assert (before - after).abs().max() > 1e-3
    torch.testing.assert_close(after, fresh, atol=1e-6, rtol=1e-5)


class Widths(PairScore):
    """Features and a vector of any sizes, behind a dot product."""

    def __init__(self, query: int, key: int, vector: tuple[int, ...]) -> None:
        super().__init__()
        self.widths, self.vector = (query, key), torch.ones(vector)

    def query_features(self, query: Tensor) -> Tensor:
        return query[..., : self.widths[0]]

    def key_features(self, key: Tensor) -> Tensor:
        return key[..., : self.widths[1]]


@pytest.mark.parametrize(
    "sizes", [(6, 6, (1, 3)), (6, 5, (1, 6)), (1, 1, (1, 3)), (5, 5, (1, 1)), (6, 6, (3, 6)), (6, 6, (6,))]
)
@pytest.mark.parametrize("device", ["cpu", *(["cuda"] if torch.cuda.is_available() else [])])
def test_no_kernel_runs_on_features_and_a_vector_of_different_sizes(sizes, device: str) -> None:
    at, tensors = Positions.of(LENGTH, LENGTH), [each.detach().to(device) for each in given()]
    for rule in (padding(), GRAPH):
        attention = Attention(Widths(*sizes).to(device), visibility=rule)
        kernels = [path for path in PATHS if path.name in ("additive", "edges")]
        accepting = [path for path in kernels if not path.refuses(attention, *tensors[:2], at)]
        assert accepting or device != "cpu"
        for path in accepting:
            with pytest.raises(ValueError, match="Widths"):
                path.run(attention, *tensors, at=at, key_features=None, dropout=0.0)


def test_a_term_between_pairs_has_the_width_of_the_other_features() -> None:
    class Placed(Widths):
        def form(self) -> PairNetwork:
            return super().form()._replace(between=lambda query, at: query.new_ones(1, 1, 1, LENGTH, 1))

    query, key, value = (each.detach() for each in given())
    with pytest.raises(ValueError, match="The form of Placed has query features"):
        Attention(Placed(5, 5, (1, 5))).step(query[:, :, :1], key, value, at=Positions.of(1, LENGTH))


def test_key_features_of_one_example_serve_a_batch_in_the_kernel() -> None:
    query, key = torch.randn(3, 2, 4, 16), torch.randn(1, 1, 5, 16)
    vector = torch.randn(1, 16)
    expected = torch.tanh(query[..., :, None, :] + key[..., None, :, :]) @ vector[0]
    torch.testing.assert_close(pair_weights(query, key, vector, softmax=False), expected, atol=1e-4, rtol=1e-4)


class Learnt(Projected):
    """A product whose scale is learnt."""

    def __init__(self, query_dim: int = WIDTH, key_dim: int = WIDTH) -> None:
        super().__init__(query_dim, key_dim)
        self.strength = nn.Parameter(torch.tensor([-0.4]))

    def factor(self, width: int) -> Tensor:
        return self.strength


@pytest.mark.parametrize("rule", [causal(), GRAPH], ids=["past", "graph"])
def test_a_scale_may_be_learnt(rule) -> None:
    test_every_path_that_accepts_computes_what_explain_says_with_its_gradients(Learnt, rule)
    attention, tensors = Attention(Learnt(), visibility=rule), given()
    attention.score.strength.data.fill_(1.0)
    assert torch.autograd.grad(attention.run(*tensors).square().sum(), attention.score.strength)[0].abs() > 0
    with torch.no_grad(), record(attention) as seen:
        attention.run(*tensors)
    assert Trace.of(seen, {"words": Track.numbered(LENGTH)}).sites[0].score == {"kind": "product", "factor": 1.0}


def test_a_scale_of_several_numbers_is_refused_in_words() -> None:
    attention, tensors = Attention(Learnt()), given()
    attention.score.strength = nn.Parameter(torch.ones(3))
    for verb in (attention.run, attention.explain):
        with pytest.raises(ValueError, match="Multiply several into what `query_features` gives"):
            verb(*tensors)


def test_features_of_different_widths_are_named_after_the_form() -> None:
    class Cut(Halved):
        def __call__(self, query: Tensor, key: Tensor) -> Tensor:
            return query @ key.mT

        def form(self) -> Product:
            return Product(key_features=lambda key: key[..., :2])

    with pytest.raises(ValueError, match=r"Cut .* features that its `form\(\)` gave have widths 16 and 2"):
        Attention(Cut()).run(*given())


def test_a_form_of_another_type_is_refused_in_words() -> None:
    class Listed(Halved):
        def __call__(self, query: Tensor, key: Tensor) -> Tensor:
            return query @ key.mT

        def form(self):
            return [0.5]

    with pytest.raises(TypeError, match=r"Listed\.form\(\) gives list"):
        Attention(Listed()).run(*given())


class Mistaken(nn.Module):
    """q · k, which says that it is three times as much."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return query @ key.mT

    def form(self) -> Product:
        return Product(scale=3.0)


def test_a_form_that_is_not_the_score_is_refused() -> None:
    x = torch.randn(2, HEADS, LENGTH, WIDTH)
    attention = Attention(Mistaken())
    with pytest.raises(ValueError, match=r"Mistaken.form\(\) is not the formula of Mistaken: .* differ by"):
        attention.run(x, x, x)
    attention.score = Metric()
    attention.run(x, x, x)
    attention.score = Mistaken()
    with pytest.raises(ValueError, match="is not the formula"):
        attention.plan(x, x)


def test_a_score_that_draws_is_compared_with_the_same_draw() -> None:
    class Noisy(ProductScore):
        def key_features(self, key: Tensor) -> Tensor:
            return nn.functional.dropout(key, 0.5)

    x, before = torch.randn(1, 1, 9, 4), torch.get_rng_state()
    require_true_form(Noisy(), x, x)
    assert torch.equal(torch.get_rng_state(), before)
