"""Scaled pictures: equal to Pillow's within one level, and fitted into other shapes."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from foveate.data import resampling
from foveate.data.resampling import Box, Fit, fitted, resized

SIDES = st.integers(1, 50)


def noise(rows: int, columns: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (rows, columns, 3)).astype(np.uint8)


def pillow(pixels: np.ndarray, size: tuple[int, int], box: Box | None = None) -> np.ndarray:
    corners = None if box is None else (box[1], box[0], box[1] + box[3], box[0] + box[2])
    return np.asarray(Image.fromarray(pixels).resize(size[::-1], Image.Resampling.BILINEAR, box=corners))


def distance(one: np.ndarray, other: np.ndarray) -> int:
    return int(np.abs(one.astype(int) - other.astype(int)).max())


@settings(max_examples=60, deadline=None)
@given(SIDES, SIDES, SIDES, SIDES, st.booleans())
def test_a_resized_picture_is_pillows_within_one_level(
    rows: int, columns: int, new_rows: int, new_columns: int, part: bool
) -> None:
    pixels = noise(rows, columns, rows * columns)
    box = (0.2 * rows, 0.3 * columns, 0.7 * rows, 0.55 * columns) if part else None
    assert distance(resized(pixels, (new_rows, new_columns), box), pillow(pixels, (new_rows, new_columns), box)) <= 1


def test_both_ways_to_sum_give_the_same_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = noise(90, 70)
    at_once = resized(pixels, (24, 31))
    monkeypatch.setattr(resampling, "SMALL", 0)
    assert distance(resized(pixels, (24, 31)), at_once) <= 1
    assert distance(resized(pixels, (24, 31)), pillow(pixels, (24, 31))) <= 1


def test_a_picture_of_the_right_size_is_unchanged() -> None:
    pixels = noise(5, 9)
    assert all((fitted(pixels, (5, 9), fit) == pixels).all() for fit in ("crop", "pad", "stretch"))


def test_a_crop_takes_the_middle_of_the_longer_side() -> None:
    pixels = noise(8, 20)
    assert (fitted(pixels, (8, 8), "crop") == pixels[:, 6:14]).all()
    assert (fitted(pixels.swapaxes(0, 1), (8, 8), "crop") == pixels.swapaxes(0, 1)[6:14]).all()


def test_padding_keeps_the_whole_picture_between_black_bars() -> None:
    pixels = np.full((8, 20, 3), 200, np.uint8)
    result = fitted(pixels, (20, 20), "pad")
    assert (result[6:14] == 200).all()
    assert not result[:6].any()
    assert not result[14:].any()


def test_a_line_of_one_pixel_can_be_fitted() -> None:
    for fit in ("crop", "pad", "stretch"):
        assert fitted(noise(1, 300), (8, 8), fit).shape == (8, 8, 3)
        assert fitted(noise(300, 1), (8, 8), fit).shape == (8, 8, 3)


@pytest.mark.parametrize("shape", [(1, 1 << 18), (1 << 18, 1), (3, 1 << 16), (600, 400), (1, 1), (1 << 16, 2)])
@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_memory_is_bounded_by_the_pictures_and_not_by_their_shapes(shape: tuple[int, int], fit: Fit) -> None:
    pixels = noise(*shape)
    tracemalloc.start()
    try:
        result = fitted(pixels, (96, 96), fit)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 12 * (pixels.nbytes + result.nbytes) + (1 << 18)


@settings(max_examples=40, deadline=None)
@given(SIDES, SIDES, SIDES, SIDES, st.booleans())
def test_numbers_between_the_axes_are_fewer_than_those_of_both_pictures(
    rows: int, columns: int, new_rows: int, new_columns: int, part: bool
) -> None:
    sizes = []

    def scaled(pixels: np.ndarray, axis: object) -> np.ndarray:
        result = whole(pixels, axis)
        sizes.append(result.size)
        return result

    whole = resampling._scaled
    box = (0.2 * rows, 0.3 * columns, 0.7 * rows, 0.55 * columns) if part else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resampling, "_scaled", scaled)
        resized(noise(rows, columns), (new_rows, new_columns), box)
    if sizes:
        between, last = sizes
        assert last == 3 * new_rows * new_columns
        assert between <= 3 * (rows * columns + new_rows * new_columns)


@pytest.mark.parametrize("shape", [(2, 70_000), (70_000, 2)])
@pytest.mark.parametrize("part", [False, True])
def test_a_long_line_is_pillows_within_one_level(shape: tuple[int, int], part: bool) -> None:
    pixels = noise(*shape)
    box = (0.0, 0.3 * shape[1], float(shape[0]), 0.2 * shape[1]) if part else None
    assert distance(resized(pixels, (20, 12), box), pillow(pixels, (20, 12), box)) <= 1
