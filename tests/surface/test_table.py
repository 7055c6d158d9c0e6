"""Which columns of a table are read is said or plain to see; a folder with other files is not trained in."""

import os
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from foveate.storage.manifest import read_json

QUICK = ("--no-tune", "--threads", "1", "--set", "train.steps=1", "--set", "data.held_out=2")
KEYED = "".join(f"({number}, 1)\tab{'ab'[number % 2]}\tx{'xy'[number % 2]}\n" for number in range(40))
TRAIN = {
    "translate": ("--source", KEYED, ("source", "target")),
    "classify": ("--data", KEYED, ("text", "label")),
    "tag": ("--data", KEYED, ("word", "tag")),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "keyed.tsv").write_text(KEYED)
    return tmp_path / "keyed.tsv"


@pytest.mark.parametrize("task", TRAIN)
def test_a_table_of_three_columns_is_refused_with_its_columns_shown(
    foveate: Any, task: str, table: Path, tmp_path: Path
) -> None:
    option, _, names = TRAIN[task]
    said = foveate("train", task, option, table, "--out", tmp_path / "run", *QUICK)
    assert said.code == 3, said.err
    assert (
        f"{table}:1: the line has 3 columns, and nothing says which of them hold {names[0]} and {names[1]}" in said.err
    )
    assert "  0: '(0, 1)'\n  1: 'aba'\n  2: 'xx'\n" in said.err
    assert "--columns A,B" in said.err
    assert not (tmp_path / "run").exists()
    by_file = tmp_path / "run.toml"
    by_file.write_text(f'[data]\n{option[2:]} = "{table}"\n')
    assert foveate("train", task, by_file, "--out", tmp_path / "run", *QUICK).code == 3


@pytest.mark.parametrize("task", TRAIN)
@pytest.mark.parametrize("chosen", [("--columns", "1,2"), ("--set", "data.columns=[1, 2]")])
def test_the_chosen_columns_are_read_and_printed(
    foveate: Any, task: str, chosen: tuple[str, str], table: Path, tmp_path: Path
) -> None:
    option, _, names = TRAIN[task]
    if task == "tag":
        table.write_text(KEYED.replace("0, 1)", "0, 1)", 1))
    said = foveate("train", task, option, table, *chosen, "--out", tmp_path / "run", *QUICK)
    assert said.code in (0, 3), said.err
    if task == "tag":  # all words are one sentence: too few to hold one out, but read as words and tags
        assert "1 example: too few" in said.err
        return
    assert said.code == 0, said.err
    taken = f"{names[0]} is column 1, in the first line 'aba'; {names[1]} is column 2, in the first line 'xx'."
    assert taken in said.err
    assert read_json(tmp_path / "run" / "config.json")["config"]["data"]["columns"] == [1, 2]
    scored = foveate("evaluate", tmp_path / "run", option, table, "--no-tune")
    assert scored.code == 0, scored.err
    two = tmp_path / "two.tsv"
    two.write_text("aba\txx\nabb\txy\n")
    assert foveate("evaluate", tmp_path / "run", option, two, "--no-tune").out != ""


def test_columns_go_with_a_table(foveate: Any, corpus: Path, tmp_path: Path) -> None:
    both = ("--source", corpus / "source.txt", "--target", corpus / "target.txt", "--columns", "1,2")
    said = foveate("train", "translate", *both, "--out", tmp_path / "run")
    assert (said.code, "--columns is for one tab-separated file" in said.err) == (2, True)
    said = foveate("train", "language_model", "--text", corpus / "source.txt", "--columns", "1,2", "--out", tmp_path)
    assert (said.code, "language_model reads lines, not columns" in said.err) == (2, True)
    said = foveate("train", "translate", "--source", corpus / "pairs.tsv", "--columns", "1", "--out", tmp_path)
    assert (said.code, "must be two columns, counted from 0, like 1,2" in said.err) == (2, True)


def test_an_evaluation_of_a_larger_table_asks_too(foveate: Any, trained: Path, table: Path) -> None:
    said = foveate("evaluate", trained, "--source", table, "--no-tune")
    assert (said.code, "nothing says which of them hold source and target" in said.err) == (3, True), said.err
    said = foveate("evaluate", trained, "--source", table, "--columns", "1,2", "--no-tune", "--metrics", "word_error")
    assert said.code == 0, said.err


def test_a_comparison_of_a_larger_table_asks_too(foveate: Any, table: Path, tmp_path: Path) -> None:
    words = ("compare", "classify", "--data", table, "--vary", "seed=1,2", "--out", tmp_path / "out", "--no-tune")
    said = foveate(*words)
    assert (said.code, "nothing says which of them hold text and label" in said.err) == (3, True), said.err


def test_an_empty_cell_does_not_count_as_a_column(foveate: Any, tmp_path: Path) -> None:
    (tmp_path / "tail.tsv").write_text("ab\tba\t\n" * 20 + "ab\tba\n")
    said = foveate("train", "translate", "--source", tmp_path / "tail.tsv", "--out", tmp_path / "run", *QUICK)
    assert said.code == 0, said.err


def test_a_folder_with_other_files_is_not_trained_in(foveate: Any, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    before = set(tmp_path.iterdir())
    said = foveate("train", "translate", "--source", corpus / "pairs.tsv", "--out", tmp_path, *QUICK)
    assert said.code == 2
    assert f"{tmp_path} is not empty and does not contain a run: it has thesis.tex." in said.err
    assert f"{tmp_path / 'run'}" in said.err
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("task", ["translate", "language_model", "tag", "classify"])
def test_a_pipe_is_refused_in_words(foveate: Any, task: str, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    option = {"translate": "--source", "language_model": "--text"}.get(task, "--data")
    for words in ((option, pipe), (f"{tmp_path}/run.toml",)):
        (tmp_path / "run.toml").write_text(f'[data]\n{option[2:]} = "{pipe}"\n')
        writer = threading.Thread(target=_write, args=(pipe,), daemon=True)
        writer.start()
        said = foveate("train", task, *words, "--out", tmp_path / "run", *QUICK)
        assert (said.code, "is a pipe, and training reads its data several times" in said.err) == (2, True), said.err


def _write(pipe: Path) -> None:
    descriptor = os.open(pipe, os.O_RDWR)  # opens without a reader
    os.write(descriptor, b"a\tb\n" * 20)


def test_a_plan_reads_the_data_and_says_what_training_would_choose(foveate: Any, corpus: Path, tmp_path: Path) -> None:
    files = ("--source", corpus / "source.txt", "--target", corpus / "target.txt")
    said = foveate("plan", "translate", *files, "--threads", "1", "--no-tune")
    assert said.code == 0, said.err
    assert "300 pairs; a source line has" in said.out
    assert "model: " in said.out
    assert re.search(r"training: (about \d+ minutes?|about [\d.]+ hours|less than a minute) for [\d,]+ steps", said.out)
    assert re.search(r"--size large would be [\d,]+ parameters and [\d,]+ steps: roughly", said.out)
    shown = foveate("plan", "translate", *files, "--size", "large", "--show", "--threads", "1")
    assert "hidden_dim = 256" in shown.out
    for words, sentence in (
        (("translate", "--size", "large"), "--size chooses sizes for files of data"),
        (("translate", "--data", corpus / "pairs.tsv"), "--source pairs.tsv reads tab-separated pairs."),
        (("translate", "--valid-data", corpus / "pairs.tsv"), "--valid-source pairs.tsv reads tab-separated pairs."),
        (
            ("translate", *files, "--size", "large", "--set", "initialise_from=en-fr"),
            "--size large chooses a model, and initialise_from = en-fr brings its own. Leave one of them out;",
        ),
        (("translate", "--target", corpus / "target.txt"), "There is nothing to plan for. Give --source FILE."),
    ):
        refused = foveate("plan", *words)
        assert (refused.code, sentence in refused.err) == (2, True), refused.err
    begun = (*files, "--size", "large", "--set", "initialise_from=en-fr", "--out", tmp_path / "run")
    refused = foveate("train", "translate", *begun)
    assert (refused.code, "initialise_from = en-fr brings its own" in refused.err) == (2, True), refused.err
    assert not (tmp_path / "run").exists()


def test_a_training_says_how_long_it_takes_before_its_first_step(foveate: Any, corpus: Path, tmp_path: Path) -> None:
    words = ("train", "translate", "--source", corpus / "pairs.tsv", *QUICK, "--set", "model.hidden_dim=8")
    said = foveate(*words, "--out", tmp_path / "run")
    assert said.code == 0, said.err
    estimate, first = said.err.index("Estimated time: "), said.err.index("step 1/1")
    assert estimate < first
    toml = tmp_path / "run.toml"
    toml.write_text(f'[data]\nsource = "{corpus}/pairs.tsv"\n')
    refused = foveate("train", "translate", toml, "--size", "large", "--out", tmp_path / "other")
    assert (refused.code, "--size chooses sizes where no TOML file does" in refused.err) == (2, True)
