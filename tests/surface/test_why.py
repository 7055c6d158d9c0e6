"""`foveate look --why` and `foveate evaluate --faithfulness`, as a user calls them."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from foveate.errors import UsageError
from foveate.inspect.attribution import leave_one_out
from foveate.storage.run import read_run
from foveate.storage.shipped import run_folder
from foveate.tasks import TASKS
from foveate.tasks.translate.use import Translator

EXAMPLE = Path(__file__).parents[2] / "examples" / "faithfulness"
NOWHERE = "nowhere/"
METHODS = ["attention", "attention × norm", "gradient × input", "integrated gradients", "leave-one-out"]


def test_reasons_are_printed_and_written_with_the_numbers_of_python(
    foveate: Any, trained: Path, tmp_path: Path
) -> None:
    said = foveate("look", trained, "abc", "--target", "cba", "--why", "--no-tune")
    assert said.code == 0, said.err
    assert [line.split("  ")[0] for line in said.out.splitlines() if "ln p" in line] == ["c", "b", "a"]
    assert "words are removed" in said.out
    assert "rollout is left out: Rollout follows self-attention" in said.out
    for name in ("a.json", "a.svg", "a.txt"):
        path = tmp_path / name
        said = foveate("look", trained, "abc", "--target", "cba", "--why", "b", "--out", path, "--no-tune")
        assert (said.code, said.out) == (0, ""), said.err
    table = json.loads((tmp_path / "a.json").read_text())
    [word] = table["outputs"]
    assert (word["word"], list(word["scores"])) == ("b", METHODS)
    translator = Translator.load(trained)
    drops = leave_one_out(translator.answer(translator.forced("abc", "cba"))).scores[1]
    np.testing.assert_allclose(word["scores"]["leave-one-out"], drops, atol=2e-5)
    assert (tmp_path / "a.svg").read_text().count("<polyline") == 1 + len(METHODS)


def test_a_file_of_texts_is_measured(foveate: Any, tmp_path: Path) -> None:
    source, pairs = tmp_path / "source.txt", tmp_path / "pairs.tsv"
    source.write_text("A man\n\nA dog\n")
    pairs.write_text("A man\tUn homme\n\nA dog\tUn chien\n")
    options = ("--faithfulness", "--no-tune")
    said = foveate("evaluate", "en-fr", "--source", source, *options)
    assert said.code == 0, said.err
    assert "| leave-one-out | 1.000 ± 0.000 |" in said.out
    assert "2 texts" in said.err
    plain = json.loads(foveate("evaluate", "en-fr", "--source", pairs, *options, "--json", "--occlude", "unknown").out)
    assert (plain["sentences"], plain["way"], set(plain["figures"])) == (2, "unknown", {*METHODS, "rollout"})


def test_texts_without_an_answer_are_left_out_by_name(
    monkeypatch: pytest.MonkeyPatch, foveate: Any, tmp_path: Path
) -> None:
    translator = Translator.load(run_folder("en-fr"))
    with pytest.raises(UsageError, match="The translation has no words"):
        translator.answer(translator.forced("A man .", ""))
    whole = Translator.answer

    def answer(self: Translator, text: Any) -> Any:
        return whole(self, self.forced(text, "") if text == "A dog ." else text)

    monkeypatch.setattr(Translator, "answer", answer)
    (tmp_path / "source.txt").write_text("A dog .\nA man\n")
    said = foveate("evaluate", "en-fr", "--source", tmp_path / "source.txt", "--faithfulness", "--no-tune")
    assert (said.code, "Left out 1 text of 2. The first: The translation has no words" in said.err) == (0, True), (
        said.err
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("look abc --why --words", "--words goes with drawings of attention, and would change nothing with --why."),
        ("look abc --why --ablations", "--ablations goes with a page: --html, and would change nothing with --why."),
        ("look abc --why --beside run", "--beside goes with the viewer and a page: --html, and would change nothing"),
        ("look abc --why --dpi 300 --out a.svg", "--dpi goes with --out FILE.png, and would change nothing here."),
        ("look --why", 'Give one text before --why: `foveate look nowhere/ "…" --why`.'),
        ("look abc --occlude mask", "--occlude goes with --why, and would change nothing without."),
        ("evaluate --source a --occlude mask", "--occlude goes with --faithfulness, and would change nothing without."),
        ("evaluate --source a --faithfulness --metrics bleu", "--metrics goes with translations and transcripts"),
        ("evaluate --output a --faithfulness", "--faithfulness needs RUN and a file of texts"),
    ],
)
def test_options_without_effect_are_refused(foveate: Any, words: str, said: str) -> None:
    command, *others = words.split()
    refused = foveate(command, *([] if "--output" in others else [NOWHERE]), *others)
    assert (refused.code, f"foveate {command}: {said}" in refused.err) == (2, True), refused.err


def test_words_and_ways_that_are_not_there_are_named(foveate: Any, trained: Path, tmp_path: Path) -> None:
    look = ("look", trained, "abc", "--target", "cba", "--no-tune", "--why")
    assert "The answer has no word 'z'. It has 0 c, 1 b, 2 a." in foveate(*look, "z").err
    assert "\nb  (ln p" in f"\n{foveate('look', trained, 'abc', '--target', 'b.', '--no-tune', '--why', 'b').out}"
    assert "There is no head 9" in foveate(*look, "--head", "9").err
    assert "There is no layer 9" in foveate(*look, "--layer", "9").err
    assert "does not mask words. Choose one of: remove, unknown." in foveate(*look, "--occlude", "mask").err
    assert "a table of reasons is not written as '.html'" in foveate(*look, "--out", tmp_path / "a.html").err
    with pytest.raises(UsageError, match="a run of the task caption that reads no words has none"):
        TASKS["caption"].side.require_words(object(), "--why")


def test_the_script_adds_the_figures_of_a_seed(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("faithfulness_example", EXAMPLE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    (tmp_path / "source.tsv").write_text("A man .\tUn homme .\nA dog .\tUn chien .\n")
    options = ("--run", "en-fr", "--data", str(tmp_path / "source.tsv"), "--results", str(tmp_path / "r.json"))
    assert script.main(["a row", "--sentences", "1", *options]) == 0
    path = tmp_path / "r.json"
    ((seed, one),) = json.loads(path.read_text())["a row"]["attention"].items()
    assert seed == str(read_run(run_folder("en-fr")).config["seed"])
    assert (0 < one["first"] <= 1, one["first error"]) == (True, None)
    other = str(int(seed) + 1)
    results = json.loads(path.read_text())
    results["a row"]["attention"][other] = one
    path.write_text(json.dumps(results))
    assert script.main(["a row", "--sentences", "2", *options]) == 0
    results = json.loads(path.read_text())
    assert results["a row"]["attention"][other] == one != results["a row"]["attention"][seed]
    assert results["measurements"]["a row"][seed]["sentences"] == 2
