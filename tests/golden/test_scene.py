"""Stored traces with a picture, a sound, a graph and a molecule below their maps. FOVEATE_RENEW=1 makes them anew."""

import json
import math
import os
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from jaxtyping import Int16
from torch import nn

from foveate.attention import Attention, edges, record
from foveate.inspect import Picture, Sound, Trace, Track, read_trace, spectrogram, write_trace
from foveate.inspect.trace import Pedigree
from foveate.nn import MultiHeadAttention

FOLDER = Path(__file__).parent / "trace"
PEDIGREE = Pedigree(model="golden", foveate="0.1.0", created="2026-01-01T00:00:00+00:00", difference=1e-7)
SIDE, PATCH, WIDTH = 24, 4, 16


def disc() -> torch.Tensor:
    """A bright disc on a ground that grows lighter: something to look at."""
    rows, columns = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
    inside = ((rows - 9) ** 2 + (columns - 14) ** 2 < 30).float()
    ground = columns / (3 * SIDE)
    return torch.stack([0.2 + 0.7 * inside, ground + 0.5 * inside, 0.6 - 0.5 * inside])


def patches_trace() -> Trace:
    """Self-attention of a class token and 6 × 6 patches, as in a vision transformer of random weights."""
    torch.manual_seed(7)
    picture = disc()
    cut = picture.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH).permute(1, 2, 0, 3, 4).reshape(36, -1)
    embedded = torch.cat([torch.zeros(1, WIDTH), nn.Linear(3 * PATCH**2, WIDTH)(cut)])
    layer = MultiHeadAttention(query_dim=WIDTH, num_heads=2)
    with record(layer) as seen, torch.no_grad():
        layer(16 * embedded[None])
    track = Track.of_patches((6, 6), picture=picture, before=["[class]"])
    return Trace.of(seen, {"picture": track}, pedigree=PEDIGREE)


def frames_trace() -> Trace:
    """A decoder of five letters that looks at forty frames of a rising tone."""
    torch.manual_seed(7)
    rate, seconds = 2000, 1.6
    time = torch.arange(int(rate * seconds)) / rate
    wave = 0.8 * torch.sin(2 * math.pi * (100 + 250 * time) * time) * torch.sin(math.pi * time / seconds)
    bands = torch.stft(wave, 128, hop_length=80, window=torch.hann_window(128), return_complex=True).abs()[:32, :40]
    letters = torch.eye(5, 40).repeat_interleave(8, 1)[:, :40] * 20
    site = Attention(kind="cross")
    holder = nn.ModuleDict({"decoder": nn.ModuleList([site])})
    with record(holder) as seen:
        site.run(letters[None, None], torch.eye(40)[None, None], torch.eye(40)[None, None])
    frames = Track.of_frames(
        40, hop=0.04, sound=Sound.of(wave, seconds=seconds), picture=spectrogram((bands + 1e-3).log().T)
    )
    return Trace.of(seen, {"source": frames, "target": Track(labels=tuple("hello"))}, pedigree=PEDIGREE)


def nodes_trace() -> Trace:
    """Attention over the edges of a small graph, and no others."""
    torch.manual_seed(7)
    names = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn", "Gül", "Hà"]
    pairs = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (4, 5), (4, 6), (5, 6), (6, 7)]
    sources = [a for a, b in pairs] + [b for a, b in pairs] + list(range(8))
    targets = [b for a, b in pairs] + [a for a, b in pairs] + list(range(8))
    site = Attention(visibility=edges(torch.tensor([sources, targets])))
    with record(nn.ModuleDict({"layer": nn.ModuleList([site])})) as seen:
        site.run(torch.randn(1, 2, 8, 6), torch.randn(1, 2, 8, 6), torch.randn(1, 2, 8, 6))
    return Trace.of(seen, {"people": Track.of_nodes(names, (sources, targets))}, pedigree=PEDIGREE)


def molecule_trace() -> Trace:
    """Two layers along the bonds of benzoic acid, and a read-out of all atoms."""
    torch.manual_seed(7)
    bonds = [(atom, (atom + 1) % 6, "aromatic") for atom in range(6)]
    bonds += [(0, 6, "single"), (6, 7, "double"), (6, 8, "single")]
    places = [(0.5 + 0.2 * math.sin(atom * math.pi / 3), 0.5 - 0.2 * math.cos(atom * math.pi / 3)) for atom in range(6)]
    places += [(0.5, 0.1), (0.3268, 0.0), (0.6732, 0.0)]
    sources = [a for a, b, _ in bonds] + [b for a, b, _ in bonds]
    targets = [b for a, b, _ in bonds] + [a for a, b, _ in bonds]
    atoms = Track.of_nodes(
        "CCCCCCCOO",
        (sources, targets),
        places=places,
        bonds=[kind for *_, kind in bonds] * 2,
        notes=[f"atom {atom}" for atom in range(9)],
        focus=6,
    )
    along = edges(torch.tensor([sources, targets]), self_loops=True)
    layers = [Attention(visibility=along), Attention(visibility=along)]
    readout = Attention(kind="cross")
    holder = nn.ModuleDict({"layers": nn.ModuleList(layers), "readout": readout})
    with record(holder) as seen:
        for layer in layers:
            layer.run(torch.randn(1, 2, 9, 6), torch.randn(1, 2, 9, 6), torch.randn(1, 2, 9, 6))
        readout.run(torch.randn(1, 2, 1, 6), torch.randn(1, 2, 9, 6), torch.randn(1, 2, 9, 6))
    trace = Trace.of(seen, {"atoms": atoms, "molecule": Track(labels=("solubility −1.68",))}, pedigree=PEDIGREE)
    return replace(trace, opens=("layers.1", None))


MADE = {"patches": patches_trace, "frames": frames_trace, "nodes": nodes_trace, "molecule": molecule_trace}


@pytest.fixture(scope="module", autouse=True)
def renewed() -> None:
    if os.environ.get("FOVEATE_RENEW"):
        for name, make in MADE.items():
            write_trace(make(), FOLDER / f"{name}.trace")


def pixels(track: Track) -> Int16[np.ndarray, " bytes"]:
    """The lines of a track's PNG, one after the other; none where it has no picture."""
    if track.picture is None:
        return np.empty(0, dtype=np.int16)
    _, _, lines = track.picture.data.partition(b"IDAT")
    return np.frombuffer(zlib.decompressobj().decompress(lines), dtype=np.uint8).astype(np.int16)


@pytest.mark.parametrize("name", MADE)
def test_a_stored_scene_reads_back_as_it_was_made(name: str) -> None:
    stored, made = read_trace(FOLDER / f"{name}.trace"), MADE[name]()
    assert stored.tracks.keys() == made.tracks.keys()
    for title, track in stored.tracks.items():
        assert replace(track, picture=None) == replace(made.tracks[title], picture=None)
        # A sine or a logarithm may end in another bit on another processor.
        np.testing.assert_allclose(pixels(track), pixels(made.tracks[title]), atol=1)
    for mine, theirs in zip(made.sites, stored.sites, strict=True):
        for head in range(mine.heads):
            np.testing.assert_allclose(mine.weights(head)[0], theirs.weights(head)[0], atol=2e-3)


def test_version_two_is_written_only_for_what_version_one_cannot_hold() -> None:
    version = {
        name: json.loads((FOLDER / f"{name}.trace" / "trace.json").read_text(encoding="utf-8"))["version"]
        for name in ("causal", "cross", *MADE)
    }
    assert version == {"causal": 1, "cross": 1, "patches": 2, "frames": 2, "nodes": 1, "molecule": 2}


def test_pictures_are_png_files_of_the_size_that_they_say() -> None:
    track = read_trace(FOLDER / "patches.trace").tracks["picture"]
    assert isinstance(track.picture, Picture)
    assert (track.picture.media, track.picture.size, track.grid) == ("image/png", (SIDE, SIDE), (6, 6))
