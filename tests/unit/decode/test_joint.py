"""Prefix scores sum over all texts with a beginning; joint search adds them to a model's scores, exactly."""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from foveate.config import build, to_dict
from foveate.decode import BeamConfig, GreedyConfig, Hypothesis, JointConfig, JointStepper, decode
from foveate.decode.prefix_score import PrefixScores
from foveate.errors import DataError, UsageError
from foveate.nn.ctc_loss import ctc_losses


def frames(batch: int, length: int, vocab: int, sharpness: float = 1.0) -> Tensor:
    return (sharpness * torch.randn(batch, length, vocab, dtype=torch.float64)).log_softmax(-1)


def enumerated(scores: Tensor) -> dict[tuple[int, ...], float]:
    texts: dict[tuple[int, ...], float] = defaultdict(float)
    for path in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        text = tuple(label for label, _ in itertools.groupby(path) if label)
        texts[text] += scores[range(len(scores)), path].sum().exp().item()
    return texts


def ctc(scores: Tensor, text: tuple[int, ...]) -> float:
    """log p(text | frames) by the forward algorithm."""
    tokens = torch.tensor(text, dtype=torch.int64)
    return -ctc_losses(scores[None], torch.tensor([len(scores)]), tokens, torch.tensor([len(text)])).item()


def searched(
    stepper: Any, scores: Tensor, lengths: Tensor, config: BeamConfig, weight: float, candidates: int = 0
) -> list[list[Hypothesis]]:
    joint = JointStepper(stepper, weight, candidates)
    state = joint.start(stepper.start(config.beam), scores, lengths, config.beam)
    return decode(joint, state, sentences=len(scores), config=config)


@pytest.mark.parametrize("texts", [[(), ()], [(1,), (2,)], [(2, 2), (1, 2)], [(1, 2, 1), (2, 2, 1)]])
def test_a_prefix_score_is_the_probability_of_all_texts_with_the_beginning(texts: list[tuple[int, ...]]) -> None:
    scores, lengths = frames(2, 6, 4), torch.tensor([6, 5])
    state = PrefixScores.start(scores, lengths)
    for tokens in zip(*texts, strict=True):
        state = state.extended(torch.tensor(tokens))
    extensions, ending = state.extensions().exp(), state.ending.exp()
    candidates = torch.tensor([[3, 0, 2], [1, 2, 3]])
    few = state.extensions(candidates).exp()
    for row, (text, length) in enumerate(zip(texts, lengths.tolist(), strict=True)):
        every = enumerated(scores[row, :length])

        def starting(beginning: tuple[int, ...], every: dict[tuple[int, ...], float] = every) -> float:
            return sum(share for other, share in every.items() if other[: len(beginning)] == beginning)

        assert state.total[row].exp().item() == pytest.approx(starting(text), rel=1e-9)
        assert ending[row].item() == pytest.approx(every[text], rel=1e-9)
        for token in (1, 2, 3):
            assert extensions[row, token].item() == pytest.approx(starting((*text, token)), rel=1e-9)
        assert extensions[row, 0] == 0
        torch.testing.assert_close(few[row], extensions[row, candidates[row]])


def test_padding_and_the_other_rows_do_not_change_prefix_scores() -> None:
    scores, lengths = frames(3, 9, 4), torch.tensor([4, 9, 1])
    scores[0, 4:], scores[2, 1:] = math.nan, math.nan
    together = PrefixScores.start(scores, lengths, beam=2).extended(torch.tensor([1, 2, 3, 3, 1, 2]))
    for row, length in enumerate(lengths.tolist()):
        alone = PrefixScores.start(scores[row : row + 1, :length], lengths[row : row + 1], beam=2)
        alone = alone.extended(together.last[2 * row : 2 * row + 2])
        torch.testing.assert_close(alone.extensions(), together.extensions()[2 * row : 2 * row + 2])
        torch.testing.assert_close(alone.ending, together.ending[2 * row : 2 * row + 2])


def test_prefix_scores_of_long_rows_are_those_of_the_forward_algorithm() -> None:
    [scores] = frames(1, 900, 30, sharpness=6.0)
    text = tuple(torch.randint(1, 30, (200,)).tolist())
    state = PrefixScores.start(scores[None], torch.tensor([900]))
    for token in text:
        state = state.extended(torch.tensor([token]))
    assert state.ending.item() == pytest.approx(ctc(scores, text), rel=1e-9)


def test_labels_without_probability_exclude_their_texts() -> None:
    scores = frames(1, 5, 4)
    scores[0, :, 2] = -math.inf
    state = PrefixScores.start(scores, torch.tensor([5])).extended(torch.tensor([1]))
    assert state.extensions()[0, 2] == -math.inf
    assert bool(state.extended(torch.tensor([2])).extensions().isneginf().all())


@pytest.mark.parametrize("weight", [0.2, 0.5, 1.0])
@pytest.mark.parametrize("candidates", [0, 3])
def test_a_finished_text_has_the_weighted_score_of_both(
    trigram: Callable[..., Any], weight: float, candidates: int
) -> None:
    stepper, scores, lengths = trigram(), frames(3, 12, 6), torch.tensor([12, 7, 9])
    config = BeamConfig(beam=4, num_best=4, max_length=14, length_penalty=None)
    for row, texts in enumerate(searched(stepper, scores, lengths, config, weight, candidates)):
        assert any(text.finished for text in texts)
        for text in texts:
            if text.finished:
                attention = stepper.log_probability(row, (*text.tokens, 2))
                expected = weight * ctc(scores[row, : lengths[row]], text.tokens) + (1 - weight) * attention
                assert text.log_probability == pytest.approx(expected, abs=2e-5)


@pytest.mark.parametrize("config", [GreedyConfig(max_length=9), BeamConfig(beam=3, num_best=3, max_length=9)])
def test_the_weight_0_gives_the_results_of_the_model_alone(
    trigram: Callable[..., Any], config: GreedyConfig | BeamConfig
) -> None:
    stepper, beam = trigram(), getattr(config, "beam", 1)
    joint = JointStepper(stepper, 0.0)
    state = joint.start(stepper.start(beam), frames(3, 12, 6), torch.tensor([12, 7, 9]), beam)
    alone = decode(stepper, stepper.start(beam), sentences=3, config=config)
    assert decode(joint, state, sentences=3, config=config) == alone


def test_the_weight_1_finds_the_best_text_of_ctc(trigram: Callable[..., Any]) -> None:
    scores = frames(3, 5, 5)
    config = BeamConfig(beam=200, max_length=7, length_penalty=None)
    for row, [best] in enumerate(searched(trigram(vocab=5), scores, torch.tensor([5] * 3), config, 1.0)):
        texts = {text: share for text, share in enumerated(scores[row]).items() if not {1, 2} & set(text)}
        assert best.tokens == max(texts, key=texts.__getitem__)
        assert math.exp(best.log_probability) == pytest.approx(texts[best.tokens], rel=1e-4)


def test_log_softmax_leaves_the_joint_scores_as_they_are(trigram: Callable[..., Any]) -> None:
    stepper, scores = trigram(), frames(3, 12, 6)
    joint = JointStepper(stepper, 0.4)
    state = joint.start(stepper.start(), scores, torch.tensor([12, 7, 9]))
    for token in (1, 3, 4, 4):
        state, logits = joint.step(joint.select(state, torch.arange(3)), torch.tensor([token] * 3))
        torch.testing.assert_close(logits.log_softmax(-1)[:, 1:], logits[:, 1:], atol=2e-6, rtol=0)


@pytest.mark.parametrize("candidates", [0, 2])
def test_a_sentence_is_decoded_alike_alone_and_in_company(trigram: Callable[..., Any], candidates: int) -> None:
    stepper, scores, lengths = trigram(sentences=5), frames(5, 12, 6), torch.tensor([12, 2, 9, 5, 1])
    config = BeamConfig(beam=3, num_best=3, max_length=10)
    together = searched(stepper, scores, lengths, config, 0.5, candidates)
    assert len({len(texts[0].tokens) for texts in together}) > 2
    for row in range(5):
        alone = type(stepper)(stepper.table[row : row + 1])
        [texts] = searched(alone, scores[row : row + 1], lengths[row : row + 1], config, 0.5, candidates)
        assert [text.tokens for text in texts] == [text.tokens for text in together[row]]
        assert [text.score for text in texts] == pytest.approx([text.score for text in together[row]], abs=1e-5)


def test_all_tokens_as_candidates_are_all_tokens(trigram: Callable[..., Any]) -> None:
    scores, lengths = frames(2, 12, 6), torch.tensor([12, 8])
    config = BeamConfig(beam=3, num_best=3, max_length=10)
    stepper = trigram(sentences=2)
    every = searched(stepper, scores, lengths, config, 0.5)
    assert searched(stepper, scores, lengths, config, 0.5, candidates=5) == every


def test_candidates_have_the_scores_that_they_have_among_all(trigram: Callable[..., Any]) -> None:
    few = JointStepper(trigram(), 0.5, candidates=2)
    all_of_them = JointStepper(trigram(), 0.5)
    token = torch.tensor([1, 1, 1])
    scores, lengths = frames(3, 12, 6), torch.tensor([12, 8, 7])
    _, some = few.step(few.start(trigram().start(), scores, lengths), token)
    _, logits = all_of_them.step(all_of_them.start(trigram().start(), scores, lengths), token)
    finite = some[:, 1:] > -math.inf
    assert finite.sum(1).tolist() == [3, 3, 3]
    assert bool(finite[:, 1].all())
    torch.testing.assert_close(some[:, 1:][finite], logits[:, 1:][finite])


def test_greedy_search_is_joint_too(trigram: Callable[..., Any]) -> None:
    stepper, scores, lengths = trigram(), frames(3, 12, 6), torch.tensor([12, 7, 9])
    joint = JointStepper(stepper, 0.5)
    state = joint.start(stepper.start(), scores, lengths)
    greedy = decode(joint, state, sentences=3, config=GreedyConfig(max_length=8))
    beam = searched(stepper, scores, lengths, BeamConfig(beam=1, max_length=8, length_penalty=None), 0.5)
    assert [text.tokens for [text] in greedy] == [text.tokens for [text] in beam]


def test_the_models_limit_of_positions_is_that_of_the_joint_search(trigram: Callable[..., Any]) -> None:
    stepper = trigram(max_length=5)
    assert JointStepper(stepper, 0.5).max_length == 5
    with pytest.raises(UsageError, match="the model represents 5 positions"):
        searched(stepper, frames(3, 4, 6), torch.tensor([4] * 3), BeamConfig(max_length=6), 0.5)


def test_logits_that_are_not_numbers_are_an_error(trigram: Callable[..., Any]) -> None:
    stepper = trigram()
    stepper.table[1] = math.nan
    with pytest.raises(DataError, match="sentence 1 are not numbers"):
        searched(stepper, frames(3, 4, 6), torch.tensor([4] * 3), BeamConfig(max_length=6), 0.5)


def test_the_configuration_is_a_beam_search_with_a_weight() -> None:
    config = build(JointConfig, {"beam": 7, "ctc_weight": 0.25, "candidates": 40})
    assert build(JointConfig, to_dict(config)) == config
    assert isinstance(config, BeamConfig)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ctc_weight": 1.5}, "share from 0 to 1"),
        ({"candidates": -1}, "cannot be negative"),
        ({"forbid": (1,)}, "forbid must contain 0"),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JointConfig(**settings)


def test_an_impossible_weight_is_refused(trigram: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match=r"share from 0 to 1, got -0\.1"):
        JointStepper(trigram(), -0.1)
