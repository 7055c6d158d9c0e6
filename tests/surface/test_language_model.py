"""The way of a user with a language model: train, stop and go on, generate, evaluate."""

import json
from pathlib import Path
from typing import Any

import pytest

from foveate import Filler, Generator
from foveate.errors import UsageError

SIZES = (
    *("--no-tune", "--threads", "1", "--set", "model.num_layers=1", "--set", "model.block.num_heads=2"),
    *("--set", "model.block.model_dim=16", "--set", "model.block.feedforward_dim=32", "--set", "data.block_length=16"),
    *("--set", "data.max_tokens=128", "--set", "train.steps=60", "--set", "train.validate_every=30"),
    *("--set", "train.learning_rate=0.01", "--set", "train.save_every=30", "--set", "train.schedule.warmup=5"),
)


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("abcdef\n" * 200)
    return path


@pytest.fixture(scope="module")
def run(foveate: Any, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("language") / "run"
    said = foveate("train", "language_model", "--text", text, "--out", folder, *SIZES)
    assert said.code == 0, said.err
    assert "200 lines, 1,400 characters (6 different)" in said.err
    assert f'Try:  foveate generate {folder} "…"' in said.err
    return folder


def test_a_run_knows_its_task(run: Path) -> None:
    content = json.loads((run / "config.json").read_text())
    assert content["task"] == "language_model"
    assert list(content["tokenisers"]) == ["text.tokeniser.json"]


def test_what_was_learnt_goes_on(foveate: Any, run: Path) -> None:
    said = foveate("generate", run, "abc", "--no-tune", "--lines", "1", "--set", "kind=greedy")
    assert (said.code, said.out) == (0, "abcdef\n")
    said = foveate("generate", run, "abcd", "e", "--no-tune", "--beam", "3", "--length", "4")
    assert said.out == "abcdef\na\n\nef\nab\n"
    said = foveate("generate", run, "--no-tune", "--length", "2", "--set", "kind=greedy", stdin=b"a\nb\n")
    assert said.out == "abc\n\nbcd\n"


def test_samples_are_as_many_as_asked_for_and_the_same_again(foveate: Any, run: Path) -> None:
    words = (
        "generate",
        run,
        "a",
        "--no-tune",
        "--count",
        "3",
        "--length",
        "6",
        "--lines",
        "1",
        "--set",
        "temperature=3.0",
    )
    said = foveate(*words)
    assert said.code == 0
    assert len(said.out.split("\n\n")) == 3
    assert foveate(*words).out == said.out


def test_a_beam_has_as_many_texts_as_it_keeps(foveate: Any, run: Path) -> None:
    said = foveate("generate", run, "ab", "--no-tune", "--beam", "3", "--count", "3", "--length", "4")
    texts = said.out.removesuffix("\n").split("\n\n")
    assert (said.code, len(set(texts))) == (0, len(texts)), said.out
    for words, sentence in ((("--beam", "2"), "a beam of 2 keeps fewer"), (("--set", "kind=greedy"), "search has one")):
        said = foveate("generate", run, "ab", "--no-tune", *words, "--count", "3")
        assert (said.code, sentence in said.err) == (2, True), said.err


def test_a_text_is_scored(foveate: Any, run: Path, text: Path) -> None:
    said = foveate("evaluate", run, "--text", text, "--no-tune", "--json")
    figures = json.loads(said.out)
    assert list(figures) == ["loss", "perplexity", "bits_per_byte", "accuracy"]
    assert figures["bits_per_byte"] < 1.0
    assert "perplexity = " in foveate("evaluate", run, "--text", text, "--no-tune").out


def test_a_finished_run_resumes_to_its_end(foveate: Any, run: Path) -> None:
    before = (run / "model.safetensors").read_bytes()
    said = foveate("resume", run, "--no-tune", "--threads", "1")
    assert said.code == 0, said.err
    assert (run / "model.safetensors").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("train", "language_model", "--source", "x", "--out", "y"),
            "language_model does not take --source; it takes --text",
        ),
        (("train", "language_model", "--out", "y"), "Give --text FILE, or a TOML file"),
        (("train", "language_model", "--text", "-", "--out", "y"), "cannot come from standard input"),
        (("evaluate", "--text", "x"), "give RUN too"),
    ],
)
def test_impossible_requests_are_refused_in_words(foveate: Any, words: tuple[str, ...], says: str) -> None:
    said = foveate(*words)
    assert said.code == 2
    assert says in said.err


def test_a_run_of_another_task_is_named(foveate: Any, run: Path, trained: Path) -> None:
    said = foveate("translate", run, "a", "--no-tune")
    assert (said.code, said.out) == (2, "")
    assert "is a run of the task language_model, but this command is for runs of translate" in said.err
    assert "this command is for runs of language_model" in foveate("generate", trained, "a", "--no-tune").err


def test_context_is_read_and_not_scored(foveate: Any, run: Path, text: Path) -> None:
    words = ("evaluate", run, "--text", text, "--no-tune", "--json")
    alone = json.loads(foveate(*words).out)
    known = json.loads(foveate(*words, "--context", "8").out)
    assert known["bits_per_byte"] < alone["bits_per_byte"]
    said = foveate(*words, "--context", "16")
    assert said.code == 2
    assert "A context of 16 tokens leaves nothing to predict: blocks have 16" in said.err


def test_a_run_leaves_a_report_and_gives_it_again(foveate: Any, run: Path, text: Path, tmp_path: Path) -> None:
    left = (run / "report.html").read_text(encoding="utf-8")
    for part in ("Training", "Samples", "<svg", "Model card", "1,260 tokens of a vocabulary of 10", "foveate generate"):
        assert part in left
    said = foveate("report", run, "--out", tmp_path / "again.html", "--no-tune")
    assert (said.code, said.out, said.err) == (0, "", f"The report is in {tmp_path / 'again.html'}.\n")
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == left
    said = foveate("evaluate", run, "--text", text, "--no-tune", "--report", tmp_path / "tested.html")
    assert "The report is in" in said.err
    assert "test bits_per_byte" in (tmp_path / "tested.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def gaps(foveate: Any, text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("masked") / "run"
    said = foveate("train", "masked_language_model", "--text", text, "--out", folder, *SIZES, "--set", "train.steps=90")
    assert said.code == 0, said.err
    assert f'Try:  foveate fill {folder} "… ___ …"' in said.err
    return folder


def test_a_model_that_fills_gaps_trains_and_goes_on(foveate: Any, gaps: Path) -> None:
    assert json.loads((gaps / "config.json").read_text())["task"] == "masked_language_model"
    assert foveate("resume", gaps, "--no-tune", "--threads", "1").code == 0
    assert "this command is for runs of language_model" in foveate("generate", gaps, "a", "--no-tune").err


def test_gaps_are_filled(foveate: Any, gaps: Path) -> None:
    said = foveate("fill", gaps, "ab___def", "--no-tune", "--best", "2")
    filled, choices = said.out.splitlines()
    assert len(filled) == 6
    assert (filled[:2], filled[3:]) == ("ab", "def")
    number, first, second = choices.split("\t")
    assert number == "1"
    assert first.split()[1] == filled[2]
    assert float(first.split()[0]) >= float(second.split()[0])
    said = foveate("fill", gaps, "--no-tune", "--gap", "?", stdin=b"a?cdef\nabcde?\n")
    assert [len(line) for line in said.out.splitlines()] == [6, 6]
    assert "all attention" in foveate("fill", gaps, "ab___def", "--no-tune", "--look").out


def test_gaps_are_scored_and_reported(foveate: Any, gaps: Path, text: Path, tmp_path: Path) -> None:
    said = foveate("evaluate", gaps, "--text", text, "--no-tune", "--json", "--report", tmp_path / "tested.html")
    assert list(json.loads(said.out)) == ["loss", "perplexity", "accuracy"]
    report = (tmp_path / "tested.html").read_text(encoding="utf-8")
    for part in ("Training", "Scores", "test accuracy", "<svg", "foveate fill"):
        assert part in report


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fill", "RUN", "abc"), "There is no gap in 'abc'. Write ___ where a token is missing."),
        (("fill", "RUN", "abc", "--gap", ""), "--gap is what gaps are written as: it cannot be empty."),
        (("evaluate", "RUN", "--text", "TEXT", "--context", "3"), "--context is for models that read from left to"),
        (("evaluate", "RUN", "--text", "TEXT", "--precision", "bfloat16"), "bfloat16: gaps are scored in float32"),
        (("evaluate", "RUN", "--data", "TEXT"), "of the task masked_language_model, which is not scored with --data."),
        (("evaluate", "RUN", "--context", "3"), "--context is how much of a text is read again before each block"),
    ],
)
def test_texts_that_cannot_be_filled_or_scored_are_refused_in_words(
    foveate: Any, gaps: Path, text: Path, words: tuple[str, ...], says: str
) -> None:
    named = {"RUN": gaps, "TEXT": text}
    said = foveate(*(named.get(word, word) for word in words), "--no-tune")
    assert (said.code, said.out) == (2, "")
    assert says in said.err


def test_a_run_that_is_not_finished_has_a_report(foveate: Any, text: Path, tmp_path: Path) -> None:
    assert foveate("train", "language_model", "--text", text, "--out", tmp_path / "run", *SIZES).code == 0
    for name in ("model.json", "model.safetensors", "report.html"):
        (tmp_path / "run" / name).unlink()
    said = foveate("report", tmp_path / "run", "--no-tune")
    assert said.code == 0, said.err
    assert "those of an unfinished run" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert foveate("report", tmp_path, "--no-tune").code == 3


def test_a_recurrent_attention_network_trains_and_goes_on_past_its_window(
    foveate: Any, text: Path, tmp_path: Path
) -> None:
    sizes = ("model.kind=ran", "model.model_dim=16", "model.num_heads=2", "model.head_dim=8", "model.window=4")
    steps = ("data.block_length=16", "data.max_tokens=128", "train.steps=4", "train.validate_every=4")
    words = [word for setting in (*sizes, *steps) for word in ("--set", setting)]
    run = tmp_path / "run"
    said = foveate("train", "language_model", "--text", text, "--out", run, "--no-tune", "--threads", "1", *words)
    assert said.code == 0, said.err
    said = foveate("generate", run, "abcdef", "--no-tune", "--length", "20", "--set", "kind=greedy")
    assert said.code == 0, said.err
    assert said.out.startswith("abcdef")


def test_numbers_and_texts_that_make_no_sense_are_refused_in_words(run: Path, gaps: Path) -> None:
    generator, filler = Generator.load(run), Filler.load(gaps)
    with pytest.raises(UsageError, match="There is no layer 99"):
        generator.align("abc", layer=99)
    with pytest.raises(UsageError, match="There is no layer -9"):
        filler.align("ab___", layer=-9)
    for best in (0, -1):
        with pytest.raises(UsageError, match="best must be a whole number of at least 1"):
            filler.fill("ab___", best=best)
    with pytest.raises(UsageError, match="gap is empty"):
        filler.fill("ab___", gap="")
    with pytest.raises(UsageError, match="length must be a whole number of at least 1 token"):
        generator.generate("abc", length=0)
    with pytest.raises(UsageError, match="context must be at least 0"):
        generator.evaluate(["abcdef"], context=-5)
    for model in (generator, filler):
        with pytest.raises(TypeError, match="Lines are needed, not one text"):
            model.evaluate("abcdef")


@pytest.mark.parametrize("positions", [4, 16, 64])
def test_a_model_of_few_positions_has_a_report(foveate: Any, positions: int, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question of kůň 漢字 🙂\n" * 40, encoding="utf-8")
    shape = "num_layers=1,block={model_dim=8,num_heads=2,feedforward_dim=8}"
    models = {
        "language_model": f'{{kind="gpt",{shape},position={{kind="learned",max_length={positions}}}}}',
        "masked_language_model": f"{{{shape},max_length={positions}}}",
    }
    for task, model in models.items():
        settings = (f"model={model}", f"data.block_length={positions - 1}", "train.steps=2", "tokeniser=byte")
        words = [word for setting in settings for word in ("--set", setting)]
        said = foveate("train", task, "--text", text, "--out", tmp_path / task, "--no-tune", "--threads", "1", *words)
        assert said.code == 0, said.err
        assert (tmp_path / task / "report.html").exists()
    run, sentence = tmp_path / "language_model", f"has {positions} positions"
    said = foveate("generate", run, "to", "--length", "99", "--set", "kind=greedy")
    assert (said.code, f"{sentence}, so that {positions - 2} tokens can follow" in said.err) == (0, True), said.err
    assert sentence not in foveate("generate", run, "to", "--length", "2", "--set", "kind=greedy").err


@pytest.mark.parametrize("task", ["language_model", "masked_language_model"])
def test_a_validation_text_without_lines_is_refused_before_training(
    foveate: Any, task: str, text: Path, tmp_path: Path
) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    said = foveate("train", task, "--text", text, "--valid-text", empty, "--out", tmp_path / "run", *SIZES)
    assert said.code == 3
    assert f"{empty} has no lines" in said.err


def test_a_shortest_length_beyond_the_longest_yields_to_it(foveate: Any, run: Path) -> None:
    words = ("--set", "kind=greedy", "--set", "min_length=20")
    said = foveate("generate", run, "abc", "--no-tune", "--lines", "1", "--length", "5", *words)
    assert said.code == 0, said.err
    assert said.out.startswith("abcdef")
