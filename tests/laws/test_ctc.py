"""Searches over labelled frames agree with the enumeration of all paths, and with each other."""

import itertools
import math
from collections import defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foveate.data.batch import Batch
from foveate.decode import (
    CTCConfig,
    Fusion,
    PrefixState,
    PrefixStream,
    TimedHypothesis,
    best_path,
    occupation,
    prefix_search,
    viterbi,
)
from foveate.decode.prefix_score import PrefixScores
from foveate.models import GPTConfig
from foveate.nn.ctc_loss import ctc_losses, frames_needed

EVERYTHING = CTCConfig(beam=4000, num_best=4000)
lattices = st.tuples(st.integers(0, 2**32), st.integers(1, 5), st.integers(2, 4), st.sampled_from([0.0, 0.5, 2.0, 8.0]))


def lattice(seed: int, length: int, vocab: int, sharpness: float) -> Tensor:
    """Log-probabilities of one row; with sharpness 0, all are equal."""
    generator = torch.Generator().manual_seed(seed)
    return (sharpness * torch.randn(1, length, vocab, dtype=torch.float64, generator=generator)).log_softmax(-1)


def speech(seed: int, length: int, vocab: int = 7) -> Tensor:
    """Frames as of a trained model: mostly blanks, and a clear label now and then."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, length, vocab, dtype=torch.float64, generator=generator)
    logits[:, :, 0] += 3.0
    spikes = torch.randperm(length, generator=generator)[: length // 4]
    logits[0, spikes, torch.randint(1, vocab, (len(spikes),), generator=generator)] += 5.0
    return logits.log_softmax(-1)


def packed(*texts: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    return torch.tensor(list(itertools.chain(*texts)), dtype=torch.int64), torch.tensor([len(text) for text in texts])


def enumerated(scores: Tensor) -> dict[tuple[int, ...], list[float]]:
    """The log-probabilities of all paths of each text."""
    texts: dict[tuple[int, ...], list[float]] = defaultdict(list)
    for path in itertools.product(range(scores.shape[1]), repeat=len(scores)):
        text = tuple(label for label, _ in itertools.groupby(path) if label)
        texts[text].append(scores[range(len(scores)), path].sum().item())
    return texts


def sums(paths: list[float]) -> float:
    return float(torch.tensor(paths, dtype=torch.float64).logsumexp(0))


@settings(max_examples=40)
@given(lattices)
def test_all_ways_to_score_a_text_are_sums_over_its_paths(shape: tuple[int, int, int, float]) -> None:
    scores = lattice(*shape)
    texts = enumerated(scores[0])
    length, count = scores.shape[1], len(texts)
    own, lengths, target = scores.expand(count, -1, -1), torch.tensor([length] * count), packed(*texts)
    expected = torch.tensor([sums(paths) for paths in texts.values()], dtype=torch.float64)
    assert bool((frames_needed(*target) <= length).all())
    torch.testing.assert_close(-ctc_losses(own, lengths, *target), expected)
    best = torch.tensor([max(paths) for paths in texts.values()], dtype=torch.float64)
    aligned = viterbi(own, lengths, *target)
    torch.testing.assert_close(
        torch.tensor([text.log_probability for text in aligned], dtype=torch.float64), best, atol=1e-9, rtol=1e-9
    )
    searched = {text.tokens: text.log_probability for text in prefix_search(scores, lengths[:1], EVERYTHING)[0]}
    assert searched == pytest.approx(dict(zip(texts, expected.tolist(), strict=True)), abs=1e-9)


@settings(max_examples=40)
@given(lattices, st.data())
def test_a_prefix_score_is_a_sum_over_all_texts_that_begin_so(
    shape: tuple[int, int, int, float], data: st.DataObject
) -> None:
    scores = lattice(*shape)
    texts = enumerated(scores[0])
    prefix = data.draw(st.sampled_from(sorted(texts)))
    state = PrefixScores.start(scores, torch.tensor([scores.shape[1]]))
    for token in prefix:
        state = state.extended(torch.tensor([token]))
    beginning = [path for text, paths in texts.items() if text[: len(prefix)] == prefix for path in paths]
    assert state.total.item() == pytest.approx(sums(beginning), abs=1e-9)
    assert state.ending.item() == pytest.approx(sums(texts[prefix]), abs=1e-9)
    # A text ends here or goes on with some token.
    onwards = torch.cat([state.extensions()[0], state.ending]).logsumexp(0)
    assert onwards.item() == pytest.approx(state.total.item(), abs=1e-9)


@settings(max_examples=30)
@given(seed=st.integers(0, 2**32), length=st.integers(1, 60), beam=st.integers(1, 12))
def test_a_narrow_beam_never_exceeds_the_sum_nor_falls_below_the_best_path(seed: int, length: int, beam: int) -> None:
    scores, lengths = speech(seed, length), torch.tensor([length])
    [path], [[*texts]] = best_path(scores, lengths), prefix_search(scores, lengths, CTCConfig(beam=beam, num_best=beam))
    assert texts[0].log_probability >= path.log_probability - 1e-9
    assert path.tokens in [text.tokens for text in texts]
    assert len({text.tokens for text in texts}) == len(texts)
    for text in texts:
        exact = -ctc_losses(scores, lengths, *packed(text.tokens)).item()
        assert text.log_probability <= exact + 1e-9


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    cuts=st.lists(st.integers(0, 90), max_size=8),
    settle_after=st.sampled_from([0, 1, 10, 40]),
    beam=st.integers(1, 6),
)
def test_a_stream_in_pieces_equals_the_whole(seed: int, cuts: list[int], settle_after: int, beam: int) -> None:
    scores, config = speech(seed, 90), CTCConfig(beam=beam, num_best=beam, settle_after=settle_after)
    [whole] = prefix_search(scores, torch.tensor([90]), config)
    search = PrefixStream(config)
    state, certain = search.begin(), ()
    for start, end in itertools.pairwise([0, *sorted(cuts), 90]):
        state, text = search.advance(state, scores[0, start:end], last=False)
        assert text.tokens[: len(certain)] == certain
        certain = text.tokens[: text.certain]
        assert all(0 <= frames.first <= frames.peak <= frames.last < end for frames in text.frames)
    state, text = search.advance(state, scores[0, 90:], last=True)
    assert isinstance(state, PrefixState)
    assert state.hypotheses(beam) == whole
    assert text.tokens == whole[0].tokens


@settings(max_examples=30)
@given(seeds=st.lists(st.integers(0, 2**32), min_size=1, max_size=5), extra=st.integers(0, 9))
def test_rows_do_not_depend_on_each_other_nor_on_padding(seeds: list[int], extra: int) -> None:
    lengths = torch.tensor([seed % 30 for seed in seeds])
    padded = torch.full((len(seeds), int(lengths.max()) + extra, 7), math.nan, dtype=torch.float64)
    rows = [speech(seed, length) for seed, length in zip(seeds, lengths.tolist(), strict=True)]
    for row, own in enumerate(rows):
        padded[row, : own.shape[1]] = own[0]
    best = best_path(padded, lengths)
    target = packed(*(text.tokens for text in best))
    together = [best, prefix_search(padded, lengths, CTCConfig()), viterbi(padded, lengths, *target)]
    weights = occupation(padded, lengths, *target)
    for row, own in enumerate(rows):
        length, text = lengths[row : row + 1], packed(best[row].tokens)
        alone = [best_path(own, length), prefix_search(own, length, CTCConfig()), viterbi(own, length, *text)]
        assert alone == [[result[row]] for result in together]
        assert torch.equal(occupation(own, length, *text)[0], weights[row, : int(text[1]), : own.shape[1]])


def test_log_probabilities_may_have_gradients_and_half_precision() -> None:
    scores, lengths = speech(5, 30), torch.tensor([30])
    target = packed(best_path(scores, lengths)[0].tokens)
    expected = prefix_search(scores, lengths, CTCConfig()), viterbi(scores, lengths, *target)
    tracked = scores.clone().requires_grad_()
    assert (prefix_search(tracked, lengths, CTCConfig()), viterbi(tracked, lengths, *target)) == expected
    light = scores.bfloat16()
    [[text]] = prefix_search(light, lengths, CTCConfig())
    assert text == prefix_search(light.double(), lengths, CTCConfig())[0][0]
    assert occupation(light, lengths, *target).dtype == torch.float32


def test_a_language_model_of_ours_scores_the_texts_of_a_search() -> None:
    model = GPTConfig.tiny().build(7).eval()
    scores = speech(3, 40)
    config = CTCConfig(beam=6, num_best=6, language_weight=0.5, insertion_bonus=0.2)
    [texts] = prefix_search(scores, torch.tensor([40]), config, Fusion(model, model.start(Batch.of([[]]))))
    assert len(texts) == 6
    assert isinstance(texts[0], TimedHypothesis)
    for text in texts:
        own = Batch.of([[1, *text.tokens, 2]])
        expected = text.log_probability - 0.5 * model.loss(own).item() + 0.2 * len(text.tokens)
        assert text.score == pytest.approx(expected, abs=1e-4)
