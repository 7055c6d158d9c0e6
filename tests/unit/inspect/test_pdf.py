"""PDF of drawings: its objects stand where its table says, its fonts are inside, and its bytes never change."""

import re
import zlib

import numpy as np
import pytest
import uharfbuzz

from foveate.errors import SetupError, UsageError
from foveate.inspect import Alignment, pdf, svg


def drawn(alignment: Alignment, **options: object) -> bytes:
    return pdf(svg(alignment, **options).encode())  # type: ignore[arg-type]


def small(source: str = "cat") -> Alignment:
    return Alignment.of(source, ["K", "AE", "T"], np.eye(3))


def streams(document: bytes) -> list[tuple[bytes, bytes]]:
    """The heads and the contents of all packed streams."""
    result = re.findall(rb"<< ([^\n]*?)/FlateDecode >>\nstream\n(.*?)\nendstream", document, re.DOTALL)
    return [(head, zlib.decompress(content)) for head, content in result]


def operators(document: bytes) -> str:
    return streams(document)[0][1].decode("ascii")


def tables(document: bytes) -> list[dict[str, str]]:
    """What the glyphs of each font stand for, as readers of the page find it."""
    whole = [content.decode() for _, content in streams(document) if b"begincmap" in content]
    pairs = [re.findall(r"<(\w{4})> <(\w+)>\n", table.split("endcodespacerange")[1]) for table in whole]
    return [{glyph: bytes.fromhex(text).decode("utf-16-be") for glyph, text in table} for table in pairs]


def words(document: bytes) -> list[str]:
    """The texts of the page, as they are copied from it."""
    fonts = re.findall(rb"/(F\d+) \d+ 0 R", document)
    known = {name.decode(): table for name, table in zip(fonts, tables(document), strict=True)}
    shown = re.findall(r"BT /(F\d+) .*? Td (.*?) ET", operators(document))
    return ["".join(known[font].get(glyph, "") for glyph in re.findall(r"<(\w{4})>", run)) for font, run in shown]


def test_every_object_stands_where_the_table_says() -> None:
    document = drawn(small())
    places = [int(place) for place in re.findall(rb"(\d{10}) 00000 n", document)]
    assert [document[place : place + 10].split()[:3] for place in places] == [
        [b"%d" % number, b"0", b"obj"] for number in range(1, len(places) + 1)
    ]
    start = int(re.findall(rb"startxref\n(\d+)", document)[0])
    assert document[start : start + 4] == b"xref"


def test_the_page_says_what_the_drawing_says() -> None:
    message = words(drawn(small(), title="Naïve café …"))
    assert message[0] == "Naïve café …"
    assert {"K", "AE", "T", "c", "a", "t", "source", "target"} <= set(message)


@pytest.mark.parametrize("word", ["Привет", "γλῶσσα", "a▁b", "שלום", "سلام", "می‌رود"])
def test_letters_of_many_scripts_are_kept_and_can_be_copied(word: str) -> None:
    alignment = words(drawn(Alignment.of([word, "a", "b"], ["K", "AE", "T"], np.eye(3))))
    backwards = word[::-1].replace("ال", "لا")  # a run from right to left is written from its left end
    assert {word, backwards, backwards.replace("لا", "ال")} & set(alignment)


def test_fonts_are_inside_cut_to_what_is_written() -> None:
    document = drawn(small(), title="Wide")
    names = re.findall(rb"/FontName /([A-Z]{6}\+[\w-]+)", document)
    assert [name.split(b"+")[1] for name in names] == [b"DejaVuSans-Bold", b"DejaVuSans"]
    assert b"/Subtype /Type1" not in document
    files = [content for head, content in streams(document) if b"/Length1" in head]
    for data, table in zip(files, tables(document), strict=True):
        face = uharfbuzz.Face(uharfbuzz.Blob(data))
        assert face.glyph_count == len(table) + 1  # and the sign for what is missing
        assert len(data) < 20_000


def test_letters_are_as_wide_as_the_font_says() -> None:
    document = drawn(Alignment.of(["WWWW", "iiii", "b"], ["K", "AE", "T"], np.eye(3)))
    widths = [int(width) for width in re.findall(rb"\[(\d+)\]", b"".join(re.findall(rb"/W \[(.*?)\] ?/C", document)))]
    assert {989, 278} <= set(widths)


def test_kerned_letters_move_together() -> None:
    assert re.search(r"<\w{4}>\d[\d.]* ?<\w{4}>", operators(drawn(Alignment.of(["AV", "a", "b"], "xyz", np.eye(3)))))


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


def test_hidden_cells_of_a_large_map_let_the_hatching_through() -> None:
    labels = [str(i) for i in range(80)]
    visible = np.tril(np.ones((80, 80), dtype=bool))
    document = drawn(Alignment.of(labels, labels, np.eye(80), visible))
    assert b"/Mask [103 103]" in document
    assert b"/Mask" not in drawn(Alignment.of(labels, labels, np.eye(80)))


def test_lines_between_cells_are_half_transparent_on_any_ground() -> None:
    document = drawn(small(), theme="dark")
    assert b"/ExtGState << /V1 << /CA 0.55 >> >>" in document
    assert "/V1 gs" in operators(document)


def test_letters_that_no_font_has_are_refused_by_name() -> None:
    with pytest.raises(SetupError, match=r"cannot|can draw the letter \U00012000 \(Cuneiform\)"):
        drawn(small("\U00012000ab"))


def test_curves_are_drawn_and_an_element_that_a_pdf_lacks_is_refused() -> None:
    head = '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="20">'
    curve = '<polyline points="0,0 10,5 40,20" fill="none" stroke="#ff0000" stroke-dasharray="4 3"/>'
    page = operators(pdf(f"{head}{curve}</svg>".encode()))
    assert "1 0 0 RG" in page
    assert "[4 3] 0 d" in page
    assert "0 20 m\n10 15 l\n40 0 l\nS" in page
    with pytest.raises(UsageError, match="<circle>"):
        pdf(f'{head}<circle r="3"/></svg>'.encode())
