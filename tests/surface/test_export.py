"""A run for other engines, and other engines for a run."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from foveate.cli.program import build_parser
from foveate.data.tokeniser import EOS
from foveate.decode import GreedyConfig
from foveate.export.target import QUANTISATIONS, TARGETS
from foveate.storage.checkpoint import load_weights, save_final
from foveate.tasks.exported import export
from foveate.tasks.translate.engine import ENGINES, Engine, availability
from foveate.tasks.translate.use import Translator

QUIET = ("--no-tune", "--threads", "1")


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory, foveate: Any, corpus: Path) -> Path:
    """A tiny Transformer, trained for long enough to end its sentences."""
    run = tmp_path_factory.mktemp("transformer") / "run"
    settings = ("model=transformer", "model.encoder_layers=1", "model.decoder_layers=1", "model.block.model_dim=16")
    settings += ("model.block.num_heads=2", "model.block.feedforward_dim=32", "data.max_tokens=256")
    settings += ("train.steps=150", "train.validate_every=150", "train.save_every=150", "train.learning_rate=0.01")
    options = [word for setting in settings for word in ("--set", setting)]
    said = foveate("train", "translate", "--source", corpus / "pairs.tsv", *QUIET, *options, "--out", run)
    assert said.code == 0, said.err
    return run


def translated(foveate: Any, run: Path, *options: object) -> Any:
    return foveate("translate", run, *QUIET, *options, stdin=b"abc\nbca\n\ncabba\nab\n")


@pytest.mark.parametrize("engine", ["own", "onnx", "ctranslate2"])
def test_greedy_translations_are_the_same_by_every_exact_engine(engine: str, foveate: Any, transformer: Path) -> None:
    expected = translated(foveate, transformer, "--beam", 1)
    found = translated(foveate, transformer, "--beam", 1, "--engine", engine)
    assert (found.code, found.out) == (expected.code, expected.out)
    assert found.code == 0
    assert len(set(found.out.splitlines())) > 2


def test_beam_search_by_onnx_is_ours(foveate: Any, trained: Path) -> None:
    assert translated(foveate, trained, "--engine", "onnx").out == translated(foveate, trained).out


def test_int8_translates_too(foveate: Any, transformer: Path) -> None:
    said = translated(foveate, transformer, "--beam", 1, "--engine", "ctranslate2-int8")
    assert (said.code, len(said.out.splitlines())) == (0, 5)


def test_a_hypothesis_beyond_the_positions_of_a_graph_is_left_to_our_engine(transformer: Path) -> None:
    model = Translator.load(transformer).model
    engine, sources = Engine(model, "onnx"), [[5] * 20 + [EOS]]
    limit = engine._stepper.max_length
    config = GreedyConfig(max_length=2 * limit, min_length=limit + 1)
    longer = engine.decode(sources, [0], config)
    assert longer == Engine(model, "own").decode(sources, [0], config)
    assert len(longer[0][0].tokens) > limit


def test_an_engine_that_cannot_express_the_model_says_why_and_what_to_do(foveate: Any, trained: Path) -> None:
    said = translated(foveate, trained, "--engine", "ctranslate2")
    assert (said.code, said.out) == (2, "")
    assert said.err == (
        "foveate translate: CTranslate2 cannot express this model: the model is a Bahdanau, not a Transformer. "
        "Export it with `--to onnx`, or use foveate's own engine, which runs every model.\n"
    )


def test_a_way_to_decode_that_an_engine_lacks_is_refused(foveate: Any, transformer: Path) -> None:
    said = translated(foveate, transformer, "--engine", "ctranslate2", "--set", "kind=sample")
    assert said.code == 2
    assert "samples with another random generator" in said.err
    assert "Leave out --engine" in said.err


def test_an_alignment_is_drawn_whatever_decoded(foveate: Any, transformer: Path) -> None:
    options = ("--beam", 1, "--align")
    by_other = translated(foveate, transformer, *options, "--engine", "ctranslate2")
    assert by_other.out == translated(foveate, transformer, *options).out


def test_precision_and_engine_that_exclude_each_other_are_refused(foveate: Any, transformer: Path) -> None:
    said = translated(foveate, transformer, "--engine", "ctranslate2", "--precision", "bfloat16")
    assert said.code == 2
    assert "its weights are not float32" in said.err


@pytest.mark.parametrize("target", TARGETS)
def test_an_export_has_the_model_its_tokenisers_and_how_to_use_them(
    target: str, foveate: Any, transformer: Path, tmp_path: Path
) -> None:
    for _ in range(2):  # an earlier export is replaced
        said = foveate("export", transformer, "--to", target, tmp_path / "out")
        assert (said.code, said.err) == (0, "")
    assert f"MB for {target}" in said.out
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"export.json", "source.tokeniser.json", "target.tokeniser.json"} < names
    assert ({"encoder.onnx", "step.onnx"} if target == "onnx" else {"model.bin", "config.json"}) < names
    described = json.loads((tmp_path / "out" / "export.json").read_text())
    assert (described["format"], described["quantisation"]) == (target, "float32")
    assert described["weights"] == "checkpoint of step 150"
    assert not list(tmp_path.glob(".tmp-*"))
    refused = foveate("translate", tmp_path / "out", "abc")
    assert refused.code == 3
    assert "is an export for other programs, not a run" in refused.err


def test_a_quantised_export_is_smaller(foveate: Any, transformer: Path, tmp_path: Path) -> None:
    sizes = []
    for kind in ("float32", "int8"):
        foveate("export", transformer, "--to", "ctranslate2", tmp_path / kind, "--quantisation", kind)
        sizes.append((tmp_path / kind / "model.bin").stat().st_size)
    assert sizes[1] < sizes[0]


def test_an_export_of_rounded_weights_says_so(transformer: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(transformer, run)
    save_final(run, load_weights(run)[0], {"weights": "checkpoint of step 150"}, stored="int8")
    described = json.loads((export(run, tmp_path / "out", to="ctranslate2") / "export.json").read_text())
    assert described["weights"] == "checkpoint of step 150, rounded to int8"


def test_nothing_but_an_earlier_export_is_replaced(foveate: Any, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    said = foveate("export", trained, "--to", "onnx", tmp_path)
    assert said.code == 2
    assert "not an earlier export" in said.err
    assert (tmp_path / "letter.txt").read_text() == "dear"
    (tmp_path / "letter.txt").unlink()
    for content in ('{"sheets": ["a"]}', '[{"row": 1}]', ""):
        (tmp_path / "export.json").write_text(content)
        said = foveate("export", trained, "--to", "onnx", tmp_path)
        assert (said.code, "not an earlier export" in said.err) == (2, True)
        assert (tmp_path / "export.json").read_text() == content


@pytest.mark.parametrize("target", TARGETS)
def test_files_beside_those_of_an_earlier_export_are_kept(
    target: str, foveate: Any, transformer: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    command = ("export", transformer, "--to", target, out)
    assert foveate(*command).code == 0
    (out / ".DS_Store").write_text("of a file manager")
    assert foveate(*command).code == 0
    (out / "model.int8.onnx").write_text("mine")
    said = foveate(*command)
    assert (said.code, "also holds model.int8.onnx, which would be deleted" in said.err) == (2, True), said.err
    assert (out / "model.int8.onnx").read_text() == "mine"
    (out / "model.int8.onnx").rename(out / ".gitignore")
    said = foveate(*command)
    assert (said.code, "also holds .gitignore, which would be deleted" in said.err) == (2, True), said.err
    (out / ".gitignore").rename(tmp_path / "mine")
    described = json.loads((out / "export.json").read_text())
    del described["written"]  # as version 0.1 wrote it
    for description in (json.dumps(described), "{"):
        (out / "export.json").write_text(description)
        (out / "notes.txt").write_text("mine")
        said = foveate(*command)
        assert (said.code, "also holds notes.txt, which would be deleted" in said.err) == (2, True), said.err
        (out / "notes.txt").unlink()
        assert foveate(*command).code == 0


def test_onnx_is_quantised_by_its_own_tools(foveate: Any, trained: Path, tmp_path: Path) -> None:
    said = foveate("export", trained, "--to", "onnx", tmp_path / "out", "--quantisation", "int8")
    assert said.code == 2
    assert "quantise the files" in said.err


@pytest.mark.parametrize(
    ("command", "option", "choices"),
    [
        ("export", "--to", TARGETS),
        ("export", "--quantisation", QUANTISATIONS),
        ("translate", "--engine", ENGINES),
    ],
)
def test_the_command_line_knows_all_there_are(command: str, option: str, choices: tuple[str, ...]) -> None:
    parser = build_parser([command]).commands[command]
    assert tuple(parser._option_string_actions[option].choices or ()) == choices


def test_every_engine_says_why_it_refuses_a_model(transformer: Path, trained: Path) -> None:
    assert set(availability().values()) == {""}
    assert "not a Transformer" in availability(Translator.load(trained).model)["ctranslate2"]
    assert set(availability(Translator.load(transformer).model).values()) == {""}
    assert set(availability()) == {*ENGINES} - {"auto"}


def test_the_doctor_names_the_engines() -> None:
    from foveate.cli.doctor import _engines

    assert _engines() == "own by default; for --engine also ctranslate2, ctranslate2-int8, onnx"
