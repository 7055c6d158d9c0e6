"""Invalid rules and invalid numbers of rules are refused in one sentence: neither cut off nor guessed."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from foveate.attention import (
    Alibi,
    Attention,
    Visibility,
    around,
    bigbird,
    block,
    causal,
    chunk,
    dilated,
    edges,
    global_tokens,
    longformer,
    neighbourhood,
    padding,
    predicate,
    prefix,
    random_blocks,
    sparse,
    summary,
    window,
)

MASK = torch.ones(5, 5, dtype=torch.bool).tril()
NUMBER = "must be a whole number"
X = torch.randn(2, 4, 5, 8)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        (MASK, "`visibility` is a tensor of shape (5, 5). A rule tells from positions"),
        (MASK.numpy(), "`visibility` is an array of shape (5, 5). A rule tells from positions"),
        (None, "`visibility` is None. Give a rule, such as causal()"),
        (True, "`visibility` is True."),
        (causal, "`visibility` is the function causal."),
        ("causal()", "`visibility` is 'causal()'."),
        (Alibi(2), "`visibility` is Alibi(num_heads=2)."),
    ],
    ids=lambda other: str(other)[:20],
)
def test_a_rule_joins_nothing_but_rules(unchecked: None, other: Any, says: str) -> None:
    joins: list[Callable[[], Any]] = [
        lambda: causal() & other,
        lambda: other & causal(),
        lambda: causal() | other,
        lambda: other | causal(),
        lambda: (causal() & padding()) & other,
    ]
    for join in joins:
        with pytest.raises(TypeError) as refused:
            join()
        assert str(refused.value).startswith(says)


def test_rules_are_not_joined_by_words(unchecked: None) -> None:
    with pytest.raises(TypeError, match=r"neither true nor false before it is asked. Join rules with `&`, `\|` and"):
        (lambda: causal() and padding())()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: window(left=2.5, right=0), f"left=2.5 {NUMBER}."),
        (lambda: window(left="2", right=0), f"left='2' {NUMBER}."),
        (lambda: window(left=0, right=True), f"right=True {NUMBER}."),
        (lambda: window(left=math.nan, right=0), f"left=nan {NUMBER}."),
        (lambda: window(left=torch.tensor(2), right=0), f"left=tensor(2) {NUMBER}."),
        (lambda: window(left=[1, 2], right=0), f"left=[1, 2] {NUMBER}."),
        (lambda: dilated(left=1, right=1, step=1.5), f"step=1.5 {NUMBER}."),
        (lambda: dilated(left=1.5, right=1, step=2), f"left=1.5 {NUMBER}."),
        (lambda: around(left=None, right=1), "left=None must be a number."),
        (lambda: block(2.5), f"size=2.5 {NUMBER}."),
        (lambda: chunk("2"), f"size='2' {NUMBER}."),
        (lambda: chunk(2, left=1.5), f"left=1.5 {NUMBER}."),
        (lambda: summary(block=2.0, count=1), f"block=2.0 {NUMBER}."),
        (lambda: global_tokens([0.5]), f"positions[0]=0.5 {NUMBER}."),
        (lambda: global_tokens("01"), f"positions='01' {NUMBER}, or a list of them."),
        (lambda: random_blocks(block=2, count=1.5), f"count=1.5 {NUMBER}."),
        (lambda: random_blocks(block=2, count=1, seed=None), f"seed=None {NUMBER}."),
        (lambda: longformer(window="2"), f"window='2' {NUMBER}."),
        (lambda: bigbird(block=2.5), f"block=2.5 {NUMBER}."),
        (lambda: neighbourhood(columns=3.5, reach=1), f"columns=3.5 {NUMBER}."),
        (lambda: neighbourhood(columns=3, reach=1.5), f"reach=1.5 {NUMBER}, or a list of them."),
        (lambda: prefix(1.5), f"length=1.5 {NUMBER}, or a list of them."),
        (lambda: causal().picture(3.0, 3), f"query=3.0 {NUMBER}."),
        (lambda: edges([[0.5, 1], [1, 0]]), "`index` holds float32, and nodes are numbered with whole numbers."),
        (lambda: edges(MASK), "`index` holds bool, and nodes are numbered with whole numbers."),
        (lambda: edges([[0, 1], [1]]), "`index` is [[0, 1], [1]]. Give two rows of whole numbers"),
        (lambda: edges(None), "`index` is None. Give two rows of whole numbers"),
        (lambda: padding(3), "`lengths` is 3. Give the length of each example, as whole numbers"),
        (lambda: padding([1.5, 3]), f"lengths[0]=1.5 {NUMBER}."),
        (lambda: padding(torch.ones(2, 5, dtype=torch.bool)), "`lengths` is a tensor of shape (2, 5) and bool. Give"),
        (lambda: padding(torch.ones(2)), "`lengths` is a tensor of shape (2,) and float32. Give the length"),
        (lambda: predicate(MASK), "`function` is a tensor of shape (5, 5). Give a function of positions"),
        (lambda: predicate(causal()), "`function` is causal(). Give a function of positions"),
        (lambda: Visibility.parse(MASK), "`text` is a tensor of shape (5, 5). A rule is parsed from the code"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_numbers_of_a_rule_are_refused(unchecked: None, make: Callable[[], Any], says: str) -> None:
    with pytest.raises(TypeError) as refused:
        make()
    assert str(refused.value).startswith(says)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: random_blocks(block=2, count=-1), "count=-1 must be at least 0."),
        (lambda: sparse(block=0, strided=True), "block=0 must be at least 1."),
        (lambda: global_tokens([-1]), "[-1] global tokens are impossible"),
        (lambda: neighbourhood(columns=3, reach=1, first=-1), "first=-1 is the number of tokens before the grid"),
        (lambda: neighbourhood(columns=3, reach=(1, 2, 3)), "A grid has columns=3 and a reach of (1, 2, 3)"),
        (lambda: edges([[-1, 0], [0, 1]]), "`index` holds -1: nodes are numbered from 0 on."),
        (lambda: edges([2, 0, 1], pointers=[0, 2, 1, 3]), "Pointers are [0, 2, 1, 3], but `index` has shape (3,)"),
        (lambda: edges([2, 0, 1], pointers=[1, 2, 3, 4]), "Pointers are [1, 2, 3, 4], but `index` has shape (3,)"),
        (lambda: Visibility.parse("window(left='3', right=0)"), "\"window(left='3', right=0)\" cannot be read"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_numbers_that_a_rule_cannot_have_are_refused(unchecked: None, make: Callable[[], Any], says: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as refused:
        make()
    assert str(refused.value).startswith(says)


def test_numbers_of_numpy_and_tensors_are_taken_and_print_as_code(unchecked: None) -> None:
    assert repr(global_tokens(torch.tensor([0, 2]))) == "global_tokens([0, 2])"
    assert repr(prefix(np.array([1, 2]))) == "prefix([1, 2])"
    assert repr(padding(np.array([1, 2]))) == "padding([1, 2])"
    assert window(left=np.int64(2), right=0) == window(left=2, right=0)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (torch.ones(1, 1, 5, 5), "a tensor of shape (1, 1, 5, 5), torch.float32"),
        (MASK, "a tensor of shape (5, 5), torch.bool"),
        (MASK[None, None, :, :4], "a tensor of shape (1, 1, 5, 4), torch.bool"),
        (None, "None"),
        (True, "True"),
    ],
    ids=str,
)
@pytest.mark.parametrize("verb", ["run", "explain"])
def test_what_a_rule_of_ones_own_may_answer(unchecked: None, verb: str, answer: Any, says: str) -> None:
    attention = Attention(visibility=causal() & predicate(lambda at: answer))
    with pytest.raises(ValueError, match=r"must read positions and give a Bool of `batch heads query key`") as refused:
        getattr(attention, verb)(X, X, X)
    assert f"answered {says}." in str(refused.value)
