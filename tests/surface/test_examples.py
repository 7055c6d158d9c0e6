"""Every example runs, at a small size: examples are documentation, and documentation has to be true."""

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from foveate import machine
from foveate.cli.setup import resolve, task_of
from foveate.tasks import TASKS

EXAMPLES = Path(__file__).parents[2] / "examples"
RUNS = sorted(EXAMPLES.glob("*/run.py"))
CONFIGURATIONS = sorted(EXAMPLES.glob("*/*.toml"))


def load(name: str) -> ModuleType:
    """`examples/<name>/run.py` as a module."""
    return load_file(EXAMPLES / name / "run.py")


def load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{path.parent.name}_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs an example in an empty folder, as `python examples/<name>/run.py --small …` would, on an untuned machine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(machine, "tune", machine.current)
    return lambda name, *arguments: load(name).main(["--small", *arguments])


def test_every_example_has_a_test() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("test_*.py"))
    assert not [name for name in (path.parent.name for path in RUNS) if not re.search(rf'["/]{name}["/]', tests)]


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.parent.name)
def test_an_example_says_what_it_shows_and_how_to_run_it(path: Path) -> None:
    said = load(path.parent.name).__doc__
    assert said is not None
    assert f"python examples/{path.parent.name}/run.py" in said


@pytest.mark.parametrize("path", CONFIGURATIONS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_configuration_of_an_example_loads(path: Path) -> None:
    kind = TASKS[task_of(str(path)) or "translate"].side.run_config
    assert resolve({}, str(path), {}, [], kind=kind).train.steps > 0


def test_the_demo_trains_scores_draws_and_reports(
    example: Callable[..., Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert example("pronunciation", "--out", "out") == 0
    said = capfd.readouterr().out
    report = (tmp_path / "out/report.html").read_text(encoding="utf-8")
    assert "PER" in said
    assert "all attention" in said
    assert 'translate out/run "foveate" --align' in said
    for part in ("Training", "Scores", "Samples", "Model card", "PER", "<svg"):
        assert part in report
    assert "://" not in report.replace("http://www.w3.org/2000/svg", "")


def test_the_demo_goes_on_after_an_interruption_and_leaves_a_finished_training_as_it_is(
    example: Callable[..., Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    example("pronunciation", "--out", "out")
    weights = tmp_path / "out/run/model.safetensors"
    before = weights.read_bytes()
    for path in (weights, weights.with_name("model.json")):
        path.unlink()
    for expected in ("was interrupted and continues", "is trained already"):
        capfd.readouterr()
        assert example("pronunciation", "--out", "out") == 0
        assert expected in capfd.readouterr().out
        assert weights.read_bytes() == before


def test_verses_are_translated_and_drawn(example: Callable[..., Any], tmp_path: Path) -> None:
    assert example("verses", "--source", "persian", "--target", "english", "--out", "out") == 0
    assert (tmp_path / "out/alignment-1.svg").read_text(encoding="utf-8").startswith("<svg")


def test_no_book_of_the_verses_is_on_two_sides(tmp_path: Path) -> None:
    verses = load("verses")
    verses.split(tmp_path, "english", "german", most=None)
    lines = {part: (tmp_path / f"{part}.tsv").read_text("utf-8").splitlines() for part in ("train", "valid", "test")}
    assert not verses.VALID_BOOKS & verses.TEST_BOOKS
    assert sum(map(len, lines.values())) == 5706
    assert min(map(len, lines.values())) >= 300


@pytest.mark.parametrize("rule", ["copy", "reverse", "sort"])
def test_the_toy_rules_run(example: Callable[..., Any], rule: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert 0.0 <= example("reverse", "--rule", rule) <= 1.0
    assert "links (source-target)" in capfd.readouterr().out


def test_the_bottleneck_is_measured_by_length_and_drawn(example: Callable[..., Any], tmp_path: Path) -> None:
    curves = example("bottleneck", "--out", "out")
    assert set(curves) == {"fixed context", "Bahdanau"}
    for curve in curves.values():
        assert list(curve) == [5, 10, 15, 20, 25, 30, 35, 40]
    assert (tmp_path / "out/accuracy.svg").read_text(encoding="utf-8").startswith("<svg")


def test_the_bottleneck_compares_translations_on_request(example: Callable[..., Any], tmp_path: Path) -> None:
    rows = "".join(f"a{letter} b{letter} c{letter}\tx{letter} y{letter} z{letter}\n" for letter in "defghijklmnopq")
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.tsv").write_text(rows, encoding="utf-8")
    curves = example("bottleneck", "--data", str(tmp_path), "--out", "out")
    assert set(curves["Bahdanau"]) == {4}


def test_the_bottleneck_takes_no_model_of_other_data_for_its_own(
    example: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("letters", "words"):
        (tmp_path / name).mkdir()
        for part in ("train", "valid", "test"):
            rows = "".join(f"{name} {letter}\tx{letter}\n" for letter in "defghijklmnopq")
            (tmp_path / name / f"{part}.tsv").write_text(rows, encoding="utf-8")
    example("bottleneck", "--out", "out")
    assert set(example("bottleneck", "--data", "words", "--out", "out")["Bahdanau"]) == {4}
    vocabulary = (tmp_path / "out/sentences/Bahdanau-small/source.tokeniser.json").read_text(encoding="utf-8")
    assert "letters" not in vocabulary
    with pytest.raises(SystemExit, match="Give another --out"):
        example("bottleneck", "--data", "letters", "--out", "out")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bottleneck", ()),
        ("documents", ("--model", "transformer_start")),
        ("forgetting", ()),
        ("languages", ()),
        ("tagging", ("--encoder", "word")),
        ("verses", ("--source", "german")),
    ],
)
def test_a_model_of_few_steps_is_not_taken_for_a_trained_one(
    example: Callable[..., Any], name: str, options: tuple[str, ...], tmp_path: Path
) -> None:
    example(name, *options, "--out", "out")
    runs = {path.parent.name for path in (tmp_path / "out").rglob("model.json")}
    assert runs
    assert all(run.endswith("-small") for run in runs)


def test_every_encoder_tags_the_sentence(example: Callable[..., Any], capfd: pytest.CaptureFixture[str]) -> None:
    results = example("tagging", "--out", "out")
    assert set(results) == {"word", "window", "cnn", "rnn", "transformer", "ran"}
    assert all(len(said.tags) == 4 for _, said in results.values())
    assert "I saw a saw" in capfd.readouterr().out


def test_languages_are_distinguished_and_shown(example: Callable[..., Any], capfd: pytest.CaptureFixture[str]) -> None:
    assert example("languages", "--out", "out") == 0
    said = capfd.readouterr().out
    assert "accuracy = " in said
    assert "characters shown" in said


def test_forgetting_is_measured_for_every_cell_and_drawn(example: Callable[..., Any], tmp_path: Path) -> None:
    curves = example("forgetting", "--out", "out")
    assert list(curves) == [f"{cell}, {age}" for cell in ("rnn", "gru", "lstm") for age in ("fresh", "trained")]
    for name, curve in curves.items():
        assert len(curve) == 61
        assert curve[60] < 1e-3 * curve[0] or "trained" in name
    assert (tmp_path / "out/gradients.svg").read_text(encoding="utf-8").startswith("<svg")


def test_long_documents_are_read_whole_and_from_their_start(example: Callable[..., Any], tmp_path: Path) -> None:
    shares = example("documents", "--out", "out", "--model", "ran", "--model", "transformer_start")
    assert {name: len(row) for name, row in shares.items()} == {"ran": 5, "transformer_start": 5}
    for length in (128, 2048):
        lines = (tmp_path / f"out/data/test-{length}.tsv").read_text(encoding="utf-8").splitlines()
        tested = [line.split("\t") for line in lines]
        assert {label for _, label in tested} == {"French", "German", "Russian", "Persian"}
        assert all(abs(len(text.split()) - length) < 40 for text, _ in tested)
    starts = (tmp_path / "out/data/train-start.tsv").read_text(encoding="utf-8").splitlines()
    assert max(len(line.split("\t")[0].split()) for line in starts) == 128


@pytest.mark.parametrize(
    ("script", "task", "suffix"), [("classifying/sentiment", "classify", "tsv"), ("tagging/addresses", "tag", "txt")]
)
def test_a_sample_stands_in_for_data_that_are_fetched(
    script: str, task: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, foveate: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    path = EXAMPLES / f"{script}.py"
    assert load_file(path).main([path.stem, "--sample"]) == 0
    parts = [set((Path(path.stem) / f"{part}.{suffix}").read_text().splitlines()) for part in ("train", "test")]
    assert all(parts)
    assert not parts[0] & parts[1]
    settings = ("--no-tune", "--set", "train.steps=2", "--set", "train.validate_every=1")
    said = foveate("train", task, path.with_suffix(".toml"), "--out", "run", *settings)
    assert said.code == 0, said.err
    said = foveate("evaluate", "run", "--data", f"{path.stem}/test.{suffix}", "--no-tune")
    assert said.out.startswith("accuracy = ")
    assert ("span F1" in said.out) == (task == "tag")


def test_ratings_become_labels_by_their_sign_and_addresses_spans_by_their_neighbours(tmp_path: Path) -> None:
    ratings = tmp_path / "ratings.txt"
    ratings.write_text("1\t2.5\tIt's GOOD, really.\r\n2\t-0.1\tMeh\r\n3\t0.0\tA film\r\n")
    found = load_file(EXAMPLES / "classifying/sentiment.py").snippets(ratings)
    assert [(one.text, one.label) for one in found] == [("it's good , really .", "praise"), ("meh", "blame")]
    labelled = tmp_path / "labelled.xml"
    labelled.write_text(
        "<AddressCollection><AddressString><AddressNumber>1</AddressNumber> <StreetName>El</StreetName> "
        "<StreetName>Rey</StreetName> <ZipCode>9/1</ZipCode></AddressString></AddressCollection>"
    )
    (address,) = load_file(EXAMPLES / "tagging/addresses.py").labelled(labelled)
    assert address.words == ("1", "El", "Rey", "9/1")
    assert address.tags == ("B-AddressNumber", "B-StreetName", "I-StreetName", "B-ZipCode")


def test_brown_gives_few_sentences_with_tags_and_all_without(tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    for number in range(1, 12):
        (tmp_path / f"corpus/ca{number:02}").write_text(
            "\n".join(["\tThe/at old/jj saw/nn ./.", "It/pps saw/vbd"] * 10)
        )
    load_file(EXAMPLES / "tagging/brown.py").main([str(tmp_path / "corpus"), str(tmp_path / "out")])
    few, text = ((tmp_path / f"out/{name}.txt").read_text().splitlines() for name in ("few", "text"))
    assert few == ["The/DETERMINER old/ADJECTIVE saw/NOUN ./PUNCTUATION"] * 2
    assert len(text) == 8 * 20
    assert set(text) == {"The old saw .", "It saw"}
