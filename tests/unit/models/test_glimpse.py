"""Places that hard attention draws while it writes."""

import pytest
import torch

from foveate.attention import AdditiveConfig, AttentionConfig, HardConfig
from foveate.data.batch import Batch
from foveate.decode import BeamConfig, Hypothesis, decode
from foveate.decode.random_number import uniform
from foveate.models import GazeConfig, GazeDecoder
from foveate.models.glimpse import Glimpses

VOCAB, WIDTH, CELLS = 9, 4, 5


def decoder(*, temperature: float = 1.0) -> GazeDecoder:
    torch.manual_seed(3)
    hard = HardConfig(mode="sample", temperature=temperature)
    config = GazeConfig(
        embedding_dim=5, hidden_dim=6, attention=AttentionConfig(score=AdditiveConfig(), normaliser=hard)
    )
    model = config.build_for(WIDTH, VOCAB).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.9)
    return model


@pytest.fixture
def grid() -> Batch:
    torch.manual_seed(5)
    return Batch(torch.randn(3, CELLS, WIDTH), torch.tensor([CELLS, 3, 4]))


def glimpses(examples: list[int], seed: int = 1) -> Glimpses:
    return Glimpses(lambda numbers, step: uniform(seed, numbers, step), torch.tensor(examples))


@torch.no_grad()
def captions(model: GazeDecoder, grid: Batch, drawn: Glimpses | None, beam: int = 1) -> list[list[Hypothesis]]:
    config = BeamConfig(beam=beam, num_best=beam)
    return decode(model, model.start(grid, beam, glimpses=drawn), sentences=grid.size, config=config, max_length=7)


def test_places_are_drawn_as_often_as_their_weights_say() -> None:
    distribution = torch.tensor([0.1, 0.0, 0.6, 0.3])
    places = glimpses(list(range(20_000))).places(distribution.expand(20_000, 1, -1), step=4)
    shares = places.flatten().bincount(minlength=4) / 20_000
    torch.testing.assert_close(shares, distribution, atol=0.015, rtol=0)


def test_the_context_is_the_vector_of_a_real_place(grid: Batch) -> None:
    model = decoder()
    contexts = []
    for seed in range(40):
        state = model.start(grid, glimpses=glimpses([0, 1, 2], seed))
        contexts.append(model._drawn(state.layers[0][0], state, state.glimpses)[0])
    for picture, drawn in enumerate(torch.stack(contexts, 1)):
        same = (drawn[:, None] == grid.features[picture, : int(grid.lengths[picture])]).all(-1)
        assert (same.sum(1) == 1).all()
        assert same.any(0).sum() > 1


@pytest.mark.parametrize("beam", [1, 3])
def test_drawn_places_depend_on_seed_and_example_alone(grid: Batch, beam: int) -> None:
    model = decoder()
    together = captions(model, grid, glimpses([7, 3, 5]), beam)
    for row, example in enumerate([7, 3, 5]):
        one = Batch(grid.features[row : row + 1], grid.lengths[row : row + 1])
        (alone,) = captions(model, one, glimpses([example]), beam)
        for here, there in zip(alone, together[row], strict=True):
            assert here.tokens == there.tokens
            assert here.log_probability == pytest.approx(there.log_probability, abs=1e-4)
    others = [captions(model, grid, glimpses([7, 3, 5], seed), beam) for seed in range(2, 6)]
    assert any(other != together for other in others)


def test_sharp_weights_draw_the_largest(grid: Batch) -> None:
    model = decoder(temperature=1e-4)
    for one, other in zip(captions(model, grid, glimpses([0, 1, 2])), captions(model, grid, None), strict=True):
        assert one[0].tokens == other[0].tokens
        assert one[0].log_probability == pytest.approx(other[0].log_probability, abs=1e-4)


def test_soft_attention_draws_no_places(grid: Batch) -> None:
    soft = GazeConfig(embedding_dim=5, hidden_dim=6).build_for(WIDTH, VOCAB)
    with pytest.raises(ValueError, match="hard attention that has learnt from draws"):
        soft.start(grid, glimpses=glimpses([0, 1, 2]))
