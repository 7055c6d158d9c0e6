"""The lectures' worked examples, term by term."""

import math
import re
from xml.etree import ElementTree

import pytest
import torch

from foveate.attention import Attention, Dot, Entmax, ReLU, ScaledDot, Sigmoid, Softmax, Sparsemax, causal, record
from foveate.attention.bias import Alibi
from foveate.attention.efficient import LocalPredictiveConfig
from foveate.attention.normaliser import Hard
from foveate.attention.score import Additive, ShawRelative
from foveate.attention.visibility import everything
from foveate.errors import UsageError
from foveate.inspect import Step, Trace, observe, position_steps, steps

X = torch.tensor([[1.0, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]])
W_K = torch.tensor([[0.0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]])
W_V = torch.tensor([[0.0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]])
W_Q = torch.tensor([[1.0, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]])


def walked(attention: Attention, query: int = 0) -> dict[str, Step]:
    """The lecture's 4-d self-attention through a mechanism, by symbol."""
    q, k, v = (X @ w for w in (W_Q, W_K, W_V))
    with observe(attention) as recording, torch.no_grad():
        attention.run(q[None, None], k[None, None], v[None, None])
    return {step.symbol: step for step in steps(Trace.of(recording), 0, 0, query)}


def test_the_lecture_s_self_attention_step_by_step() -> None:
    walk = walked(Attention(Dot()))
    assert walk["q₀"].numbers == [1, 0, 2]
    assert walk["k"].numbers == [[0, 1, 1], [4, 4, 0], [2, 3, 1]]
    assert walk["q·k terms"].numbers == [[0, 0, 2], [4, 0, 0], [2, 0, 2]]
    assert walk["q·k"].numbers == [2, 4, 4]
    assert walk["exp"].numbers == pytest.approx([7.389, 54.60, 54.60], abs=2e-2)
    assert walk["Σ"].numbers == pytest.approx(116.6, abs=0.1)
    assert walk["α₀"].numbers == [0.06338, 0.4683, 0.4683]
    assert walk["α·v"].numbers == [[0.06338, 0.1268, 0.1901], [0.9366, 3.746, 0], [0.9366, 2.81, 1.405]]
    assert walk["c₀"].numbers == [1.937, 6.683, 1.595]


def test_scaled_by_the_root_of_three() -> None:
    walk = walked(Attention(ScaledDot()))
    assert walk["e₀"].numbers == pytest.approx([2 / math.sqrt(3), 4 / math.sqrt(3), 4 / math.sqrt(3)], abs=1e-3)
    assert "1/√3" in walk["e₀"].about
    assert walk["α₀"].numbers == [0.1361, 0.4319, 0.4319]
    assert walk["c₀"].numbers == [1.864, 6.319, 1.704]


def test_the_causal_mask_says_what_it_hides() -> None:
    walk = walked(Attention(Dot(), visibility=causal()))
    assert walk["visible"].numbers == [1, 0, 0]
    assert walk["visible"].about.startswith("causal() hides 2 of 3 keys")
    assert walk["c₀"].numbers == [1, 2, 3]


def test_relu_in_the_place_of_softmax() -> None:
    walk = walked(Attention(Dot(), normaliser=ReLU()))
    assert walk["α₀"].numbers == [0.2, 0.4, 0.4]
    assert walk["c₀"].numbers == [1.8, 6.0, 1.8]
    raw = walked(Attention(Dot(), normaliser=ReLU(normalised=False)))
    assert raw["c₀"].numbers == [18, 60, 18]


def test_the_lecture_s_table_of_positions() -> None:
    table = {position: position_steps(position, 4, base=100.0)[-1].numbers for position in range(4)}
    assert table == {
        0: [0, 1, 0, 1],
        1: [0.8415, 0.5403, 0.0998, 0.9950],
        2: [0.9093, -0.4161, 0.1987, 0.9801],
        3: [0.1411, -0.9900, 0.2955, 0.9553],
    }
    with pytest.raises(UsageError, match="dim=3 must be even"):
        position_steps(1, 3)


def mechanisms() -> list[Attention]:
    local = LocalPredictiveConfig(window=1).build(query_dim=3, key_dim=3, visibility=everything(), kind="cross")
    return [
        Attention(Additive(query_dim=3, key_dim=3, hidden_dim=10)),
        Attention(ShawRelative(head_dim=3, radius=1)),
        Attention(bias=Alibi(1), normaliser=Softmax(temperature=0.5)),
        Attention(normaliser=Sparsemax()),
        Attention(normaliser=Entmax()),
        Attention(normaliser=Sigmoid()),
        Attention(normaliser=Hard(mode="argmax")),
        local,
    ]


@pytest.mark.parametrize("attention", mechanisms(), ids=lambda each: type(each.score).__name__)
def test_every_mechanism_walks_to_its_weights_and_its_context(attention: Attention) -> None:
    walk = walked(attention.eval(), query=2)
    q, k, v = (x[None, None] for x in (X @ W_Q, X @ W_K, X @ W_V))
    right = attention.explain(q, k, v)
    assert walk["c₂"].numbers == pytest.approx(right.context[0, 0, 2].tolist(), rel=5e-3, abs=5e-3)
    weights = walk.get("α₂′", walk["α₂"]).numbers
    assert weights == pytest.approx(right.weights[0, 0, 2].tolist(), rel=5e-3, abs=5e-3)
    for step in walk.values():
        ElementTree.fromstring(step.mathml)
        assert step.about.endswith(".")


def test_of_many_keys_the_heaviest_are_shown_in_order() -> None:
    attention = Attention()
    with record(attention) as recording:
        attention.run(x := torch.randn(1, 1, 40, 20), x, x)
    trace = Trace.of(recording)
    last = steps(trace, 0, 0, 7)[-1]
    assert last.keys is not None
    assert last.keys == sorted(last.keys)
    weights = trace.sites[0].weights(0)[0][7]
    assert set(last.keys) == set(weights.topk(12).indices.tolist())
    terms = next(step for step in steps(trace, 0, 0, 7) if step.symbol == "q·k terms")
    assert len(terms.numbers[0]) == 9  # type: ignore[index,arg-type]
    with pytest.raises(UsageError, match="heads 0 to 0 and queries 0 to 39"):
        steps(trace, 0, 0, 40)


def test_huge_scores_stay_finite_numbers() -> None:
    attention = Attention(Dot())
    with record(attention) as recording:
        attention.run(x := torch.tensor([[[[30.0], [20.0]]]]), x, x)
    message = "".join(str(step.numbers) for step in steps(Trace.of(recording), 0, 0, 0))
    assert not re.search("inf|nan", message)
