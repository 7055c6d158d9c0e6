"""Archives of arrays: whole ones are read; damaged, hostile and foreign ones are refused by name."""

import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from foveate.data.archive import read_archive
from foveate.errors import DataError


def read(path: Path) -> dict[str, np.ndarray]:
    return read_archive(str(path), lambda names: names, instead="")[0]


def header(shape: str, kind: str = "|u1") -> bytes:
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


@pytest.mark.parametrize("compressed", [True, False])
def test_any_flipped_byte_is_harmless_or_a_data_error(tmp_path: Path, compressed: bool) -> None:
    arrays = {"x": np.arange(60.0).reshape(3, 20) ** 2, "names": np.array(["a", "ü"]), "none": np.zeros((0, 2))}
    (np.savez_compressed if compressed else np.savez)(tmp_path / "whole.npz", **arrays)  # type: ignore[arg-type]
    whole = read(tmp_path / "whole.npz")
    assert all(np.array_equal(whole[name], arrays[name]) for name in arrays)
    content, refused = (tmp_path / "whole.npz").read_bytes(), 0
    for place in range(len(content)):
        damaged = bytearray(content)
        damaged[place] ^= 0xFF
        (tmp_path / "damaged.npz").write_bytes(damaged)
        try:
            again = read(tmp_path / "damaged.npz")
        except DataError:
            refused += 1
        else:
            assert all(np.array_equal(array, again[name]) for name, array in arrays.items() if name in again)
    assert refused > len(content) / 2


@pytest.mark.parametrize(
    "content",
    [
        header(f"({10**13}, 28, 28)"),
        header(f"({2**40}, {2**40})"),
        header(f"({10**8},)"),
        header(f"({10**13},)", "<U0"),
        header("(-2, -3)"),
        header("(1,)")[:20],
        b"plain text",
        b"",
    ],
)
def test_headers_that_promise_what_the_file_lacks_are_refused_without_its_memory(
    tmp_path: Path, content: bytes
) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", content)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"a\.npz is not an \.npz file of numbers and names, or it is damaged"):
            read(tmp_path / "a.npz")
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()
