"""Batches of ids or of vectors: right-padded, with true lengths."""

from typing import Any

import numpy as np
import pytest
import torch

from foveate.data.batch import Batch, PairBatch
from foveate.data.row import Row


def test_rows_are_padded_on_the_right_with_nought() -> None:
    batch = Batch.of([[5, 6], [7], [8, 9, 4]])
    assert batch.ids.tolist() == [[5, 6, 0], [7, 0, 0], [8, 9, 4]]
    assert batch.lengths.tolist() == [2, 1, 3]
    assert (batch.size, batch.length, batch.num_tokens) == (3, 3, 6)
    assert batch.ids.dtype == batch.lengths.dtype == torch.int64


def test_arrays_of_any_width_and_lists_make_the_same_batch() -> None:
    rows = [[5, 60_000], [7], []]
    for dtype in (np.uint16, np.uint32, np.int64):
        batch = Batch.of([np.array(row, dtype=dtype) for row in rows])
        assert torch.equal(batch.ids, Batch.of(rows).ids)


def test_a_batch_may_have_no_tokens_or_no_rows() -> None:
    assert Batch.of([[], []]).ids.shape == (2, 0)
    assert Batch.of([]).ids.shape == (0, 0)


def test_the_number_of_tokens_is_counted_when_it_is_not_given() -> None:
    assert Batch(torch.zeros(2, 3, dtype=torch.int64), torch.tensor([3, 1])).num_tokens == 4


def test_moving_keeps_everything() -> None:
    batch = PairBatch(Batch.of([[4, 2]]), Batch.of([[1, 5, 2]]), (17,)).to("cpu")
    assert batch.source.ids.tolist() == [[4, 2]]
    assert (batch.target.num_tokens, batch.examples) == (3, (17,))


def test_rows_of_vectors_are_padded_with_zeros() -> None:
    rows = [np.arange(6, dtype=dtype).reshape(3, 2) for dtype in (np.float32, np.float16)]
    batch = Batch.of([rows[0], rows[1][:1]])
    assert batch.features.tolist() == [[[0, 1], [2, 3], [4, 5]], [[0, 1], [0, 0], [0, 0]]]
    assert batch.features.dtype == torch.float32
    assert (batch.size, batch.length, batch.num_tokens, batch.lengths.tolist()) == (2, 3, 4, [3, 1])


def test_places_and_edges_travel_with_their_rows() -> None:
    vectors = np.ones((3, 2), np.float32)
    whole = Row(vectors, places=np.array([[0, 0], [0, 1], [1, 0]]), edges=np.array([[0, 1], [2, 2]]))
    part = Row(vectors[:1], places=np.array([[5, 7]]))
    batch = Batch.of([part, whole]).to("cpu")
    assert batch.places is not None
    assert batch.places.tolist() == [[[5, 7], [0, 0], [0, 0]], [[0, 0], [0, 1], [1, 0]]]
    assert batch.edges is not None
    assert batch.edges.tolist() == [[1, 0, 2], [1, 1, 2]]
    wide = batch.widened(4)
    assert wide.places is not None
    assert (wide.features.shape, wide.places.shape, wide.num_tokens) == ((2, 4, 2), (2, 4, 2), 4)


def test_nodes_have_places_without_an_axis() -> None:
    batch = Batch.of([Row(np.ones((2, 3), np.float32), places=np.empty((2, 0), np.int64))])
    assert batch.places is not None
    assert batch.places.shape == (1, 2, 0)


MIXED = {
    "ids and vectors": [[1, 2], np.ones((2, 3), np.float32)],
    "two widths": [np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)],
    "floats without a width": [np.ones(3, np.float32)],
    "whole numbers with a width": [np.ones((3, 2), np.int64)],
    "some with places": [Row(np.array([1]), places=np.array([[0]])), Row(np.array([1]))],
}


@pytest.mark.parametrize("rows", MIXED.values(), ids=MIXED.keys())
def test_rows_of_different_kinds_make_no_batch(rows: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"batch|A row is a list of ids"):
        Batch.of(rows)


def test_a_batch_of_vectors_has_no_ids_and_one_of_ids_no_vectors() -> None:
    with pytest.raises(TypeError, match="These rows are vectors of 2 numbers, but this model needs ids"):
        _ = Batch.of([np.ones((3, 2), np.float32)]).ids
    with pytest.raises(TypeError, match="These rows are ids, but this model needs vectors"):
        _ = Batch.of([[1]]).features


def test_edges_join_what_is_in_the_row() -> None:
    with pytest.raises(ValueError, match="Edges are two rows of equal length, sources and targets, below 3"):
        Row(np.array([1, 2, 3]), edges=np.array([[0], [3]]))
