import pytest
import torch

from foveate.decode import GreedyConfig, SampleConfig, decode
from foveate.decode.random_number import mix, uniform
from foveate.decode.sample import HEAD, draw


def even_noise(count):
    return (torch.arange(count, dtype=torch.float64) + 0.5) / count


def shares(probabilities, config, count=1000):
    """How often each token is drawn when the noise is spread evenly."""
    scores = torch.tensor(probabilities).log().expand(count, -1)
    return (torch.bincount(draw(scores, even_noise(count), config), minlength=len(probabilities)) / count).tolist()


def test_tokens_are_drawn_as_often_as_they_are_probable():
    assert shares([0.1, 0.6, 0.0, 0.3], SampleConfig()) == pytest.approx([0.1, 0.6, 0.0, 0.3], abs=0.002)


def test_temperature_is_a_power_of_the_probabilities():
    squared = torch.tensor([0.1, 0.6, 0.3]) ** 2
    expected = (squared / squared.sum()).tolist()

    assert shares([0.1, 0.6, 0.3], SampleConfig(temperature=0.5)) == pytest.approx(expected, abs=0.002)


def test_a_temperature_beyond_single_precision_draws_evenly():
    for temperature in (1e30, 1e39, 1e300):
        drawn = shares([0.1, 0.6, 0.0, 0.3], SampleConfig(temperature=temperature))
        assert drawn == pytest.approx([1 / 3, 1 / 3, 0, 1 / 3], abs=0.002)


def test_top_k_keeps_the_most_probable_tokens_in_their_proportion():
    assert shares([0.1, 0.5, 0.15, 0.25], SampleConfig(top_k=2)) == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=0.002)


def test_the_nucleus_is_the_smallest_set_that_sums_to_at_least_top_p():
    probabilities = [0.125, 0.5, 0.125, 0.25]

    assert shares(probabilities, SampleConfig(top_p=0.5)) == [0, 1, 0, 0]
    assert shares(probabilities, SampleConfig(top_p=0.51)) == pytest.approx([0, 2 / 3, 0, 1 / 3], abs=0.002)
    assert shares(probabilities, SampleConfig(top_p=0.8)) == pytest.approx([1 / 7, 4 / 7, 0, 2 / 7], abs=0.002)
    assert shares(probabilities, SampleConfig(top_p=1.0)) == pytest.approx(probabilities, abs=0.002)


def test_the_nucleus_is_taken_of_what_top_k_leaves():
    assert shares([0.4, 0.2, 0.2, 0.2], SampleConfig(top_k=2, top_p=0.66)) == [1, 0, 0, 0]


def test_a_nucleus_wider_than_the_head_is_exact_too():
    vocab = 4 * HEAD
    tokens = draw(torch.zeros(vocab, vocab), even_noise(vocab), SampleConfig(top_p=0.75))

    assert sorted(set(tokens.tolist())) == list(range(3 * HEAD))


def test_the_largest_noise_never_draws_a_token_without_probability():
    scores = torch.full((1, 3000), -torch.inf)
    scores[0, :2999] = torch.randn(2999, generator=torch.Generator().manual_seed(0))
    largest = torch.tensor([1 - 2.0**-52], dtype=torch.float64)

    assert draw(scores, largest, SampleConfig()).item() == 2998


def test_a_cold_sample_is_greedy_decoding(trigram):
    stepper = trigram(sentences=5)
    cold = decode(stepper, stepper.start(), sentences=5, config=SampleConfig(temperature=1e-4, max_length=6))

    assert cold == decode(stepper, stepper.start(), sentences=5, config=GreedyConfig(max_length=6))


def test_the_same_seed_gives_the_same_sample_and_another_seed_another(trigram):
    stepper = trigram(sentences=5)
    first, again, other = (
        decode(stepper, stepper.start(), sentences=5, config=SampleConfig(seed=seed, max_length=9))
        for seed in (3, 3, 4)
    )

    assert first == again != other


def test_decoding_leaves_torchs_own_random_numbers_alone(trigram):
    stepper = trigram(sentences=2)
    before = torch.get_rng_state()
    decode(stepper, stepper.start(), sentences=2, config=SampleConfig(max_length=5))

    assert torch.equal(before, torch.get_rng_state())


def test_noise_is_even_between_0_and_1_along_each_of_its_arguments():
    sentences = torch.arange(1000)
    along = [
        uniform(7, sentences, position=0),
        torch.cat([uniform(7, torch.tensor([5]), position) for position in range(1000)]),
        torch.cat([uniform(seed, torch.tensor([5]), position=0) for seed in range(1000)]),
    ]
    for noise in along:
        assert ((noise >= 0) & (noise < 1)).all()
        assert torch.histc(noise, bins=10, min=0, max=1).sub(100).abs().max() < 40  # four standard deviations
        assert torch.corrcoef(torch.stack([noise[:-1], noise[1:]]))[0, 1].abs() < 0.12


def test_the_finaliser_is_splitmix64s():
    """The first outputs of SplitMix64 with seed 1234567, as its published implementations print them."""
    golden = 0x9E3779B97F4A7C15 - 2**64
    state = torch.tensor([1234567]) + golden * torch.arange(1, 4)

    assert [value % 2**64 for value in mix(state).tolist()] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]


@pytest.mark.parametrize("seed", [-1, 2**63, 2**200])
def test_any_integer_is_a_seed(seed):
    assert 0 <= uniform(seed, torch.tensor([0]), position=0).item() < 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "temperature must be positive, got 0.0; for the limit 0 decode greedily"),
        ({"top_k": 0}, "top_k must be at least 1"),
        ({"top_p": 0.0}, "top_p is a probability"),
        ({"top_p": 1.5}, "top_p is a probability"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        SampleConfig(**settings)


def test_the_coldest_sample_is_the_best_token():
    scores = torch.tensor([0.1, 0.6, 0.3, 0.0]).log()[None]
    for temperature in (1e-3, 1e-39, 1e-46, 5e-324):
        for config in (SampleConfig(temperature=temperature), SampleConfig(temperature=temperature, top_p=0.5)):
            assert draw(scores, torch.tensor([0.999], dtype=torch.float64), config).tolist() == [1]
