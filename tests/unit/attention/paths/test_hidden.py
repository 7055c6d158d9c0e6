"""What a rule says, and what is kept of it."""

import pytest
import torch

from foveate.attention import (
    Attention,
    Positions,
    Visibility,
    bigbird,
    causal,
    chunk,
    padding,
    sparse,
    window,
)
from foveate.attention.paths import SDPAPath, hidden


@pytest.mark.parametrize("most", [0, hidden.KEPT], ids=["made for each call", "kept"])
def test_a_mask_that_is_too_large_to_keep_hides_the_same(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hidden, "KEPT", most)
    attention, at = Attention(visibility=causal() & padding()), Positions.of(5, 5, key_lengths=torch.tensor([0, 3]))
    shown = hidden.RuleMask.of(attention.visibility, at)
    assert shown.over(2, 5, 5, torch.float32).dtype is (torch.float32 if most else torch.bool)
    x = [torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3)]
    explained, run = attention.explain(*x, at=at).context, SDPAPath().run(attention, *x, at=at)
    torch.testing.assert_close(run, explained)
    for one, other in zip(*(torch.autograd.grad(context.sum(), x) for context in (run, explained)), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "rule",
    [
        padding(),
        causal() & padding(),
        window(left=2, right=1),
        bigbird(block=2),
        sparse(block=4, summaries=1),
        chunk(3),
    ],
    ids=repr,
)
def test_a_rule_asked_in_blocks_of_queries_says_the_same(rule: Visibility, monkeypatch: pytest.MonkeyPatch) -> None:
    at = Positions.of(11, 11, key_lengths=torch.tensor([0, 7]))
    whole = rule(at)
    monkeypatch.setattr(hidden, "KEPT", 0)
    monkeypatch.setattr(hidden, "BLOCK", 35)
    assert torch.equal(hidden.RuleMask.of(rule, at).visible, whole)
