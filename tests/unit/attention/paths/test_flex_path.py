"""FlexAttention gives what the reference gives, or says why not. Here its CPU kernel runs, not the GPU's."""

import subprocess
import sys

import pytest
import torch

from foveate.attention import Attention, Positions, predicate, window
from foveate.attention.paths import flex
from foveate.attention.paths.flex import FlexPath

COMPARISON = """
import torch
from foveate.attention import Alibi, Attention, Positions, causal, padding, window
from foveate.attention.paths.flex import FlexPath

torch.manual_seed(0)
nan = float("nan")
at = Positions.of(150, 150, key_lengths=torch.tensor([150, 0, 7]))
for rule, bias in ((window(left=30, right=0) & padding(), None), (causal(), Alibi(4))):
    attention = Attention(visibility=rule, bias=bias)
    query, key, value = torch.randn(3, 4, 150, 16), torch.randn(3, 2, 150, 16), torch.randn(3, 2, 150, 16)
    if "padding" in str(rule):
        key[2, :, 7:], value[2, :, 7:] = nan, nan
    path = FlexPath(on_cpu=True)
    assert path.refuses(attention, query, key, at) == []
    difference = path.run(attention, query, key, value, at=at) - attention.explain(query, key, value, at=at).context
    assert difference.abs().max() < 1e-5, (str(rule), difference.abs().max())
"""


def test_rules_and_biases_become_one_kernel() -> None:
    # In a process without the tests' type checker, whose wrappers torch cannot compile.
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", COMPARISON], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_it_refuses_what_it_cannot_do() -> None:
    x = torch.randn(1, 1, 4, 4, requires_grad=True)
    at = Positions.of(4, 4)
    assert "FlexPath(on_cpu=True)" in FlexPath().refuses(Attention(), x, x, at)[0]
    assert FlexPath(on_cpu=True).refuses(Attention(), x, x, at) == ["no backward on a CPU"]
    assert "float64" in FlexPath(on_cpu=True).refuses(Attention(), x.detach().double(), x.detach().double(), at)[0]


@pytest.mark.usefixtures("unchecked")
def test_blocks_of_a_rule_that_reads_what_may_change_are_made_for_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(flex, "_made_mask", lambda rule, at, batch: calls.append(str(rule)))
    at = Positions.of(257, 257)
    for rule in (predicate(lambda at: at.key % 2 == 0), window(left=3, right=0)):
        for _ in range(2):
            flex._block_mask(rule, 1, at)
    flex._kept_mask.cache_clear()
    assert calls == ["predicate(<lambda>)"] * 2 + ["window(left=3, right=0)"]
