"""The way of a user through a run: train, stop and go on, translate, evaluate, look."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from foveate import inspect, machine
from foveate.cli import look as looking
from foveate.cli.program import commands
from foveate.tasks import TASKS

FILES = {
    "best.json",
    "checkpoints",
    "config.json",
    "data",
    "metrics.jsonl",
    "model.json",
    "model.safetensors",
    "report.html",
    "source.tokeniser.json",
    "target.tokeniser.json",
}


def digest(run: Path) -> str:
    return hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()


def command(*words: object, **keywords: Any) -> "subprocess.Popen[str]":
    """The same program in a process of its own, with pipes."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    argv = [sys.executable, "-m", "foveate.cli", *map(str, words)]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(argv, text=True, env={**os.environ, "PYTHONPATH": path}, **(pipes | keywords))


# -- train -------------------------------------------------------------------------------------------------------------


def test_training_leaves_a_run_folder_with_everything_in_it(trained: Path) -> None:
    assert {path.name for path in trained.iterdir() if not path.name.startswith(".")} == FILES
    assert {path.name for path in (trained / "data").iterdir()} == {"train", "valid"}
    assert not list(trained.rglob(".tmp-*"))


def test_metrics_are_rows_of_json(trained: Path) -> None:
    rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "train"] == list(range(1, 121))
    assert [row["step"] for row in rows if row["kind"] == "valid"] == [40, 80, 120]
    assert all(row["loss"] > 0 and row["seconds"] >= 0 for row in rows)
    assert rows[-1]["loss"] < rows[0]["loss"]


def test_the_report_loads_nothing_from_elsewhere(trained: Path) -> None:
    html = (trained / "report.html").read_text()
    assert "<script" not in html
    assert "@import" not in html
    assert "url(" not in html
    assert not re.search(r"""(?:src|href|action|data)\s*=\s*["']?\s*(?:\w+:)?//""", html)
    assert not re.search(r"""https?://(?!www\.w3\.org/2000/svg)""", html)
    assert html.count("<svg") > 3


def test_a_toml_file_may_stand_anywhere_among_the_options(
    foveate: Any, tiny: tuple[str, ...], corpus: Path, tmp_path: Path
) -> None:
    toml = tmp_path / "run.toml"
    toml.write_text(
        f'[data]\nsource = "{corpus}/source.txt"\ntarget = "{corpus}/target.txt"\n'
        "[train]\nsteps = 2\nvalidate_every = 1\nsave_every = 1\n"
    )
    said = foveate("train", "translate", "--out", tmp_path / "run", *tiny, toml)
    assert said.code == 0, said.err
    assert "All 270 pairs are used." in said.err
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (config["train"]["steps"], config["model"]["hidden_dim"]) == (2, 16)


def test_a_failed_start_does_not_stand_in_the_way_of_the_next(
    foveate: Any, tiny: tuple[str, ...], corpus: Path, tmp_path: Path
) -> None:
    short = ("--set", "train.steps=1", "--out", tmp_path / "run", *tiny)
    (tmp_path / "few.tsv").write_text("a\tb\n" * 3)
    assert foveate("train", "translate", "--source", tmp_path / "few.tsv", *short).code == 3
    said = foveate("train", "translate", "--source", corpus / "pairs.tsv", *short)
    assert said.code == 0, said.err


def test_sizes_are_chosen_from_the_data_and_the_choice_is_printed(
    foveate: Any, tiny: tuple[str, ...], tmp_path: Path
) -> None:
    lines = [f"the {a} cat number {i} sat on the {b} mat" for i in range(2500) for a, b in [("red", "old")]]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")
    said = foveate(
        *("train", "translate", "--source", tmp_path / "a.txt", "--target", tmp_path / "a.txt"),
        *("--out", tmp_path / "run", "--set", "train.steps=1", "--set", "data.held_out=10", *tiny),
    )
    assert said.code == 0, said.err
    assert "source: sentences, so 2,000 subwords" in said.err
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert config["source_tokeniser"] == {
        "kind": "sentencepiece",
        "vocab_size": 2000,
        "model_type": "bpe",
        "max_lines": 1_000_000,
        "min_count": 0,
    }


def test_the_printed_sizes_are_those_that_are_used(
    foveate: Any, corpus: Path, tmp_path: Path, tiny: tuple[str, ...]
) -> None:
    start = ("train", "translate", "--source", corpus / "pairs.tsv", "--out", tmp_path / "run")
    said = foveate(*start, *tiny, "--set", "train.steps=1", "--set", "train.patience=none")
    assert said.code == 0, said.err
    assert said.err.splitlines()[1:6] == [
        "source: single words, so characters",
        "target: single words, so characters",
        "model: as set, model.embedding_dim = 8, model.hidden_dim = 16, model.maxout_dim = 8, "
        "model.attention.score.hidden_dim = 8",
        "training: at most 1 step",
        "Change any of it with --set, or write a TOML file.",
    ]
    for refused in ((*start, *tiny), (*start, "--set", "model.hiden_dim=3")):
        said = foveate(*refused)
        assert said.code == 2
        assert said.err.count("\n") == 1, said.err


# -- stop and go on ----------------------------------------------------------------------------------------------------


def test_an_interrupted_run_says_how_to_go_on_and_ends_with_the_same_weights(
    foveate: Any, recipe: tuple[str, ...], trained: Path, tmp_path: Path
) -> None:
    run = tmp_path / "my run"
    process = command(*recipe, "--out", run)
    metrics = run / "metrics.jsonl"
    while process.poll() is None and not (metrics.exists() and metrics.stat().st_size):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130, said
    found = re.search(r"Stopped at step (\d+); everything is saved\. Continue with:  foveate (resume '.*')\n", said)
    assert found, said
    assert 0 < int(found[1]) < 120
    assert found[2] == f"resume '{run}'"
    assert not (run / "model.json").exists()
    resumed = foveate("resume", run, "--no-tune", "--threads", "1")
    assert resumed.code == 0, resumed.err
    assert f"Resuming after step {found[1]}" in resumed.err
    assert digest(run) == digest(trained)


def test_resuming_a_finished_run_says_so_and_changes_no_weight(foveate: Any, run: Path) -> None:
    before = digest(run)
    said = foveate("resume", run, "--no-tune", "--threads", "1")
    assert said.code == 0
    assert "Finished before: all 120 steps are done" in said.err
    assert "To train for longer:  foveate resume" in said.err
    assert digest(run) == before


def test_a_run_may_be_moved_and_used_from_anywhere(
    foveate: Any, run: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = foveate("translate", run, "abc", "--no-tune").out
    (tmp_path / "elsewhere" / "work").mkdir(parents=True)
    run.rename(tmp_path / "elsewhere" / "moved")
    monkeypatch.chdir(tmp_path / "elsewhere" / "work")
    shutil.copy(corpus / "pairs.tsv", "pairs.tsv")
    assert foveate("translate", "../moved", "abc", "--no-tune").out == before
    assert foveate("evaluate", "../moved", "--source", "pairs.tsv", "--no-tune", "--metrics", "chrf").code == 0
    resumed = foveate("resume", "../moved", "--no-tune", "--threads", "1")
    assert resumed.code == 0, resumed.err


# -- translate ---------------------------------------------------------------------------------------------------------


def test_standard_input_becomes_one_line_of_output_each(foveate: Any, trained: Path) -> None:
    said = foveate("translate", trained, "--no-tune", stdin="abc\n\ncba\r\n  \nü".encode())
    assert said.code == 0
    lines = said.out.split("\n")
    assert len(lines) == 6
    assert (lines[1], lines[5]) == ("", "")
    assert foveate("translate", trained, "--no-tune", stdin=b"").out == ""


def test_texts_on_the_command_line_are_translated_the_same(foveate: Any, trained: Path) -> None:
    piped = foveate("translate", trained, "--no-tune", stdin=b"abc\nponm\n").out
    assert foveate("translate", trained, "abc", "ponm", "--no-tune").out == piped
    assert foveate("translate", trained, "--no-tune", "--beam", "4", "abc", "ponm").out == piped


def test_the_best_hypotheses_are_numbered_and_scored(foveate: Any, trained: Path) -> None:
    said = foveate("translate", trained, "abc", "", "ba", "--n-best", "2", "--no-tune")
    rows = [line.split("\t") for line in said.out.splitlines()]
    assert [row[0] for row in rows] == ["1", "1", "3", "3"]
    assert float(rows[0][1]) >= float(rows[1][1])
    assert rows[0][2] == foveate("translate", trained, "abc", "--no-tune").out.rstrip("\n")


def test_decoding_is_set_with_or_without_its_prefix(foveate: Any, trained: Path) -> None:
    def translated(*words: str) -> str:
        said = foveate("translate", trained, "abcd", "--no-tune", *words)
        assert said.code == 0, said.err
        return said.out

    sampled = translated("--set", "kind=sample", "--set", "seed=3")
    assert translated("--set", "decode.kind=sample", "--set", "decode.seed=3") == sampled
    assert translated("--set", "kind=greedy") == translated("--beam", "1")
    assert len(translated("--beam", "1", "--set", "max_length=2").strip()) <= 2
    assert translated("--set", "length_penalty.kind=wu") == translated("--set", "length_penalty=wu")


def test_the_alignment_is_drawn_below_its_translation(foveate: Any, trained: Path) -> None:
    said = foveate("translate", trained, "abc", "--align", "--no-tune")
    assert said.code == 0
    assert "░▒▓█" in said.out
    assert "\x1b" not in said.out


def test_a_reader_that_leaves_is_not_an_error(trained: Path, tmp_path: Path) -> None:
    process = command("translate", trained, "--no-tune", "--threads", "1", "--beam", "1")
    assert process.stdout
    process.stdout.close()
    process.stdout = None
    _, said = process.communicate("abc\n" * 600)
    assert (process.returncode, said) == (0, "")


def test_a_command_outlasts_the_reader_of_its_messages(trained: Path) -> None:
    words = ("translate", trained, "--no-tune", "--threads", "1", "--beam", "1", "a~")  # a note on ~ is printed
    right = command(*words).communicate()
    assert "~" in right[1]
    process = command(*words)
    assert process.stderr
    process.stderr.close()
    process.stderr = None
    assert (process.communicate()[0], process.returncode) == (right[0], 0)
    with Path("/dev/full").open("w") as full:
        process = command(*words, stderr=full)
        assert (process.communicate()[0], process.returncode) == (right[0], 0)


def test_messages_go_nowhere_if_standard_error_is_closed(trained: Path) -> None:
    script = 'exec "$0" -m foveate translate "$1" --no-tune --threads 1 --beam 1 "a~" 2>&-'
    process = subprocess.run(["sh", "-c", script, sys.executable, str(trained)], stdout=subprocess.PIPE, check=False)
    right = command("translate", trained, "--no-tune", "--threads", "1", "--beam", "1", "a~").communicate()
    assert (process.returncode, process.stdout.decode()) == (0, right[0])


def test_training_outlasts_the_reader_of_its_messages(recipe: tuple[str, ...], tmp_path: Path) -> None:
    process = command(*recipe, "--set", "train.steps=4", "--out", tmp_path / "run")
    assert process.stderr
    process.stderr.readline()
    process.stderr.close()
    process.stderr = None
    process.communicate()
    assert process.returncode == 0
    assert (tmp_path / "run" / "model.safetensors").exists()


@pytest.mark.parametrize("words", [("--help",), ("--version",), ("train", "--help")])
def test_help_that_cannot_be_written_is_an_error_in_words(words: tuple[str, ...]) -> None:
    with Path("/dev/full").open("w") as full:
        process = command(*words, stdout=full)
    _, said = process.communicate()
    message = "the output cannot be written: No space left on device. Free some space, or choose another place."
    assert (process.returncode, said) == (4, f"foveate: {message}\n")


def test_a_reader_of_help_that_leaves_is_not_an_error() -> None:
    process = command("--help")
    assert process.stdout
    process.stdout.close()
    process.stdout = None
    assert (process.communicate()[1], process.returncode) == ("", 0)


def test_a_dash_is_the_lines_of_standard_input(foveate: Any, trained: Path) -> None:
    words = ("translate", trained, "--no-tune", "--threads", "1", "--beam", "1")
    assert foveate(*words, "-", stdin=b"abc\n").out == foveate(*words, "abc").out
    said = foveate("translate", trained, "-", "--input", "a.txt", "--output", "b.txt")
    assert (said.code, "The texts are there twice" in said.err) == (2, True)


def test_words_behind_two_dashes_are_texts(foveate: Any, trained: Path) -> None:
    words = ("--no-tune", "--threads", "1", "--beam", "1")
    right = foveate("translate", trained, *words, "--", "--abc")
    assert (right.code, bool(right.out)) == (0, True)
    assert foveate("translate", *words, "--", trained, "--abc").out == right.out
    assert "Give one text" not in foveate("look", trained, "--no-tune", "--why", "--", "abc").err
    assert "Give one text" in foveate("look", trained, "--no-tune", "--why", "abc").err
    said = foveate("completion", "--", "--bash")
    assert (said.code, "'--bash'" in said.err, "\0" in said.err or "x00" in said.err) == (2, True, False)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("evaluate", "RUN", "--save", ""), "--save: the name is empty. Is a variable unset?"),
        (("look", "RUN", "abc", "--html", ""), "--html: the name is empty. Is a variable unset?"),
        (("train", "translate", "--source", "a.tsv", "--out", ""), "--out: the name is empty."),
        (("export", "RUN", "--to", "onnx", ""), "OUT: the name is empty."),
        (("translate", "", "abc"), "RUN: the name is empty."),
        (("--debug", "translate", "RUN", "abc"), "--debug belongs behind the command: foveate translate --debug …"),
    ],
    ids=lambda words: str(words)[:40],
)
def test_empty_names_and_misplaced_options_are_refused(words: tuple[str, ...], says: str, foveate: Any) -> None:
    said = foveate(*words)
    assert (said.code, said.out) == (2, "")
    assert says in said.err


def test_suggested_commands_quote_the_names_of_folders(
    foveate: Any, trained: Path, recipe: tuple[str, ...], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(trained, tmp_path / "my run"))
    assert f"Continue it with `foveate resume '{folder}'`" in foveate(*recipe, "--out", folder).err
    assert f"Write `foveate look '{folder}' --text" in foveate("look", folder, "--no-tune").err


# -- evaluate and look -------------------------------------------------------------------------------------------------


def test_scores_are_printed_with_their_signatures_or_as_json(foveate: Any, trained: Path, corpus: Path) -> None:
    evaluate = ("evaluate", trained, "--no-tune", "--source", corpus / "source.txt", "--target", corpus / "target.txt")
    said = foveate(*evaluate, "--metrics", "character_error,chrf")
    assert said.code == 0
    assert re.fullmatch(r"CER\|unit:character\|jiwer:\S+ = [\d.]+\nchrF2\|nrefs:1\|\S+ = [\d.]+\n", said.out)
    scores = json.loads(foveate(*evaluate, "--json").out)
    assert list(scores) == ["BLEU", "chrF2", "TER"]
    assert list(json.loads(foveate(*evaluate, "--metrics", "bleu,bleu_zh", "--json").out)) == ["BLEU", "BLEU (zh)"]
    assert "version:" in scores["BLEU"]["signature"]


def test_what_was_translated_can_be_kept_scored_again_and_reported(
    foveate: Any, trained: Path, corpus: Path, tmp_path: Path
) -> None:
    files = ("--save", tmp_path / "new" / "output.txt", "--report", tmp_path / "new" / "report.html")
    said = foveate("evaluate", trained, "--no-tune", "--source", corpus / "pairs.tsv", "--metrics", "chrf", *files)
    assert said.code == 0, said.err
    assert len((tmp_path / "new" / "output.txt").read_text().splitlines()) == 300
    assert "pairs.tsv, 300 lines" in (tmp_path / "new" / "report.html").read_text()
    again = ("--output", tmp_path / "new" / "output.txt", "--target", corpus / "target.txt", "--metrics", "chrf")
    assert foveate("evaluate", *again).out == said.out


@pytest.mark.parametrize("option", ["--save", "--report"])
def test_a_file_that_is_read_is_not_written_over(foveate: Any, trained: Path, tmp_path: Path, option: str) -> None:
    data, link = tmp_path / "pairs.tsv", tmp_path / "link.tsv"
    data.write_text("ab\tba\n")
    link.symlink_to(data)
    for path in (data, link):
        said = foveate("evaluate", trained, "--no-tune", "--source", data, option, path)
        assert (said.code, data.read_text()) == (2, "ab\tba\n")
        assert f"{option} would write over {path}" in said.err
    for kind in ("out", "html", "png", "svg", "pdf"):
        said = foveate("look", trained, data, "--no-tune", f"--{kind}", data)
        assert (said.code, data.read_text()) == (2, "ab\tba\n")
        assert f"--{kind} would write over {data}" in said.err


def test_an_alignment_is_written_in_every_form(foveate: Any, trained: Path, tmp_path: Path) -> None:
    def look(name: str) -> bytes:
        said = foveate("look", trained, "abc", "--target", "cba", "--no-tune", "--out", tmp_path / name)
        assert (said.code, said.out, said.err) == (0, "", f"Wrote {tmp_path / name}.\n")
        return (tmp_path / name).read_bytes()

    assert ElementTree.fromstring(look("a.svg")).tag.endswith("svg")
    assert look("a.png").startswith(b"\x89PNG\r\n\x1a\n")
    drawn = foveate("look", trained, "abc", "--target", "cba", "--no-tune")
    assert look("a.txt").decode() == drawn.out
    assert re.fullmatch(rb"(\d-\d ?){3}\n", look("a.pharaoh"))
    assert b"</s>" not in look("a.pharaoh")


def test_a_worked_example_of_the_lectures_is_looked_at_without_a_run(foveate: Any, tmp_path: Path) -> None:
    assert looking.EXAMPLES == inspect.EXAMPLES
    said = foveate("look", "--example", "one-hot", "--steps", "сдавать")
    assert "0.130    0.352         0.130  0.130  0.130       0.130" in said.out
    for name in looking.EXAMPLES:
        html = tmp_path / f"{name}.html"
        assert foveate("look", "--example", name, "--trace", tmp_path / name, "--html", html).code == 0
        assert html.stat().st_size < 500_000
        assert inspect.read_trace(tmp_path / name).view.startswith("view=steps&query=")
    for words, says in (
        ((), "RUN, the folder of a run or of a trace, or --example"),
        (("run", "--example", "one-hot"), "RUN, the folder of a run or of a trace, or --example"),
        (("--example", "one-hot", "--why"), "--why needs a run"),
        (("--example", "one-hot", "--text", "a"), "A trace holds its own text"),
    ):
        refused = foveate("look", *words)
        assert refused.code == 2
        assert says in refused.err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--minutes", "3"), "--minutes is the time to measure, but nothing is measured. Add --calibrate."),
        (("--calibrate", "--minutes", "0"), "--minutes 0: write how long to measure, such as 2 or 13."),
    ],
)
def test_a_calibration_needs_a_time(foveate: Any, words: tuple[str, ...], says: str) -> None:
    said = foveate("doctor", *words)
    assert (said.code, said.out) == (2, "")
    assert says in said.err


@pytest.mark.parametrize("threads", ["0", "-1", "two"])
def test_the_doctor_needs_a_thread(foveate: Any, threads: str) -> None:
    said = foveate("doctor", f"--threads={threads}")
    assert (said.code, said.out) == (2, "")
    assert f"argument --threads: must be a whole number of at least 1, got '{threads}'" in said.err


def test_the_doctor_finds_explain_equal_to_run(foveate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("foveate.machine.kept", lambda: None)
    monkeypatch.setattr("foveate.machine.tune", machine.current)  # it would stay in force for other tests
    said = foveate("doctor")
    assert said.code == 0, said.out
    for choice in machine.choices():
        assert f"  {choice.switch} = {choice.value}: {choice.why}\n" in said.out
    assert "self-test: explain = run in " in said.out
    assert "edges 8 times" in said.out


def test_quiet_leaves_results_and_errors(foveate: Any, recipe: tuple[str, ...], tmp_path: Path) -> None:
    said = foveate(*recipe, "--quiet", "--out", tmp_path / "run", "--set", "train.steps=4")
    assert (said.code, said.out) == (0, "")
    assert re.fullmatch(r"Done: all 4 steps are done, in \d+\.\d minutes\..*\n", said.err)
    said = foveate(*recipe, "--quiet", "--out", tmp_path / "run")
    assert said.code == 2
    assert said.err.count("\n") == 1
    assert foveate("resume", tmp_path / "run", "--quiet").err.startswith("Finished before: all 4 steps are done")


def test_help_of_a_task_has_the_options_of_this_task(foveate: Any) -> None:
    for command in ("train", "compare"):
        for name, task in TASKS.items():
            shown = foveate(command, name, "--help").out
            for option in {f"--{file.replace('_', '-')}" for each in TASKS.values() for file in each.files}:
                assert (re.search(rf"{option}\b(?!-)", shown.partition("examples:")[0]) is not None) == (
                    option[2:].replace("-", "_") in task.files
                ), (command, name, option)
            examples = re.findall(rf"foveate {command} (\w+) ", shown)
            assert set(examples) <= {name}


def completed(script: Path, words: str) -> list[str]:
    """What bash offers for the last word."""
    asks = (
        f"source {script}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); "
        'compopt() { :; }; _shtab_foveate; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return subprocess.run(["bash", "-c", asks], capture_output=True, text=True, check=True).stdout.split()


def test_the_shell_completes_commands_tasks_and_options(foveate: Any, tmp_path: Path) -> None:
    script = tmp_path / "foveate.bash"
    script.write_text(foveate("completion", "bash").out)
    assert subprocess.run(["bash", "-n", str(script)]).returncode == 0
    assert set(commands()) <= set(completed(script, 'foveate ""'))
    assert completed(script, "foveate tra") == ["train", "translate", "transcribe"]
    assert set(completed(script, 'foveate train ""')) >= set(TASKS)
    assert completed(script, "foveate train mas") == ["masked_language_model"]
    taken = set(completed(script, "foveate train classify --"))
    assert {"--data", "--columns", "--out", "--quiet"} <= taken
    assert not {"--source", "--target", "--text", "--links"} & taken
    assert "--columns" not in completed(script, "foveate train language_model --")
    (tmp_path / "run").mkdir()
    assert set(completed(script, f"foveate translate {tmp_path}/r")) == {f"{tmp_path}/run"}
    for command in ("translate", "look", "serve"):
        assert "en-fr" in completed(script, f'foveate {command} ""')
    assert "us-address" in completed(script, 'foveate tag ""')
    assert "en-fr" not in completed(script, 'foveate generate ""')
    assert completed(script, "foveate translate --ali") == ["--align"]
    assert completed(script, "foveate export --to on") == ["onnx"]
    assert completed(script, "foveate plan mas") == ["masked_language_model"]


@pytest.mark.parametrize("shell", ["zsh", "tcsh"])
def test_a_completion_for_other_shells_names_every_command(foveate: Any, shell: str) -> None:
    script = foveate("completion", shell).out
    assert all(command in script for command in commands())


def test_a_package_that_went_missing_is_named(foveate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    said = foveate("completion", "bash")
    assert (said.code, said.out) == (4, "")
    assert said.err == "foveate completion: The package shtab is not installed. Run: pip install shtab\n"


def test_the_shown_configuration_names_the_kinds_of_what_is_left_out(foveate: Any) -> None:
    shown = foveate("plan", "translate", "--show", "--set", "model=transformer").out
    assert re.search(r'one of "alibi", .*\n# bias = "none"', shown)
    assert re.search(r'one of "rotary", .*\ntransforms = \[\]', shown)
