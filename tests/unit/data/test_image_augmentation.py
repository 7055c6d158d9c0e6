"""Random changes of training pictures: each does what its name says, and is a function of (seed, step, example)."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from foveate.data.batch import Batch
from foveate.data.image import ImageRows
from foveate.data.image_augmentation import CHANGES, ImageAugmentationConfig, altered, partners
from foveate.data.picture import Picture

HALF = torch.full((3, 1, 1), 0.5)
RAMP = torch.arange(48, dtype=torch.float32).reshape(3, 4, 4) / 47
EVERYTHING = ImageAugmentationConfig(flip=True, padding=2, changes=2, strength=0.8)


def changed(picture: Tensor, config: ImageAugmentationConfig, step: int = 0, example: int = 0) -> Tensor:
    return altered(picture, config, HALF, HALF, draw=(0, step, example))


def rows_with(config: ImageAugmentationConfig) -> ImageRows:
    return ImageRows(patch=2, colour=True, grid=(3, 4), augmentation=config)


def batch_of(rows: ImageRows, examples: list[int]) -> Batch:
    shape = (*rows.size, 3)
    things = [np.random.default_rng(one).integers(0, 256, shape).astype(np.uint8) for one in examples]
    return Batch.of([rows.row(Picture(str(number), thing)) for number, thing in enumerate(things)])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 99), min_size=2, max_size=6, unique=True), st.integers(0, 5), st.integers(0, 2**40))
def test_an_examples_changes_do_not_depend_on_its_batch(examples: list[int], step: int, seed: int) -> None:
    rows = rows_with(EVERYTHING)
    together = rows.augmented(batch_of(rows, examples), examples, seed=seed, step=step).features
    for number, example in enumerate(examples):
        alone = rows.augmented(batch_of(rows, [example]), [example], seed=seed, step=step).features
        assert torch.equal(alone[0], together[number])
    mixture = partners(examples, 50, 0.4, seed=seed, step=step)
    for number, example in enumerate(examples):
        single = partners([example], 50, 0.4, seed=seed, step=step)
        assert (single.partners[0], single.shares[0]) == (mixture.partners[number], mixture.shares[number])


def test_changes_differ_from_step_to_step_and_repeat_for_the_same_step() -> None:
    rows, examples = rows_with(EVERYTHING), [3, 4]
    batch = batch_of(rows, examples)
    first, again, other = (rows.augmented(batch, examples, seed=1, step=step).features for step in (7, 7, 8))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, rows.augmented(batch, examples, seed=2, step=7).features)


def test_without_changes_a_batch_is_the_same_object() -> None:
    rows = rows_with(ImageAugmentationConfig(mixup=0.5))
    batch = batch_of(rows, [1, 2])
    assert rows.augmented(batch, [1, 2], seed=0, step=0) is batch
    assert rows_with(EVERYTHING).mixture([1, 2], 9, seed=0, step=0) is None


def test_half_of_the_pictures_are_mirrored_and_the_others_unchanged() -> None:
    results = [changed(RAMP, ImageAugmentationConfig(flip=True), example=example) for example in range(400)]
    mirrored = sum(torch.equal(one, RAMP.flip(-1)) for one in results)
    assert mirrored + sum(torch.equal(one, RAMP) for one in results) == 400
    assert 160 < mirrored < 240


def test_a_shift_moves_the_picture_and_repeats_its_edge() -> None:
    shifts = set()
    for example in range(200):
        result = changed(RAMP, ImageAugmentationConfig(padding=1), example=example)
        grown = torch.nn.functional.pad(RAMP[None], (1, 1, 1, 1), "replicate")[0]
        shifts |= {
            (down, right)
            for down in range(3)
            for right in range(3)
            if torch.equal(result, grown[:, down : down + 4, right : right + 4])
        }
    assert len(shifts) == 9


@pytest.mark.parametrize("number", range(len(CHANGES)))
def test_a_change_without_strength_changes_nothing_visible(number: int) -> None:
    difference = (CHANGES[number](RAMP, 0.0) - RAMP).abs().max()
    assert difference < (1 / 255 if CHANGES[number] is CHANGES[-1] else 1e-5)


@pytest.mark.parametrize("number", range(1, len(CHANGES)))
def test_a_strong_change_is_visible_and_stays_within_the_levels(number: int) -> None:
    picture = torch.rand(3, 12, 12, generator=torch.Generator().manual_seed(0))
    for strength in (1.0, -1.0):
        result = CHANGES[number](picture, strength)
        assert result.shape == picture.shape
        assert float(result.min()) >= -1e-6
        assert float(result.max()) <= 1 + 1e-6
        assert float((result - picture).abs().mean()) > 0.01


def test_a_rotation_turns_about_the_centre() -> None:
    picture = torch.zeros(1, 21, 21)
    picture[0, 10, 10:] = 1.0
    turned = CHANGES[1](picture, 1.0)[0]
    tip = torch.nonzero(turned == turned[:, 17:].max())[0]
    angle = np.rad2deg(np.arctan2(abs(float(tip[0]) - 10), float(tip[1]) - 10))
    assert float(turned[10, 10]) > 0.5
    assert 24 < angle < 36


def test_mixup_draws_partners_from_all_examples_and_shares_from_a_beta_distribution() -> None:
    mixture = partners(range(4000), 10, 1.0, seed=0, step=3)
    counts = np.bincount(mixture.partners, minlength=10)
    assert counts.min() > 320
    assert counts.max() < 480
    assert abs(float(mixture.shares.mean()) - 0.5) < 0.02
    assert abs(float(mixture.shares.var()) - 1 / 12) < 0.01


@pytest.mark.parametrize(
    ("setting", "message"),
    [({"padding": -1}, "at least 0"), ({"strength": 1.5}, "from 0 to 1"), ({"mixup": -0.1}, "mixup must be")],
)
def test_impossible_settings_are_refused(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImageAugmentationConfig(**setting)  # type: ignore[arg-type]
