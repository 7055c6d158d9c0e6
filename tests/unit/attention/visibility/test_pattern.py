"""Blocks, graphs, grids and patterns of papers: what they show and what they refuse."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from foveate.attention import (
    Attention,
    Positions,
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
    prefix,
    random_blocks,
    record,
    same_segment,
    sparse,
    summary,
)


def test_strided_blocks_are_what_the_arenas_code_does() -> None:
    """12 positions in blocks of 4, reshaped to (4, 3): positions that lie 3 apart are together."""
    visible = block(4, strided=True)(Positions.of(12, 12))[0, 0]
    assert visible[0].nonzero().flatten().tolist() == [0, 3, 6, 9]
    assert visible[5].nonzero().flatten().tolist() == [2, 5, 8, 11]


def test_strided_blocks_do_not_count_padding() -> None:
    alone = block(2, strided=True)(Positions.of(5, 5))
    at = Positions.of(9, 9, key_lengths=torch.tensor([5, 9, 0]))
    assert torch.equal(block(2, strided=True)(at)[:1, :, :5, :5], alone)


def test_random_blocks_do_not_depend_on_padding_or_on_what_else_is_asked() -> None:
    rule, whole = random_blocks(block=2, count=2, seed=3), Positions.of(9, 9)
    padded = Positions.of(14, 14, key_lengths=torch.tensor([9, 14]))
    assert torch.equal(rule(padded)[0, :, :9, :9], rule(whole)[0])
    assert torch.equal(rule(whole.rows(slice(4, 7)).columns(slice(2, 8))), rule(whole)[:, :, 4:7, 2:8])
    assert not torch.equal(rule(whole), random_blocks(block=2, count=2, seed=4)(whole))


def test_each_query_of_a_block_sees_as_many_random_blocks() -> None:
    visible = random_blocks(block=2, count=3)(Positions.of(20, 20))[0, 0]
    assert (visible.sum(-1) == 6).all()
    assert torch.equal(visible[0::2], visible[1::2])
    assert random_blocks(block=4, count=9)(Positions.of(8, 8)).all()
    assert not random_blocks(block=4, count=0)(Positions.of(8, 8)).any()


def test_a_child_sees_its_block_and_every_summary() -> None:
    rule = sparse(block=4, summaries=2) & causal()
    visible = rule(Positions.of(12, 12))[0, 0]
    assert visible[9].nonzero().flatten().tolist() == [2, 3, 6, 7, 8, 9]


def test_patterns_grow_linearly_with_the_length() -> None:
    for rule in (longformer(window=8, tokens=1), bigbird(block=4), chunk(4, left=2), sparse(block=8) & block(8)):
        short, long = (rule.pairs(Positions.of(n, n)) for n in (256, 512))
        assert long / short < 2.1


def test_global_positions_may_be_named() -> None:
    visible = global_tokens([0, 2])(Positions.of(4, 4))[0, 0].int().tolist()
    assert visible == [[1, 1, 1, 1], [1, 0, 1, 0], [1, 1, 1, 1], [1, 0, 1, 0]]


def test_a_prefix_may_differ_between_examples() -> None:
    visible = (causal() | prefix([0, 3]))(Positions.of(3, 3))
    assert visible[:, 0].int().tolist() == [[[1, 0, 0], [1, 1, 0], [1, 1, 1]], [[1, 1, 1], [1, 1, 1], [1, 1, 1]]]


def test_packed_sequences_attend_as_they_would_alone() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 2, 7, 4)
    segment = torch.tensor([0, 0, 0, 1, 1, 1, 1])
    place = torch.tensor([0, 1, 2, 0, 1, 2, 3])
    at = Positions(
        query=place[None, None, :, None],
        key=place[None, None, None],
        query_segment=segment[None, None, :, None],
        key_segment=segment[None, None, None],
    )
    packed = Attention(visibility=same_segment() & causal()).run(x, x, x, at=at)
    alone = [Attention(visibility=causal()).run(part, part, part) for part in x.split([3, 4], dim=2)]
    torch.testing.assert_close(packed, torch.cat(alone, dim=2))


def test_a_window_around_a_centre_stands_around_the_query_without_one() -> None:
    at = Positions.of(4, 4)
    assert around(left=1, right=0).picture(3, 3) == "# . .\n# # .\n. # #"
    centred = replace(at, centre=torch.full((1, 1, 4, 1), 2.5))
    assert around(left=0.5, right=0.5)(centred)[0, 0, 0].tolist() == [False, False, True, True]


def test_graphs_leave_out_what_is_not_there_and_keep_rules_of_long_graphs_short() -> None:
    assert not edges([[7, 0], [0, 9]])(Positions.of(3, 3)).any()
    assert edges([[], []], self_loops=True).picture(2, 2) == "# .\n. #"
    assert repr(edges(torch.zeros(2, 100, dtype=torch.long))) == "edges(<100 edges>)"
    rule = edges([[0, 1], [1, 2]], self_loops=True)
    assert repr(rule) == "edges([[0, 1], [1, 2]], self_loops=True)"
    assert Visibility.parse(repr(rule & padding())) == rule & padding()


def test_a_record_shows_a_random_rule_tile_by_tile() -> None:
    torch.manual_seed(0)
    attention, x = Attention(visibility=bigbird(block=2, random=1) & padding()), torch.randn(2, 1, 13, 4)
    at = Positions.of(13, 13, key_lengths=torch.tensor([13, 6]))
    with record(attention) as recording:
        attention.run(x, x, x, at=at)
    weights = attention.explain(x, x, x, at=at).weights
    rows, columns = slice(3, 9), slice(5, 12)
    torch.testing.assert_close(recording.records[0].weights(rows, columns), weights[:, :, rows, columns])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: block(0), "A block has 0 positions: at least 1 is needed."),
        (lambda: chunk(4, left=-1), "A chunk reaches left=-1 and right=0 chunks: neither may be negative."),
        (lambda: dilated(left=1, right=1, step=0), "step=0 must be at least 1."),
        (lambda: around(left=-1, right=0), "A window reaches left=-1 and right=0: neither may be negative."),
        (lambda: summary(block=2, count=3), "A block of 2 has no 3 last positions: choose 1 to 2."),
        (lambda: global_tokens(-1), "-1 global tokens are impossible: give 0 or more, or a list of positions."),
        (lambda: longformer(window=3), "A Longformer window counts both sides: window=3 must be even."),
        (
            lambda: bigbird(block=2, window=2),
            "BigBird's window has the query's block in its middle: window=2 must be odd.",
        ),
        (
            lambda: prefix([]),
            "A prefix has [] positions: give 0 or more, or one such number for each example.",
        ),
        (
            lambda: neighbourhood(columns=0, reach=1),
            "A grid has columns=0 and a reach of 1: at least 1, and not negative, one for rows and columns "
            "or one for each.",
        ),
        (
            lambda: edges([0, 1]),
            "`index` has shape (2,), but edges are two rows: sources above targets.",
        ),
        (
            lambda: edges([0, 1], pointers=[0, 3]),
            "Pointers are [0, 3], but `index` has shape (2,): compressed rows need one list of sources and pointers "
            "from 0 to its length.",
        ),
        (
            lambda: same_segment()(Positions.of(2, 2)),
            "same_segment() compares segments, but `at` has no query_segment. "
            "Pass at=Positions(..., query_segment=..., key_segment=...).",
        ),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=r"\S") as refusal:
        make()
    assert str(refusal.value) == message
