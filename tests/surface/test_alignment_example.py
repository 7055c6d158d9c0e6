"""The example with gold links: its data are read rightly, its table is made, its pictures are drawn."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from foveate.data.text import read_lines

FOLDER = Path(__file__).parents[2] / "examples" / "alignment"
SLICE = FOLDER.parent / "data" / "alignment.tsv.xz"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"alignment_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Two verses as the package writes them; one link leaves its verse, one mark is left out."""
    prepare = load("prepare")
    greek = ["id\ttext\tlemma", "n41001001001\tἈρχὴ\tἀρχή", "n41001001002\tτοῦ\tὁ", "n43001001001\tἘν\tἐν"]
    english = ["id\tsource_verse\ttext\texclude", "41001001001\t41001001\tThe\t", "41001001002\t41001001\t,\ty"]
    english += ["41001001003\t41001001\tbeginning\t", "43001001001\t43001001\tIn\t"]
    links = [(["n41001001001"], ["41001001001", "41001001003"]), (["n41001001002"], ["43001001001"])]
    links += [(["n43001001001"], ["43001001001"])]
    records = {"records": [{"source": source, "target": target} for source, target in links]}
    texts = {prepare.GREEK: "\n".join(greek), prepare.ENGLISH: "\n".join(english), prepare.LINKS: json.dumps(records)}
    for path, text in texts.items():
        (tmp_path / "data" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / path).write_text(text, encoding="utf-8")
    return tmp_path / "data"


def test_links_are_numbers_of_words_without_punctuation(
    package: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert load("prepare").main([str(package), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out/train.tsv").read_text("utf-8") == "Ἀρχὴ τοῦ\tThe beginning\t0-0 0-1\t41001001\n"
    assert (tmp_path / "out/test.tsv").read_text("utf-8") == "Ἐν\tIn\t0-0\t43001001\n"
    assert (tmp_path / "out/test.links").read_text("utf-8") == "0-0\n"
    assert "1 links between words of different verses are left out" in capfd.readouterr().out


def test_words_may_be_those_of_a_dictionary(package: Path, tmp_path: Path) -> None:
    load("prepare").main([str(package), str(tmp_path / "out"), "--lower", "--lemma"])
    assert (tmp_path / "out/train.tsv").read_text("utf-8") == "ἀρχή ὁ\tthe beginning\t0-0 0-1\t41001001\n"


def test_the_bundled_letters_are_verses_with_links_to_words_that_are_there() -> None:
    lines = [line.split("\t") for line in read_lines(SLICE)]
    assert len(lines) == 499
    assert {key[:2] for *_, key in lines} == {"48", "49", "50", "51"}
    for greek, english, links, _ in lines:
        pairs = [tuple(map(int, link.split("-"))) for link in links.split()]
        assert pairs
        assert max(i for i, _ in pairs) < len(greek.split())
        assert max(j for _, j in pairs) < len(english.split())


def test_the_table_has_a_line_for_every_way_and_is_not_measured_twice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    run = load("run")
    arguments = ["--small", "--only", "luong general,transformer", "--guides", "none,ibm", "--out", str(tmp_path)]
    assert run.main(arguments) == 0
    table = (tmp_path / "table.md").read_text("utf-8")
    assert [line.split(" | ")[0].strip("| ") for line in table.splitlines()[2:5]] == [
        *("diagonal", "IBM", "IBM, test text too")
    ]
    assert table.count("| transformer | none |") == table.count("| transformer | ibm |") == 3
    assert table.count("| luong general |") == 2
    assert (tmp_path / "transformer-ibm.svg").read_text("utf-8").startswith("<svg")
    capfd.readouterr()
    assert run.main(arguments) == 0
    assert capfd.readouterr().out == f"{table}\n"
    with pytest.raises(SystemExit, match="of other data"):  # all verses, whose results are others
        run.main(["--only", "none of all", "--out", str(tmp_path)])


def test_links_are_found_in_ones_own_text(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs.tsv").write_text("la maison\tthe house\nla fleur\tthe flower\n")
    assert load("ibm").main([str(tmp_path / "pairs.tsv")]) == 0
    assert capfd.readouterr().out == "0-0 1-1\n0-0 1-1\n"
