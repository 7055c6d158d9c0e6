"""Pictures of rules, and what they refuse. Their algebra is tests/laws/test_visibility.py."""

import math
from dataclasses import dataclass

import pytest
import torch
from jaxtyping import Bool
from torch import Tensor

from foveate.attention import (
    Positions,
    Visibility,
    around,
    block,
    causal,
    chunk,
    dilated,
    everything,
    global_tokens,
    neighbourhood,
    nothing,
    padding,
    prefix,
    random_blocks,
    summary,
    window,
)


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


def test_what_a_rule_implies_disappears() -> None:
    assert causal() & causal() == causal()
    assert window(left=2, right=0) & causal() == window(left=2, right=0)
    assert causal() & window(left=2, right=5) & padding() == window(left=2, right=0) & padding()
    assert window(left=2, right=9) & window(left=4, right=1) == window(left=2, right=1)
    assert window(left=2, right=0) | window(left=0, right=3) == window(left=2, right=3)
    assert causal() | window(left=3, right=1) == window(left=math.inf, right=1)
    assert dilated(left=5, right=5, step=2) & causal() & window(left=7, right=7) == dilated(left=3, right=0, step=2)
    assert dilated(left=3, right=0, step=2) | dilated(left=0, right=1, step=2) == dilated(left=3, right=1, step=2)
    assert chunk(4, left=2) & chunk(4, left=1) == chunk(4, left=1)
    assert block(2) & block(4) == block(2)
    assert repr(block(3) & block(4)) == "block(3) & block(4)"
    assert around(left=1, right=4) & around(left=3, right=2) == around(left=1, right=2)
    assert prefix(2) & prefix(5) == prefix(2)
    assert neighbourhood(columns=4, reach=2) & neighbourhood(columns=4, reach=(1, 3)) == neighbourhood(
        columns=4, reach=(1, 2)
    )
    shifted = neighbourhood(columns=4, reach=2, first=1)
    assert shifted & neighbourhood(columns=4, reach=1, first=1) == neighbourhood(columns=4, reach=1, first=1)
    assert repr(shifted & neighbourhood(columns=4, reach=2)).count("neighbourhood") == 2


def test_what_is_implied_disappears_from_either_side_of_the_sign() -> None:
    """a & b == a says the same as a | b == b."""
    pairs = [
        (window(left=1, right=0), causal()),
        (block(2), block(4)),
        (block(3), window(left=2, right=2)),
        (window(left=4, right=0), chunk(2, left=2)),
        (causal(), chunk(3, left=math.inf)),
        (dilated(left=3, right=0, step=2), causal()),
        (neighbourhood(columns=4, reach=1), neighbourhood(columns=4, reach=2)),
        (global_tokens(1), global_tokens([0, 3])),
        (random_blocks(block=2, count=1), random_blocks(block=2, count=3)),
        (summary(block=4, count=1), summary(block=4, count=2)),
        (around(left=1, right=1), around(left=1, right=2)),
    ]
    for one, other in pairs:
        assert one & other == other & one == one
        assert one | other == other | one == other
    assert repr(window(left=3, right=0) & chunk(2, left=1)) == "window(left=3, right=0) & chunk(2, left=1)"
    assert repr(block(3) | window(left=1, right=2)) == "block(3) | window(left=1, right=2)"


def test_what_a_part_implies_disappears_from_a_combination() -> None:
    assert window(left=1, right=0) & (causal() | padding()) == window(left=1, right=0)
    assert causal() | (window(left=1, right=0) & padding()) == causal()
    assert block(2) | (block(2) & causal()) | padding() == block(2) | padding()
    assert global_tokens(1) | global_tokens(3) | global_tokens([5]) == global_tokens([0, 1, 2, 5])


def test_boolean_identities_disappear() -> None:
    assert ~~padding() == padding()
    assert ~everything() == nothing()
    assert padding() & ~padding() == nothing()
    assert padding() | ~padding() == everything()
    assert padding() & (causal() | padding()) == padding()
    assert padding() | (causal() & padding()) == padding()
    assert nothing() | causal() == causal()
    assert nothing() & causal() == nothing()
    assert causal() & padding() == padding() & causal()
    assert hash(causal() & padding()) == hash(padding() & causal())
    assert (causal() & padding()) != (causal() | padding())


def test_pairs_of_long_sequences_are_estimated_from_some_rows() -> None:
    at = Positions.of(3000, 3000)
    assert causal().pairs(at) == pytest.approx(3000 * 3001 / 2, rel=0.02)
    assert window(left=9, right=0).pairs(at, heads=2) == pytest.approx(2 * 10 * 3000, rel=0.02)
    assert everything().pairs(at) == 3000**2


def test_a_rule_says_how_wide_it_is() -> None:
    assert (window(left=3, right=2) & padding()).width == 6
    assert (window(left=3, right=2) | global_tokens(2)).width == 8
    assert math.isinf((causal() & padding()).width)
    assert nothing().width == 0


@dataclass(frozen=True)
class Recent(Visibility):
    """A query sees itself and the three keys before it."""

    band = (3, 0)

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads query key"]:
        return (at.key <= at.query) & (at.key >= at.query - 3)


def test_a_rule_that_states_its_band_needs_no_other_statement() -> None:
    rule = Recent()
    assert (rule.width, rule.ahead, rule.by_pair, rule.gapless) == (4, 0, True, True)
    first, last = rule.bounds(Positions.of(2, 9, query_start=5))
    assert (first.flatten().tolist(), last.flatten().tolist()) == ([2, 3], [5, 6])


@dataclass
class FirstKeys(Visibility):
    """A rule without a hash, because it may change."""

    count: int

    def __call__(self, at: Positions) -> Bool[Tensor, "#batch #heads 1 key"]:
        return at.key < self.count


def test_a_rule_without_a_hash_can_be_turned_around_and_joined() -> None:
    assert ~FirstKeys(2) == ~FirstKeys(2)
    assert ~FirstKeys(2) != ~FirstKeys(3)
    assert (~FirstKeys(2) & causal()).picture(3, 3) == ". . .\n. . .\n. . #"
    assert (causal() | ~FirstKeys(2)).picture(2, 3) == "# . #\n# # #"
