"""Prefix search finds the texts with the largest sums over their paths."""

import copy
import itertools
import math
import pickle
import sys
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from foveate import native
from foveate.decode import CTCConfig, Fusion, PrefixStream, best_path, prefix_search
from foveate.errors import DataError, UsageError
from foveate.nn.ctc_loss import ctc_losses

WIDE = CTCConfig(beam=4000, num_best=4000)


def frames(batch: int, length: int, vocab: int, sharpness: float = 1.0) -> Tensor:
    return (sharpness * torch.randn(batch, length, vocab, dtype=torch.float64)).log_softmax(-1)


def enumerated(scores: Tensor) -> dict[tuple[int, ...], float]:
    """The probability of every text, as the sum over its paths."""
    texts: dict[tuple[int, ...], float] = defaultdict(float)
    for path in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        text = tuple(label for label, _ in itertools.groupby(path) if label)
        texts[text] += scores[range(len(scores)), path].sum().exp().item()
    return texts


@pytest.fixture(params=["kernel", "python"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "python":
        monkeypatch.setattr(native, "load", lambda *_: native.Kernels(None))
    return request.param


@pytest.mark.parametrize(("length", "vocab"), [(1, 4), (5, 3), (4, 4)])
def test_a_beam_that_keeps_everything_finds_every_text_with_its_sum(way: str, length: int, vocab: int) -> None:
    scores = frames(3, length, vocab)
    for row, texts in zip(scores, prefix_search(scores, torch.tensor([length] * 3), WIDE), strict=True):
        expected = enumerated(row)
        assert {text.tokens for text in texts} == set(expected)
        for text in texts:
            assert math.exp(text.log_probability) == pytest.approx(expected[text.tokens], rel=1e-9)
        assert [text.score for text in texts] == sorted((text.score for text in texts), reverse=True)
        assert sum(math.exp(text.log_probability) for text in texts) == pytest.approx(1)


def test_the_insertion_bonus_counts_every_token(way: str) -> None:
    scores = frames(1, 5, 3)
    plain = {text.tokens: text for text in prefix_search(scores, torch.tensor([5]), WIDE)[0]}
    config = CTCConfig(beam=4000, num_best=4000, insertion_bonus=0.75)
    for text in prefix_search(scores, torch.tensor([5]), config)[0]:
        assert text.log_probability == pytest.approx(plain[text.tokens].log_probability)
        assert text.score == pytest.approx(text.log_probability + 0.75 * len(text.tokens))


@pytest.mark.parametrize("beam", [2, 3, 8])
def test_a_narrow_beam_is_between_the_best_path_and_the_exact_sum(way: str, beam: int) -> None:
    scores = frames(6, 40, 7, sharpness=2.0)
    lengths = torch.tensor([40, 33, 21, 40, 8, 1])
    texts = prefix_search(scores, lengths, CTCConfig(beam=beam))
    for row, ([text], path) in enumerate(zip(texts, best_path(scores, lengths), strict=True)):
        exact = ctc_losses(
            scores[row : row + 1],
            lengths[row : row + 1],
            torch.tensor(text.tokens, dtype=torch.int64),
            torch.tensor([len(text.tokens)]),
        )
        assert path.log_probability <= text.log_probability + 1e-9
        assert text.log_probability <= -exact.item() + 1e-9


def test_a_beam_of_one_is_the_best_path(way: str) -> None:
    scores, lengths = frames(4, 30, 5), torch.tensor([30, 21, 7, 0])
    texts = [text for [text] in prefix_search(scores, lengths, CTCConfig(beam=1))]
    assert [text.tokens for text in texts] == [path.tokens for path in best_path(scores, lengths)]


def test_the_sum_wins_where_the_best_path_is_another_text(way: str) -> None:
    scores = torch.tensor([[[0.6, 0.4], [0.6, 0.4]]]).log()
    [[first, second]] = prefix_search(scores, torch.tensor([2]), CTCConfig(num_best=2))
    assert best_path(scores, torch.tensor([2]))[0].tokens == ()
    assert (first.tokens, second.tokens) == ((1,), ())
    assert math.exp(first.log_probability) == pytest.approx(0.64)
    assert math.exp(second.log_probability) == pytest.approx(0.36)


def test_equal_scores_are_ordered_by_token(way: str) -> None:
    even = torch.full((1, 1, 5), 0.2).log()
    [texts] = prefix_search(even, torch.tensor([1]), CTCConfig(num_best=10))
    assert [text.tokens for text in texts] == [(), (1,), (2,), (3,), (4,)]


def test_a_prefix_that_returns_to_the_beam_is_not_there_twice(way: str) -> None:
    scores = frames(8, 60, 3, sharpness=0.3)
    for texts in prefix_search(scores, torch.tensor([60] * 8), CTCConfig(beam=12, num_best=12)):
        assert len({text.tokens for text in texts}) == len(texts) == 12


@pytest.mark.parametrize("beam", [1, 3, 10])
@pytest.mark.parametrize("vocab", [3, 20])
def test_the_kernel_computes_what_plain_python_computes(beam: int, vocab: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, lengths = frames(4, 50, vocab, sharpness=1.5), torch.tensor([50, 50, 31, 4])
    scores[0, 10:20, 1] = -math.inf
    scores[1, ::3, 0] = -math.inf
    scores[2, :, :] = -math.log(vocab)
    config = CTCConfig(beam=beam, num_best=beam, insertion_bonus=0.1)
    by_kernel = prefix_search(scores, lengths, config)
    monkeypatch.setattr(native, "load", lambda *_: native.Kernels(None))
    assert prefix_search(scores, lengths, config) == by_kernel


def test_a_row_does_not_depend_on_padding_or_other_rows(way: str) -> None:
    scores, lengths = frames(3, 25, 6), torch.tensor([11, 25, 0])
    config = CTCConfig(beam=5, num_best=5)
    padded = scores.clone()
    padded[0, 11:], padded[2] = math.nan, math.nan
    together = prefix_search(padded, lengths, config)
    for row, length in enumerate(lengths.tolist()):
        assert prefix_search(scores[row : row + 1, :length], lengths[row : row + 1], config) == [together[row]]


@pytest.mark.parametrize("sizes", [[1] * 30, [7, 0, 1, 22], [29, 1]])
def test_pieces_of_any_size_give_what_the_whole_gives(
    way: str, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    [scores] = frames(1, 30, 6, sharpness=3.0)
    search = PrefixStream(CTCConfig(beam=6, num_best=6, insertion_bonus=-0.3))
    whole, _ = search.advance(search.begin(), scores, last=True)
    state = search.begin()
    for piece in scores.split(sizes):
        state, text = search.advance(state, piece, last=False)
        assert not text.finished
        assert text.tokens == state.tokens
    state, text = search.advance(state, scores[:0], last=True)
    assert state.hypotheses(6) == whole.hypotheses(6)
    assert text.tokens == whole.tokens
    assert text.certain == len(text.tokens)
    assert text.finished
    monkeypatch.setattr(sys.modules[PrefixStream.__module__], "BLOCK", 4)
    blocks, _ = search.advance(search.begin(), scores, last=True)
    assert blocks.hypotheses(6) == whole.hypotheses(6)


def test_a_state_is_a_value(way: str) -> None:
    [scores] = frames(1, 24, 5)
    search = PrefixStream(CTCConfig())
    middle, _ = search.advance(search.begin(), scores[:12], last=False)
    first, _ = search.advance(middle, scores[12:], last=True)
    search.advance(middle, scores[:12], last=True)
    second, _ = search.advance(middle, scores[12:], last=True)
    assert first.hypotheses(10) == second.hypotheses(10)


def test_a_state_with_many_tokens_that_may_change_is_copied_and_saved() -> None:
    clear = torch.arange(8_000)[:, None] % 3 + 1 == torch.arange(5)
    scores = (12.0 * clear).log_softmax(-1)
    scores[0] = torch.tensor([-9.0, 9.0, 0.0, 0.0, 8.9]).log_softmax(-1)  # this token stays open, and all after it
    search = PrefixStream(CTCConfig(beam=2))
    state, text = search.advance(search.begin(), scores[:7_900], last=False)
    assert len(text.tokens) == 7_900
    assert text.certain == 0
    saved = pickle.dumps(state)
    whole, _ = search.advance(state, scores[7_900:], last=True)
    for copied in (pickle.loads(saved), copy.deepcopy(state)):
        assert copied.hypotheses(2) == state.hypotheses(2)
        after, _ = search.advance(copied, scores[7_900:], last=True)
        assert after.hypotheses(2) == whole.hypotheses(2)


def speech(length: int) -> Tensor:
    """Frames of labels that are clear, but for a few."""
    clear = 6.0 * torch.nn.functional.one_hot(torch.randint(8, (length,)), 8)
    return (clear + torch.randn(length, 8)).log_softmax(-1)


@pytest.mark.parametrize("settle_after", [0, 20])
def test_certain_tokens_never_change(way: str, settle_after: int) -> None:
    search = PrefixStream(CTCConfig(beam=4, settle_after=settle_after))
    state, certain = search.begin(), ()
    for piece in speech(300).split(10):
        state, text = search.advance(state, piece, last=False)
        assert text.tokens[: len(certain)] == certain
        certain = text.tokens[: text.certain]
    assert certain


def test_an_ambiguous_token_delays_those_after_it_unless_it_settles() -> None:
    scores = speech(300)
    scores[5] = torch.tensor([0.0, 0.0, 0.0, 0.0, 9.0, 9.0, 0.0, 0.0]).log_softmax(-1)
    waiting, settling = PrefixStream(CTCConfig(beam=2)), PrefixStream(CTCConfig(beam=2, settle_after=16))
    state, patient = waiting.advance(waiting.begin(), scores, last=False)
    assert patient.certain < 6
    state, text = settling.advance(settling.begin(), scores, last=False)
    behind = [frames.last for frames in text.frames[text.certain :]]
    assert min(behind) >= 300 - 16 - 8
    assert max(len(prefix.tokens) for prefix in state.beam.prefixes) < 30
    assert text.tokens == patient.tokens


@pytest.mark.parametrize("pieces", [1, 7, 8, 300])
def test_settled_streams_in_pieces_equal_the_whole(way: str, pieces: int) -> None:
    scores, config = speech(300), CTCConfig(beam=5, num_best=5, settle_after=9)
    [whole] = prefix_search(scores[None], torch.tensor([300]), config)
    search = PrefixStream(config)
    state = search.begin()
    for piece in scores.split(pieces):
        state, _ = search.advance(state, piece, last=False)
    state, _ = search.advance(state, scores[:0], last=True)
    assert state.hypotheses(5) == whole


def test_no_hypothesis_is_impossible_after_tokens_have_settled() -> None:
    """The best path once forced a repeat without a blank into the beam, after its prefix had been dropped."""
    generator = torch.Generator().manual_seed(3)
    stream = PrefixStream(CTCConfig(beam=4, num_best=4, settle_after=1, insertion_bonus=1.0))
    for _ in range(300):
        frames = (2 * torch.randn(16, 4, dtype=torch.float64, generator=generator)).log_softmax(-1)[:10]
        state, _ = stream.advance(stream.begin(), frames, last=True)
        for hypothesis in state.hypotheses(4):
            assert hypothesis.log_probability > -torch.inf
            assert len(hypothesis.frames) == len(hypothesis.tokens)


def test_a_stream_that_has_ended_reads_no_more() -> None:
    search = PrefixStream(CTCConfig())
    state, text = search.advance(search.begin(), torch.zeros(0, 3), last=True)
    assert text.tokens == ()
    with pytest.raises(UsageError, match="ended"):
        search.advance(state, torch.zeros(0, 3), last=True)


def test_a_frame_without_a_possible_label_is_an_error() -> None:
    scores = frames(2, 3, 4)
    scores[1, 2] = -math.inf
    with pytest.raises(DataError, match="frame 2 of row 1 gives every label"):
        prefix_search(scores, torch.tensor([3, 3]), CTCConfig())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam": 0}, "at least 1 text"),
        ({"num_best": 11}, "between 1 and beam=10"),
        ({"insertion_bonus": math.nan}, "number of nats"),
        ({"language_weight": -1.0}, "must not be negative"),
        ({"settle_after": -1}, "number of frames"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CTCConfig(**settings)


def fusion(trigram: Callable[..., Any], **settings: Any) -> tuple[Any, Fusion]:
    stepper = trigram(sentences=1, **settings)
    return stepper, Fusion(stepper, stepper.start())


def test_a_language_model_adds_its_weighted_log_probability_with_the_end(trigram: Callable[..., Any]) -> None:
    stepper, language = fusion(trigram, vocab=4)
    scores = frames(1, 4, 4)
    config = CTCConfig(beam=4000, num_best=4000, language_weight=0.7)
    [texts] = prefix_search(scores, torch.tensor([4]), config, language)
    assert {text.tokens for text in texts} == set(enumerated(scores[0]))
    for text in texts:
        expected = text.log_probability + 0.7 * stepper.log_probability(0, (*text.tokens, 2))
        assert text.score == pytest.approx(expected, abs=1e-5)


def test_a_language_model_of_weight_0_changes_nothing(trigram: Callable[..., Any]) -> None:
    scores, lengths = frames(2, 20, 6), torch.tensor([20, 13])
    config = CTCConfig(language_weight=0.0, num_best=5)
    assert prefix_search(scores, lengths, config, fusion(trigram)[1]) == prefix_search(scores, lengths, config)


def test_a_language_model_streams_alike(trigram: Callable[..., Any]) -> None:
    [scores] = frames(1, 30, 6)
    search = PrefixStream(CTCConfig(beam=4, language_weight=0.5), fusion(trigram)[1])
    whole, _ = search.advance(search.begin(), scores, last=True)
    state = search.begin()
    for piece in scores.split(4):
        state, _ = search.advance(state, piece, last=False)
    state, _ = search.advance(state, scores[:0], last=True)
    assert state.hypotheses(4) == whole.hypotheses(4)


def test_a_text_longer_than_the_language_models_positions_is_refused(trigram: Callable[..., Any]) -> None:
    scores = torch.nn.functional.one_hot(torch.tensor([[3, 4] * 5]), 6).float().log()
    with pytest.raises(UsageError, match="the language model reads 4 tokens"):
        prefix_search(scores, torch.tensor([10]), CTCConfig(), fusion(trigram, max_length=4)[1])
