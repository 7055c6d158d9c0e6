"""Pictures and graphs below a map: made, kept, read back, and refused when damaged."""

import json
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest
import torch

from foveate.errors import DataError, UsageError
from foveate.inspect import Picture, Trace, Track, read_trace, spectrogram, standalone, write_trace
from foveate.inspect.trace import given
from foveate.inspect.trace.folder import parsed

JPEG = bytes.fromhex("ffd8ffe000104a46494600010100000100010000ffc0000b080007000901011100ffd9")


def patched() -> Trace:
    track = Track.of_patches((2, 3), picture=torch.rand(3, 8, 12), before=["[class]"])
    return Trace(tracks={"source": track}, sites=(given(torch.full((1, 7, 7), 1 / 7)),))


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((5, 9), np.uint8),
        np.zeros((5, 9, 1), np.float32),
        np.full((5, 9, 3), 0.5),
        torch.zeros(3, 5, 9),
        torch.zeros(1, 5, 9),
    ],
)
def test_any_usual_array_is_a_picture(pixels: object) -> None:
    picture = Picture.of(pixels)  # type: ignore[arg-type]
    assert (picture.media, picture.size) == ("image/png", (9, 5))


def test_a_jpeg_says_its_own_size() -> None:
    assert (Picture(JPEG).media, Picture(JPEG).size) == ("image/jpeg", (9, 7))


def test_the_same_picture_has_the_same_bytes() -> None:
    pixels = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    assert Picture.of(pixels) == Picture.of(torch.from_numpy(pixels))


@pytest.mark.parametrize("pixels", [np.full((2, 2), 256), np.full((2, 2), -1), np.full((2, 2), 4000, np.uint16)])
def test_numbers_outside_the_range_of_shades_are_refused(pixels: np.ndarray) -> None:
    with pytest.raises(UsageError, match="0 to 255"):
        Picture.of(pixels)


@pytest.mark.parametrize("data", [b"", b"GIF89a", JPEG[:20], Picture.of(np.zeros((2, 2))).data[:-6]])
def test_files_of_other_formats_are_not_pictures(data: bytes) -> None:
    with pytest.raises(UsageError, match="not a complete PNG or JPEG file"):
        Picture(data)


def test_a_picture_that_is_too_large_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"at most 4\. Scale it down"):
        Picture(JPEG + bytes(4_000_000))


def test_a_spectrogram_has_time_to_the_right_and_high_bands_on_top() -> None:
    energies = torch.zeros(6, 3)
    energies[5, 2] = 1.0
    assert spectrogram(energies) == Picture.of(np.array([[0, 0, 0, 0, 0, 255], [0] * 6, [0] * 6], np.uint8))


def test_a_trace_with_a_picture_reads_back_whole(tmp_path: Path) -> None:
    trace = patched()
    path = write_trace(trace, tmp_path / "a.trace")
    assert json.loads((path / "trace.json").read_text())["version"] == 2
    assert read_trace(path).tracks == trace.tracks
    picture = trace.tracks["source"].picture
    assert picture is not None
    assert b64encode(picture.data).decode()[:200] not in standalone(trace)  # it stands once, in the compressed trace


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda picture: picture | {"width": 13}, "differs from its header"),
        (lambda picture: picture | {"data": picture["data"][:40]}, "damaged"),
        (lambda picture: picture | {"data": "€"}, "damaged"),
        (lambda picture: 3, "not a sequence of labels"),
    ],
)
def test_a_damaged_picture_is_refused(change: object, message: str) -> None:
    header = patched().header()
    track = header["sequences"]["source"]
    track["picture"] = change(track["picture"])  # type: ignore[operator]
    with pytest.raises(DataError, match=message):
        parsed(header, lambda _: patched().sites[0].tensors, "here")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Track(labels=("a",), kind="patches", picture=Picture(JPEG)), "needs `grid`"),
        (lambda: Track.of_nodes("ab", [[0, 1], [1]]), "two rows of equal length"),
        (lambda: Track.of_nodes("ab", [[0, 2], [1, 0]]), "numbers of the 2 nodes"),
        (lambda: Track.of_nodes("ab", [[0], [1]], places=[[0, 0]]), "2 nodes need 2 places"),
        (lambda: Track.of_nodes("ab", [[0], [1]], places=[[0, 0], [0, 2]]), "from 0 to 1"),
        (lambda: Track.of_nodes("ab", [[0], [1]], bonds=[]), "1 edges need 1 bonds"),
        (lambda: Track(labels=("a", "b"), edges=((0,), (1,)), bonds=("quadruple",)), "single, double"),
        (lambda: Track.of_nodes("ab", [[0], [1]], notes=["first"]), "2 labels have 1 notes"),
        (lambda: Track.of_nodes("ab", [[0], [1]], focus=2), "position 2, but there are 2"),
    ],
)
def test_a_scene_that_does_not_fit_is_refused(make: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make()  # type: ignore[operator]


def test_edges_and_places_may_be_tensors() -> None:
    track = Track.of_nodes(["a", "b"], torch.tensor([[0], [1]]), places=np.array([[0.0, 0.5], [1.0, 0.5]]))
    assert (track.edges, track.places) == (((0,), (1,)), ((0.0, 0.5), (1.0, 0.5)))


def test_a_part_of_the_patches_has_no_picture() -> None:
    part = patched().select(rows=slice(0, 2))
    assert part.tracks["source (part)"].picture is None


def molecule() -> Trace:
    """Ethanol, whose read-out looks at its oxygen."""
    pairs, bonds = [[0, 1, 1, 2], [1, 0, 2, 1]], ["single"] * 4
    atoms = Track.of_nodes("CCO", pairs, bonds=bonds, notes=["atom 1", "atom 2", "atom 3"], focus=2).placed()
    tracks = {"atoms": atoms, "molecule": Track(labels=("CCO",))}
    read = given(torch.tensor([[[0.1, 0.2, 0.7]]]), kind="cross", tracks=("molecule", "atoms"), name="readout")
    return Trace(tracks=tracks, sites=(given(torch.eye(3)[None], tracks=("atoms", "atoms")), read))


def test_a_molecule_reads_back_whole(tmp_path: Path) -> None:
    path = write_trace(molecule(), tmp_path / "a.trace")
    assert json.loads((path / "trace.json").read_text())["version"] == 2
    track = read_trace(path).tracks["atoms"]
    assert track == molecule().tracks["atoms"]
    assert (track.bonds, track.notes, track.focus) == (("single",) * 4, ("atom 1", "atom 2", "atom 3"), 2)
    part = molecule().select(rows=slice(1, 3)).tracks["atoms (part)"]
    assert (part.bonds, part.notes, part.focus) == (None, ("atom 2", "atom 3"), None)


@pytest.mark.parametrize("damage", [{"bonds": ["odd"] * 4}, {"bonds": 4}, {"notes": [1]}, {"focus": 7}, {"focus": "a"}])
def test_a_damaged_molecule_is_refused(damage: dict[str, object]) -> None:
    header = molecule().header()
    header["sequences"]["atoms"] |= damage
    with pytest.raises(DataError):
        parsed(header, lambda file: molecule().sites[0 if file == "site-000.safetensors" else 1].tensors, "here")
