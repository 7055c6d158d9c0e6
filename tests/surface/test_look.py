"""Looking into runs of every task that reads one text: in the terminal, as files, as a trace."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from foveate.inspect import Sound, Trace, Track, alignment, read_trace, write_trace
from foveate.inspect.trace import given

BLOCK = "model_dim = 8, num_heads = 2, feedforward_dim = 12"
ENCODER = f'{{ kind = "transformer", num_layers = 2, block = {{ {BLOCK} }} }}'
STEPS = ("train.steps=1", "train.validate_every=1", "train.save_every=1", "data.max_tokens=64")
RUNS: dict[str, tuple[str, ...]] = {
    "gpt": ("language_model", "tokeniser=character", f"model.block={{ {BLOCK}, norm = 'pre' }}", "model.num_layers=2"),
    "linear": (
        "language_model",
        "tokeniser=character",
        f"model.block={{ {BLOCK}, norm = 'pre', decoder_attention = {{ kind = 'linear' }} }}",
        "model.num_layers=1",
    ),
    "llama": (
        *("language_model", "model=llama", "tokeniser=byte", "model.model_dim=8", "model.num_heads=2"),
        *("model.num_kv_heads=1", "model.feedforward_dim=12", "model.num_layers=1"),
    ),
    "recurrent": ("language_model", "tokeniser=character", "model=recurrent", "model.hidden_dim=8"),
    "bert": ("masked_language_model", "tokeniser=character", f"model.block={{ {BLOCK} }}", "model.num_layers=1"),
    "tagger": (
        "tag",
        "data.max_length=20",
        f"model.encoder={ENCODER}",
        "model.character_dim=0",
        "model.embedding_dim=8",
    ),
    "classifier": (
        "classify",
        "data.max_length=20",
        "tokeniser=word",
        f"model.encoder={ENCODER}",
        "model.embedding_dim=8",
    ),
    "mean": ("classify", "tokeniser=word", f"model.encoder={ENCODER}", "model.pooling=mean"),
}
FILES = {
    "language_model": ("text", "abc ab\n" * 60),
    "masked_language_model": ("text", "abc ab\n" * 60),
    "tag": ("data", "I/P saw/V a/D saw/N\n" * 30),
    "classify": ("data", "I saw a saw\tyes\na saw\tno\n" * 20),
}


@pytest.fixture(scope="module")
def runs(foveate: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs of one step each, made when they are asked for."""
    folder = tmp_path_factory.mktemp("runs")

    def made(name: str) -> Path:
        task, *settings = RUNS[name]
        option, content = FILES[task]
        if not (folder / name).exists():
            (folder / f"{name}.txt").write_text(content)
            short = ("data.max_length=20",) if option == "data" else ()
            sets = [word for setting in (*settings, *short, *STEPS) for word in ("--set", setting)]
            files = (f"--{option}", folder / f"{name}.txt")
            said = foveate("train", task, *files, "--out", folder / name, "--no-tune", *sets)
            assert said.code == 0, said.err
        return folder / name

    return made


def kept(foveate: Any, run: Path, text: str, folder: Path) -> Any:
    said = foveate("look", run, text, "--trace", folder, "--no-tune")
    assert said.code == 0, said.err
    return read_trace(folder)


@pytest.mark.parametrize(("name", "sites"), [("gpt", 2), ("linear", 1), ("llama", 1)])
def test_a_language_model_looks_back_only(foveate: Any, runs: Any, tmp_path: Path, name: str, sites: int) -> None:
    trace = kept(foveate, runs(name), "abc a", tmp_path / "kept")
    assert len(trace.sites) == sites
    assert trace.tracks["source"].labels[-5:] == ("a", "b", "c", " ", "a")
    seen = alignment(trace)
    assert not np.triu(seen.weights, 1).any()
    np.testing.assert_allclose(seen.weights.sum(1), 1, atol=1e-5)


def test_gaps_words_and_labels_are_looked_from(foveate: Any, runs: Any, tmp_path: Path) -> None:
    bert = kept(foveate, runs("bert"), "ab___", tmp_path / "bert")
    assert "___" in bert.tracks["source"].labels
    tagger = kept(foveate, runs("tagger"), "I saw a saw", tmp_path / "tagger")
    assert tagger.tracks["source"].labels == ("I", "saw", "a", "saw")
    assert [site.kind for site in tagger.sites] == ["self", "self"]
    classifier = kept(foveate, runs("classifier"), "I saw a saw", tmp_path / "classifier")
    assert [site.kind for site in classifier.sites] == ["self", "self", "cross"]
    assert classifier.tracks["target"].labels in (("yes",), ("no",))
    pooled = alignment(classifier)
    assert pooled.weights.shape == (1, len(classifier.tracks["source"].labels))
    assert len(kept(foveate, runs("mean"), "I saw a saw", tmp_path / "mean").sites) == 2


def test_it_is_drawn_in_the_terminal_and_written_as_pictures(foveate: Any, runs: Any, tmp_path: Path) -> None:
    said = foveate("look", runs("tagger"), "I saw a saw", "--layer", "0", "--no-tune")
    assert said.code == 0, said.err
    assert "all attention" in said.out
    assert foveate("look", runs("gpt"), "abc", "--precision", "bfloat16", "--no-tune").code == 0
    page, picture = tmp_path / "page.html", tmp_path / "map.svg"
    said = foveate("look", runs("gpt"), "abc", "--html", page, "--svg", picture, "--head", "1", "--no-tune")
    assert said.code == 0, said.err
    assert page.stat().st_size > 1000
    assert picture.read_text(encoding="utf-8").startswith("<svg")


def test_a_causal_map_hides_what_comes_later_in_the_terminal_and_in_pictures(
    foveate: Any, runs: Any, tmp_path: Path
) -> None:
    said = foveate("look", runs("gpt"), "abc", "--no-tune")
    assert said.out.count("··") > 3
    assert said.out.rstrip().endswith("·· may not be looked at")
    picture, page = tmp_path / "lift.png", tmp_path / "lift.pdf"
    options = ("--scale", "lift", "--dpi", "96", "--no-tune")
    assert foveate("look", runs("gpt"), "abc", "--out", picture, *options).code == 0
    assert foveate("look", runs("gpt"), "abc", "--out", page, "--scale", "lift", "--no-tune").code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert b"DejaVuSans" in page.read_bytes()


def test_the_steps_of_a_query_are_printed_and_written(foveate: Any, runs: Any, tmp_path: Path) -> None:
    said = foveate("look", runs("tagger"), "I saw a saw", "--steps", "a", "--no-tune")
    assert said.code == 0, said.err
    assert "query 2 (a)" in said.out.split("\n")[0]
    assert "They sum to 1." in said.out
    for name in ("a.svg", "a.png", "a.pdf", "a.tex", "a.txt"):
        said = foveate("look", runs("tagger"), "I saw a saw", "--steps", "2", "--out", tmp_path / name, "--no-tune")
        assert (said.code, (tmp_path / name).exists()) == (0, True)
    said = foveate("look", runs("tagger"), "I saw a saw", "--steps", "was", "--no-tune")
    assert said.code == 2
    assert "There is no query 'was'" in said.err
    assert "has 0 I, 1 saw, 2 a, 3 saw." in said.err
    said = foveate("look", runs("tagger"), "I saw a saw", "--steps", "2", "--out", tmp_path / "a.gif", "--no-tune")
    assert "steps are not written as '.gif'" in said.err


def test_texts_that_cannot_be_shown_are_refused_in_words(foveate: Any, runs: Any) -> None:
    said = foveate("look", runs("recurrent"), "abc", "--no-tune")
    assert said.code == 2
    assert "has no attention, so there is nothing to look at" in said.err
    assert "`foveate train language_model` with --set model=gpt trains one that attends." in said.err
    said = foveate("look", runs("gpt"), " ", "--no-tune")
    assert "The text is empty" in said.err
    said = foveate("look", runs("gpt"), "abc", "--target", "x", "--no-tune")
    assert "--target goes with runs that translate" in said.err


def test_a_tagger_names_a_whole_word_that_it_has_never_seen(foveate: Any, runs: Any) -> None:
    for command in ("look", "tag"):
        said = foveate(command, runs("tagger"), "I saw a zebra zebra", "--no-tune")
        assert "vocabulary lacks 'zebra': what" in said.err, said.err


def test_a_recording_is_written_and_drawn_by_its_words(foveate: Any, tmp_path: Path) -> None:
    frames = Track.of_frames(20, hop=0.1, sound=Sound.of(np.sin(np.arange(400) / 5), rate=200))
    weights = torch.zeros(1, 2, 20)
    weights[0, 0, 2:6], weights[0, 1, 9:17] = 0.25, 0.125
    tracks = {"source": frames, "target": Track(labels=("one", "seven"))}
    trace = Trace(tracks=tracks, sites=(given(weights, kind="cross", tracks=("target", "source")),))
    write_trace(trace, tmp_path / "said.trace")
    for ending in ("txt", "ctm", "svg", "png"):
        done = foveate("look", tmp_path / "said.trace", "--out", tmp_path / f"times.{ending}")
        assert (done.code, done.err.startswith("Wrote")) == (0, True), done.err
    assert (tmp_path / "times.ctm").read_text() == "source 1 0.200 0.400 one\nsource 1 0.900 0.700 seven\n"
    assert "0.90–1.60" in (tmp_path / "times.txt").read_text()
    assert "<title>seven: 0.90–1.60 s</title>" in (tmp_path / "times.svg").read_text()
    refused = foveate("look", tmp_path / "said.trace", "--out", tmp_path / "times.pharaoh")
    assert (refused.code, "times are not written as '.pharaoh'" in refused.err) == (2, True)
