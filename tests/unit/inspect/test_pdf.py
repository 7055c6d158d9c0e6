"""PDF of drawings: its objects stand where its table says, its letters are the labels', and its bytes never change."""

import re
import zlib

import numpy as np
import pytest

from foveate.errors import UsageError
from foveate.inspect import Alignment, pdf, svg


def drawn(alignment: Alignment, **options: object) -> bytes:
    return pdf(svg(alignment, **options).encode())  # type: ignore[arg-type]


def small(source: str = "cat") -> Alignment:
    return Alignment.of(source, ["K", "AE", "T"], np.eye(3))


def operators(document: bytes) -> str:
    (stream,) = re.findall(rb"/FlateDecode >>\nstream\n(.*?)\nendstream", document, re.DOTALL)[:1]
    return zlib.decompress(stream).decode("ascii")


def words(document: bytes) -> list[str]:
    return [bytes.fromhex(found).decode("cp1252") for found in re.findall(r"<([0-9a-f]*)> Tj", operators(document))]


def test_every_object_stands_where_the_table_says() -> None:
    document = drawn(small())
    places = [int(place) for place in re.findall(rb"(\d{10}) 00000 n", document)]
    assert [document[place : place + 10].split()[:3] for place in places] == [
        [b"%d" % number, b"0", b"obj"] for number in range(1, len(places) + 1)
    ]
    start = int(re.findall(rb"startxref\n(\d+)", document)[0])
    assert document[start : start + 4] == b"xref"


def test_the_page_says_what_the_drawing_says() -> None:
    said = words(drawn(small(), title="Naïve café …"))
    assert said[0] == "Naïve café …"
    assert {"K", "AE", "T", "c", "a", "t", "source", "target"} <= set(said)


def test_the_same_drawing_has_the_same_bytes_without_a_date() -> None:
    document = drawn(small())
    assert document == drawn(small())
    assert b"Date" not in document


def test_a_large_map_is_one_image_with_the_drawings_own_pixels() -> None:
    size = 80
    document = drawn(Alignment.of([str(i) for i in range(size)], [str(i) for i in range(size)], np.eye(size)))
    assert b"/Width 80 /Height 80" in document
    assert "/I1 Do" in operators(document)
    stream = document.split(b"/Subtype /Image")[1].split(b"stream\n", 1)[1].split(b"\nendstream")[0]
    rows = np.frombuffer(zlib.decompress(stream), np.uint8).reshape(size, size + 1)
    assert (rows[:, 1:].argmax(1) == np.arange(size)).all()


def test_a_mark_of_vocabularies_is_drawn_as_a_line() -> None:
    document = drawn(Alignment.of(["▁the", "▁", "c"], ["K", "AE", "T"], np.eye(3)))
    assert "the" in words(document)
    assert "▁" not in "".join(words(document))


def test_other_scripts_are_refused_with_a_way_out() -> None:
    with pytest.raises(UsageError, match=r"cannot write '我' of '我'\. Write an \.svg instead"):
        drawn(small("我ab"))
