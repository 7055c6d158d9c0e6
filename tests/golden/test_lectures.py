"""The lectures' worked numbers. What the lectures print wrongly is stated in docs/lectures.md."""

import importlib.util
import math
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from foveate.attention import (
    Additive,
    AdditiveConfig,
    Attention,
    AttentionConfig,
    Dot,
    Positions,
    ReLU,
    ScaledDot,
    Softmax,
    causal,
    record,
)
from foveate.attention.paths import PATHS
from foveate.data.batch import Batch
from foveate.models import BahdanauConfig
from foveate.nn import BinaryCode, MultiHeadAttention, Sinusoid

SIX_DECIMALS = {"atol": 6e-7, "rtol": 0}
"""Half a unit of the sixth decimal, and a float32 rounding."""


# The position table: d = 4, base 100, "I am a Robot"

TABLE = [
    [0.0, 1.0, 0.0, 1.0],
    [0.841471, 0.540302, 0.099833, 0.995004],
    [0.909297, -0.416147, 0.198669, 0.980067],
    [0.141120, -0.989992, 0.295520, 0.955336],
]
PRINTED = [[0.0, 1.0, 0.0, 1.0], [0.84, 0.54, 0.10, 1.0], [0.91, -0.42, 0.20, 0.98], [0.14, -0.99, 0.30, 0.96]]


def test_the_position_table_to_six_decimals_and_as_the_lecture_rounds_it() -> None:
    table = Sinusoid(4, base=100.0)(torch.arange(4))
    torch.testing.assert_close(table, torch.tensor(TABLE), **SIX_DECIMALS)
    assert [[round(value, 2) for value in row] for row in table.tolist()] == PRINTED


def test_the_printed_base_of_ten_thousand_gives_another_table() -> None:
    second = Sinusoid(4)(torch.tensor([1]))[0].tolist()
    assert [round(value, 2) for value in second] == [0.84, 0.54, 0.01, 1.0]


def test_the_second_word_stands_at_position_one() -> None:
    first, second = Sinusoid(4, base=100.0)(torch.arange(2)).tolist()
    assert first == [0.0, 1.0, 0.0, 1.0]
    assert second == pytest.approx([math.sin(1), math.cos(1), math.sin(0.1), math.cos(0.1)], abs=1e-7)


# A shift is a rotation


@pytest.mark.parametrize("shift", [1, 5, 17])
def test_one_rotation_shifts_every_position(shift: int) -> None:
    """[[cos δω, sin δω], [−sin δω, cos δω]] p_i = p_{i+δ} for all i: the matrix does not depend on i."""
    dim = 32
    p = Sinusoid(dim)(torch.arange(60 + shift)).double()
    for j in range(dim // 2):
        angle = shift * 10000 ** (-2 * j / dim)
        rotation = torch.tensor(
            [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]], dtype=torch.float64
        )
        pair = slice(2 * j, 2 * j + 2)
        torch.testing.assert_close(p[:60, pair] @ rotation.T, p[shift : 60 + shift, pair], atol=1e-6, rtol=0)


def test_every_position_vector_has_the_same_length() -> None:
    p = Sinusoid(32)(torch.arange(60)).double()
    torch.testing.assert_close(p.square().sum(-1), torch.full((60,), 16.0, dtype=torch.float64), atol=1e-5, rtol=0)


# Self-attention of three words of width four

X = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
W_K = torch.tensor([[0.0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
W_V = torch.tensor([[0.0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
W_Q = torch.tensor([[1.0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])

FIRST_WEIGHTS = [0.063379, 0.468311, 0.468311]
UNSCALED = [[1.936621, 6.683105, 1.595068], [1.999994, 7.963992, 0.053976], [1.999705, 7.759892, 0.358389]]
FIRST_WEIGHTS_SCALED = [0.136126, 0.431937, 0.431937]
SCALED = [[1.863874, 6.319371, 1.704189], [1.999110, 7.814124, 0.273472], [1.992555, 7.479636, 0.735877]]
CAUSAL = [[1.0, 2.0, 3.0], [1.999994, 7.999963, 0.000018], [1.999705, 7.759892, 0.358389]]
RELU_WEIGHTS = [[0.2, 0.4, 0.4], [0.125, 0.5, 0.375], [0.153846, 0.461538, 0.384615]]
RELU = [[1.8, 6.0, 1.8], [1.875, 6.5, 1.5], [1.846154, 6.307692, 1.615385]]
RAW_RELU = [[18.0, 60.0, 18.0], [60.0, 208.0, 48.0], [48.0, 164.0, 42.0]]


@pytest.fixture
def projected() -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = ((X @ matrix)[None, None].double() for matrix in (W_Q, W_K, W_V))
    return query, key, value


def test_the_projections_and_the_scores_are_whole_numbers(projected: tuple[Tensor, Tensor, Tensor]) -> None:
    query, key, value = (part[0, 0].tolist() for part in projected)
    assert query == [[1, 0, 2], [2, 2, 2], [2, 1, 3]]
    assert key == [[0, 1, 1], [4, 4, 0], [2, 3, 1]]
    assert value == [[1, 2, 3], [2, 8, 0], [2, 6, 3]]
    assert Attention(Dot()).explain(*projected).scores[0, 0].tolist() == [[2, 4, 4], [4, 16, 12], [4, 12, 10]]


def test_the_lectures_rounded_weights_give_the_lectures_output_and_not_the_exact_one(
    projected: tuple[Tensor, Tensor, Tensor],
) -> None:
    exact = Attention(Dot()).explain(*projected)
    rounded = torch.tensor([0.0, 0.5, 0.5], dtype=torch.float64) @ projected[2][0, 0]
    assert rounded.tolist() == [2.0, 7.0, 1.5]
    torch.testing.assert_close(exact.weights[0, 0, 0], torch.tensor(FIRST_WEIGHTS, dtype=torch.float64), **SIX_DECIMALS)
    assert (exact.context[0, 0, 0] - rounded).abs().max() > 0.3


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
@pytest.mark.parametrize(
    ("attention", "expected"),
    [
        (Attention(Dot()), UNSCALED),
        (Attention(ScaledDot()), SCALED),
        (Attention(Dot(), normaliser=Softmax(temperature=math.sqrt(3))), SCALED),
        (Attention(Dot(), visibility=causal()), CAUSAL),
        (Attention(Dot(), normaliser=ReLU()), RELU),
        (Attention(Dot(), normaliser=ReLU(normalised=False)), RAW_RELU),
    ],
    ids=["unscaled", "scaled by √3", "temperature √3", "causal", "ReLU", "raw ReLU"],
)
def test_outputs_agree_to_six_decimals(
    projected: tuple[Tensor, Tensor, Tensor], attention: Attention, expected: list[list[float]], path: object
) -> None:
    found, at = [attention.explain(*projected).context[0, 0]], Positions.of(3, 3)
    if not path.refuses(attention, *projected[:2], at):
        found.append(path.run(attention, *projected, at=at, key_features=None, dropout=0.0)[0, 0])
    for context in found:
        torch.testing.assert_close(context, torch.tensor(expected, dtype=torch.float64), **SIX_DECIMALS)


def test_scaled_weights_and_causal_weights(projected: tuple[Tensor, Tensor, Tensor]) -> None:
    scaled = Attention(ScaledDot()).explain(*projected).weights[0, 0, 0]
    torch.testing.assert_close(scaled, torch.tensor(FIRST_WEIGHTS_SCALED, dtype=torch.float64), **SIX_DECIMALS)
    seen = Attention(Dot(), visibility=causal()).explain(*projected).weights[0, 0]
    assert seen.triu(1).abs().max() == 0
    assert seen[0].tolist() == [1, 0, 0]


def test_relu_in_the_place_of_softmax(projected: tuple[Tensor, Tensor, Tensor]) -> None:
    weights = Attention(Dot(), normaliser=ReLU()).explain(*projected).weights[0, 0]
    torch.testing.assert_close(weights, torch.tensor(RELU_WEIGHTS, dtype=torch.float64), **SIX_DECIMALS)
    raw = Attention(Dot(), normaliser=ReLU(normalised=False)).explain(*projected)
    assert torch.equal(raw.weights, raw.scores)


def test_the_layer_with_the_lectures_matrices_gives_the_same() -> None:
    layer = MultiHeadAttention(
        query_dim=4, num_heads=1, head_dim=3, output_dim=3, attention=AttentionConfig(score=Dot())
    )
    with torch.no_grad():
        for part, matrix in ((layer.query, W_Q), (layer.key, W_K), (layer.value, W_V), (layer.output, torch.eye(3))):
            part.weight.copy_(matrix.T)
    torch.testing.assert_close(layer(X[None])[0], torch.tensor(UNSCALED), atol=2e-6, rtol=0)  # float32 numbers up to 8


# "Action gets results"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    path = Path(__file__).parents[2] / "examples" / "action_gets_results.py"
    spec = importlib.util.spec_from_file_location("action_gets_results", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_is_the_slides_columns_computed(example: ModuleType) -> None:
    rows = example.example()
    assert [tuple(row) for row in rows] == [example.COLUMNS] * 3
    assert [row["word"] for row in rows] == ["Action", "gets", "results"]
    query = rows[0]["q"]
    assert query.shape == rows[1]["k"].shape == rows[2]["v"].shape == (64,)
    for row in rows:
        assert row["score"] == pytest.approx(float(query @ row["k"]), abs=1e-5)
        assert row["score/8"] == pytest.approx(row["score"] / 8)
        torch.testing.assert_close(row["softmax·v"], row["softmax"] * row["v"])
    total = sum(math.exp(row["score/8"]) for row in rows)
    assert [row["softmax"] for row in rows] == pytest.approx([math.exp(row["score/8"]) / total for row in rows])
    torch.testing.assert_close(rows[0]["sum"], sum(row["softmax·v"] for row in rows))


def test_the_table_prints(example: ModuleType) -> None:
    lines = example.text(example.example()).splitlines()
    assert lines[0].split() == list(example.COLUMNS)
    assert [line.split()[0] for line in lines[1:]] == ["Action", "gets", "results"]
    assert len(lines) == 4


# One-hot words: «Надо сдавать лабораторные до срока выполнения»


def test_one_hot_words_are_similar_to_themselves_alone() -> None:
    words = ["Надо", "сдавать", "лабораторные", "до", "срока", "выполнения"]
    x = torch.eye(len(words))[None, None]
    seen = Attention(Dot()).explain(x, x, x)
    place = words.index("сдавать")
    assert seen.scores[0, 0, place].tolist() == [0, 1, 0, 0, 0, 0]
    other, self = 1 / (math.e + 5), math.e / (math.e + 5)
    assert (round(self, 6), round(other, 6)) == (0.352187, 0.129563)
    expected = torch.tensor([other, self, other, other, other, other])
    torch.testing.assert_close(seen.weights[0, 0, place], expected, **SIX_DECIMALS)
    torch.testing.assert_close(seen.context[0, 0, place], expected, **SIX_DECIMALS)  # Σ α_j e_j lists the weights


# Why scores are divided by √E


@pytest.mark.parametrize("width", [4, 64, 512])
def test_the_variance_of_a_product_is_its_width_until_it_is_scaled(width: int) -> None:
    """Var(q · k) = E for independent entries of variance 1; the lecture measures 4.00, 64.5 and 508, then about 1."""
    query, key = torch.randn(2, 1, 1, 2000, width).unbind(0)
    plain, scaled = Dot()(query, key).var().item(), ScaledDot()(query, key).var().item()
    assert plain == pytest.approx(width, rel=0.05)
    assert scaled == pytest.approx(1.0, rel=0.05)
    # Without it, softmax of wide vectors is nearly a hard choice.
    sharp, mild = (score(query, key).softmax(-1).amax(-1).mean().item() for score in (Dot(), ScaledDot()))
    assert mild < 0.05
    assert sharp > mild
    assert width < 64 or sharp > 0.4


# Binary positions, 0 to 15

BINARY = """
0000 0001 0010 0011
0100 0101 0110 0111
1000 1001 1010 1011
1100 1101 1110 1111
"""


def test_the_binary_table_is_the_lectures() -> None:
    table = BinaryCode(4)(torch.arange(16)).int().tolist()
    assert ["".join(map(str, row)) for row in table] == BINARY.split()
    lowest, highest = zip(*((row[-1], row[0]) for row in table), strict=True)
    assert lowest == (0, 1) * 8  # turns at every number
    assert highest == (0,) * 8 + (1,) * 8  # every eight


# One-hot: apple, bag, cat, dog


def test_one_hot_vectors_say_nothing_of_which_words_are_alike() -> None:
    words = ["apple", "bag", "cat", "dog"]
    vectors = torch.nn.functional.one_hot(torch.arange(4)).float()
    assert vectors[words.index("cat")].tolist() == [0, 0, 1, 0]
    assert torch.equal(Dot()(vectors[None, None], vectors[None, None])[0, 0], torch.eye(4))
    distance = torch.cdist(vectors, vectors)
    cat, dog, apple = (words.index(word) for word in ("cat", "dog", "apple"))
    assert distance[cat, dog] == distance[cat, apple]  # a cat is as far from a dog as from an apple


# Layer norm, formulas (1)–(4)


def test_layer_norm_is_its_four_formulas() -> None:
    norm, x = nn.LayerNorm(7), torch.randn(3, 7)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    mean = x.sum(-1, keepdim=True) / 7  # (1) μ = 1/m Σ x_i
    variance = ((x - mean) ** 2).sum(-1, keepdim=True) / 7  # (2) σ² = 1/m Σ (x_i − μ)²
    normalised = (x - mean) / (variance + norm.eps).sqrt()  # (3) x̂ = (x − μ) / √(σ² + ε)
    torch.testing.assert_close(norm(x), norm.weight * normalised + norm.bias)  # (4) y = γ x̂ + β


# Bahdanau's weights of the fourth word: α_41 … α_44 from s_3 and h_1 … h_4


def alphas(score: Additive, s: list[float], h: list[list[float]]) -> list[float]:
    """exp(e_4j) / Σ_k exp(e_4k) with e_4j = vᵀ tanh(W s_3 + U h_j), in plain arithmetic."""
    W, U, v = (part[0].tolist() for part in (score.query_weight, score.key_weight, score.vector))
    energies = []
    for h_j in h:
        hidden = [
            math.tanh(sum(s_i * W[i][unit] for i, s_i in enumerate(s)) + sum(x * U[i][unit] for i, x in enumerate(h_j)))
            for unit in range(len(v))
        ]
        energies.append(sum(a * b for a, b in zip(v, hidden, strict=True)))
    total = sum(map(math.exp, energies))
    return [math.exp(energy) / total for energy in energies]


def test_bahdanaus_weights_of_the_fourth_word() -> None:
    score = Additive(query_dim=2, key_dim=3, hidden_dim=4)
    s = [0.5, -1.0]
    h = [[0.1, 0.2, 0.3], [1.0, 0.0, -1.0], [0.0, 2.0, 0.5], [-0.4, 0.4, 0.9]]
    query, memory = torch.tensor([[[s]]]), torch.tensor([[h]])
    seen = Attention(score, kind="cross").explain(query, memory, memory)
    expected = alphas(score, s, h)
    assert sum(expected) == pytest.approx(1)
    assert seen.weights.flatten().tolist() == pytest.approx(expected, abs=1e-6)
    context = [sum(weight * h_j[i] for weight, h_j in zip(expected, h, strict=True)) for i in range(3)]
    assert seen.context.flatten().tolist() == pytest.approx(context, abs=1e-6)


@torch.no_grad()
def test_a_model_looks_with_the_state_before_the_step() -> None:
    """The weights of word 4 come from s_3, the state after word 3: the score is not written with s_t."""
    config = BahdanauConfig(
        embedding_dim=4, hidden_dim=5, maxout_dim=3, attention=AttentionConfig(score=AdditiveConfig(hidden_dim=6))
    )
    model = config.build(9, 9).eval()
    source, target = Batch.of([[4, 5, 6, 2]]), Batch.of([[1, 3, 4, 5, 6, 2]])
    with record(model) as seen:
        model(source, target)
    states, state = [], model.start(source)
    for word in target.ids[0, :-1]:
        states.append(state.layers[0][0][0].tolist())  # s_0, s_1, …
        state, _ = model.step(state, word[None])
    h = state.memory.hidden[0].tolist()
    assert len(h) == 4
    expected = alphas(model.attention.score, states[3], h)
    assert seen["attention"].weights()[0, 0, 3].tolist() == pytest.approx(expected, abs=1e-6)
