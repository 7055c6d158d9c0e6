"""Masks and speeds are functions of (seed, step, example), and masked numbers have the mean of their row."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from foveate.config import build
from foveate.data.augmentation import AugmentationConfig, Geometry, masked, speeds_of
from foveate.data.batch import Batch
from foveate.errors import UsageError

CONFIG = AugmentationConfig(time_masks=2, time_width=20, time_share=0.3, band_masks=2, band_share=0.3)


def rows(lengths: list[int], geometry: Geometry, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.normal(3, 1, (length, geometry.width)).astype(np.float32) for length in lengths]


def changed(before: Batch, after: Batch) -> np.ndarray:
    return (before.features != after.features).numpy()


def test_masks_are_ranges_of_frames_and_bands_with_the_mean_of_the_row() -> None:
    geometry = Geometry(20)
    batch = Batch.of(rows([100, 60], geometry))
    after = masked(batch, [7, 8], CONFIG, geometry, seed=0, step=3)
    hidden = changed(batch, after)
    assert not hidden[1, 60:].any()
    for row, length in enumerate((100, 60)):
        inside = hidden[row, :length]
        frames, bands = inside.all(1), inside.all(0)
        assert (inside == (frames[:, None] | bands)).all()
        assert 0 < frames.sum() <= 40 or 0 < bands.sum() <= 12
        mean = batch.features[row, :length].mean(0).expand(length, -1)
        assert torch.allclose(after.features[row, :length][inside], mean[inside], atol=1e-5)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.lists(st.integers(1, 40), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_masks_do_not_depend_on_other_rows_or_padding(seed: int, step: int, lengths: list[int]) -> None:
    geometry = Geometry(6, parts=2, stack=2, stride=1)
    values = rows(lengths, geometry)
    examples = list(range(10, 10 + len(lengths)))
    together = masked(Batch.of(values), examples, CONFIG, geometry, seed=seed, step=step)
    for row, (value, example) in enumerate(zip(values, examples, strict=True)):
        alone = masked(Batch.of([value]), [example], CONFIG, geometry, seed=seed, step=step)
        assert torch.allclose(together.features[row, : len(value)], alone.features[0], atol=1e-6)
    again = masked(Batch.of(values), examples, CONFIG, geometry, seed=seed, step=step)
    assert torch.equal(together.features, again.features)


def test_masks_differ_by_seed_step_and_example() -> None:
    geometry = Geometry(20)
    batch = Batch.of(rows([200], geometry))
    drawn = {
        changed(batch, masked(batch, [example], CONFIG, geometry, seed=seed, step=step)).tobytes()
        for seed in range(3)
        for step in range(3)
        for example in range(3)
    }
    assert len(drawn) == 27


@pytest.mark.parametrize(("stack", "stride"), [(3, 3), (3, 1), (4, 2)])
def test_a_mask_covers_a_frame_in_every_stack_and_a_band_in_every_part(stack: int, stride: int) -> None:
    geometry = Geometry(5, parts=3, stack=stack, stride=stride)
    vectors, frames = 30, geometry.frames(30)
    batch = Batch.of(rows([vectors], geometry))
    hidden = changed(batch, masked(batch, [1], CONFIG, geometry, seed=1, step=1))[0].reshape(vectors, stack, 3, 5)
    assert hidden.any()
    for frame in range(frames):
        places = ((vector, frame - vector * stride) for vector in range(vectors))
        copies = [hidden[vector, place] for vector, place in places if 0 <= place < stack]
        assert all((copy == copies[0]).all() for copy in copies)
    assert (hidden == hidden[:, :, :1]).all()


def test_widths_follow_the_settings() -> None:
    geometry = Geometry(20)
    batch = Batch.of(rows([50], geometry))
    few = AugmentationConfig(time_masks=1, time_width=40, time_share=0.1, band_masks=0)
    widest = max(
        int(changed(batch, masked(batch, [0], few, geometry, seed=0, step=step))[0].all(1).sum()) for step in range(60)
    )
    assert widest == 5
    none = AugmentationConfig(time_masks=0, band_masks=0)
    assert masked(batch, [0], none, geometry, seed=0, step=0) is batch


def test_speeds_are_drawn_equally_often_and_independently_of_the_batch() -> None:
    speeds = speeds_of(range(3000), 3, seed=5, step=2)
    assert np.bincount(speeds).min() > 900
    assert speeds[7:9] == speeds_of([7, 8], 3, seed=5, step=2)
    assert speeds != speeds_of(range(3000), 3, seed=5, step=3)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"speeds": [0.9, 1.1]}, "speeds must be different and contain 1"),
        ({"speeds": [1.0, 1.0]}, "speeds must be different"),
        ({"speeds": [1.0, 3.0]}, "speeds must be from 0.5 to 2"),
        ({"time_share": 1.5}, "time_share must be from 0 to 1"),
        ({"time_masks": -1}, "must be at least 0"),
    ],
)
def test_wrong_settings_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(AugmentationConfig, values)
