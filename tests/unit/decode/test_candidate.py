import pytest
import torch

from foveate.decode.candidate import BLOCK, best, ordered, top

WIDTHS = [1, 5, BLOCK, 4 * BLOCK + 1, 6 * BLOCK, 7 * BLOCK - 1, 1000]


def few_values(*shape):
    """Rows with many ties."""
    return torch.randint(-40, 0, shape, generator=torch.Generator().manual_seed(sum(shape))) / 4


@pytest.mark.parametrize("vocab", WIDTHS)
def test_the_best_is_the_first_of_the_largest(vocab):
    scores = few_values(50, vocab)

    assert best(scores).tolist() == [row.index(max(row)) for row in scores.tolist()]


@pytest.mark.parametrize("vocab", WIDTHS)
@pytest.mark.parametrize("beam", [1, 3])
def test_the_top_are_the_largest_sums_earlier_ones_first_among_equals(vocab, beam):
    scores, total = few_values(20, beam, vocab), few_values(20, beam)

    values, place, token = top(scores, total, count=2 * beam)

    for sentence in range(20):
        flat = (scores[sentence] + total[sentence][:, None]).flatten().tolist()
        order = sorted(range(len(flat)), key=lambda i: (-flat[i], i))[: 2 * beam]
        assert values[sentence][: len(order)].tolist() == [flat[i] for i in order]
        assert (place * vocab + token)[sentence][: len(order)].tolist() == order


def test_places_without_a_hypothesis_and_hidden_tokens_come_last():
    scores = torch.full((1, 2, 600), -torch.inf)
    scores[0, :, 599] = -1.0
    total = torch.tensor([[0.0, -torch.inf]])

    values, place, token = top(scores, total, count=4)

    assert values.tolist() == [[-1.0, -torch.inf, -torch.inf, -torch.inf]]
    assert (place[0, 0], token[0, 0]) == (0, 599)


@pytest.mark.parametrize("nan", [torch.nan, -torch.nan])
def test_what_is_not_a_number_comes_first(nan):
    values, _ = ordered(torch.tensor([[1.0, nan, torch.inf]]), torch.arange(3)[None], count=2)

    assert values[0].isnan().tolist() == [True, False]


def test_order_holds_from_minus_infinity_over_zero_to_infinity():
    expected = [torch.inf, 3e38, 1.0, 1e-40, 0.0, -1e-40, -1.0, -3e38, -torch.inf]
    shuffled = torch.tensor([expected])[:, torch.randperm(9, generator=torch.Generator().manual_seed(0))]

    assert torch.equal(ordered(shuffled, torch.arange(9)[None], count=9)[0], torch.tensor([expected]))
