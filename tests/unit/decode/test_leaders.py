"""The few best tokens straight from logits: what a softmax that is kept would give."""

import math

import pytest
import torch
from torch import Tensor

from foveate import native
from foveate.decode import BeamConfig, GreedyConfig, decode
from foveate.decode.candidate import joined, leaders, top
from foveate.errors import DataError

KERNEL = native.load("foveate.decode", "candidate.cpp").library is not None
WIDTHS = [3, 15, 16, 64, 65, 200, 1000]


def scored(logits: Tensor, hidden: tuple[int, ...]) -> Tensor:
    scores = logits.log_softmax(-1)
    scores[:, list(hidden)] = -math.inf
    return scores


@pytest.mark.parametrize("vocab", WIDTHS)
@pytest.mark.parametrize("count", [1, 3, 8])
def test_they_are_the_largest_log_probabilities_with_their_tokens(vocab: int, count: int) -> None:
    logits = 4 * torch.randn(30, vocab)
    best = leaders(logits, (0, 2), count)
    assert (best is not None) == KERNEL
    if best is not None:
        values, tokens = best
        real = min(count, vocab - 2)
        expected = scored(logits, (0, 2)).topk(real)
        torch.testing.assert_close(values[:, :real], expected.values, atol=2e-6, rtol=1e-6)
        assert torch.equal(tokens[:, :real], expected.indices)
        assert bool((values[:, real:] == -math.inf).all())


def test_equal_ones_are_in_the_order_of_their_tokens() -> None:
    logits = torch.zeros(2, 300)
    logits[:, [7, 40, 299]] = 1.0
    best = leaders(logits, (40,), 4)
    if best is not None:
        assert best[1].tolist() == [[7, 299, 0, 1]] * 2


@pytest.mark.parametrize("beam", [1, 4])
def test_from_the_best_of_every_row_come_the_best_of_every_sentence(beam: int) -> None:
    logits, total = 4 * torch.randn(6 * beam, 500), torch.randn(6, beam)
    total[0, -1] = -math.inf
    best = leaders(logits, (0, 1), 2 * beam)
    if best is not None:
        expected = top(scored(logits, (0, 1)).view(6, beam, -1), total, 2 * beam)
        values, place, token = joined(*best, total, 500)
        torch.testing.assert_close(values, expected[0], atol=2e-6, rtol=1e-6)
        finite = values > -math.inf
        assert torch.equal(place[finite], expected[1][finite])
        assert torch.equal(token[finite], expected[2][finite])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_with_no_number_has_only_such(bad: float) -> None:
    logits = torch.randn(3, 100)
    logits[1, 50] = bad
    best = leaders(logits, (), 2)
    if best is not None:
        assert best[0].isnan().any(1).tolist() == [False, True, False]


def test_other_types_than_float32_are_left_to_torch() -> None:
    assert leaders(torch.randn(2, 9, dtype=torch.float64), (), 1) is None
    assert leaders(torch.randn(2, 9, dtype=torch.bfloat16), (), 1) is None


class Table:
    """A stepper whose logits depend on the last token alone."""

    def __init__(self, vocab: int) -> None:
        self.logits = 3 * torch.randn(vocab, vocab)
        self.logits[:, 2] += 2.0

    def step(self, state: None, token: Tensor) -> tuple[None, Tensor]:
        return None, self.logits[token]

    def select(self, state: None, rows: Tensor) -> None:
        return None


@pytest.mark.parametrize("config", [GreedyConfig(max_length=20), BeamConfig(beam=3, num_best=3, max_length=20)])
def test_decoding_with_and_without_the_kernel_is_the_same(
    config: GreedyConfig | BeamConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = Table(120)
    best = decode(stepper, None, sentences=5, config=config)
    monkeypatch.setattr(native, "load", lambda *_: native.Kernels(None))
    assert leaders(torch.randn(2, 9), (), 1) is None
    for ours, plain in zip(best, decode(stepper, None, sentences=5, config=config), strict=True):
        assert [each.tokens for each in ours] == [each.tokens for each in plain]
        assert [each.score for each in ours] == pytest.approx([each.score for each in plain], abs=1e-5)


@pytest.mark.parametrize("config", [GreedyConfig(max_length=5), BeamConfig(beam=2, max_length=5)])
def test_logits_of_nan_are_an_error(config: GreedyConfig | BeamConfig) -> None:
    stepper = Table(120)
    stepper.logits[:, 9] = math.nan
    with pytest.raises(DataError, match="not numbers"):
        decode(stepper, None, sentences=1, config=config)
