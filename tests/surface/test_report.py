"""`foveate report`: every task's run has one, with curves, samples and what the model looked at."""

from pathlib import Path
from typing import Any

import pytest

from foveate.data.synthetic.tagged import tagged_sentences

SIZES = (
    *("--no-tune", "--threads", "1", "--set", "train.steps=8", "--set", "train.validate_every=4"),
    *("--set", "train.log_every=2", "--set", "model.embedding_dim=16"),
)
TRANSFORMER = (
    *("--set", "model.encoder=transformer", "--set", "model.encoder.num_layers=2"),
    *("--set", "model.encoder.block.model_dim=16", "--set", "model.encoder.block.num_heads=2"),
    *("--set", "model.encoder.block.feedforward_dim=32"),
)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labelled")
    sentences = list(tagged_sentences(120))
    lines = (" ".join(f"{word}/{tag}" for word, tag in zip(one.words, one.tags, strict=True)) for one in sentences)
    (folder / "tag.txt").write_text("".join(f"{line}\n" for line in lines))
    rows = (f"{' '.join(one.words)}\t{one.tags[0]}\n" for one in sentences)
    (folder / "classify.txt").write_text("".join(rows))
    return folder


@pytest.mark.parametrize("task", ["tag", "classify"])
@pytest.mark.parametrize("encoder", ["rnn", "transformer"])
def test_labels_have_a_report_with_what_was_looked_at(
    foveate: Any, data: Path, task: str, encoder: str, tmp_path: Path
) -> None:
    chosen = TRANSFORMER if encoder == "transformer" else ()
    run = tmp_path / "run"
    said = foveate("train", task, "--data", data / f"{task}.txt", "--out", run, *SIZES, *chosen)
    assert said.code == 0, said.err
    left = (run / "report.html").read_text(encoding="utf-8")
    for part in ("Training", "Scores", "Samples", "Model card", "parameters, trained from scratch", f"foveate {task}"):
        assert part in left
    # A recurrent encoder looks at nothing; attention pooling does.
    assert ("attention does not prove" in left.lower()) == (encoder == "transformer" or task == "classify")
    said = foveate("report", run, "--out", "-", "--no-tune")
    assert (said.code, "--out writes a file, and - would be its name" in said.err) == (2, True), said.err
    said = foveate("report", run, "--out", tmp_path / "again.html", "--no-tune")
    assert (said.code, said.out) == (0, ""), said.err
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == left


def test_a_translation_has_the_report_that_training_left(foveate: Any, trained: Path, tmp_path: Path) -> None:
    said = foveate("report", trained, "--out", tmp_path / "again.html", "--no-tune")
    assert said.code == 0, said.err
    again = (tmp_path / "again.html").read_text(encoding="utf-8")
    assert again == (trained / "report.html").read_text(encoding="utf-8")


def test_runs_without_a_report_are_refused_in_words(foveate: Any, run: Path, tmp_path: Path) -> None:
    said = foveate("report", tmp_path / "nothing")
    assert said.code == 3
    assert "nothing: there is no such folder" in said.err
    config = run / "config.json"
    config.write_text(config.read_text().replace('"translate"', '"tranlsate"'))
    said = foveate("report", run)
    assert said.code == 3
    assert "is a run of the task 'tranlsate', which this version of foveate does not know" in said.err
