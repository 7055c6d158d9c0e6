"""Batches of ids: right-padded, with true lengths."""

import numpy as np
import torch

from foveate.data.batch import Batch, PairBatch


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
