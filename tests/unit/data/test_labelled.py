"""Tagged sentences and labelled texts from files, and what is said about bad lines."""

import gzip
from pathlib import Path

import pytest

from foveate.data.label import Labels
from foveate.data.labelled import LabelledText, Tagged, read_labelled, read_tagged
from foveate.errors import DataError

SAW = Tagged(1, ("I", "saw", "a", "saw"), ("PRON", "VERB", "DET", "NOUN"))


def test_a_sentence_a_line_with_slashes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("I/PRON saw/VERB a/DET saw/NOUN\n\n1/2/NUM and//CC\n")
    assert list(read_tagged(tmp_path / "a.txt")) == [SAW, Tagged(3, ("1/2", "and/"), ("NUM", "CC"))]


def test_a_word_a_line_with_tabs_and_remarks(tmp_path: Path) -> None:
    text = "# text = I saw\nI\tPRON\nsaw\tVERB\na\tDET\nsaw\tNOUN\n\n\n#\tSYM\nx/y\tX"
    (tmp_path / "a.tsv.gz").write_bytes(gzip.compress(text.encode()))
    expected = [Tagged(2, *SAW[1:]), Tagged(8, ("#", "x/y"), ("SYM", "X"))]
    assert list(read_tagged(tmp_path / "a.tsv.gz")) == expected


def test_other_columns_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("1\tI\ti\tPRON\n2\tsaw\tsee\tVERB\n")
    assert list(read_tagged(tmp_path / "a.conll", columns=(1, 3))) == [Tagged(1, ("I", "saw"), ("PRON", "VERB"))]


def test_of_conllu_every_word_is_read_once(tmp_path: Path) -> None:
    rows = [("1-2", "du", "_"), ("1", "de", "ADP"), ("2", "le", "DET"), ("2.1", "pain", "NOUN"), ("3", "riz", "NOUN")]
    lines = ["\t".join([number, word, "_", tag, *6 * ["_"]]) for number, word, tag in rows]
    (tmp_path / "a.conllu").write_text("\n".join(["# text = du riz", *lines, "", ""]))
    expected = Tagged(3, ("de", "le", "riz"), ("ADP", "DET", "NOUN"))
    assert list(read_tagged(tmp_path / "a.conllu", columns=(1, 3))) == [expected]
    (tmp_path / "a.tsv").write_text("1.5\tfast\tADV\n")
    assert list(read_tagged(tmp_path / "a.tsv", columns=(1, 2))) == [Tagged(1, ("fast",), ("ADV",))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a/D saw/N\na/D saw\n", ":2: 'saw' has no tag. Write word/tag, or a word and its tag with a tab between."),
        ("/N\n", ":1: '/N' has no tag"),
        ("a\tD\nsaw\n", ":2: 'saw' has nothing in column 1 (counted from 0). Write word, tab, tag."),
        ("a\tD\n\tN\n", ":2: 'N' has nothing in column 0"),
        ("New York\tLOC\n", ":1: 'New York' is more than one word. Give each word its own line and tag."),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(DataError) as caught:
        list(read_tagged(tmp_path / "a.txt"))
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "a.txt"))


def test_texts_are_read_with_labels(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("very good\tpositive\n\ndull\tnegative \n")
    expected = [LabelledText(1, "very good", "positive"), LabelledText(3, "dull", "negative")]
    assert list(read_labelled(tmp_path / "a.tsv")) == expected


def test_a_text_without_a_label_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("very good\tpositive\ndull\t\n")
    with pytest.raises(DataError, match=r"a\.tsv:2: there is no label\. Write the text, a tab, and the label\."):
        list(read_labelled(tmp_path / "a.tsv"))
    (tmp_path / "b.tsv").write_text("very good\n")
    with pytest.raises(DataError, match=r"b\.tsv:1: .* between them; write the text, a tab, and the label\.$"):
        list(read_labelled(tmp_path / "b.tsv"))


def test_labels_come_back_and_damage_is_seen(tmp_path: Path) -> None:
    labels = Labels.of(["b", "a", "b", "c"])
    assert labels.names == ("b", "a", "c")
    labels.save(tmp_path / "labels.json")
    assert Labels.load(tmp_path / "labels.json").names == labels.names
    (tmp_path / "labels.json").write_text((tmp_path / "labels.json").read_text().replace('"c"', '"d"'))
    with pytest.raises(DataError, match="damaged"):
        Labels.load(tmp_path / "labels.json")


def test_an_unknown_label_is_named_with_those_there_are() -> None:
    with pytest.raises(DataError) as caught:
        Labels.of(["NOUN", "VERB"]).encode("NOUM", "test.txt:7")
    expected = (
        "test.txt:7: the label 'NOUM' is not in the training data. Did you mean 'NOUN'? Choose one of: NOUN, VERB."
    )
    assert str(caught.value) == expected
