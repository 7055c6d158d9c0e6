"""Two stored traces, and the tiles that every implementation has to make of them. FOVEATE_RENEW=1 makes them anew."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foveate.attention import Attention, Positions, causal, padding
from foveate.attention.score import Additive
from foveate.inspect.tile import HIDDEN, TraceProvider
from foveate.inspect.trace import Pedigree, Trace, Track, observe, read_trace, write_trace

FOLDER = Path(__file__).parent / "trace"
PEDIGREE = Pedigree(model="golden", foveate="0.1.0", created="2026-01-01T00:00:00+00:00", difference=1e-7)
CAUSAL = ["▁The", "▁cat", "▁sat", "▁on", "▁the", "▁mat", ".", "▁The", "▁cat", "▁slept", "▁well", "."]
SOURCE, TARGET = (
    ["▁من", "▁دانشجو", "▁هست", "م", "▁.", "</s>", "<pad>"],
    ["▁I", "▁am", "▁a", "▁stu", "dent", "▁.", "</s>"],
)


def placed(site: Attention) -> torch.nn.Module:
    """The site at `decoder.0` of a model."""
    return torch.nn.ModuleDict({"decoder": torch.nn.ModuleList([site])})


def causal_trace() -> Trace:
    """Self-attention, two heads on one key head, causal softmax."""
    site = Attention(visibility=causal())
    with observe(placed(site)) as seen:
        x = torch.randn(1, 2, len(CAUSAL), 8)
        site.run(x, x[:, :1], x[:, :1, :, :4], at=Positions.of(len(CAUSAL), len(CAUSAL)))
    return Trace.of(seen, {"source": Track.of_pieces(CAUSAL)}, pedigree=PEDIGREE)


def cross_trace() -> Trace:
    """Additive attention of a translation; the last source position is padding."""
    site = Attention(Additive(query_dim=4, key_dim=6, hidden_dim=5), visibility=padding(), kind="cross").eval()
    torch.nn.init.normal_(site.score.vector, std=4.0)  # type: ignore[union-attr]
    at = Positions.of(len(TARGET), len(SOURCE), key_lengths=torch.tensor([len(SOURCE) - 1]))
    with observe(placed(site)) as seen, torch.no_grad():
        site.run(torch.randn(1, 1, len(TARGET), 4), torch.randn(1, 1, len(SOURCE), 6), torch.randn(1, 1, 7, 3), at=at)
    tracks = {"source": Track.of_pieces(SOURCE), "target": Track.of_pieces(TARGET)}
    return Trace.of(seen, tracks, pedigree=PEDIGREE, gold=[(0, 0), (1, 2), (1, 3), (3, 1), (4, 1), (5, 4)])


def tiles(trace: Trace) -> list[dict[str, Any]]:
    provider, found = TraceProvider(trace), []
    for site, here in enumerate(trace.sites):
        for head in range(here.heads):
            for level in (0, 1, 2, 5, "word", "sentence"):
                for pool in ("peak", "mass"):
                    tile = provider.tile(site, head, level, 0, 0, pool)  # type: ignore[arg-type]
                    found.append(described(tile, site, head, level, pool, trace))
    return found


def described(tile: np.ndarray, site: int, head: int, level: Any, pool: str, trace: Trace) -> dict[str, Any]:
    here = trace.sites[site]
    if isinstance(level, int):
        rows, columns = (-(-length // (1 << level)) for length in (here.queries, here.keys))
    else:
        rows, columns = (len(trace.tracks[name].spans(level)) for name in (here.query, here.key))
    assert (tile[rows:] == HIDDEN).all()
    assert (tile[:, columns:] == HIDDEN).all()
    place = {"site": site, "head": head, "level": level, "row": 0, "column": 0, "pool": pool}
    return {**place, "rows": rows, "columns": columns, "codes": tile[:rows, :columns].tolist()}


@pytest.fixture(scope="module", autouse=True)
def renewed() -> None:
    if not os.environ.get("FOVEATE_RENEW"):
        return
    torch.manual_seed(7)
    made = {"causal": causal_trace(), "cross": cross_trace()}
    for name, trace in made.items():
        write_trace(trace, FOLDER / f"{name}.trace")
    expected = {name: tiles(read_trace(FOLDER / f"{name}.trace")) for name in made}
    lines = [
        f'"{name}": [\n' + ",\n".join(json.dumps(entry) for entry in entries) + "\n]"
        for name, entries in expected.items()
    ]
    (FOLDER / "tiles.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


@pytest.mark.parametrize("name", ["causal", "cross"])
def test_stored_traces_make_the_stored_tiles(name: str) -> None:
    expected = json.loads((FOLDER / "tiles.json").read_text(encoding="utf-8"))[name]
    for mine, right in zip(tiles(read_trace(FOLDER / f"{name}.trace")), expected, strict=True):
        assert {**mine, "codes": None} == {**right, "codes": None}
        far = np.abs(np.array(mine["codes"], dtype=int) - np.array(right["codes"], dtype=int))
        assert far.max() <= 1
