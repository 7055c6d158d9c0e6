"""The way of a user through a comparison: plan, train, stop, go on, add, and what is refused."""

import csv
import json
import math
import random
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import foveate.comparison.cell
from foveate.comparison import Estimate, Result, compare, design_of
from foveate.config import read_toml
from foveate.data.waveform import wav
from foveate.errors import UsageError
from foveate.metrics import character_error_rate
from foveate.tasks.translate.pair import Pairs
from foveate.tasks.translate.side import TranslateSide
from foveate.tasks.translate.task import Forerunner
from foveate.tasks.translate.use import Translator
from foveate.train.resumption import exclusive

SHIPPED = sorted((Path(__file__).parents[2] / "benchmarks/comparisons").glob("*.toml"))
SMALL = ("--no-tune", "--threads", "1")
BASE = """
decode = "greedy"
[data]
source = "{source}"
max_tokens = 256
[model]
kind = "luong"
hidden_dim = 16
embedding_dim = 8
[train]
steps = 12
validate_every = 4
save_every = 4
log_every = 4
[compare]
seeds = 2
metrics = ["character_error", "perplexity"]
lengths = [2, 4]
[compare.variants.dot]
model.attention.score = "dot"
[compare.variants."no attention"]
model = {{ kind = "fixed_context", hidden_dim = 16, embedding_dim = 8 }}
"""


@pytest.fixture(scope="module")
def recipe(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compare") / "compare.toml"
    path.write_text(BASE.format(source=corpus / "pairs.tsv"))
    return path


@pytest.fixture(scope="module")
def compared(recipe: Path, foveate: Any) -> Path:
    """A finished comparison. Read only."""
    out = recipe.parent / "out"
    said = foveate("compare", "translate", recipe, "--out", out, *SMALL)
    assert said.code == 0, said.err
    (recipe.parent / "said.txt").write_text(said.out)
    return out


def results(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "results.json").read_text())
    return found


def test_the_table_has_means_with_errors_and_differences_by_seed(compared: Path, recipe: Path) -> None:
    lines = (recipe.parent / "said.txt").read_text().splitlines()
    head = re.split(r"\s{3,}", lines[0])
    assert head == ["variant", "character_error", "− dot", "perplexity", "weights", "MiB", "seconds", "CPU s"]
    assert re.match(r"no attention\s+[\d.]+ ± [\d.]+\s+[+-][\d.]+ ± [\d.]+", lines[2])
    assert "translate, 12 steps for each cell, 2 seeds." in lines
    assert "Lower is better: character_error, perplexity." in lines
    assert "character_error by characters of the input:" in lines


def test_the_error_bars_are_those_of_the_cells(compared: Path) -> None:
    found = results(compared)
    scores = {
        name: [cell["scores"]["character_error"] for cell in found["cells"] if cell["variant"] == name]
        for name in found["variants"]
    }
    for name, values in scores.items():
        assert len(values) == 2
        assert found["variants"][name]["scores"]["character_error"] == Estimate.of(values).to_dict()
    differences = [b - a for a, b in zip(scores["dot"], scores["no attention"], strict=True)]
    shown = found["variants"]["no attention"]["difference_from_first"]["character_error"]
    assert shown == Estimate.of(differences).to_dict()


def test_a_cell_is_an_ordinary_run_whose_score_can_be_measured_again(compared: Path, foveate: Any) -> None:
    run = compared / "cells/no-attention/seed-1"
    assert foveate("resume", run, *SMALL).code == 0
    pairs = [line.split("\t") for line in (compared / "data/valid.tsv").read_text().splitlines()]
    found = [one.text for one in Translator.load(run).translate([source for source, _ in pairs])]
    cell = json.loads((run / "cell.json").read_text())
    assert cell["scores"]["character_error"] == character_error_rate(found, [target for _, target in pairs]).value
    assert sum(bucket["count"] for bucket in cell["buckets"]) == len(pairs)
    assert [bucket["longest"] for bucket in cell["buckets"]] == [2, 4, 6]


def test_all_seeds_hold_out_the_same_pairs(compared: Path, corpus: Path) -> None:
    train, valid = ((compared / f"data/{part}.tsv").read_text().splitlines() for part in ("train", "valid"))
    assert sorted(train + valid) == sorted((corpus / "pairs.tsv").read_text().splitlines())
    rows = [(compared / f"cells/dot/seed-{seed}/data/valid/source/rows.bin") for seed in (0, 1)]
    stores = [sorted(path.parent.iterdir()) for path in rows]
    assert [path.read_bytes() for path in stores[0]] == [path.read_bytes() for path in stores[1]]


def test_all_numbers_and_a_report_that_loads_nothing_are_left(compared: Path) -> None:
    with (compared / "cells.csv").open() as file:
        cells = list(csv.DictReader(file))
    assert [(cell["variant"], cell["seed"], cell["steps"]) for cell in cells] == [
        (name, seed, "12") for seed in "01" for name in ("dot", "no attention")
    ]
    with (compared / "curves.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)][:3] == ["4", "8", "12"]
    report = (compared / "report.html").read_text(encoding="utf-8")
    for part in ("Results", "Every start", "By length", "Training", "What differs", "no attention", "<svg"):
        assert part in report
    assert "://" not in report.replace("http://www.w3.org/2000/svg", "")
    figures = {path.name for path in (compared / "figures").iterdir()}
    assert {"quality-character-error.svg", "character-error-by-length.svg", "validation-loss-by-step.svg"} <= figures


def test_the_same_command_trains_nothing_again(
    compared: Path, recipe: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foveate_cell(), "fit", lambda *_, **__: pytest.fail("a finished cell is trained again"))
    before = {path: path.stat().st_mtime_ns for path in compared.rglob("model.safetensors")}
    said = foveate("compare", "translate", recipe, "--out", compared, *SMALL)
    assert said.code == 0, said.err
    assert "4 of 4 cells are finished already." in said.err
    assert said.out == (recipe.parent / "said.txt").read_text()
    assert {path: path.stat().st_mtime_ns for path in compared.rglob("model.safetensors")} == before


def test_other_metrics_are_measured_without_training(
    compared: Path, recipe: Path, tmp_path: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(compared, tmp_path / "out")
    monkeypatch.setattr(foveate_cell(), "fit", lambda *_, **__: pytest.fail("a finished cell is trained again"))
    said = foveate("compare", "translate", recipe, "--out", out, "--metrics", "sentence_error", *SMALL)
    assert said.code == 0, said.err
    assert "sentence_error" in said.out.splitlines()[0]


def test_an_interrupted_comparison_ends_with_the_same_numbers(
    compared: Path, recipe: Path, tmp_path: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit, calls = foveate_cell().fit, []

    def stopped(task: Any, config: Any, folder: Path, **rest: Any) -> Any:
        calls.append(folder)
        if len(calls) < 2:
            return fit(task, config, folder, **rest)
        real, count = task.loss, []

        def loss(batch: Any) -> Any:
            count.append(1)
            if len(count) == 7:
                raise KeyboardInterrupt
            return real(batch)

        task.loss = loss
        return fit(task, config, folder, **rest)

    out = tmp_path / "out"
    monkeypatch.setattr(foveate_cell(), "fit", stopped)
    said = foveate("compare", "translate", recipe, "--out", out, *SMALL)
    assert said.code == 130
    assert "Stopped" in said.err or "stopped" in said.err
    assert (out / "cells/no-attention/seed-0/checkpoints/step-00000004").exists()
    monkeypatch.setattr(foveate_cell(), "fit", fit)
    planned = foveate("compare", "translate", recipe, "--out", out, "--plan", *SMALL)
    assert re.search(r"dot, seed 0\s+done", planned.out)
    assert re.search(r"no attention, seed 0\s+at step 4 of 12", planned.out)
    said = foveate("compare", "translate", recipe, "--out", out, *SMALL)
    assert said.code == 0, said.err
    for cell in ("dot/seed-0", "no-attention/seed-0", "dot/seed-1"):
        ours, theirs = (folder / "cells" / cell / "model.safetensors" for folder in (out, compared))
        assert ours.read_bytes() == theirs.read_bytes()


def test_a_plan_names_cells_that_other_metrics_will_measure_again(compared: Path, recipe: Path, foveate: Any) -> None:
    planned = foveate("compare", "translate", recipe, "--out", compared, "--plan", *SMALL)
    assert len(re.findall(r"seed \d+\s+done", planned.out)) == 4
    planned = foveate("compare", "translate", recipe, "--out", compared, "--plan", "--metrics", "bleu", *SMALL)
    assert len(re.findall(r"seed \d+\s+to measure", planned.out)) == 4


def test_seeds_and_variants_can_be_added(compared: Path, recipe: Path, tmp_path: Path, foveate: Any) -> None:
    out = Path(shutil.copytree(compared, tmp_path / "out"))
    more = tmp_path / "more.toml"
    more.write_text(recipe.read_text() + '[compare.variants.general]\nmodel.attention.score = "general"\n')
    said = foveate("compare", "translate", more, "--out", out, "--seeds", "0,1,7", *SMALL)
    assert said.code == 0, said.err
    assert "4 of 9 cells are finished already." in said.err
    assert len(results(out)["cells"]) == 9
    assert "by characters" in said.out


def test_a_cell_that_lacks_a_score_is_named(compared: Path, recipe: Path, tmp_path: Path, foveate: Any) -> None:
    out = Path(shutil.copytree(compared, tmp_path / "out"))
    path = out / "cells/dot/seed-0/cell.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "scores": {}}))
    said = foveate("compare", "translate", recipe, "--out", out, *SMALL)
    assert said.code == 3
    assert re.search(r"cell\.json is damaged: it has no \w+.*\. Remove it, and the cell is measured again\.", said.err)


def test_an_infinite_score_fails_its_cell_alone(
    recipe: Path, tmp_path: Path, foveate: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = TranslateSide.score

    def score(self: TranslateSide, task: Any, config: Any, *rest: Any) -> Any:
        scored = own(self, task, config, *rest)
        return replace(scored, values=dict.fromkeys(scored.values, math.inf)) if config.seed else scored

    monkeypatch.setattr(TranslateSide, "score", score)
    said = foveate("compare", "translate", recipe, "--out", tmp_path / "out", *SMALL)
    assert "is inf, since training has diverged. Try a lower train.learning_rate." in said.err
    assert {cell["seed"] for cell in results(tmp_path / "out")["cells"]} == {0}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (("--budget", "steps=13"), "budget: steps=12 → steps=13"),
        (("--set", "train.learning_rate=0.1"), "variants.dot.train.learning_rate: 0.001 → 0.1"),
        (("--set", "data.max_length=20"), "variants.dot.data.max_length: 250 → 20"),
    ],
)
def test_other_budgets_settings_and_data_are_not_mixed_in(
    setting: tuple[str, str], said: str, compared: Path, recipe: Path, foveate: Any
) -> None:
    refused = foveate("compare", "translate", recipe, "--out", compared, *setting, *SMALL)
    assert refused.code == 2
    assert said in refused.err
    assert "are not put into one table" in refused.err


def test_a_file_that_has_changed_is_other_data(recipe: Path, corpus: Path, tmp_path: Path, foveate: Any) -> None:
    data, out = tmp_path / "pairs.tsv", tmp_path / "out"
    data.write_text((corpus / "pairs.tsv").read_text())
    words = ("compare", "translate", recipe, "--source", data, "--out", out, "--seeds", "1", *SMALL)
    assert foveate(*words, "--set", "train.steps=2").code == 0
    data.write_text((corpus / "pairs.tsv").read_text() + "abc\tcba\n")
    said = foveate(*words, "--set", "train.steps=2")
    assert said.code == 2
    assert re.search(r"data\.source: [0-9a-f]{12}… → [0-9a-f]{12}…", said.err)


def test_a_run_of_other_settings_in_a_cells_place_is_refused(
    compared: Path, recipe: Path, tmp_path: Path, foveate: Any
) -> None:
    out = tmp_path / "out"
    words = ("compare", "translate", recipe, "--out", out, "--seeds", "1", "--set", "train.steps=2", *SMALL)
    assert foveate(*words).code == 0
    path = out / "cells/dot/seed-0/config.json"
    path.write_text(path.read_text().replace('"label_smoothing": 0.1', '"label_smoothing": 0.2'))
    said = foveate(*words)
    assert said.code == 2
    assert "label_smoothing: 0.2 → 0.1" in said.err
    assert "Remove it, and it is trained anew." in said.err


def test_a_plan_counts_cells_and_trains_nothing(recipe: Path, tmp_path: Path, foveate: Any) -> None:
    said = foveate("compare", "translate", recipe, "--out", tmp_path / "out", "--plan", *SMALL)
    assert said.code == 0, said.err
    assert len(re.findall(r"seed \d\s+to train\s+[\d,]+\s+\d", said.out)) == 4
    assert "2 variants × 2 seeds = 4 cells of 12 steps; about " in said.out
    assert not (tmp_path / "out").exists()


def test_a_model_that_cannot_be_built_stops_everything_before_training(
    recipe: Path, tmp_path: Path, foveate: Any
) -> None:
    words = ("--vary", "model.hidden_dim=16,15", "--set", "model.bidirectional=true")
    said = foveate("compare", "translate", recipe, "--out", tmp_path / "out", *words, *SMALL)
    assert said.code == 2
    assert "variant hidden_dim 15: The model cannot be built as configured: hidden_dim=15 must be even" in said.err
    assert not (tmp_path / "out/cells").exists()
    assert (
        foveate("compare", "translate", recipe, "--out", tmp_path / "out", "--set", "train.steps=1", *SMALL).code == 0
    )


def test_what_the_data_do_not_give_is_refused_before_training(
    recipe: Path, corpus: Path, tmp_path: Path, foveate: Any
) -> None:
    (tmp_path / "links").write_text("\n" * 300)
    linked = ("--valid-source", corpus / "pairs.tsv", "--valid-links", tmp_path / "links")
    for words, sentence in (
        (("--set", "train.metric=alignment"), "foveate compare: train.metric cannot be alignment: there are no links"),
        ((*linked, "--set", "train.metric=alignment"), "variant dot: train.metric cannot be alignment: there are no "),
        (("--metrics", "alignment,bleu"), "compare.metrics: alignment is not measured, for there are no links"),
        (("--metrics", "alignment", "--test-source", corpus / "pairs.tsv"), "alignment is measured by links, and test"),
    ):
        said = foveate("compare", "translate", recipe, "--out", tmp_path / "out", *words, *SMALL)
        assert (said.code, sentence in said.err) == (2, True), said.err
        assert not (tmp_path / "out/cells").exists()


def test_a_pair_with_an_empty_side_counts_as_in_an_evaluation(
    compared: Path, recipe: Path, tmp_path: Path, foveate: Any
) -> None:
    (tmp_path / "test.tsv").write_text("abc\tcba\n\tba\nde\ted\n")
    out = shutil.copytree(compared, tmp_path / "out")
    words = ("--out", out, "--test-source", tmp_path / "test.tsv", "--metrics", "chrf,bleu")
    said = foveate("compare", "translate", recipe, *words, *SMALL)
    assert said.code == 0, said.err
    for run in ("dot/seed-0", "no-attention/seed-1"):
        cell = json.loads((out / "cells" / run / "cell.json").read_text())
        words = ("--source", tmp_path / "test.tsv", "--metrics", "chrf,bleu", "--json", "--no-tune")
        scores = json.loads(foveate("evaluate", out / "cells" / run, *words).out)
        assert cell["scores"] == {"chrf": scores["chrF2"]["value"], "bleu": scores["BLEU"]["value"]}
        assert sum(bucket["count"] for bucket in cell["buckets"]) == 3
    (tmp_path / "test.tsv").write_text("abc\tcba\nab\t\n")
    words = ("--out", tmp_path / "new", "--test-source", tmp_path / "test.tsv", "--metrics", "bleu")
    said = foveate("compare", "translate", recipe, *words, *SMALL)
    assert (said.code, "1 of 2 references are empty (line 2)" in said.err) == (3, True), said.err
    assert not (tmp_path / "new/cells").exists()


def test_a_cell_that_comes_to_nothing_leaves_the_others(recipe: Path, tmp_path: Path, foveate: Any) -> None:
    words = ("--vary", "train.learning_rate=1e-3,1e30", "--seeds", "1", "--out", tmp_path / "out")
    said = foveate("compare", "translate", recipe, *words, "--set", "train.clip_norm=none", *SMALL)
    assert said.code == 3
    assert re.search(r"learning_rate 1e-3\s+[\d.]+", said.out)
    assert re.search(r"learning_rate 1e30\s+–", said.out)
    assert "learning_rate 1e30, seed 0 failed: At step " in said.out


def test_foreign_folders_and_missing_parts_are_named(recipe: Path, tmp_path: Path, foveate: Any) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    for words, code, sentence in (
        ((recipe, "--out", tmp_path / "mine"), 2, "holds something else than a comparison"),
        ((recipe,), 2, "--out is missing"),
        (("--out", tmp_path / "out"), 2, "There is nothing to train on. Give --source FILE"),
        ((recipe, "--out", tmp_path / "out", "--seeds", "x"), 2, "--seeds x: write how many"),
        ((recipe, "--out", tmp_path / "out", "--source", tmp_path / "no.tsv"), 3, "there is no such file"),
        ((recipe, "--out", tmp_path / "out", "--data", recipe), 2, "translate does not take --data"),
        ((tmp_path / "no.toml", "--out", tmp_path / "out"), 2, "there is no such file"),
    ):
        said = foveate("compare", "translate", *words, *SMALL)
        assert (said.code, sentence in said.err) == (code, True), said.err


def test_a_folder_of_recordings_is_called_a_folder(tmp_path: Path, foveate: Any) -> None:
    for number in range(12):
        place = tmp_path / "sound" / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.wav").write_bytes(wav(np.sin(np.arange(4_000) / (5 + number)), 8_000))
    words = ("--data", tmp_path / "sound", "--vary", "train.learning_rate=0.1,0.2", "--out", tmp_path / "out")
    said = foveate("compare", "transcribe", *words, *SMALL)
    assert said.code == 3
    assert "sound is a folder" in said.err


def test_a_recording_beyond_the_positions_is_named_before_any_training(tmp_path: Path, foveate: Any) -> None:
    lines = []
    for number in range(8):
        samples = np.sin(np.arange(40_000 if number == 5 else 4_000) / (5 + number))
        (tmp_path / f"{number}.wav").write_bytes(wav(samples, 8_000))
        lines.append(f"{number}.wav\t{'ab'[number % 2]}\n")
    (tmp_path / "data.tsv").write_text("".join(lines))
    (tmp_path / "recipe.toml").write_text(
        '[model.encoder]\nkind = "transformer"\nnum_layers = 1\n'
        'position = { kind = "learned", max_length = 50 }\n'
        "block = { model_dim = 8, num_heads = 2, feedforward_dim = 8 }\n"
        '[compare.vary]\n"train.learning_rate" = [0.1, 0.2]\n[train]\nsteps = 1\n'
    )
    words = ("--data", tmp_path / "data.tsv", "--valid-data", tmp_path / "data.tsv", "--out", tmp_path / "out")
    said = foveate("compare", "transcribe", tmp_path / "recipe.toml", *words, "--seeds", "1", *SMALL)
    assert said.code == 3, said.out
    assert "5.wav has 498 vectors, but the model has 200 positions" in said.err
    assert not (tmp_path / "out/cells").exists()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_every_shipped_comparison_can_be_made(path: Path) -> None:
    (task,) = re.findall(
        rf"foveate compare (\w+) benchmarks/comparisons/{path.name} ", path.read_text(encoding="utf-8")
    )
    design = design_of(task, read_toml(path))
    assert len(design.variants) >= 2
    if task == "translate" and path.stem not in ("translator", "vocabulary"):  # plays and their text are fetched
        assert (path.parents[2] / design.base.data.source).exists()


def foveate_cell() -> Any:
    return foveate.comparison.cell


TEXT = "the cat sat on the mat\nthe dog sat on the log\n" * 40


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data of every task."""
    folder, generator = tmp_path_factory.mktemp("tasks"), random.Random(1)
    words = {"a": "V", "e": "V", "b": "C", "c": "C", "1": "N"}
    sentences = (generator.choices([*words], k=generator.randint(2, 6)) for _ in range(80))
    content = {
        "tag": "".join(" ".join(f"{word}/{words[word]}" for word in sentence) + "\n" for sentence in sentences),
        "classify": "".join(
            f"{'ab' * (i % 5 + 1)}{'xy'[i % 2]}\t{'cross' if i % 2 else 'nought'}\n" for i in range(80)
        ),
        "language_model": TEXT,
        "masked_language_model": TEXT,
    }
    for name, text in content.items():
        (folder / f"{name}.txt").write_text(text)
    return {name: folder / f"{name}.txt" for name in content}


TASKS = {
    "tag": ({"embedding_dim": 8}, "model.encoder", ("cnn", "rnn"), "accuracy"),
    "classify": ({"embedding_dim": 8}, "model.encoder", ("cnn", "rnn"), "accuracy"),
    "language_model": (
        {"kind": "recurrent", "hidden_dim": 8, "embedding_dim": 8},
        "model.cell",
        ("gru", "rnn"),
        "bits_per_byte",
    ),
    "masked_language_model": (
        {"block": {"model_dim": 8, "num_heads": 2, "feedforward_dim": 8}},
        "model.num_layers",
        (1, 2),
        "accuracy",
    ),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("budget", ["steps=3", "tokens=300"])
def test_every_task_can_be_compared_by_every_budget(
    task: str, budget: str, files: dict[str, Path], tmp_path: Path
) -> None:
    model, path, values, metric = TASKS[task]
    first = "text" if task.endswith("model") else "data"
    data = {
        first: str(files[task]),
        "max_tokens": 64,
        **({"block_length": 16} if first == "text" else {"max_length": 64}),
    }
    base = {
        "data": data,
        "model": model,
        "train": {"steps": 2, "validate_every": 2, "save_every": 2},
        "compare": {"vary": {path: list(values)}},
    }
    test = {first: str(files[task])}
    result = compare(task, base, out=tmp_path / "out", seeds=2, budget=budget, test=test)
    assert isinstance(result, Result)
    assert result.metrics[0] == metric
    assert len(result.cells) == 4
    kind, amount = budget.split("=")
    for cell in result.cells:
        assert getattr(cell, kind) >= int(amount)
        assert cell.memory_bytes > 16 * cell.parameters
    assert bool(result.unit) == (first == "data")


def test_a_budget_of_seconds_is_used_up(files: dict[str, Path], tmp_path: Path) -> None:
    model, _, _, _ = TASKS["tag"]
    base = {"data": {"data": str(files["tag"])}, "model": model, "train": {"schedule": "constant"}}
    variants = {"cnn": {"model": {"encoder": "cnn"}}, "rnn": {"model": {"encoder": "rnn"}}}
    result = compare("tag", base, variants, out=tmp_path / "out", seeds=1, budget="seconds=1")
    assert all(1.0 <= cell.seconds < 5.0 for cell in result.cells)


@pytest.mark.parametrize("words", [("--columns", "2,1"), ("--set", "data.held_out=10")])
def test_other_columns_and_held_out_pairs_are_other_data(
    words: tuple[str, str], recipe: Path, corpus: Path, tmp_path: Path, foveate: Any
) -> None:
    data, out = tmp_path / "pairs.tsv", tmp_path / "out"
    lines = (corpus / "pairs.tsv").read_text().splitlines()
    data.write_text("".join(f"{number}\t{line}\n" for number, line in enumerate(lines)))
    same = ("compare", "translate", recipe, "--source", data, "--out", out, "--seeds", "1", "--set", "train.steps=2")
    assert foveate(*same, "--columns", "1,2", *SMALL).code == 0
    said = foveate(*same, "--columns", "1,2", *SMALL)
    assert (said.code, "finished already" in said.err) == (0, True), said.err
    said = foveate(*same, *(words if "--columns" in words else ("--columns", "1,2", *words)), *SMALL)
    assert said.code == 2, said.out
    assert re.search(r"columns: \[1, 2\] → \[2, 1\]|held_out: .* → 10", said.err), said.err
    design = json.loads((out / "comparison.json").read_text())
    del design["columns"], design["held_out"]  # as earlier versions wrote it
    (out / "comparison.json").write_text(json.dumps(design))
    assert foveate(*same, "--columns", "1,2", *SMALL).code == 0


def test_a_comparison_that_broke_off_while_it_held_out_pairs_goes_on(
    recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, foveate: Any
) -> None:
    hold_out = Pairs.hold_out

    def broken(pairs: Pairs, folder: Path) -> dict[str, Any]:
        hold_out(pairs, folder)
        raise KeyboardInterrupt

    words = ("compare", "translate", recipe, "--out", tmp_path / "out", "--seeds", "1", "--set", "train.steps=2")
    with monkeypatch.context() as patch:
        patch.setattr(Pairs, "hold_out", broken)
        assert foveate(*words, *SMALL).code != 0
    (tmp_path / "out/.tmp-comparison.json-7").touch()
    said = foveate(*words, *SMALL)
    assert said.code == 0, said.err


def test_lengths_whose_references_are_empty_have_no_value(recipe: Path, tmp_path: Path, foveate: Any) -> None:
    (tmp_path / "test.tsv").write_text("abc\tcba\na\t\n")
    words = ("--test-source", tmp_path / "test.tsv", "--metrics", "phone_error", "--seeds", "1")
    said = foveate("compare", "translate", recipe, "--out", tmp_path / "out", *words, *SMALL)
    assert said.code == 0, said.err
    cell = json.loads((tmp_path / "out/cells/dot/seed-0/cell.json").read_text())
    assert [(bucket["longest"], bucket["count"]) for bucket in cell["buckets"]] == [(3, 1)]


def test_variants_that_begin_with_a_translator_have_weights_of_their_own(
    corpus: Path, tmp_path: Path, foveate: Any
) -> None:
    layers = Forerunner.load("en-fr").config.model.encoder_layers
    deep = (
        "--vary",
        f"model.encoder_layers={layers},{layers + 1}",
        "--set",
        "initialise_from=en-fr",
        "--set",
        "train.steps=2",
    )
    model = ("--set", "model=transformer", "--set", "model.decoder_layers=2", "--set", "model.share=all")
    block = ("model_dim=256", "num_heads=8", "feedforward_dim=1024", "norm=pre")
    words = [word for setting in block for word in ("--set", f"model.block.{setting}")]
    data = ("--source", corpus / "pairs.tsv", "--metrics", "perplexity", "--seeds", "1", "--out", tmp_path / "out")
    said = foveate("compare", "translate", *data, *deep, *model, *words, *SMALL)
    assert said.code == 0, said.err
    assert len(list((tmp_path / "out/prepared").iterdir())) == 2


def test_python_refuses_as_the_command_does(recipe: Path, compared: Path) -> None:
    with pytest.raises(UsageError, match="steps=12 → tokens=100"):
        compare("translate", read_toml(recipe), out=compared, budget="tokens=100")


def test_two_at_once_in_a_folder_are_refused_before_anything_is_touched(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with exclusive(tmp_path / "out"), pytest.raises(UsageError, match="Another process"):
        compare("translate", read_toml(recipe), out=tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]
