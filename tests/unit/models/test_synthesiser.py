"""A synthesiser writes frames for a text: padding never matters, steps equal the teacher-forced whole, and it learns to
speak letters in their order, looking at each while it speaks it."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from foveate.attention import AdditiveConfig, AttentionConfig, LocationAwareConfig, record
from foveate.data.batch import Batch
from foveate.models.synthesiser import SynthesiserConfig, off_diagonal
from foveate.nn.encoder import RNNEncoderConfig, TransformerEncoderConfig
from foveate.nn.packing import Packing

LETTERS, WIDTH, END = 10, 8, 2
SMALL = {"embedding_dim": 16, "hidden_dim": 48, "prenet_dim": 24}


def config(**settings: object) -> SynthesiserConfig:
    return SynthesiserConfig(**{**SMALL, "encoder": RNNEncoderConfig(hidden_dim=16), **settings})  # type: ignore[arg-type]


def spoken(letters: list[int]) -> Tensor:
    """Each letter as a tone of its own, as many frames long as the letter says, which begins with a click."""
    frames = []
    for letter in letters:
        tone = torch.zeros(3 + letter % 3, WIDTH)
        tone[:, letter - 4] = 1.0
        tone[0, -1] = 1.0
        frames.append(tone)
    return torch.cat(frames)


def pairs(count: int, seed: int) -> list[tuple[list[int], Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    texts = [
        torch.randint(4, LETTERS, (int(torch.randint(1, 5, (), generator=generator)),), generator=generator).tolist()
        for _ in range(count)
    ]
    return [([*text, END], spoken(text)) for text in texts]


def batch(examples: list[tuple[list[int], Tensor]]) -> tuple[Batch, Batch]:
    return Batch.of([text for text, _ in examples]), Batch.of([frames.numpy() for _, frames in examples])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"reduction": 3, "refinements": 0},
        {"attention": AttentionConfig(score=AdditiveConfig())},
        {"encoder": TransformerEncoderConfig()},
    ],
)
def test_neither_padding_nor_the_batch_changes_what_is_written(settings: dict[str, object]) -> None:
    torch.manual_seed(0)
    model = config(**settings).build(LETTERS, WIDTH).eval()
    examples = pairs(4, seed=3)
    together = model(*batch(examples))
    packing = Packing(torch.tensor([len(frames) for _, frames in examples]), 99)
    for number, example in enumerate(examples):
        alone = model(*batch([example]))
        part = slice(int(packing.starts[number]), int(packing.starts[number + 1]))
        torch.testing.assert_close(together.refined[part], alone.refined, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(together.stop[part], alone.stop, atol=1e-5, rtol=1e-4)
    total = sum(model.loss(*batch([example])) for example in examples)
    torch.testing.assert_close(model.loss(*batch(examples)), total, atol=1e-3, rtol=1e-4)


def test_writing_step_by_step_equals_reading_what_was_written() -> None:
    torch.manual_seed(1)
    model = config().build(LETTERS, WIDTH).eval()
    text = Batch.of([[5, 6, END]])
    (written,) = model.write(text, max_frames=12)
    assert len(written.frames) == 12 or (written.finished and len(written.frames) < 12)
    again = model(text, Batch.of([written.frames.numpy()]))
    torch.testing.assert_close(again.frames, written.frames, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(again.refined, written.refined, atol=1e-5, rtol=1e-4)


def test_an_end_beyond_the_limit_is_not_an_end() -> None:
    model = config(reduction=4).build(LETTERS, WIDTH).eval()
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias[WIDTH :: WIDTH + 1] = torch.tensor([-9.0, -9.0, -9.0, 1.0])  # the fourth frame is the last
    for limit, finished in ((2, False), (4, True), (9, True)):
        (written,) = model.write(Batch.of([[5, END]]), max_frames=limit)
        assert (len(written.frames), written.finished) == (min(limit, 4), finished)


def test_speech_ends_where_its_end_is_more_likely_behind_than_ahead() -> None:
    model = config(reduction=2).build(LETTERS, WIDTH).eval()
    for share, length in ((0.2, 4), (0.1, 7), (0.6, 1)):  # 1 − 0.8⁴ = 0.59, but 1 − 0.8³ = 0.49
        with torch.no_grad():
            model.output.weight.zero_()
            model.output.bias[WIDTH :: WIDTH + 1] = math.log(share / (1 - share))
        (written,) = model.write(Batch.of([[5, END]]), max_frames=20)
        assert (len(written.frames), written.finished) == (length, True)


def test_numbers_in_padding_reach_no_gradient() -> None:
    text, speech = batch(pairs(3, seed=5))
    padding = torch.arange(speech.length) >= speech.lengths[:, None]
    gradients = []
    for number in (0.0, float("nan")):
        torch.manual_seed(0)
        model = config(dropout=0.0, prenet_dropout=0.0).build(LETTERS, WIDTH)
        values = speech.values.masked_fill(padding[..., None], number)
        model.loss(text, replace(speech, values=values)).backward()
        gradients.append([weight.grad for weight in model.parameters()])
    torch.testing.assert_close(*gradients, rtol=0, atol=0)


def test_a_text_that_does_not_end_is_cut_at_the_limit_and_says_so() -> None:
    model = config().build(LETTERS, WIDTH).eval()
    with torch.no_grad():
        model.output.bias[WIDTH :: WIDTH + 1] = -100.0
    (written,) = model.write(Batch.of([[5, END]]), max_frames=7)
    assert written.refined.shape == (7, WIDTH)
    assert not written.finished


def test_it_learns_to_speak_letters_and_looks_at_each_in_turn() -> None:
    torch.manual_seed(0)
    model = config().build(LETTERS, WIDTH)
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: max(1 - step / 400, 0.02))
    for step in range(400):
        loss = model.loss(*batch(pairs(16, seed=step)))
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 16.0)
        optimiser.step()
        schedule.step()
    model.eval()
    unseen = pairs(20, seed=10_000)
    written = model.write(batch(unseen)[0], max_frames=60)
    right = sum(
        one.finished
        and len(one.refined) == len(target)
        and torch.equal(one.refined[:, :-1].argmax(-1), target[:, :-1].argmax(-1))
        for one, (_, target) in zip(written, unseen, strict=True)
    )
    assert right >= 18
    text, target = max(unseen, key=lambda one: len(one[0]))
    with record(model) as recording:
        model(*batch([(text, target)]))
    place = recording["attention"].weights()[0, 0].argmax(-1)
    assert (place.diff() >= 0).float().mean() >= 0.9
    assert int(place[-1]) >= len(text) - 2


def test_attention_pays_for_weights_far_from_the_diagonal_of_real_steps_and_keys() -> None:
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(3, 7, 5, generator=generator, dtype=torch.float64)
    steps, keys = torch.tensor([7, 4, 1]), torch.tensor([3, 5, 2])
    total = sum(
        float(weights[row, t, j]) * (1 - math.exp(-((j / int(keys[row]) - t / int(steps[row])) ** 2) / (2 * 0.2**2)))
        for row in range(3)
        for t in range(int(steps[row]))
        for j in range(int(keys[row]))
    )
    assert float(off_diagonal(weights, steps, keys)) == pytest.approx(total, rel=1e-9)
    padded = torch.where(torch.arange(7)[:, None] < steps[:, None, None], weights, float("nan"))
    assert float(off_diagonal(padded, steps, keys)) == pytest.approx(total, rel=1e-9)


def test_guidance_is_added_to_the_loss_and_reaches_the_attention() -> None:
    examples, losses = pairs(3, seed=5), []
    for guidance in (0.0, 1.0, 3.0):
        torch.manual_seed(0)
        model = config(guidance=guidance, dropout=0.0, prenet_dropout=0.0).build(LETTERS, WIDTH)
        losses.append(model.loss(*batch(examples)))
    far = losses[1] - losses[0]
    assert far > 0
    torch.testing.assert_close(losses[2] - losses[0], 3 * far, rtol=1e-3, atol=1e-3)
    text, speech = batch(examples)
    weights = model(text, speech).weights
    assert weights is not None
    size = model.config.reduction
    torch.testing.assert_close(
        size * off_diagonal(weights, -(-speech.lengths // size), text.lengths), far, rtol=1e-3, atol=1e-3
    )
    (gradient,) = torch.autograd.grad(
        size * off_diagonal(weights, -(-speech.lengths // size), text.lengths), [model.attention.score.query_weight]
    )
    assert bool(gradient.abs().sum() > 0)
    other = config(attention=AttentionConfig(score=AdditiveConfig())).build(LETTERS, WIDTH)
    assert other(text, speech).weights is None


@pytest.mark.parametrize("score", [AdditiveConfig(hidden_dim=8), LocationAwareConfig(hidden_dim=8)], ids=str)
def test_guidance_is_the_same_for_scores_that_read_weights_and_for_those_that_do_not(
    score: AdditiveConfig | LocationAwareConfig,
) -> None:
    models = []
    for guidance in (0.0, 2.0):
        torch.manual_seed(0)
        settings = {"attention": AttentionConfig(score=score), "dropout": 0.0, "prenet_dropout": 0.0}
        models.append(config(guidance=guidance, **settings).build(LETTERS, WIDTH))
    text, speech = batch(pairs(3, seed=5))
    plain, guided = (model(text, speech) for model in models)
    torch.testing.assert_close(guided.frames, plain.frames)
    assert guided.weights is not None
    with record(models[1]) as recording:
        models[1](text, speech)
    torch.testing.assert_close(guided.weights, recording["attention"].weights()[:, 0])
    size = models[1].config.reduction
    price = 2 * size * off_diagonal(guided.weights, -(-speech.lengths // size), text.lengths)
    losses = [model.loss(text, speech) for model in models]
    torch.testing.assert_close(losses[1] - losses[0], price, rtol=1e-3, atol=1e-3)
    (gradient,) = torch.autograd.grad(price, [models[1].attention.score.query_weight])
    assert bool(gradient.abs().sum() > 0)


def test_sizes_that_are_not_positive_are_refused() -> None:
    with pytest.raises(ValueError, match="reduction must be"):
        config(reduction=0)
    with pytest.raises(ValueError, match="refinements must be at least 0"):
        config(refinements=-1)
    with pytest.raises(ValueError, match="guidance must be at least 0"):
        config(guidance=-1.0)
