"""What a recurrent attention network keeps to, and what the published one does not.

All in float64, so that a difference is a mistake and not a rounding.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from foveate.attention import record
from foveate.nn import RAN, RANConfig
from foveate.nn.ran_layer import RANLayer

SAME: dict[str, Any] = {"atol": 1e-12, "rtol": 0}
"""float64: the order of sums may differ, nothing else."""
Array = NDArray[np.float64]


def built(**settings: Any) -> RAN:
    torch.manual_seed(3)
    sizes = {"model_dim": 8, "num_heads": 2, "head_dim": 4, "window": 4, "min_window": 2, "num_layers": 2}
    network = RANConfig(**{**sizes, **settings}).build().double().eval()
    with torch.no_grad():
        for parameter in network.parameters():  # far enough from zero for every part to matter
            parameter.add_(0.2 * torch.randn_like(parameter))
    return network


def documents(*lengths: int, width: int | None = None) -> tuple[Tensor, Tensor]:
    """Random documents; what stands in the padding is loud."""
    x = torch.randn(len(lengths), max(lengths), 8, dtype=torch.float64)
    padded = torch.full((len(lengths), width or max(lengths), 8), 50.0, dtype=torch.float64)
    for row, length in enumerate(lengths):
        padded[row, :length] = x[row, :length]
    return padded, torch.tensor(lengths)


def layers_of(network: RAN) -> list[RANLayer]:
    return [layer for layer in network.layers if isinstance(layer, RANLayer)]


# The formula lines, read one after another; no module, no batch, no tensor library.


def _swish(x: Array) -> Array:
    return x / (1 + np.exp(-x))


def _softmax(scores: Array) -> Array:
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


class Formulas:
    """One layer on one document."""

    def __init__(self, layer: RANLayer) -> None:
        self.config = layer.config
        self.w = {name: value.detach().numpy() for name, value in layer.named_parameters()}

    def n(self, x: Array) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        quirk = self.config.published or self.config.norm == "published"
        return centred / np.sqrt(((x if quirk else centred) ** 2).mean(-1, keepdims=True) + 1e-7)

    def ln(self, name: str, x: Array) -> Array:
        return self.w[f"{name}.weight"] * self.n(x) + self.w[f"{name}.bias"]

    def dense(self, name: str, x: Array) -> Array:
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def glu(self, name: str, x: Array) -> Array:
        a, b = np.split(self.dense(f"{name}.linear", x), 2, -1)
        return a / (1 + np.exp(-b))

    def rope(self, x: Array) -> Array:
        turned = np.empty_like(x)
        for position, row in enumerate(x):
            for j in range(0, len(row), 2):
                angle = position * 10000.0 ** (-j / len(row))
                turned[position, j] = row[j] * math.cos(angle) - row[j + 1] * math.sin(angle)
                turned[position, j + 1] = row[j] * math.sin(angle) + row[j + 1] * math.cos(angle)
        return turned

    def pmhsa(self, z: Array, visible: NDArray[np.bool_]) -> Array:
        q, k, v = np.split(_swish(self.dense("projection", z)), 3, -1)
        d, heads = self.config.head_dim, []
        for h in range(self.config.num_heads):
            one = slice(h * d, (h + 1) * d)
            scores = self.rope(q[:, one]) @ self.rope(k[:, one]).T / math.sqrt(d)
            heads.append(_softmax(np.where(visible, scores, -1e12)) @ v[:, one])
        return self.ln("attention_norm", _swish(self.dense("output", np.concatenate(heads, -1))) + self.glu("gate", z))

    def cut(self, length: int) -> list[slice]:
        size, joins = self.config.window, self.config.published or self.config.windows == "merge_tail"
        starts = list(range(0, length, size))
        if joins and len(starts) > 1 and length - starts[-1] < self.config.min_window:
            starts.pop()
        return [slice(a, b) for a, b in zip(starts, [*starts[1:], length], strict=True)]

    def rule(self, real: NDArray[np.bool_], places: range, prefix: int) -> NDArray[np.bool_]:
        """Row and column 0 are the cell."""
        size = 1 + len(real)
        visible = np.zeros((size, size), dtype=bool)
        for i in range(size):
            for j in range(size):
                ahead = j > i and not (j > 0 and places[j - 1] < prefix)
                whole = i == 0 and not self.config.published
                visible[i, j] = (not self.config.causal or whole or not ahead) and (j == 0 or real[j - 1])
        return visible

    def review(self, tokens: Array, cells: Array, visible: NDArray[np.bool_]) -> Array:
        if not self.config.review:
            return self.ln("review", tokens)
        q, (k, v) = (
            _swish(self.dense("review.query", tokens)),
            np.split(_swish(self.dense("review.memory", cells)), 2, -1),
        )
        weights = np.zeros((len(q), len(k)))
        for i in range(len(q)):
            if visible[i].any():
                weights[i, visible[i]] = _softmax(q[i] @ k[visible[i]].T / math.sqrt(q.shape[-1]))
        return self.ln("review.norm", _swish(self.dense("review.output", weights @ v)) + self.glu("review.gate", q))

    def __call__(
        self, x: Array, cell: Array | None, real: NDArray[np.bool_], prefix: int = 0
    ) -> tuple[Array, Array, Array]:
        """Outputs, all raw cells, last global cell."""
        g = self.w["initial_cell"] if cell is None else cell
        cells: list[Array] = []
        outputs, of = [], []
        for i, window in enumerate(self.cut(len(x))):
            z = self.ln("input_norm", np.concatenate([g[None], x[window]]))
            places = range(window.start, window.stop)
            y = self.pmhsa(z, self.rule(real[window], places, prefix))
            c = self.n(y[0])
            g = self.ln("cell_norm", c + self.glu("cell_gate", cells[-1])) if cells else c
            cells.append(c)
            outputs.append(self.n(y[1:]))
            of += [i] * len(places)
        ends = [window.stop for window in self.cut(len(x))]
        back = (self.config.causal or self.config.streaming) and not self.config.published
        seen = [[not back or j < i or ends[j] <= prefix for j in range(len(cells))] for i in of]
        return self.review(np.concatenate(outputs), np.stack(cells), np.array(seen)), np.stack(cells), g


def by_formula(network: RAN, x: Tensor, length: int | None = None, prefix: int = 0) -> tuple[Tensor, Tensor]:
    """One document, cut at its length; a published network also reads the padding."""
    rows, cell = x.numpy(), None
    if length is not None and not network.config.published:
        rows = rows[:length]
    real = np.arange(len(rows)) < (len(rows) if length is None else length)
    config = network.config
    for layer in layers_of(network):
        formulas = Formulas(layer)
        output, cells, last = formulas(rows, cell, real, prefix)
        rows = rows + output if config.residual else output
        cell = None if (config.causal or config.streaming) and not config.published else last
    document = {"last": last, "mean": cells.mean(0), "max": cells.max(0)}[config.document]
    return torch.from_numpy(rows), torch.from_numpy(document)


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"causal": True},
    "streaming": {"streaming": True, "document": "mean"},
    "without review": {"review": False, "document": "max"},
    "causal without review": {"causal": True, "review": False},
    "published norm": {"norm": "published"},
    "merged": {"windows": "merge_tail", "min_window": 3},
    "merged causal": {"windows": "merge_tail", "causal": True},
    "deep": {"num_layers": 3, "residual": True},
}
PUBLISHED: dict[str, dict[str, Any]] = {
    "published": {"published": True},
    "published causal": {"published": True, "causal": True},
    "published mean": {"published": True, "document": "mean", "min_window": 3},
    "published without review": {"published": True, "review": False, "document": "max"},
}


@pytest.fixture(params=VARIANTS)
def network(request: pytest.FixtureRequest) -> RAN:
    return built(**VARIANTS[request.param])


@pytest.mark.parametrize("length", [1, 4, 5, 9, 12, 14])
def test_it_is_the_formulas_one_after_another(network: RAN, length: int) -> None:
    x, _ = documents(length)
    tokens, document = by_formula(network, x[0])
    output = network(x)
    torch.testing.assert_close(output.tokens[0], tokens, **SAME)
    torch.testing.assert_close(output.document[0], document, **SAME)


@pytest.mark.parametrize("variant", PUBLISHED)
@pytest.mark.parametrize(("length", "width"), [(3, 3), (9, 9), (9, 10), (9, 16), (13, 13), (6, 14)])
def test_published_it_is_the_published_formulas_padding_and_all(variant: str, length: int, width: int) -> None:
    network = built(**PUBLISHED[variant])
    x, lengths = documents(length, width=width)
    x[0, length:] = 0.0
    tokens, document = by_formula(network, x[0], length)
    output = network(x, lengths)
    torch.testing.assert_close(output.tokens[0, :length], tokens[:length], **SAME)
    torch.testing.assert_close(output.document[0], document, **SAME)


@pytest.mark.parametrize("settings", [{}, {"published": True}, {"windows": "merge_tail", "min_window": 4}], ids=str)
def test_a_prefix_is_seen_whole_and_the_rest_causally(settings: dict[str, Any]) -> None:
    network = built(causal=True, **settings)
    prefixes = [0, 1, 4, 6, 9, 11]
    x, _ = documents(*[11] * len(prefixes))
    together = network(x, prefix=torch.tensor(prefixes))
    for row, prefix in enumerate(prefixes):
        tokens, document = by_formula(network, x[row], prefix=prefix)
        torch.testing.assert_close(together.tokens[row], tokens, **SAME)
        torch.testing.assert_close(together.document[row], document, **SAME)


def test_one_window_is_one_layer_of_gated_self_attention() -> None:
    network = built(num_layers=1, review=False)
    (layer,) = layers_of(network)
    assert layer.initial_cell is not None
    x, _ = documents(3)
    formulas = Formulas(layer)
    z = formulas.ln("input_norm", np.concatenate([layer.initial_cell.detach().numpy()[None], x[0].numpy()]))
    y = formulas.n(formulas.pmhsa(z, np.ones((4, 4), dtype=bool)))
    output = network(x)
    torch.testing.assert_close(output.document[0], torch.from_numpy(y[0]), **SAME)
    torch.testing.assert_close(output.tokens[0], torch.from_numpy(formulas.ln("review", y[1:])), **SAME)


def jacobian(network: RAN, length: int, **inputs: Any) -> Tensor:
    """Which output depends on which input."""
    x, _ = documents(length)
    whole = torch.autograd.functional.jacobian(lambda x: network(x, **inputs).tokens[0], x)
    return whole[:, :, 0].abs().amax((1, 3)) > 0


@pytest.mark.parametrize("variant", [name for name in VARIANTS if "causal" in name])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_a_causal_token_depends_on_every_token_before_it_and_on_none_after(variant: str, num_layers: int) -> None:
    network = built(**VARIANTS[variant], num_layers=num_layers)
    assert torch.equal(jacobian(network, 13), torch.ones(13, 13).tril().bool())


def test_with_a_prefix_it_depends_on_all_of_it() -> None:
    expected = torch.ones(13, 13).tril().bool()
    expected[:4, :4] = True
    assert torch.equal(jacobian(built(causal=True), 13, prefix=torch.tensor([4])), expected)
    ahead = jacobian(built(causal=True), 13, prefix=torch.tensor([6])).triu(1)
    assert not ahead[:, 6:].any()
    assert ahead[:4, :4].any()


def test_streaming_sees_its_own_window_whole_and_nothing_after_it() -> None:
    windows = torch.arange(13) // 4
    assert torch.equal(jacobian(built(streaming=True), 13), windows <= windows[:, None])


def test_everything_depends_on_everything_without_causality() -> None:
    assert jacobian(built(), 13).all()


@pytest.mark.parametrize("num_layers", [1, 2])
def test_published_causality_lets_nothing_pass_between_windows(num_layers: int) -> None:
    """Its cell is row 0 of a triangle: outputs depend on their own window only, and no cell on any token."""
    network = built(published=True, causal=True, num_layers=num_layers)
    blocks = torch.block_diag(*torch.ones(3, 4, 4)).tril().bool()
    assert torch.equal(jacobian(network, 12), blocks)
    x, _ = documents(12)
    assert (torch.autograd.functional.jacobian(lambda x: network(x).document, x) == 0).all()


def test_repaired_causality_carries_tokens_into_the_document() -> None:
    x, _ = documents(12)
    network = built(causal=True)
    gradient = torch.autograd.functional.jacobian(lambda x: network(x).document[0], x)
    assert (gradient[:, 0].abs().amax((0, 2)) > 0).all()


@pytest.mark.parametrize("pads", [1, 3, 7, 15])
def test_padding_does_not_matter(network: RAN, pads: int) -> None:
    x, lengths = documents(9, 5, 0, 13)
    padded, _ = documents(9, 5, 0, 13, width=13 + pads)
    padded[:, :13] = x
    one, other = network(x, lengths), network(padded, lengths)
    torch.testing.assert_close(other.tokens[:, :13], one.tokens, **SAME)
    torch.testing.assert_close(other.document, one.document, **SAME)
    assert (other.tokens[:, 13:] == 0).all()


def test_what_stands_in_the_padding_cannot_be_read(network: RAN) -> None:
    x, lengths = documents(9, 5, 0, 13)
    poisoned = x.clone()
    poisoned[torch.arange(13) >= lengths[:, None]] = torch.nan
    one, other = network(x, lengths), network(poisoned, lengths)
    assert torch.equal(other.tokens, one.tokens)
    assert torch.equal(other.document, one.document)


def test_other_documents_in_a_batch_do_not_matter(network: RAN) -> None:
    x, lengths = documents(9, 5, 0, 13, 14)
    together = network(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = network(x[row : row + 1, :length])
        torch.testing.assert_close(together.tokens[row, :length], alone.tokens[0], **SAME)
        torch.testing.assert_close(together.document[row], alone.document[0], **SAME)


def test_published_padding_does_matter() -> None:
    """Windows of padding move the cell, and a tail is merged or not by the padded length."""
    network = built(published=True)
    x, lengths = documents(9)
    alone = network(x)
    for pads in (1, 3, 7, 15):
        padded = torch.cat([x, torch.zeros(1, pads, 8, dtype=x.dtype)], 1)
        output = network(padded, lengths)
        assert (output.document - alone.document).abs().max() > 0.1
        assert (output.tokens[:, :9] - alone.tokens).abs().max() > 0.1


@pytest.mark.parametrize("variant", ["causal", "streaming", "causal without review"])
@pytest.mark.parametrize("num_layers", [1, 2, 3])
@pytest.mark.parametrize("pieces", [[4, 4, 4, 1], [8, 5], [4, 9], [12, 1], [13]], ids=str)
def test_pieces_give_what_the_whole_gives(variant: str, num_layers: int, pieces: list[int]) -> None:
    network = built(**VARIANTS[variant], num_layers=num_layers)
    x, _ = documents(13, 13)
    whole, state, tokens = network(x), network.start(2), []
    for piece in x.split(pieces, 1):
        output = network.extend(piece, state)
        state = output.state
        tokens.append(output.tokens)
    torch.testing.assert_close(torch.cat(tokens, 1), whole.tokens, **SAME)
    torch.testing.assert_close(output.document, whole.document, **SAME)
    for layer, expected in zip(state, whole.state, strict=True):
        torch.testing.assert_close(layer.cells, expected.cells, **SAME)


@pytest.mark.parametrize("variant", ["causal", "streaming"])
def test_pieces_of_documents_that_end_at_different_times(variant: str) -> None:
    network = built(**VARIANTS[variant])
    x, lengths = documents(13, 3, 0, 8, 10)
    whole, state, tokens = network(x, lengths), network.start(5), []
    for start, piece in zip((0, 8), x.split([8, 5], 1), strict=True):
        output = network.extend(piece, state, (lengths - start).clamp(0, piece.shape[1]))
        state = output.state
        tokens.append(output.tokens)
    torch.testing.assert_close(torch.cat(tokens, 1), whole.tokens, **SAME)
    torch.testing.assert_close(output.document, whole.document, **SAME)


@pytest.mark.parametrize("variant", ["causal", "streaming"])
def test_a_document_may_wait_while_others_go_on(variant: str) -> None:
    network = built(**VARIANTS[variant])
    x, _ = documents(13, 20)
    whole, state = network(x, torch.tensor([13, 20])), network.start(2)
    for waiting, going in ((x[:1, :4], x[1:, :8]), (x[:1, :0], x[1:, 8:16]), (x[:1, 4:13], x[1:, 16:20])):
        piece = torch.randn(2, 9, 8, dtype=x.dtype)
        piece[0, : waiting.shape[1]], piece[1, : going.shape[1]] = waiting[0], going[0]
        output = network.extend(piece, state, torch.tensor([waiting.shape[1], going.shape[1]]))
        state = output.state
    torch.testing.assert_close(output.document, whole.document, **SAME)
    torch.testing.assert_close(output.tokens[0, :9], whole.tokens[0, 4:13], **SAME)
    torch.testing.assert_close(output.tokens[1, :4], whole.tokens[1, 16:], **SAME)


def test_a_cell_handed_on_alone_is_not_the_whole() -> None:
    """The published way to go on: the residual and the old cells are lost."""
    network = built(causal=True, num_layers=1)
    x, _ = documents(12)
    first = network(x[:, :8])
    second = network(x[:, 8:], cell=first.state[0].global_cell)
    assert (second.tokens - network(x).tokens[:, 8:]).abs().max() > 0.01
    assert (second.document - network(x).document).abs().max() > 0.01


def test_gradients_are_finite(network: RAN) -> None:
    x, lengths = documents(9, 5, 0, 13)
    x[torch.arange(13) >= lengths[:, None]] = torch.nan
    x.requires_grad_()
    output = network(x, lengths)
    (output.tokens.square().sum() + output.document.square().sum()).backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert (x.grad[torch.arange(13) >= lengths[:, None]] == 0).all()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


@pytest.mark.parametrize("settings", [{}, {"causal": True}, {"published": True}], ids=str)
def test_gradients_are_those_of_differences(settings: dict[str, Any]) -> None:
    network = built(model_dim=4, head_dim=2, window=2, num_layers=1, **settings)
    x = torch.randn(1, 5, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: network(x, torch.tensor([5]))[:2], x)


def test_documents_without_a_token_are_the_first_cell(network: RAN) -> None:
    for x, lengths in (documents(0, 0), documents(0, 0, width=6)):
        output = network(x, lengths)
        assert (output.tokens == 0).all()
        assert output.tokens.shape == x.shape
        expected = layers_of(network)[-1 if network.config.looks_back else 0].initial_cell
        assert expected is not None
        torch.testing.assert_close(output.document, expected.expand(2, -1))


def test_only_one_row_of_each_window_goes_step_by_step() -> None:
    network = built(num_layers=1)
    x, _ = documents(14, 14)
    with record(network) as seen:
        network(x)
    shapes = [(one.name, one.kind, one.shape) for one in seen]
    assert shapes == [
        *[("layers.0.cell_attention", "self", (2, 2, 1, 5))] * 4,
        ("layers.0.token_attention", "self", (8, 2, 4, 5)),
        ("layers.0.review.attention", "cross", (2, 1, 16, 4)),
    ]


def test_training_drops_and_evaluation_does_not() -> None:
    network, (x, _) = built(dropout=0.5), documents(9)
    assert torch.equal(network(x).tokens, network(x).tokens)
    network.train()
    assert not torch.equal(network(x).tokens, network(x).tokens)
