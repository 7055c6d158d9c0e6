"""The checker of shapes that the tests use (shape_checker.py) refuses what jaxtyping refuses."""

from collections.abc import Callable
from dataclasses import dataclass

import beartype
import jaxtyping
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from shape_checker import ENOUGH, FIRST, STEP

checked = jaxtyping.jaxtyped(typechecker=beartype.beartype)


@checked
def product(x: Float[Tensor, "row column"], y: Float[Tensor, " column"]) -> Float[Tensor, " row"]:
    return x @ y if x.shape[0] > 1 else y


def scaling(factor: int) -> Callable[..., Tensor]:
    @checked
    def scaled(x: Float[Tensor, " length"], times: int = factor) -> Float[Tensor, " length"]:
        return x * times if times > 0 else x[1:]

    return scaled


@checked
@dataclass
class Pair:
    first: Float[Tensor, " length"]
    second: Float[Tensor, " length"]


x = torch.ones(2, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: product(x, torch.ones(2)),
        lambda: product(x[:1], torch.ones(3)),
        lambda: product("x", torch.ones(3)),
        lambda: scaling(2)(x),
        lambda: scaling(2)(x[0], times="2"),
        lambda: scaling(0)(x[0]),
        lambda: Pair(x[0], x[:, 0]),
    ],
    ids=["two parameters", "result", "kind", "local", "default", "local result", "dataclass"],
)
def test_what_does_not_fit_is_refused_in_words(wrong: Callable[[], object]) -> None:
    for _ in range(2):
        with pytest.raises(jaxtyping.TypeCheckError, match="Type-check error"):
            wrong()


@pytest.mark.parametrize("test", range(2))
def test_each_test_checks_the_first_calls_of_a_function_and_then_some(test: int) -> None:
    refused = []
    for number in range(ENOUGH + STEP):
        try:
            product(x[:1], torch.ones(3))
        except jaxtyping.TypeCheckError:
            refused.append(number)
    assert refused == [*range(FIRST), *range(FIRST, ENOUGH, STEP)]
    with pytest.raises(jaxtyping.TypeCheckError):
        scaling(2)(x)


def test_a_wrong_answer_is_refused_though_the_next_one_would_be_right() -> None:
    answers = [x, x[0]]

    @checked
    def row() -> Float[Tensor, " length"]:
        return answers.pop(0)

    with pytest.raises(jaxtyping.TypeCheckError, match="Type-check error"):
        row()
    assert not answers


def test_each_call_has_its_own_shapes_and_each_local_function_its_own_values() -> None:
    assert product(x, torch.ones(3)).tolist() == [3, 3]
    assert product(torch.ones(3, 1), torch.ones(1)).tolist() == [1, 1, 1]
    double, triple = scaling(2), scaling(3)
    assert double(triple(x[0])).tolist() == [6, 6, 6]
    assert Pair(x[0], x[1]).second.tolist() == [1, 1, 1]


def test_the_package_is_checked() -> None:
    from foveate.attention import GatConfig, window

    for wrong in (lambda: window(left="wide", right=0), lambda: GatConfig(slope="steep")):
        with pytest.raises(jaxtyping.TypeCheckError, match="Type-check error"):
            wrong()
