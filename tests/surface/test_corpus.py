"""The answers to all lines of a file, in parts."""

import json
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from foveate.errors import DataError
from foveate.storage.draft import write_file
from foveate.tasks import corpus_part
from foveate.tasks.answering import Answering
from foveate.tasks.translate.side import SIDE

PIECE = 7
OPTIONS = ("--no-tune", "--threads", "1", "--beam", "2", "--n-best", "1")
"""Those of all answers. The hypotheses of the small model are often empty, but their numbers and scores differ."""
Answer = Callable[..., Any]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def short_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_part, "CHUNK", PIECE)


@pytest.fixture
def texts(corpus: Path, tmp_path: Path) -> Path:
    """40 lines: five pieces and a shorter one."""
    lines = (corpus / "source.txt").read_text().splitlines()[:40]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in lines))
    return tmp_path / "in.txt"


@pytest.fixture
def answer(foveate: Any, trained: Path, texts: Path) -> Answer:
    """Translate the texts into a file."""

    def answer(output: Path, *options: str, run: Path = trained) -> Any:
        files = ("--input", texts, "--output", output)
        return foveate("translate", run, *files, *OPTIONS, *options)

    return answer


@pytest.fixture
def whole(answer: Answer, tmp_path: Path) -> bytes:
    """The answers of one command."""
    said = answer(tmp_path / "whole.txt")
    assert said.code == 0, said.err
    assert not (tmp_path / "whole.txt.parts").exists()
    return (tmp_path / "whole.txt").read_bytes()


def test_one_line_answers_each(whole: bytes, foveate: Any, trained: Path, texts: Path) -> None:
    said = foveate("translate", trained, *OPTIONS, stdin=texts.read_bytes())
    assert said.out.encode() == whole
    assert len(whole.splitlines()) == len(set(whole.splitlines())) == 40


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_merged_parts_are_what_one_command_writes(count: int, whole: bytes, answer: Answer, tmp_path: Path) -> None:
    output = tmp_path / "out.txt"
    for number in reversed(range(1, count + 1)):
        assert not output.exists()
        said = answer(output, "--part", f"{number}/{count}")
        assert said.code == 0, said.err
    said = answer(output, "--merge")
    assert (said.code, output.read_bytes()) == (0, whole), said.err
    assert not (tmp_path / "out.txt.parts").exists()


def test_several_lines_for_one_text_are_merged_too(answer: Answer, tmp_path: Path) -> None:
    for number in (1, 2):
        answer(tmp_path / "out.txt", "--n-best", "2", "--part", f"{number}/2")
    answer(tmp_path / "out.txt", "--n-best", "2", "--merge")
    answer(tmp_path / "one.txt", "--n-best", "2")
    assert (tmp_path / "out.txt").read_bytes() == (tmp_path / "one.txt").read_bytes()
    numbers = [line.split("\t")[0] for line in (tmp_path / "out.txt").read_text().splitlines()]
    assert numbers == [str(number) for number in range(1, 41) for _ in range(2)]


def test_a_killed_part_goes_on_behind_its_last_piece(
    whole: bytes, answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, work = tmp_path / "out.txt", tmp_path / "out.txt.parts" / "1-of-1"
    process = os.fork()
    if process == 0:
        answer(output)
        os._exit(0)
    while not (work / "2.txt").exists():
        assert os.waitpid(process, os.WNOHANG) == (0, 0), "it ended before it was killed"
        time.sleep(0.001)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    pieces = {path.name for path in work.glob("*.txt")}
    assert 3 <= len(pieces) < 6
    assert not output.exists()
    written: list[str] = []

    def write(path: Path, content: bytes) -> None:
        written.append(path.name)
        write_file(path, content)

    monkeypatch.setattr(corpus_part, "write_file", write)
    said = answer(output)
    assert (said.code, output.read_bytes()) == (0, whole), said.err
    assert f"{len(pieces)} pieces of {PIECE} lines of part 1 are there already." in said.err
    assert pieces.isdisjoint(written)
    assert len(pieces) + len(written) == 6


@pytest.mark.parametrize("moment", ["before the answers have their name", "while the parts are deleted"])
def test_a_killed_merge_leaves_nothing_that_stops_the_next_one(
    moment: str, whole: bytes, answer: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "out.txt"

    def kill_before(source: Path, target: Path) -> None:
        if target == output:
            os.kill(os.getpid(), signal.SIGKILL)
        os.rename(source, target)

    def kill_within(folder: Path, **_: Any) -> None:
        for text in Path(folder).glob("1-of-1.txt"):
            text.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    process = os.fork()
    if process == 0:
        if moment.startswith("before"):
            monkeypatch.setattr(os, "replace", kill_before)
        else:
            monkeypatch.setattr(shutil, "rmtree", kill_within)
        answer(output)
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL
    assert output.exists() is (not moment.startswith("before"))
    said = answer(output)
    assert (said.code, output.read_bytes()) == (0, whole), said.err
    assert not [path for path in tmp_path.iterdir() if path.name.startswith((".tmp-", "out.txt."))]


def test_a_part_without_its_text_is_missing(answer: Answer, tmp_path: Path) -> None:
    for number in (1, 2):
        answer(tmp_path / "out.txt", "--part", f"{number}/2")
    (tmp_path / "out.txt.parts" / "2-of-2.txt").unlink()
    said = answer(tmp_path / "out.txt", "--merge")
    assert (said.code, "lacks part 2 of 2." in said.err) == (3, True), said.err


def test_a_remote_file_is_answered(
    whole: bytes, foveate: Any, trained: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOVEATE_STAGED", str(tmp_path / "staged"))
    files = ("--input", f"file://{texts}", "--output", tmp_path / "out.txt")
    said = foveate("translate", trained, *files, *OPTIONS)
    assert (said.code, (tmp_path / "out.txt").read_bytes()) == (0, whole), said.err


def test_a_finished_part_is_not_answered_again(answer: Answer, tmp_path: Path) -> None:
    answer(tmp_path / "out.txt", "--part", "1/2")
    text = tmp_path / "out.txt.parts" / "1-of-2.txt"
    before = text.stat().st_mtime_ns
    said = answer(tmp_path / "out.txt", "--part", "1/2")
    assert (said.code, text.stat().st_mtime_ns) == (0, before)
    assert "Part 1 of 2 is complete." in said.err


def test_a_merge_refuses_missing_parts(answer: Answer, tmp_path: Path) -> None:
    said = answer(tmp_path / "out.txt", "--merge")
    assert (said.code, "has no finished part." in said.err) == (3, True), said.err
    for number in (1, 3):
        answer(tmp_path / "out.txt", "--part", f"{number}/4")
    said = answer(tmp_path / "out.txt", "--merge")
    assert (said.code, "lacks part 2 of 4, part 4 of 4." in said.err) == (3, True), said.err


def test_parts_of_another_number_are_refused_before_work(answer: Answer, tmp_path: Path) -> None:
    answer(tmp_path / "out.txt", "--part", "1/2")
    for options in (("--part", "1/3"), ()):
        said = answer(tmp_path / "out.txt", *options)
        assert (said.code, "has parts of " in said.err) == (3, True), said.err


def test_an_ensemble_answers_a_corpus(
    whole: bytes, answer: Answer, foveate: Any, trained: Path, run: Path, tmp_path: Path
) -> None:
    """With itself, a model writes what it writes alone. Models are known by their content, not by their names."""
    output = tmp_path / "out.txt"
    answer(output, "--ensemble", str(run), "--part", "1/2")
    renamed = run.rename(tmp_path / "renamed")
    for other in ((), ("--ensemble", str(renamed), "--ensemble", str(renamed))):
        said = answer(output, *other, "--part", "2/2")
        assert (said.code, "other model" in said.err) == (3, True), said.err
    for place in ("--part=2/2", "--merge"):
        said = answer(output, "--ensemble", str(renamed), place)
        assert said.code == 0, said.err
    texts = [line.split("\t")[2] for line in output.read_text().splitlines()]
    assert texts == [line.split("\t")[2] for line in whole.decode().splitlines()]


def test_a_refused_ensemble_leaves_nothing_behind(answer: Answer, foveate: Any, trained: Path, tmp_path: Path) -> None:
    said = answer(tmp_path / "out.txt", "--ensemble", "en-fr")
    assert (said.code, "has another source tokeniser than the first" in said.err) == (2, True), said.err
    said = answer(tmp_path / "out.txt", "--ensemble", str(trained))
    assert said.code == 0, said.err
    said = foveate("translate", trained, "--ensemble", trained, "abc", "--engine", "onnx", "--no-tune")
    assert (said.code, "--ensemble decodes with our own engine. Leave out --engine onnx." in said.err) == (2, True)


def test_runs_with_other_seeds_and_one_validation_file_are_an_ensemble(
    foveate: Any, recipe: tuple[str, ...], corpus: Path, tmp_path: Path
) -> None:
    validation = ("--valid-source", str(corpus / "source.txt"), "--valid-target", str(corpus / "target.txt"))
    for seed in ("1", "2"):
        options = ("--set", f"seed={seed}", "--set", "train.steps=2", "--out", tmp_path / seed)
        said = foveate(*recipe, *validation, *options)
        assert said.code == 0, said.err
    said = foveate("translate", tmp_path / "1", "--ensemble", tmp_path / "2", "abc", "--no-tune")
    assert said.code == 0, said.err


@pytest.mark.parametrize("part", ["1/2", "2/2"])
def test_parts_of_other_inputs_models_and_options_are_refused_before_work(
    part: str, answer: Answer, texts: Path, run: Path, tmp_path: Path
) -> None:
    """Also beside a finished part: they could not be merged."""
    output = tmp_path / "out.txt"
    answer(output, "--part", "1/2", run=run)
    config = run / "config.json"
    before = config.read_bytes(), texts.read_bytes()
    texts.write_bytes(before[1] + b"ab\n")
    said = answer(output, "--merge", "--part", "1/2", run=run)
    assert said.code == 2
    said = answer(output, "--part", part, run=run)
    assert (said.code, "another job (other input)" in said.err) == (3, True), said.err
    texts.write_bytes(before[1])
    config.write_bytes(before[0] + b"\n")
    said = answer(output, "--part", part, run=run)
    assert (said.code, "another job (other model)" in said.err) == (3, True), said.err
    config.write_bytes(before[0])
    said = answer(output, "--part", part, "--set", "length_penalty.alpha=0.5", run=run)
    assert (said.code, "another job (other options)" in said.err) == (3, True), said.err
    assert not (tmp_path / "out.txt.parts" / "2-of-2").exists()
    (run / ".lock").unlink()  # a copy of a run often lacks it
    assert answer(output, "--part", part, run=run).code == 0


def test_a_part_begun_with_another_input_is_refused(answer: Answer, texts: Path, tmp_path: Path) -> None:
    work = tmp_path / "out.txt.parts" / "1-of-1"
    work.mkdir(parents=True)
    answer(tmp_path / "other.txt", "--part", "1/1")
    job = json.loads((tmp_path / "other.txt.parts" / "1-of-1.json").read_text())["job"]
    (work / "job.json").write_text(json.dumps({**job, "input": "0" * 64}))
    (work / "0.txt").write_text("")
    said = answer(tmp_path / "out.txt")
    assert (said.code, "another job (other input)" in said.err) == (3, True), said.err
    (work / "0.txt").unlink()  # of nothing, another job may begin
    assert answer(tmp_path / "out.txt").code == 0


def test_a_damaged_part_is_named(answer: Answer, tmp_path: Path) -> None:
    answer(tmp_path / "out.txt", "--part", "1/1")
    text = tmp_path / "out.txt.parts" / "1-of-1.txt"
    text.write_bytes(text.read_bytes()[:-2] + b"~\n")
    said = answer(tmp_path / "out.txt", "--merge")
    assert (said.code, f"{text} has changed since it was written" in said.err) == (3, True), said.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--input", "IN"), "--input FILE and --output FILE go together"),
        (("--output", "OUT"), "--input FILE and --output FILE go together"),
        (("--part", "1/2"), "--input FILE and --output FILE go together"),
        (("--input", "IN", "--output", "OUT", "--align"), "--align draws in the terminal"),
        (("--input", "IN", "--output", "OUT", "abc"), "The texts are there twice"),
        (("--input", "-", "--output", "OUT"), "it cannot be standard input"),
        (("--input", "IN", "--output", "IN"), "--output is the file of --input"),
        (("--input", "IN", "--output", "-"), "--output - is a folder, a device, a pipe or a standard stream"),
        (
            ("--input", "IN", "--output", "/dev/stdout"),
            "/dev/stdout is a folder, a device, a pipe or a standard stream",
        ),
        (("--input", "IN", "--output", "/dev/fd/1"), "/dev/fd/1 is a folder, a device, a pipe or a standard stream"),
        (("--input", "IN", "--output", "/proc/self/fd/1"), "a device, a pipe or a standard stream"),
        (("--input", "IN", "--output", "answers.txt.gz"), "promises a packed file"),
        (("--input", "nowhere.txt", "--output", "OUT"), "nowhere.txt"),
        (("--input", "IN", "--output", "OUT", "--part", "3/2"), "must be K/N, with K from 1 to N"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    options: tuple[str, ...], message: str, foveate: Any, trained: Path, texts: Path, tmp_path: Path
) -> None:
    files = {"IN": str(texts), "OUT": str(tmp_path / "out.txt")}
    said = foveate("translate", trained, *(files.get(word, word) for word in options))
    assert said.code in (2, 3)
    assert message in said.err


def test_outputs_that_are_not_files_are_refused_and_links_are_followed(
    foveate: Any, trained: Path, texts: Path, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        said = foveate("translate", trained, "--input", texts, "--output", tmp_path / name)
        assert (said.code, "a folder, a device, a pipe or a standard stream" in said.err) == (2, True), said.err
        said = foveate("translate", trained, "--input", tmp_path / name, "--output", tmp_path / "out.txt")
        assert (said.code, "a folder, a device or a pipe" in said.err) == (3, True), said.err
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "real.txt").write_text("old")
    (tmp_path / "link.txt").symlink_to("real.txt")
    assert foveate("translate", trained, "--input", texts, "--output", tmp_path / "link.txt").code == 0
    assert (tmp_path / "link.txt").is_symlink()
    assert len((tmp_path / "real.txt").read_text().splitlines()) == len(texts.read_text().splitlines())


@pytest.mark.parametrize("closed", ["", ">&-"])
def test_closed_standard_error_hides_notes_and_changes_no_answer(
    closed: str, trained: Path, texts: Path, tmp_path: Path
) -> None:
    script = f'exec "$0" -m foveate translate "$1" --input "$2" --output "$3" {closed} 2>&-'
    words = ["sh", "-c", script, sys.executable, str(trained), str(texts), str(tmp_path / "out.txt")]
    process = subprocess.run(words, stdout=subprocess.PIPE, check=False)
    assert (process.returncode, process.stdout) == (0, b"")
    assert (tmp_path / "out.txt").exists()


class Capital(Answering):
    """Answers in capitals, and refuses digits."""

    def lines(self, texts: Sequence[str], first: int) -> Iterator[str]:
        for text in texts:
            if text.isdecimal():
                raise DataError(f"{text} is a number.")
            yield text.upper()


def test_an_error_names_the_lines_of_its_piece(
    foveate: Any, trained: Path, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts.write_text("a\n" * 9 + "17\n" + "a\n")
    monkeypatch.setattr(SIDE, "answering", lambda arguments: Capital())
    said = foveate("translate", trained, "--input", texts, "--output", tmp_path / "out.txt")
    assert (said.code, f"The error is in lines 8 to 11 of {texts}." in said.err) == (3, True), said.err
    assert "17 is a number." in said.err
    texts.write_text("a\n" * 9 + "b\n" + "a\n")
    shutil.rmtree(tmp_path / "out.txt.parts")
    assert foveate("translate", trained, "--input", texts, "--output", tmp_path / "out.txt").code == 0
    assert (tmp_path / "out.txt").read_text() == "A\n" * 9 + "B\n" + "A\n"


def test_the_program_for_a_cluster_stands_on_the_page() -> None:
    """`make clients` runs it with Ray."""
    _, _, code = (ROOT / "examples/corpus/ray_translate.py").read_text().partition("\n\n")
    assert f"```py\n{code}```\n" in (ROOT / "docs/scale.md").read_text()


def test_the_program_for_a_cluster_reads_the_lines_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A carriage return within a line and a byte order mark do not make other lines."""
    numbers = []

    class Rows:
        def map_batches(self, *_: object, **options: object) -> "Rows":
            return self

        def take_all(self) -> list[dict[str, Any]]:
            return numbers

    ray = types.ModuleType("ray")
    ray.data = types.ModuleType("ray.data")  # type: ignore[attr-defined]
    ray.init = lambda **_: None  # type: ignore[attr-defined]
    ray.data.from_items = lambda lines: numbers.extend(lines) or Rows()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setitem(sys.modules, "ray.data", ray.data)  # type: ignore[attr-defined]
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_bytes("\ufeffa\rb\r\nc\n".encode())
    monkeypatch.setattr(sys, "argv", ["ray_translate.py", "en-fr", str(source), str(target)])
    runpy.run_path(str(ROOT / "examples/corpus/ray_translate.py"), run_name="__main__")
    assert [each["text"] for each in numbers] == ["a\rb", "c"]
