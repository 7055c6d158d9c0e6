"""Pictures of rules, and what they refuse. Their algebra is tests/laws/test_visibility.py."""

import math

import pytest
import torch

from foveate.attention import Positions, causal, everything, padding, window


def picture(*rows: str) -> str:
    return "\n".join(" ".join(row) for row in rows)


def test_pictures() -> None:
    assert everything().picture(2, 3) == picture("###", "###")
    assert causal().picture(3, 3) == picture("#..", "##.", "###")
    assert causal().picture(2, 4) == picture("#...", "##..")
    assert window(left=1, right=1).picture(4, 4) == picture("##..", "###.", ".###", "..##")
    assert (~causal()).picture(3, 3) == picture(".##", "..#", "...")
    assert (causal() | padding(torch.tensor([2]))).picture(3, 4) == picture("##..", "##..", "###.")


def test_a_window_counts_keys_beside_the_query_itself() -> None:
    visible = window(left=2, right=3)(Positions.of(20, 20))[0, 0]
    assert visible[10].nonzero().flatten().tolist() == [8, 9, 10, 11, 12, 13]


def test_rules_that_change_nothing_disappear() -> None:
    assert everything() & causal() == causal()
    assert causal() & everything() == causal()
    assert causal() | everything() == everything()


def test_rules_print_as_code_with_the_brackets_they_need() -> None:
    rule = (padding() | window(left=math.inf, right=2)) & ~(padding() & causal())
    assert repr(rule) == "(padding() | window(left=math.inf, right=2)) & ~(padding() & causal())"
    assert repr(padding(torch.tensor([2, 3]))) == "padding([2, 3])"


def test_rules_are_values() -> None:
    assert window(left=1, right=0) == window(left=1, right=0)
    assert hash(causal() & padding()) == hash(causal() & padding())
    assert padding(torch.tensor([2])) == padding(torch.tensor([2]))
    assert padding(torch.tensor([2])) != padding(torch.tensor([3]))
    assert padding() != padding(torch.tensor([3]))
    assert padding() != causal()
    assert hash(padding(torch.tensor([2]))) == hash(padding(torch.tensor([2])))


def test_a_negative_window_is_refused() -> None:
    with pytest.raises(ValueError, match="window") as refusal:
        window(left=-1, right=0)
    assert str(refusal.value) == "A window reaches left=-1 and right=0: neither may be negative."
