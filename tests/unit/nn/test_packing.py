"""Between sentences with padding and tokens without."""

import torch

from foveate.nn import Packing

LENGTHS = torch.tensor([2, 0, 3])


def test_tokens_come_sentence_after_sentence_with_their_places() -> None:
    packing = Packing(LENGTHS, 4)
    assert packing.index.tolist() == [0, 1, 8, 9, 10]
    assert packing.place.tolist() == [0, 1, 0, 1, 2]
    assert packing.pack(torch.arange(12).view(3, 4)).tolist() == [0, 1, 8, 9, 10]


def test_what_was_padding_comes_back_as_zero() -> None:
    packing, x = Packing(LENGTHS, 4), torch.randn(3, 4, 2, 5)
    back = packing.unpack(packing.pack(x))
    real = torch.arange(4) < LENGTHS[:, None]
    assert torch.equal(back[real], x[real])
    assert (back[~real] == 0).all()


def test_a_batch_without_padding_is_not_copied() -> None:
    packing, x = Packing(torch.tensor([3, 3]), 3), torch.randn(2, 3, 4)
    assert packing.full
    assert packing.pack(x).data_ptr() == x.data_ptr()
    assert packing.unpack(packing.pack(x)).data_ptr() == x.data_ptr()


def test_packing_has_first_and_second_derivatives() -> None:
    packing = Packing(LENGTHS, 3)
    padded = torch.randn(3, 3, 2, dtype=torch.float64, requires_grad=True)
    tokens = torch.randn(5, 2, dtype=torch.float64, requires_grad=True)
    for function, x in ((packing.pack, padded), (packing.unpack, tokens)):
        assert torch.autograd.gradcheck(function, (x,))
        assert torch.autograd.gradgradcheck(function, (x,))


def test_nan_in_padding_stays_there() -> None:
    packing = Packing(LENGTHS, 4)
    x = torch.full((3, 4, 2), float("nan")).requires_grad_()
    tokens = packing.pack(x)
    assert tokens.shape == (5, 2)
    tokens.nan_to_num(1.0).sum().backward()
    assert x.grad.isfinite().all()
