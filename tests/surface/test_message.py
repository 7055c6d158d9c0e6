"""Every bad input has a sentence that says what, where and what to try, and its exit code: 2 usage, 3 data, 4 setup."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foveate.config import build
from foveate.data.tokeniser import CharacterTokeniser
from foveate.storage.checkpoint import model_tensors, save_final
from foveate.storage.run import create_run
from foveate.tasks.translate.run_tokeniser import TOKENISERS
from foveate.tasks.translate.task import TranslateConfig, build_model

Refused = Callable[..., tuple[int, str]]
TRAIN_SETTINGS = (
    "steps, max_minutes, learning_rate, schedule, weight_decay, betas, eps, clip_norm, accumulate, reduction, "
    "sharding, precision, device, validate_every, save_every, keep, metric, better, patience, average, "
    "average_of, log_every, stall_seconds, seed"
)
BEAM_SETTINGS = "max_length, min_length, no_repeat_ngram, forbid, beam, num_best, length_penalty"


@pytest.fixture
def refused(foveate: Any) -> Refused:
    """The exit code and the sentence of a command that is refused; nothing but the sentence may follow the command."""

    def refuse(*argv: object, stdin: bytes = b"") -> tuple[int, str]:
        said = foveate(*argv, stdin=stdin)
        assert "Traceback" not in said.err
        return said.code, said.err[said.err.rindex(f"foveate {argv[0]}: ") :].removesuffix("\n")

    return refuse


@pytest.fixture
def training(refused: Refused, tiny: tuple[str, ...], tmp_path: Path) -> Refused:
    """`foveate train` into a new folder, refused; no run is left behind."""

    def train(*words: object) -> tuple[int, str]:
        answer = refused("train", "translate", *tiny, "--out", tmp_path / "new", *words)
        assert not (tmp_path / "new" / "config.json").exists()
        return answer

    return train


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_missing_data_file_is_named(training: Refused, corpus: Path) -> None:
    assert training("--source", corpus / "sources.txt", "--target", corpus / "target.txt") == (
        3,
        f"foveate train: {corpus}/sources.txt: there is no such file. Similar names are: source.txt, target.txt.",
    )
    assert training("--source", corpus / "deeper" / "a.txt") == (
        3,
        f"foveate train: {corpus}/deeper/a.txt: there is no such file, and its folder is missing too; {corpus} exists.",
    )


@pytest.mark.parametrize("task", ["translate", "classify", "tag", "language_model"])
def test_a_missing_validation_file_is_named(refused: Refused, corpus: Path, tmp_path: Path, task: str) -> None:
    """A traceback ended these commands, because the time of the file was asked for before it was opened."""
    (tmp_path / "labelled.tsv").write_text("cat\tA\ndog\tB\n" * 20)
    (tmp_path / "tagged.tsv").write_text("cat\tN\nsleeps\tV\n\n" * 20)
    data = {
        "translate": ("--source", corpus / "source.txt", "--target", corpus / "target.txt", "--valid-source"),
        "classify": ("--data", tmp_path / "labelled.tsv", "--valid-data"),
        "tag": ("--data", tmp_path / "tagged.tsv", "--valid-data"),
        "language_model": ("--text", corpus / "source.txt", "--valid-text"),
    }[task]
    beside = ("--valid-target", corpus / "target.txt") if task == "translate" else ()
    assert refused("train", task, *data, tmp_path / "no" / "valid", *beside, "--out", tmp_path / "new") == (
        3,
        f"foveate train: {tmp_path}/no/valid: there is no such file, and its folder is missing too; {tmp_path} exists.",
    )


def test_unequal_line_counts_are_named(training: Refused, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("a\n" * 299)
    assert training("--source", corpus / "source.txt", "--target", tmp_path / "short.txt") == (
        3,
        f"foveate train: {corpus}/source.txt has 300 lines but {tmp_path}/short.txt has 299. Line n of one must be "
        "the partner of line n of the other: find the missing or additional line.",
    )


def test_a_wrong_encoding_is_named_with_the_conversion(
    training: Refused, refused: Refused, trained: Path, tmp_path: Path
) -> None:
    (tmp_path / "my latin.tsv").write_bytes("thé\tté\n".encode() * 9 + "café\tcoffee\n".encode("latin-1"))
    assert training("--source", tmp_path / "my latin.tsv") == (
        3,
        f"foveate train: {tmp_path}/my latin.tsv:10: byte 0xE9 at offset 84 is not UTF-8. If it is WINDOWS-1252, "
        f"convert it: iconv -f WINDOWS-1252 -t UTF-8 '{tmp_path}/my latin.tsv' > converted.txt",
    )
    assert refused("translate", trained, "--no-tune", stdin="caf\u00e9\n".encode("latin-1")) == (
        3,
        "foveate translate: standard input:1: byte 0xE9 at offset 3 is not UTF-8. If it is WINDOWS-1252, "
        "convert it in the pipe: … | iconv -f WINDOWS-1252 -t UTF-8 | foveate …",
    )


def test_an_empty_file_is_refused(training: Refused, refused: Refused, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "empty.tsv").write_text("")
    assert training("--source", tmp_path / "empty.tsv") == (
        3,
        f"foveate train: {tmp_path}/empty.tsv has no lines. Give a file with pairs to learn from.",
    )
    assert refused("evaluate", trained, "--no-tune", "--source", tmp_path / "empty.tsv") == (
        3,
        f"foveate evaluate: {tmp_path}/empty.tsv has no lines. Give a file with pairs to score the model on.",
    )


def test_too_few_lines_to_hold_some_out(training: Refused, tmp_path: Path) -> None:
    (tmp_path / "few.tsv").write_text("a\tb\n" * 9)
    assert training("--source", tmp_path / "few.tsv") == (
        3,
        f"foveate train: {tmp_path}/few.tsv has 9 pairs: too few to hold some out for validation. "
        "Give at least 10, or validation files with --valid-source (data.valid_source) and --valid-target.",
    )


def test_one_of_a_thing_is_not_many(training: Refused, foveate: Any, tmp_path: Path) -> None:
    (tmp_path / "one.tsv").write_text("a\tb\n")
    assert "one.tsv has 1 pair: too few" in training("--source", tmp_path / "one.tsv")[1]
    (tmp_path / "one.txt").write_text("a\n")
    words = ("--text", tmp_path / "one.txt", "--out", tmp_path / "run", "--no-tune")
    said = foveate("train", "language_model", *words)
    assert said.err.splitlines()[0] == "1 line, 2 characters (1 different)."
    assert said.err.endswith(
        "one.txt has 1 line: too few to hold some out for validation. "
        "Give at least 10, or a validation file with --valid-text (data.valid_text).\n"
    )


def test_lines_that_are_all_too_long(training: Refused, corpus: Path) -> None:
    code, said = training("--source", corpus / "pairs.tsv", "--set", "data.max_length=1")
    assert code == 3
    assert said.startswith("foveate train: No pair is left for the train data. None of 270 pairs are used. 270 have a ")
    assert said.endswith(" Look at these lines, or raise data.max_length and what positions the model has.")


def test_a_column_that_is_missing(training: Refused, corpus: Path) -> None:
    assert training("--source", corpus / "source.txt") == (
        3,
        f"foveate train: {corpus}/source.txt:1: the line has 1 column but column 1 (counted from 0) is required. "
        "Columns have a tab between them; give two files if source and target are in separate files.",
    )


def test_training_from_standard_input_is_refused(training: Refused) -> None:
    assert training("--source", "-") == (
        2,
        "foveate train: Training reads its data several times, so it cannot come from standard input. Save it first.",
    )


def test_training_without_data_is_refused(training: Refused, tmp_path: Path) -> None:
    assert training() == (
        2,
        "foveate train: There is nothing to train on. Give --source FILE (and --target FILE), or a TOML file.",
    )
    (tmp_path / "run.toml").write_text("[train]\nsteps = 3\n")
    assert training(tmp_path / "run.toml") == (
        2,
        "foveate train: data.source is missing: there is nothing to train on. Give --source FILE, or set it.",
    )


# -- configuration -----------------------------------------------------------------------------------------------------


def test_an_unknown_key_in_toml(training: Refused, refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[train]\nstepz = 3\n")
    sentence = f"train.stepz is not a setting. Did you mean 'steps'? The settings are: {TRAIN_SETTINGS}."
    assert training(tmp_path / "run.toml") == (2, f"foveate train: {sentence}")
    assert refused("plan", tmp_path / "run.toml") == (2, f"foveate plan: {sentence}")


def test_an_unknown_key_in_set(training: Refused, corpus: Path) -> None:
    assert training("--source", corpus / "pairs.tsv", "--set", "train.stepz=3") == (
        2,
        f"foveate train: train.stepz is not a setting. Did you mean 'steps'? The settings are: {TRAIN_SETTINGS}.",
    )


def test_a_setting_of_another_kind(refused: Refused) -> None:
    assert refused("plan", "--set", "train.schedule=constant", "--set", "train.schedule.final=0.1") == (
        2,
        "foveate plan: train.schedule.final is not a setting. "
        'The kind is "constant", but only "cosine" and "plateau" have this setting. The settings are: warmup.',
    )


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        (
            "model.kind=bahdanow",
            'model.kind cannot be "bahdanow". Did you mean \'bahdanau\'? '
            'Choose one of: "fixed_context", "bahdanau", "luong", "transformer".',
        ),
        ("model=mine:Model", "model.kind: cannot import 'mine' (No module named 'mine'). "
            "Run from the folder that contains mine.py, or install it."),
        ("train.steps=many", 'train.steps must be a whole number, got "many".'),
        ("train.steps.x=1", '--set train.steps.x=1: train.steps is 2000, not a table of settings.'),
        ("train", "--set train: write a dotted name, = and a value, like train.steps=2000."),
        ("train.betas=0.9", "train.betas must be a list, got 0.9."),
        ("train.betas=[0.9, 1.5]", "train.betas must be at least 0 and less than 1, got [0.9, 1.5]."),
        ("train.learning_rate=-1", "train.learning_rate must be more than 0, got -1.0."),
        ("train.precision=float16", 'train.precision cannot be "float16". Did you mean \'bfloat16\'? '
            'Choose one of: "float32", "bfloat16".'),
        ("train.metric=bleu", "train.metric must be one of loss, perplexity, accuracy, alignment, got 'bleu'."),
        ("train.metric=alignment", "train.metric cannot be alignment: there are no links of validation pairs. "
            "Give --links FILE (data.links), of whose pairs some are held out, or --valid-links FILE "
            "(data.valid_links) beside --valid-source."),
        ("label_smoothing=2", "label_smoothing must be at least 0 and less than 1, got 2.0."),
        ("seed=-1", "seed must be at least 0 and less than 2 to the power of 63, got -1."),
        ("data=3", "data must be a table of settings, got 3."),
        ("data.valid_target=a.txt",
            "data.valid_target is given without valid_source, whose lines are its partners."),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_the_choices(
    training: Refused, corpus: Path, assignment: str, sentence: str
) -> None:
    assert training("--source", corpus / "pairs.tsv", "--set", assignment) == (2, f"foveate train: {sentence}")


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["model=transformer", "model.block.num_heads=3"], "model.block.num_heads=3 does not divide model_dim=256."),
        (["model.hidden_dim=0"], "model.hidden_dim must be at least 1, got 0."),
        (["model.embedding_dim=-4"], "model.embedding_dim must be at least 1, got -4."),
        (["model.dropout=1.5"], "model.dropout is a dropout probability and must be in [0, 1), got 1.5."),
        (["model=transformer", "model.block.model_dim=0"], "model.block.model_dim must be at least 1, got 0."),
    ],
)
def test_sizes_and_rates_that_cannot_be(refused: Refused, settings: list[str], sentence: str) -> None:
    words = (word for setting in settings for word in ("--set", setting))
    assert refused("plan", "--no-tune", *words) == (2, f"foveate plan: {sentence}")


def test_a_model_whose_parts_do_not_fit(refused: Refused) -> None:
    code, said = refused("plan", "--no-tune", "--set", "model=transformer", "--set", "model.block.model_dim=15",
        "--set", "model.block.num_heads=3")  # fmt: skip
    assert code == 2
    assert said.startswith("foveate plan: The model cannot be built as configured: Sinusoidal positions pair sines")


def test_an_invalid_toml_file_is_named(training: Refused, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text("[train]\nsteps = many\n")
    assert training(path) == (
        2,
        f"foveate train: {path} is not TOML: Invalid value (at line 2, column 9). "
        "Text needs quotes; true and false are lower-case.",
    )
    path.write_bytes(b"# caf\xe9\n")
    assert training(path) == (2, f"foveate train: {path}:1: byte 5 is not UTF-8. Save the file as UTF-8.")
    assert training(tmp_path / "ran.toml") == (
        2,
        f"foveate train: {tmp_path}/ran.toml: there is no such file. Similar names are: run.toml.",
    )


def test_a_plan_beyond_the_models_positions(refused: Refused) -> None:
    positions = (
        "--set",
        "model=transformer",
        "--set",
        "model.position=learned",
        "--set",
        "model.position.max_length=9",
    )
    assert refused("plan", "--no-tune", *positions) == (
        2,
        "foveate plan: The model has 9 positions, the batch needs 31. Raise max_length, of the model's positions or "
        "attention, or plan for less with --source-length and --target-length.",
    )
    assert refused("plan", "--no-tune", "--vocab", "4") == (
        2,
        "foveate plan: A vocabulary of 4 has no room for text beside the 4 special tokens. Raise --vocab.",
    )


@pytest.mark.parametrize("option", ["--threads", "--beam", "--n-best"])
def test_an_invalid_count_is_named(foveate: Any, option: str) -> None:
    said = foveate("translate", "run", option, "0")
    assert said.code == 2
    assert said.err.endswith(f"error: argument {option}: must be a whole number of at least 1, got '0'\n")


# -- run folders -------------------------------------------------------------------------------------------------------


def test_a_folder_that_holds_a_run(refused: Refused, recipe: tuple[str, ...], run: Path) -> None:
    assert refused(*recipe, "--out", run) == (
        2,
        f"foveate train: {run} contains a run already. Continue it with `foveate resume {run}`, or name another "
        "folder.",
    )
    assert refused(*recipe, "--out", run / "config.json") == (
        2,
        f"foveate train: {run}/config.json is a file. Name a folder for the run.",
    )
    assert refused(*recipe, "--out", run / "config.json" / "run") == (
        4,
        f"foveate train: {run}/config.json/run cannot be written: Not a directory. "
        "Check the folder or choose another; earlier files are unchanged.",
    )


@pytest.mark.parametrize("command", ["translate", "look", "evaluate", "resume"])
def test_a_folder_without_a_run_is_named(refused: Refused, corpus: Path, command: str, trained: Path) -> None:
    words: dict[str, list[object]] = {"look": ["abc"], "evaluate": ["--source", corpus / "pairs.tsv"]}
    rest = ["--no-tune", *words.get(command, [])]
    assert refused(command, corpus, *rest) == (
        3,
        f"foveate {command}: {corpus} is not a run folder: it has no config.json. "
        "Give the folder that `foveate train … --out` made.",
    )
    assert refused(command, trained.parent, *rest) == (
        3,
        f"foveate {command}: {trained.parent} is not a run folder: it has no config.json. Did you mean {trained}?",
    )


def test_a_run_of_another_version(refused: Refused, run: Path) -> None:
    path = run / "config.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "format": 2}))
    assert refused("translate", run, "abc", "--no-tune") == (
        3,
        f"foveate translate: {path} has run format 2, but this version of foveate reads format 1. "
        "Install the version of foveate that made the run, or train again.",
    )
    content["config"]["glow"] = True
    path.write_text(json.dumps(content))
    assert refused("translate", run, "abc", "--no-tune") == (
        2,
        f"foveate translate: {path}: glow is not a setting. The settings are: data, source_tokeniser, "
        "target_tokeniser, joint_vocabulary, model, guide, label_smoothing, unlikelihood, preference, "
        "decode, seed, initialise_from, new_vocabulary.",
    )
    path.write_text("{")
    assert refused("translate", run, "abc", "--no-tune") == (
        3,
        f"foveate translate: {path} cannot be read as JSON: Expecting property name enclosed in double quotes: "
        "line 1 column 2 (char 1).",
    )


def test_a_run_without_weights_is_refused(refused: Refused, run: Path) -> None:
    (run / "model.safetensors").unlink()
    shutil.rmtree(run / "checkpoints")
    assert refused("translate", run, "abc", "--no-tune") == (
        3,
        f"foveate translate: {run} has no trained weights: neither model.json nor a sound checkpoint. "
        "Train first, or name another run.",
    )


def test_damaged_weights_are_named(refused: Refused, foveate: Any, run: Path) -> None:
    path = run / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert refused("translate", run, "abc", "--no-tune") == (
        3,
        f"foveate translate: {path} is not the file that was saved: its SHA-256 differs. "
        "Delete it to use the best checkpoint.",
    )
    path.unlink()
    assert foveate("translate", run, "abc", "--no-tune").code == 0


def test_weights_whose_digest_was_deleted(refused: Refused, foveate: Any, run: Path) -> None:
    (run / "model.json").unlink()
    path = run / "model.safetensors"
    assert refused("translate", run, "abc", "--no-tune") == (
        3,
        f"foveate translate: {path} has no model.json beside it with its digest, so that damage cannot be detected. "
        "Restore model.json from a copy of the run, or delete model.safetensors to use the best checkpoint.",
    )
    path.unlink()
    assert foveate("translate", run, "abc", "--no-tune").code == 0


def test_a_tokeniser_of_another_run(refused: Refused, run: Path) -> None:
    path = run / "source.tokeniser.json"
    CharacterTokeniser.train(["another alphabet"]).save(path)
    code, said = refused("translate", run, "abc")
    assert code == 3
    assert said.startswith(f"foveate translate: {path} is not the tokeniser that this model was trained with: ")
    assert said.endswith("Restore the file of this run.")


def test_a_changed_tokeniser_file_is_refused(refused: Refused, run: Path) -> None:
    path = run / "source.tokeniser.json"
    path.write_text(path.read_text().replace('"a"', '"z"'))
    for command in (["translate", run, "abc"], ["resume", run]):
        assert refused(*command, "--no-tune") == (
            3,
            f"foveate {command[0]}: {path} has changed since it was written: its digest differs. "
            "Restore it from a copy of the run.",
        )
    path.unlink()
    assert refused("translate", run, "abc", "--no-tune") == (
        3,
        f"foveate translate: {path}: the tokeniser file does not exist. Is this the folder of a finished `train`?",
    )


# -- use ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def short_sighted(tmp_path: Path) -> Path:
    """A run whose model has six positions, untrained."""
    block = {"model_dim": 8, "num_heads": 2, "feedforward_dim": 8}
    model = {"kind": "transformer", "position": {"kind": "learned", "max_length": 6}, "block": block}
    create_run(tmp_path / "short", "translate", {"model": model})
    tokeniser = CharacterTokeniser.train(["abc"])
    for name in TOKENISERS:
        tokeniser.save(tmp_path / "short" / name)
    config = build(TranslateConfig, {"model": model})
    built = build_model(config, tokeniser.vocab_size, tokeniser.vocab_size)
    save_final(tmp_path / "short", model_tensors(built), {"weights": "initial"})
    return tmp_path / "short"


def test_an_input_longer_than_the_models_positions(refused: Refused, foveate: Any, short_sighted: Path) -> None:
    sentence = (
        "has 6 tokens and an end, but the model has 6 positions: 'abcabc'. "
        "Split it into sentences; nothing is cut off silently."
    )
    assert refused("translate", short_sighted, "--no-tune", stdin=b"abc\nabcabc\n") == (
        3,
        f"foveate translate: Input 2 {sentence}",
    )
    assert refused("look", short_sighted, "abc", "--target", "abcabc", "--no-tune") == (
        3,
        f"foveate look: The target {sentence}",
    )
    assert foveate("translate", short_sighted, "abcab", "--align", "--no-tune").code == 0


def test_an_empty_text_to_look_at(refused: Refused, trained: Path) -> None:
    assert refused("look", trained, "", "--no-tune") == (
        2,
        "foveate look: The text is empty: there is nothing to look at.",
    )
    assert refused("look", trained, "   ", "--why", "--no-tune") == (
        2,
        "foveate look: The text is empty: there is nothing to look at.",
    )
    assert refused("look", trained, "", "--target", "abc", "--no-tune") == (
        3,
        "foveate look: The source is empty: there is nothing to translate. Give at least one character.",
    )


def test_a_layer_a_head_or_an_ending_that_there_is_not(refused: Refused, trained: Path, tmp_path: Path) -> None:
    look = ("look", trained, "abc", "--no-tune")
    assert refused(*look, "--layer", "4") == (2, "foveate look: There is no layer 4: the model has 1, counted from 0.")
    assert refused(*look, "--head", "2") == (
        2,
        "foveate look: There is no head 2: layer 0 (attention) has 1, counted from 0.",
    )
    assert refused(*look, "--out", tmp_path / "a.jpg") == (
        2,
        f"foveate look: {tmp_path}/a.jpg: an alignment is not written as '.jpg'. Choose .svg (a vector picture with "
        "text in any script); .pdf (a vector picture with embedded fonts, for papers); .png (a picture "
        "of pixels); .txt (text blocks as in the terminal); .pharaoh (the hard links, `source-target` pairs).",
    )
    assert refused(*look, "--out", tmp_path / "none" / "a.svg") == (
        4,
        f"foveate look: {tmp_path}/none/a.svg: cannot write the alignment: No such file or directory. "
        "Choose a folder that exists and is yours.",
    )


@pytest.mark.parametrize(
    ("assignment", "sentence"),
    [
        ("kind=sampel", "decode.kind cannot be \"sampel\". Did you mean 'sample'? "
            'Choose one of: "greedy", "beam", "sample".'),
        ("decode.kind=sampel", "decode.kind cannot be \"sampel\". Did you mean 'sample'? "
            'Choose one of: "greedy", "beam", "sample".'),
        ("temperature=0.5", 'decode.temperature is not a setting. The kind is "beam", but only "sample" has this '
            f"setting. The settings are: {BEAM_SETTINGS}."),
        ("baem=3", f"decode.baem is not a setting. Did you mean 'beam'? The settings are: {BEAM_SETTINGS}."),
        ("beam", "--set beam: write a dotted name, = and a value, like train.steps=2000."),
        ("no_repeat_ngram=-1", "decode.no_repeat_ngram is a number of tokens and cannot be negative, got -1."),
        ("forbid=[900]", "decode: token 900 is forbidden, but the model's tokens are 0 to 19."),
    ],
)  # fmt: skip
def test_a_wrong_setting_of_decoding(refused: Refused, trained: Path, assignment: str, sentence: str) -> None:
    assert refused("translate", trained, "abc", "--no-tune", "--set", assignment) == (
        2,
        f"foveate translate: {sentence}",
    )


@pytest.fixture
def evaluation(corpus: Path, trained: Path) -> tuple[object, ...]:
    return ("evaluate", trained, "--source", corpus / "pairs.tsv", "--no-tune")


@pytest.fixture
def no_translation(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with a command has to be said before hours of work."""

    def translate(*arguments: object, **keywords: object) -> None:
        raise AssertionError("something was translated")

    monkeypatch.setattr("foveate.tasks.translate.use.Translator.translate", translate)


@pytest.mark.usefixtures("no_translation")
def test_an_unknown_metric_gets_a_suggestion(refused: Refused, evaluation: tuple[object, ...]) -> None:
    assert refused(*evaluation, "--metrics", "chrf, blue") == (
        2,
        "foveate evaluate: There is no metric 'blue'. Did you mean 'bleu'? Choose one of: bleu, bleu_zh, chrf, ter, "
        "word_error, phone_error, character_error, sentence_error.",
    )


@pytest.mark.usefixtures("no_translation")
@pytest.mark.parametrize("option", ["--save", "--report"])
def test_a_place_that_cannot_be_written(
    refused: Refused, evaluation: tuple[object, ...], corpus: Path, option: str
) -> None:
    place = corpus / "pairs.tsv" / ("output.txt" if option == "--save" else "report.html")
    assert refused(*evaluation, option, place) == (
        4,
        f"foveate evaluate: {place} cannot be written: File exists. Check the folder or choose another; "
        "earlier files are unchanged.",
    )


def test_evaluate_names_its_missing_files(refused: Refused, corpus: Path) -> None:
    assert refused("evaluate") == (
        2,
        "foveate evaluate: Give RUN with --source (and --target, or --gold) or --data, or --output with --target, or "
        "--links with --gold.",
    )
    assert refused("evaluate", "--output", "a.txt") == (
        2,
        "foveate evaluate: --output needs --target FILE, the reference lines.",
    )
    assert refused("evaluate", "--links", "a.txt") == (
        2,
        "foveate evaluate: --links needs --gold FILE, the alignments to compare with.",
    )
    links = corpus / "source.txt"
    assert refused("evaluate", "--links", links, "--gold", links) == (
        3,
        f"foveate evaluate: {links}:1: 'mgei' is not a link. "
        "Write source-target, counted from 0: 0-0 (sure), 1?2 (possible).",
    )


@pytest.mark.usefixtures("no_translation")
@pytest.mark.parametrize(
    ("package", "metric", "sentence"),
    [
        ("sacrebleu", "chrf", "BLEU, chrF and TER need sacrebleu: pip install 'foveate[eval]'"),
        ("jiwer", "word_error", "Word, phone and character error need jiwer: pip install 'foveate[eval]'"),
    ],
)
def test_a_package_for_scores_that_is_missing(
    refused: Refused,
    evaluation: tuple[object, ...],
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    metric: str,
    sentence: str,
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    assert refused(*evaluation, "--metrics", metric) == (4, f"foveate evaluate: {sentence}")


def test_a_package_for_tokens_that_is_missing(training: Refused, monkeypatch: pytest.MonkeyPatch, corpus: Path) -> None:
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    assert training("--source", corpus / "pairs.tsv", "--set", "source_tokeniser=sentencepiece") == (
        4,
        "foveate train: The tokeniser 'sentencepiece' needs the package sentencepiece. Run: pip install sentencepiece",
    )


def test_debug_shows_where_it_happened(foveate: Any, corpus: Path) -> None:
    said = foveate("translate", corpus, "abc", "--no-tune", "--debug")
    assert said.code == 3
    assert said.err.startswith("Traceback (most recent call last):\n")
    assert said.err.endswith("Give the folder that `foveate train … --out` made.\n")


def test_an_unknown_command_and_an_unknown_task(foveate: Any) -> None:
    said = foveate("translat")
    assert said.code == 2
    assert "invalid choice: 'translat' (choose from" in said.err
    assert foveate("train", "sing", "--out", "run").code == 2
    assert foveate().code == 2
