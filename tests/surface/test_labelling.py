"""The way of a user through tagging and classifying: train with nothing but data, resume, label, score, report."""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from foveate.cli.setup import resolve
from foveate.config import build, read_toml, to_dict, to_toml
from foveate.tasks import TASKS

SMALL = ("--no-tune", "--threads", "1")
SIZES = ("--set", "model.encoder.hidden_dim=8", "--set", "model.embedding_dim=8", "--set", "train.log_every=5")
STEPS = (
    "--set",
    "train.steps=60",
    "--set",
    "train.validate_every=30",
    "--set",
    "train.save_every=30",
    "--set",
    "train.learning_rate=0.01",
)


@pytest.fixture(scope="module")
def tagged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters are vowels or consonants, digits are numbers; each stands alone."""
    generator = random.Random(1)
    kinds = {"V": "aeiou", "C": "bcdfg", "N": "12345"}
    tag_of = {word: tag for tag, words in kinds.items() for word in words}
    path = tmp_path_factory.mktemp("tagged") / "tagged.txt"
    drawn = (generator.choices([*tag_of], k=generator.randint(2, 6)) for _ in range(200))
    path.write_text("".join(" ".join(f"{word}/{tag_of[word]}" for word in words) + "\n" for words in drawn))
    return path


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labelled") / "texts.tsv"
    pair = ("{0}{0}x{1}", "{1}{0}o{0}")
    rows = (f"{pair[i % 2].format(a, b)}\t{('cross', 'nought')[i % 2]}\n" for i, (a, b) in enumerate(_letters(120)))
    path.write_text("".join(rows))
    return path


def _letters(count: int) -> list[tuple[str, str]]:
    generator = random.Random(2)
    return [(generator.choice("abcdef"), generator.choice("ghijk")) for _ in range(count)]


@pytest.fixture(scope="module")
def tagger(tagged: Path, foveate: Any) -> Path:
    run = tagged.parent / "run"
    said = foveate("train", "tag", "--data", tagged, "--out", run, *SMALL, *SIZES, *STEPS)
    assert said.code == 0, said.err
    assert re.search(r"200 sentences, \d+ words \(15 different\), 3 tags\.", said.err)
    assert f'Try:  foveate tag {run} "…"' in said.err
    return run


@pytest.fixture(scope="module")
def classifier(labelled: Path, foveate: Any) -> Path:
    run = labelled.parent / "run"
    said = foveate("train", "classify", "--data", labelled, "--out", run, *SMALL, *SIZES, *STEPS)
    assert said.code == 0, said.err
    assert "tokeniser: single words, so characters" in said.err
    return run


def test_words_are_tagged_from_the_command_line_and_from_standard_input(foveate: Any, tagger: Path) -> None:
    assert foveate("tag", tagger, "a b 1", "--no-tune").out == "a/V b/C 1/N\n"
    assert foveate("tag", tagger, "--no-tune", stdin=b"a b 1\n\ne\n").out == "a/V b/C 1/N\n\ne/V\n"
    assert foveate("tag", tagger, "-", "--no-tune", stdin=b"a b 1\n").out == "a/V b/C 1/N\n"
    rows = foveate("tag", tagger, "a b", "--columns", "--no-tune").out.split("\n")
    assert [row.split("\t")[:2] for row in rows[:2]] == [["a", "V"], ["b", "C"]]
    assert rows[2:] == ["", ""]


def test_texts_are_classified_and_shown(foveate: Any, classifier: Path) -> None:
    assert foveate("classify", classifier, "aaxg", "gaoa", "", "--no-tune").out == "cross\nnought\n\n"
    shares = foveate("classify", classifier, "aaxg", "--probabilities", "--no-tune").out.rstrip().split("\t")
    assert [share.split()[1] for share in shares] == ["cross", "nought"]
    drawn = foveate("classify", classifier, "aaxg", "--look", "--no-tune").out
    assert "cross" in drawn.split("\n", 1)[1]


def test_a_file_is_scored_class_by_class(foveate: Any, tagger: Path, tagged: Path, tmp_path: Path) -> None:
    files = ("--save", tmp_path / "out.txt", "--report", tmp_path / "report.html")
    said = foveate("evaluate", tagger, "--data", tagged, "--no-tune", "--json", "--per-class", *files)
    assert said.code == 0, said.err
    scores = json.loads(said.out)
    assert {"accuracy", "F1", "F1 of V", "F1 of C", "F1 of N"} == set(scores)
    assert scores["accuracy"]["value"] > 90
    assert len((tmp_path / "out.txt").read_text().splitlines()) == 200
    assert "F1 of V" in (tmp_path / "report.html").read_text()


def test_words_never_seen_are_scored_alone(foveate: Any, tagger: Path, tmp_path: Path) -> None:
    (tmp_path / "new.txt").write_text("a/V zebra/C\n")
    said = foveate("evaluate", tagger, "--data", tmp_path / "new.txt", "--no-tune")
    assert "accuracy of unknown words|words:1 = " in said.out


def test_labels_that_a_model_never_gives_are_named(
    foveate: Any, tagger: Path, classifier: Path, tmp_path: Path
) -> None:
    (tmp_path / "tags.txt").write_text("a/V zebra/X\na/V\nb/Y c/X\n")
    said = foveate("evaluate", tagger, "--data", tmp_path / "tags.txt", "--no-tune")
    assert "Labels that the model was not trained with, and never gives: 'X', 'Y' (in 2 of 3 examples)." in said.err
    (tmp_path / "labels.txt").write_text("aaxg\tcross\n")
    said = foveate("evaluate", classifier, "--data", tmp_path / "labels.txt", "--no-tune")
    assert "never gives" not in said.err


def test_a_classifier_is_scored_and_its_report_shows_what_it_looked_at(
    foveate: Any, classifier: Path, labelled: Path
) -> None:
    said = foveate("evaluate", classifier, "--data", labelled, "--no-tune")
    assert said.out.startswith("accuracy = ")
    report = (classifier / "report.html").read_text()
    assert "Alignment" in report
    assert "F1 of cross" in report


def test_a_finished_run_resumes_as_its_own_task(foveate: Any, tagger: Path, classifier: Path) -> None:
    for run in (tagger, classifier):
        before = (run / "model.safetensors").read_bytes()
        said = foveate("resume", run, *SMALL)
        assert said.code == 0, said.err
        assert "Finished before: all 60 steps are done" in said.err
        assert (run / "model.safetensors").read_bytes() == before


def test_a_run_of_another_task_is_refused_by_name(foveate: Any, tagger: Path, classifier: Path) -> None:
    for command, run, task in (
        ("tag", classifier, "classify"),
        ("classify", tagger, "tag"),
        ("translate", tagger, "tag"),
    ):
        said = foveate(command, run, "a", "--no-tune")
        assert said.code == 2
        assert f"is a run of the task {task}" in said.err


def test_a_bad_line_is_named(foveate: Any, tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_text("a/V b/C\na b/C\n")
    said = foveate("train", "tag", "--data", tmp_path / "bad.txt", "--out", tmp_path / "run", *SMALL)
    assert said.code == 3
    assert f"{tmp_path / 'bad.txt'}:2: 'a' has no tag." in said.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("encoder", ["rnn", "cnn", "window", "transformer", "ran"])
def test_a_configuration_names_every_encoder_and_comes_back_from_toml(encoder: str, tmp_path: Path) -> None:
    for task in ("tag", "classify"):
        config = resolve({}, None, {}, [f"model.encoder={encoder}", "seed=3"], kind=TASKS[task].side.run_config)
        assert type(config.model.encoder).kind == encoder
        (tmp_path / "run.toml").write_text(to_toml(config))
        assert build(type(config), read_toml(tmp_path / "run.toml")) == config
        assert build(type(config), to_dict(config)) == config


@pytest.mark.parametrize("pooling", ["attention", "mean", "max", "first"])
def test_a_configuration_names_every_pooling(pooling: str) -> None:
    config = resolve({}, None, {}, [f"model.pooling={pooling}"], kind=TASKS["classify"].side.run_config)
    assert type(config.model.pooling).kind == pooling


def test_examples_beyond_the_positions_are_missing_in_the_report_as_in_validation(
    foveate: Any, tagged: Path, labelled: Path, tmp_path: Path
) -> None:
    wide = "model_dim=8,num_heads=2,feedforward_dim=8"
    for task, data, longest in (("tag", tagged, 5), ("classify", labelled, 6)):
        valid = tmp_path / f"{task}.txt"
        short = data.read_text().splitlines()[:4]
        valid.write_text("\n".join([*short, *{"tag": ["a/V " * 9], "classify": ["abcdefghi\tcross"]}[task]]) + "\n")
        position = f'position={{kind="learned",max_length={longest}}}'
        encoder = f'model.encoder={{kind="transformer",num_layers=1,block={{{wide}}},{position}}}'
        said = foveate(
            *("train", task, "--data", data, "--valid-data", valid, "--out", tmp_path / task, *SMALL),
            *("--set", encoder, "--set", "model.embedding_dim=8", "--set", "train.steps=2"),
        )
        assert said.code == 0, said.err
        used = re.search(r"valid: (\d) of 5", said.err)
        assert used is not None
        report = (tmp_path / task / "report.html").read_text()
        assert f"validation, {used[1]} " in report
        rates = ("--vary", "train.learning_rate=0.01,0.02", "--seeds", "1", "--out", tmp_path / f"compared {task}")
        said = foveate(
            *("compare", task, "--data", data, "--valid-data", valid, *rates, *SMALL),
            *("--set", encoder, "--set", "model.embedding_dim=8", "--set", "train.steps=2"),
        )
        assert said.code == 0, said.err


@pytest.mark.parametrize("change", ["gone", "shorter", "other labels"])
def test_a_report_is_of_the_data_that_the_run_began_with(
    change: str, foveate: Any, classifier: Path, labelled: Path, tmp_path: Path
) -> None:
    texts = labelled.read_text()
    run = Path(shutil.copytree(classifier, tmp_path / "run"))
    lines = texts.splitlines(keepends=True)
    try:
        if change == "gone":
            labelled.unlink()
        else:
            labelled.write_text("".join(lines[:50]) if change == "shorter" else "".join(lines[1:] + lines[:1]))
        said = foveate("report", run, "--no-tune")
        assert (said.code, "has changed since the run began" in said.err or "no such file" in said.err) == (3, True)
        said = foveate("resume", run, "--no-tune", "--set", "train.steps=61")
        assert said.code == 0, said.err
        assert f"The model is in {run}, without a report of this training: {labelled}" in said.err
    finally:
        labelled.write_text(texts)
    assert foveate("report", run, "--no-tune").code == 0
