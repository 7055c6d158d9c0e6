"""Numbers that a reader changes in the viewer's steps give the weights and contexts of `Attention.explain`.

The file `steps.json` contains both; viewer/test computes the ones from the others. FOVEATE_RENEW=1 writes it anew.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from foveate.attention import (
    Additive,
    Alibi,
    Attention,
    Dot,
    Entmax,
    GATv2Score,
    Gaussian,
    Hard,
    ReLU,
    ScaledDot,
    Sigmoid,
    Softmax,
    Sparsemax,
    causal,
)
from foveate.inspect import Trace, observe
from foveate.inspect.worked_example import example

FILE = Path(__file__).parent / "steps.json"
GOLDEN: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
CHANGES = [("query", 1, 2, -0.7), ("key", 2, 0, 1.9), ("key", 0, 1, 0.25), ("value", 2, 1, -3.0)]


def _unprojected(score: Additive | GATv2Score) -> Additive | GATv2Score:
    with torch.no_grad():
        score.query_weight.copy_(torch.eye(3))
        score.key_weight.copy_(torch.eye(3))
        score.vector.copy_(torch.tensor([0.5, -1.25, 0.75]))
    return score


MECHANISMS = {
    "dot": Attention(Dot()),
    "scaled": Attention(ScaledDot()),
    "causal": Attention(Dot(), visibility=causal()),
    "alibi": Attention(ScaledDot(), bias=Alibi(1), visibility=causal()),
    "additive": Attention(_unprojected(Additive(query_dim=3, key_dim=3, hidden_dim=3))),
    "leaky": Attention(_unprojected(GATv2Score(query_dim=3, key_dim=3, hidden_dim=3))),
    "temperature": Attention(Dot(), normaliser=Softmax(temperature=2.5)),
    "relu": Attention(Dot(), normaliser=ReLU()),
    "raw relu": Attention(Dot(), normaliser=ReLU(normalised=False)),
    "sigmoid": Attention(Dot(), normaliser=Sigmoid(bias=-1.0)),
    "sparsemax": Attention(ScaledDot(), normaliser=Sparsemax()),
    "entmax": Attention(ScaledDot(), normaliser=Entmax(alpha=1.5)),
    "entmax 1.25": Attention(ScaledDot(), normaliser=Entmax(alpha=1.25), visibility=causal()),
    "hard": Attention(Dot(), normaliser=Hard(mode="argmax")),
    "gaussian": Attention(Dot(), reweight=Gaussian(1.0)),
}


def _features() -> dict[str, Tensor]:
    """Numbers that 16 bits contain exactly."""
    generator = torch.Generator().manual_seed(5)
    return {name: torch.randint(-12, 13, (4, 3), generator=generator) / 8 for name in ("query", "key", "value")}


def _computed(name: str) -> dict[str, Any]:
    """The recorded site, and the weights and contexts of the changed numbers in 64 bits."""
    attention, features = MECHANISMS[name].eval(), _features()
    with observe(nn.ModuleDict({"site": attention})) as recording, torch.no_grad():
        attention.run(**{part: numbers[None, None] for part, numbers in features.items()})
    site = Trace.of(recording, stored="float32").sites[0]
    changed = {part: numbers.double() for part, numbers in features.items()}
    for part, row, column, value in CHANGES:
        changed[part][row, column] = value
    with torch.no_grad():
        seen = attention.double().explain(*(numbers[None, None] for numbers in changed.values()))
    attention.float()
    tensors = {
        part: {"dtype": str(tensor.dtype).removeprefix("torch."), "shape": list(tensor.shape), "data": tensor.tolist()}
        for part, tensor in site.tensors.items()
    }
    return {
        "site": site.header(),
        "tensors": tensors,
        "changes": [list(change) for change in CHANGES],
        "weights": seen.weights[0, 0].tolist(),
        "context": seen.context[0, 0].tolist(),
    }


def test_the_file_has_the_numbers_of_explain() -> None:
    made = {name: _computed(name) for name in MECHANISMS}
    if os.environ.get("FOVEATE_RENEW"):
        FILE.write_text(json.dumps(made, ensure_ascii=False) + "\n", encoding="utf-8")
        return
    assert list(GOLDEN) == list(MECHANISMS)
    for name, case in made.items():
        stored = GOLDEN[name]
        assert case["site"] == stored["site"]
        for part in ("weights", "context"):
            torch.testing.assert_close(torch.tensor(case[part]), torch.tensor(stored[part]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "query", "context"),
    [("self-attention", 0, [1.936621, 6.683105, 1.595068]), ("one-hot", 1, [0.129563, 0.352187, *[0.129563] * 4])],
)
def test_the_examples_are_the_lectures(name: str, query: int, context: list[float]) -> None:
    site = example(name).sites[0]
    computed = site.weights(0)[0] @ site.tensors["value"][0]
    assert computed[query].tolist() == pytest.approx(context, abs=2e-6)
