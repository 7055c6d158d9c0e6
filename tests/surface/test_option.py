"""An option that would change nothing is refused, and so is a file whose name promises another kind."""

from pathlib import Path
from typing import Any

import pytest

from foveate.storage.run import create_run

NOWHERE = "nowhere/run"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("RUN --source a --per-head", "--per-head goes with RUN and --gold"),
        ("RUN --source a --per-class", "--per-class goes with RUN and --data"),
        ("RUN --source a --head 0", "--head goes with RUN and --gold"),
        ("RUN --source a --gold b --beam 2", "--beam goes with RUN and --source"),
        ("RUN --source a --gold b --per-head --layer 0", "--layer goes with --gold alone"),
        ("RUN --text a --per-class", "--per-class goes with RUN and --data, and would change nothing where --text is"),
        ("RUN --text a --save b", "--save goes with RUN and --source or --data"),
        ("RUN --text a --metrics bleu", "--metrics goes with translations"),
        ("RUN --output a --target b", "RUN goes with --source, --data or --text"),
        ("--output a --target b --save c", "--save goes with"),
        ("--links a --gold b --target c", "--target goes with --source or --output"),
        ("--links a --gold b --metrics bleu", "--metrics goes with translations"),
        ("RUN --source a --report b.pdf", "--report writes HTML, and the ending of b.pdf promises PDF."),
    ],
)
def test_an_evaluation_takes_what_it_uses(foveate: Any, words: str, said: str) -> None:
    refused = foveate("evaluate", *(NOWHERE if word == "RUN" else word for word in words.split()))
    assert (refused.code, f"foveate evaluate: {said}" in refused.err) == (2, True), refused.err


def test_a_translator_is_not_scored_with_labelled_data(foveate: Any, trained: Path) -> None:
    for run in (trained, "en-fr"):
        said = foveate("evaluate", run, "--data", "nowhere.tsv")
        expected = f"{run} is a run of the task translate, which is not scored with --data. Use --source. "
        expected += "--source pairs.tsv reads tab-separated pairs."
        assert (said.code, said.err) == (2, f"foveate evaluate: {expected}\n")


def test_a_run_of_another_task_is_refused_before_its_data_are_read(foveate: Any, tmp_path: Path) -> None:
    create_run(tmp_path / "run", "tag", {})
    said = foveate("evaluate", tmp_path / "run", "--source", "nowhere.tsv")
    assert (said.code, said.err) == (
        2,
        f"foveate evaluate: {tmp_path}/run is a run of the task tag, which is not scored with --source. Use --data.\n",
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("abc --svg page.pdf", "--svg writes SVG, and the ending of page.pdf promises PDF."),
        ("abc --png page.svg", "--png writes PNG, and the ending of page.svg promises SVG."),
        ("abc --pdf page.png", "--pdf writes PDF, and the ending of page.png promises PNG."),
        ("abc --html page.svg", "--html writes HTML, and the ending of page.svg promises SVG."),
        ("abc --text abc", "The text is there twice."),
        ("abc --site 1 --layer 0 --svg a.svg", "--site and --layer both say which attention."),
        ("abc --site 1", "--site goes with --png, --svg, --pdf and --steps"),
        ("abc --scale log", "--scale goes with pictures: --png, --svg, --pdf or --out"),
        ("abc --dpi 300 --svg a.svg", "--dpi goes with a PNG: --png or --out FILE.png"),
        ("abc --port 8000", "--port goes with the viewer"),
        ("abc --html a.html --no-browser", "--no-browser goes with the viewer"),
        ("abc --html a.html --words", "--words goes with drawings"),
        ("--text abc --head 0", "--head goes with drawings"),
        ("abc --svg a.svg --when consuming", "--when goes with a drawing of a run"),
        ("abc --target cba --beam 2", "--beam goes with the model's own translation of a text"),
    ],
)
def test_a_look_takes_what_it_uses(foveate: Any, words: str, said: str) -> None:
    refused = foveate("look", NOWHERE, *words.split())
    assert (refused.code, f"foveate look: {said}" in refused.err) == (2, True), refused.err


def test_a_drawing_and_a_page_are_both_written(foveate: Any, trained: Path, tmp_path: Path) -> None:
    names = ("--out", tmp_path / "a.txt", "--html", tmp_path / "a.html")
    said = foveate("look", trained, "abc", "--no-tune", *names)
    assert (said.code, said.out) == (0, ""), said.err
    assert all((tmp_path / name).stat().st_size for name in ("a.txt", "a.html"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "tag --source-length 9",
            "--source-length goes with translate, transcribe, speak and caption, and would change nothing for",
        ),
        ("translate --length 9", "--length goes with tag, classify and molecule, and would change nothing for tr"),
        ("language_model --length 9", "--length goes with tag, classify and molecule, and would change nothing for la"),
    ],
)
def test_a_plan_takes_the_lengths_of_its_task(foveate: Any, words: str, said: str) -> None:
    refused = foveate("plan", *words.split(), "--no-tune")
    assert (refused.code, f"foveate plan: {said}" in refused.err) == (2, True), refused.err


def test_translations_take_what_they_use(foveate: Any, trained: Path) -> None:
    said = foveate("translate", NOWHERE, "abc", "--head", "0")
    assert said.err == "foveate translate: --head goes with --align, and would change nothing without. Leave it out.\n"
    said = foveate("translate", trained, "abc", "--beam", "4", "--set", "kind=sample", "--no-tune")
    assert "--beam 4 and --set kind=sample both say how to search" in said.err
    said = foveate("translate", trained, "abc", "--set", "length_penalty=wu", "--set", "kind=greedy", "--no-tune")
    assert 'decode.length_penalty is not a setting. The kind is "greedy"' in said.err


def test_a_folder_that_is_not_there_gets_the_nearest_names(foveate: Any, tmp_path: Path) -> None:
    (tmp_path / "tagger").mkdir()
    said = foveate("tag", tmp_path / "tager", "a b", "--no-tune")
    sentence = f"{tmp_path}/tager: there is no such folder. Similar names are: tagger.\n"
    assert (said.code, said.err) == (3, f"foveate tag: {sentence}")


def test_models_that_came_trained_have_nothing_to_resume_and_no_report(foveate: Any, tmp_path: Path) -> None:
    said = foveate("resume", "en-fr")
    assert (said.code, said.err) == (
        2,
        "foveate resume: en-fr came trained, without checkpoints and data: there is nothing to resume. "
        "Name a run that `foveate train` began.\n",
    )
    said = foveate("report", "en-fr")
    assert (said.code, "en-fr comes without one. Name a run." in said.err) == (2, True)
    said = foveate("report", "en-fir")
    assert "en-fir is neither a folder here nor a model that comes with foveate" in said.err
