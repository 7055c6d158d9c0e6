"""Labelled pictures from folders: their pixels, their patches, and what is said about bad ones."""

import base64
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from foveate.data import image_file
from foveate.data.audio import AudioReader
from foveate.data.image import PICTURES, ImageReader, ImageRows
from foveate.data.image_augmentation import ImageAugmentationConfig
from foveate.data.image_file import _unfiltered, pixels_of, read_pixels
from foveate.data.label import Labels
from foveate.data.labelled_store import prepare_rows
from foveate.data.picture import Picture
from foveate.data.reader import Example, RowMaker
from foveate.data.resampling import fitted
from foveate.data.variant import Augmenting
from foveate.errors import DataError
from foveate.tasks.classify.task import reader_of

RED_JPEG = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAMCAgMCAgMDAwMEAwMEBQgFBQQEBQoHBwYIDAoMDAsKCwsNDhIQDQ4RDgsLEBYQERMU"
    "FRUVDA8XGBYUGBIUFRT/2wBDAQMEBAUEBQkFBQkUDQsNFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQU"
    "FBQUFBQUFBT/wAARCAAIAAgDASIAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAAf/xAAUEAEAAAAAAAAAAAAAAAAAAAAA/8QA"
    "FQEBAQAAAAAAAAAAAAAAAAAABgj/xAAUEQEAAAAAAAAAAAAAAAAAAAAA/9oADAMBAAIRAxEAPwCFADS3X//Z"
)
GREY_GIF = base64.b64decode("R0lGODdhAwACAIEAAFpaWgAAAAAAAAAAACwAAAAAAwACAAAIBgABCBwYEAA7")


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(pixels: np.ndarray) -> bytes:
    """Red, green, blue and, where they are there, opacities."""
    rows, columns, channels = pixels.shape
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2 if channels == 3 else 6, 0, 0, 0)
    lines = np.zeros((rows, 1 + channels * columns), np.uint8)
    lines[:, 1:] = pixels.reshape(rows, -1)
    parts = (chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines.tobytes())), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def random(rows: int = 4, columns: int = 6) -> np.ndarray:
    return np.random.default_rng(rows + columns).integers(0, 256, (rows, columns, 3)).astype(np.uint8)


def pictures(folder: Path, **labels: list[np.ndarray]) -> Path:
    for label, those in labels.items():
        (folder / label).mkdir(parents=True)
        for number, one in enumerate(those):
            (folder / label / f"{number}.png").write_bytes(png(one))
    return folder


def test_pixels_of_a_png_are_those_that_were_written() -> None:
    for pixels in (random(), random(1, 1), random(31, 17), np.full((40, 40, 3), 7, np.uint8)):
        assert (pixels_of(png(pixels), "a.png") == pixels).all()


def test_transparent_parts_are_white() -> None:
    pixels = np.dstack([random(), np.full((4, 6), 255, np.uint8)])
    pixels[0, 0, 3] = 0
    result = pixels_of(png(pixels), "a.png")
    assert result[0, 0].tolist() == [255, 255, 255]
    assert (result[1:] == pixels[1:, :, :3]).all()


def test_jpeg_and_gif_are_read_too() -> None:
    jpeg = pixels_of(RED_JPEG, "a.jpg").astype(int)
    assert jpeg.shape == (8, 8, 3)
    assert np.abs(jpeg - [200, 30, 60]).max() <= 3
    assert pixels_of(GREY_GIF, "a.gif").shape == (2, 3, 3)


def filtered(pixels: np.ndarray, kind: int) -> np.ndarray:
    """The prediction of each byte taken away, byte by byte as the standard says it."""
    rows, columns, channels = pixels.shape
    lines = np.zeros_like(pixels)
    for r in range(rows):
        for c in range(columns):
            for k in range(channels):
                left = int(pixels[r, c - 1, k]) if c else 0
                above = int(pixels[r - 1, c, k]) if r else 0
                between = int(pixels[r - 1, c - 1, k]) if r and c else 0
                near = left + above - between
                order = [(abs(near - left), 0, left), (abs(near - above), 1, above), (abs(near - between), 2, between)]
                message = [0, left, above, (left + above) // 2, min(order)[2]][kind]
                lines[r, c, k] = (int(pixels[r, c, k]) - message) % 256
    return lines


@pytest.mark.parametrize("kind", range(5))
def test_every_filter_of_a_png_is_undone(kind: int) -> None:
    pixels = random(5, 7)
    assert (_unfiltered(np.full(5, kind, np.uint8), filtered(pixels, kind)) == pixels).all()


def test_the_filters_of_lines_may_differ() -> None:
    pixels, kinds = random(5, 4), np.array([4, 0, 3, 1, 2], np.uint8)
    lines = np.stack([filtered(pixels, int(kind))[row] for row, kind in enumerate(kinds)])
    assert (_unfiltered(kinds, lines) == pixels).all()


def test_a_label_is_the_name_of_its_folder(tmp_path: Path) -> None:
    folder = pictures(tmp_path / "all", cat=[random(), random()], dog=[random()])
    (folder / "cat" / ".hidden").write_text("passed over")
    examples = list(ImageReader(patch=2).read(str(folder)))
    assert [(one.line, one.thing.name, one.label) for one in examples] == [
        (1, "0.png", "cat"),
        (2, "1.png", "cat"),
        (3, "0.png", "dog"),
    ]


def test_patches_go_from_left_to_right_and_down(tmp_path: Path) -> None:
    folder, pixels = pictures(tmp_path, a=[random()]), random()
    reader = ImageReader(patch=2)
    rows = reader.learn(reader.read(str(folder)))
    assert rows == ImageRows(patch=2, colour=True, grid=(2, 3))
    row = rows.row(folder / "a" / "0.png")
    assert row.places is not None
    assert row.places.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    np.testing.assert_allclose(row.values[4], pixels[2:4, 2:4].reshape(-1) / 127.5 - 1, atol=1e-6)
    rows.save(tmp_path)
    assert ImageRows.open(tmp_path) == rows


def test_grey_is_one_number_a_pixel(tmp_path: Path) -> None:
    folder = pictures(tmp_path, a=[random()])
    reader = ImageReader(patch=2, colour=False)
    row = reader.learn(reader.read(str(folder))).row(folder / "a" / "0.png")
    assert row.values.shape == (6, 4)
    first = round(random()[0, 0] @ [0.299, 0.587, 0.114]) / 127.5 - 1
    np.testing.assert_allclose(row.values[0, 0], first, atol=1e-5)


def read_all(folder: Path, patch: int) -> None:
    reader = ImageReader(patch=patch)
    rows = reader.learn(reader.read(str(folder)))
    for example in reader.read(str(folder)):
        rows.row(example.thing)


def refusal(folder: Path, patch: int = 2) -> str:
    with pytest.raises(DataError) as caught:
        read_all(folder, patch)
    return str(caught.value)


def test_a_picture_of_another_size_is_scaled_and_a_remark_says_so(tmp_path: Path) -> None:
    folder = pictures(tmp_path, a=[random()], b=[random(6, 6), random(8, 12)])
    reader = ImageReader(patch=2)
    rows = reader.learn(reader.read(str(folder)))
    one, other, same_shape = (rows.row(example.thing) for example in reader.read(str(folder)))
    assert (len(one), len(other), one.remarks) == (6, 6, ())
    assert other.remarks == ("another size than 6 × 4 pixels: scaled, and cut to the middle",)
    assert same_shape.remarks == ("another size than 6 × 4 pixels: scaled",)
    assert (rows.pixels(other.values) == fitted(random(6, 6), (4, 6), "crop")).all()


def test_patches_have_to_fit(tmp_path: Path) -> None:
    folder = pictures(tmp_path, a=[random()])
    assert "do not divide into squares of 3. Set reader.patch to one of 1, 2" in refusal(folder, patch=3)


def test_bad_folders_are_named(tmp_path: Path) -> None:
    assert "Give a folder that contains a folder of pictures for each label" in refusal(tmp_path / "none")
    folder = pictures(tmp_path / "all", a=[random()])
    (folder / "loose.png").write_bytes(png(random()))
    assert f"{folder / 'loose.png'} is not in a folder that names its label" in refusal(folder)
    (folder / "loose.png").rename(folder / "a" / "notes.txt")
    assert f"{folder / 'a' / 'notes.txt'} is not a picture that can be read (.bmp, .gif, .jpeg, .jpg, .pbm" in refusal(
        folder
    )
    (folder / "b").mkdir()
    (folder / "a" / "notes.txt").unlink()
    assert f"{folder / 'b'} is empty: no picture has this label" in refusal(folder)


def test_empty_lines_may_stand_before_a_table(tmp_path: Path) -> None:
    (tmp_path / "0.png").write_bytes(png(random()))
    table = tmp_path / "t.tsv"
    table.write_text("\n \npath\tlabel\n\n0.png\tx\n")
    assert PICTURES.is_table(str(table))
    (example,) = ImageReader().read(str(table))
    assert (example.line, example.label) == (5, "x")


@pytest.mark.parametrize("cut", [0, 5, 30, -1])
def test_a_damaged_picture_is_refused_by_name(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(png(random())[:cut])
    with pytest.raises(DataError) as caught:
        read_pixels(path)
    assert str(path) in str(caught.value)


def test_damage_inside_of_a_picture_is_refused(tmp_path: Path) -> None:
    data = bytearray(png(random(20, 20)))
    data[60:80] = bytes(20)
    with pytest.raises(DataError, match=r"^a\.png is "):
        pixels_of(bytes(data), "a.png")
    with pytest.raises(DataError, match=r"^a\.jpg is "):
        pixels_of(RED_JPEG[:-200], "a.jpg")


def test_a_huge_picture_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    assert image_file.LARGEST == 16_777_216
    monkeypatch.setattr(image_file, "LARGEST", 20)
    with pytest.raises(DataError, match="has 6 × 4 pixels, and at most 20 are read"):
        pixels_of(png(random()), "a.png")


def coloured(rows: int = 8, columns: int = 8, seed: int = 0) -> Picture:
    pixels = np.random.default_rng(seed).integers(0, 256, (rows, columns, 3)).astype(np.uint8)
    return Picture(f"picture {seed}", pixels)


def test_pixels_are_the_inverse_of_a_row() -> None:
    for rows in (
        ImageRows(patch=2, colour=True, grid=(4, 4)),
        ImageRows(patch=4, colour=True, grid=(2, 2), mean=(0.4, 0.5, 0.6), deviation=(0.2, 0.3, 0.25)),
    ):
        picture = coloured()
        assert (rows.pixels(rows.row(picture).values) == picture.pixels).all()


def test_normalisation_by_the_training_data_gives_mean_0_and_deviation_1() -> None:
    things = [Picture(str(seed), coloured(seed=seed).pixels // 2) for seed in range(5)]
    examples = [Example(line, thing, "a") for line, thing in enumerate(things, start=1)]
    rows = ImageReader(patch=2, normalisation="training").learn(examples)
    values = np.concatenate([rows.row(thing).values for thing in things]).reshape(-1, 3).astype(np.float64)
    assert np.abs(values.mean(0)).max() < 1e-5
    assert np.abs(values.std(0) - 1).max() < 1e-5
    assert isinstance(rows, RowMaker)
    assert isinstance(rows, Augmenting)


def test_a_constant_colour_is_only_centred() -> None:
    grey = Example(1, Picture("grey", np.full((4, 4, 3), 51, np.uint8)), "a")
    rows = ImageReader(patch=2, normalisation="training").learn([grey])
    assert rows.deviation == (1.0, 1.0, 1.0)
    assert np.abs(rows.row(grey.thing).values).max() < 1e-6


def test_stored_pictures_are_bytes_and_equal_the_rows_in_use(tmp_path: Path) -> None:
    rows = ImageRows(patch=2, colour=True, grid=(4, 4), mean=(0.485, 0.456, 0.406), deviation=(0.229, 0.224, 0.225))
    examples = [Example(line, coloured(seed=line), "ab"[line % 2]) for line in range(1, 40)]
    data, report = prepare_rows(tmp_path / "d", examples, rows, Labels(["a", "b"]), what="pictures", max_length=99)
    assert str(report) == "All 39 pictures are used."
    assert (tmp_path / "d/inputs/features.bin").stat().st_size == 39 * 8 * 8 * 3
    assert (tmp_path / "d/places/tokens.bin").stat().st_size == 16 * 2 * 4
    data = data.require_rows(Labels(["a", "b"]), rows.input)
    for number in (0, 38):
        row = rows.row(examples[number].thing)
        batch = data.rows([number]).rows
        assert np.array_equal(batch.features[0].numpy(), row.values)
        assert batch.places is not None
        assert row.places is not None
        assert np.array_equal(batch.places[0].numpy(), row.places)


def test_rows_of_earlier_versions_have_the_same_digest() -> None:
    rows = ImageRows(patch=2, colour=True, grid=(2, 3))
    assert rows._plain() == {"kind": "image", "patch": 2, "colour": True, "grid": [2, 3]}
    assert ImageRows(patch=2, colour=True, grid=(2, 3), fit="pad")._plain()["fit"] == "pad"


def test_rows_with_every_setting_are_stored(tmp_path: Path) -> None:
    augmentation = ImageAugmentationConfig(flip=True, padding=2, changes=1, mixup=0.2)
    rows = ImageRows(patch=2, colour=True, grid=(2, 3), fit="stretch", mean=(0.1, 0.2, 0.3), augmentation=augmentation)
    rows.save(tmp_path)
    assert ImageRows.open(tmp_path) == rows
    assert ImageRows.open(tmp_path).digests() == rows.digests()


@pytest.mark.parametrize(
    ("sizes", "size", "patch"),
    [
        ([(12, 12)], None, 2),
        ([(28, 28), (28, 28)], None, 4),
        ([(224, 224)], None, 28),
        ([(31, 31)], (24, 24), 3),
        ([(13, 17)], None, 1),
        ([(1, 100)], None, 1),
        ([(6, 100)], None, 2),
        ([(1024, 1024)], (64, 64), 8),
        ([(30, 40), (50, 45), (45, 60)], (40, 40), 5),
    ],
)
def test_size_and_patches_suit_the_pictures(
    sizes: list[tuple[int, int]], size: tuple[int, int] | None, patch: int
) -> None:
    sample = [Example(1, Picture("a", np.zeros((*one, 3), np.uint8)), "a") for one in sizes]
    suited = ImageReader().suited(sample)
    assert (suited.size, suited.patch, suited.colour) == (size, patch, False)
    assert suited.learn(sample).size == (size or sizes[0])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": (30, 28)}, "size must be multiples of patch, 4"),
        ({"mean": (0.5, 0.5)}, "mean and deviation need 1 or 3 numbers each"),
        ({"colour": False, "mean": (0.5, 0.5, 0.5)}, "mean and deviation need 1 numbers each"),
        ({"deviation": (0.0,)}, "deviation from 0.001 to 10"),
        ({"mean": (128.0,)}, "mean must be from 0 to 1"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImageReader(**settings)  # type: ignore[arg-type]


def test_a_table_names_pictures_with_labels_or_captions(tmp_path: Path) -> None:
    pictures(tmp_path, cat=[random(), random()])
    table = tmp_path / "all.tsv"
    table.write_text("cat/0.png\tcat\ncat/1.png\tdog\n")
    assert [(one.line, one.thing, one.label) for one in ImageReader().read(str(table))] == [
        (1, tmp_path / "cat/0.png", "cat"),
        (2, tmp_path / "cat/1.png", "dog"),
    ]
    table.write_text("path\tlabel\tcaption\ncat/0.png\tcat\ta cat sits\ncat/0.png\tcat\tit sleeps\n")
    assert [one.label for one in ImageReader().read(str(table))] == ["cat", "cat"]
    assert [one.label for one in ImageReader().captions(str(table))] == ["a cat sits", "it sleeps"]
    assert PICTURES.is_table(str(table))
    assert isinstance(reader_of(str(table)), ImageReader)
    table.write_text("Path\tLabel\nyes/0.wav\tyes\n")
    assert not PICTURES.is_table(str(table))
    assert isinstance(reader_of(str(table)), AudioReader)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a.png\n", "all.tsv:1: the line has 1 column: write the path of a picture, a tab and its label or text"),
        ("a.png\tcat\n\tcat\n", "all.tsv:2: the path is missing"),
        ("path\tlabel\na.png\t\n", "all.tsv:2: the label is missing: fill the column `label`."),
        ("path\tlabel\tcaption\na.png\tcat\ta cat\nb.png\t\ta dog\n", "all.tsv:3: the label is missing"),
        ("caption\tpath\ta label\na cat\n", "all.tsv:2: the path is missing: fill the column `path`."),
    ],
)
def test_a_wrong_line_of_a_table_is_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "all.tsv").write_text(content)
    with pytest.raises(DataError, match=re.escape(message)):
        list(ImageReader().read(str(tmp_path / "all.tsv")))


def test_an_empty_caption_is_neither_the_text_nor_the_label(tmp_path: Path) -> None:
    table = tmp_path / "all.tsv"
    table.write_text("path\tlabel\ttext\tcaption\na.png\tcat\tcats\ta cat sits\nb.png\tdog\tdogs\t\n")
    with pytest.raises(DataError, match=r"all\.tsv:3: the caption is missing: fill the column `caption`\."):
        list(ImageReader().captions(str(table)))
    assert [one.label for one in ImageReader().read(str(table))] == ["cat", "dog"]


def test_a_source_of_another_kind_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", inputs=np.eye(2), labels=["a", "b"])
    with pytest.raises(DataError, match=r"a\.npz has no pictures. Give a folder that contains a folder of pictures"):
        ImageReader().read(str(tmp_path / "a.npz"))
    with pytest.raises(DataError, match="Give a table: lines of a picture's path, a tab, and its caption"):
        ImageReader().captions(str(tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty has no pictures"):
        ImageRows(patch=2, colour=True, grid=(2, 3)).things(str(tmp_path / "empty"))


def test_a_table_with_other_names_of_columns_is_not_taken_for_texts(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    table.write_text("filename\tlabel\n0.png\tx\n1.png\ty\n")
    assert PICTURES.is_table(str(table))
    with pytest.raises(
        DataError, match=r"t.tsv:1: the first line names the columns 'filename', 'label'. A table needs"
    ):
        next(ImageReader().read(str(table)))
    table.write_text("\n\nfilename\tlabel\n0.png\tx\n1.png\ty\n")
    with pytest.raises(DataError, match=r"t.tsv:3: the first line names the columns 'filename'"):
        next(ImageReader().read(str(table)))
    table.write_text("a word.png\tx\nimage\ty\n")
    assert PICTURES.is_table(str(table))
    table.write_text("notes.txt\tx\n0.png\ty\n")
    assert not PICTURES.is_table(str(table))
