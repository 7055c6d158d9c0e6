"""Speech on the command line: a voice is trained on recordings, resumed, used, measured and planned."""

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from foveate import voice
from foveate.data.waveform import wav
from foveate.errors import UsageError
from foveate.tasks.speak.side import SpeakSide
from foveate.tasks.speak.use import Speaker

RATE = 8_000
SMALL = (
    *("--set", "model.hidden_dim=32", "--set", "model.embedding_dim=16", "--set", "model.encoder.hidden_dim=16"),
    *("--set", "model.prenet_dim=16", "--set", "model.reduction=4", "--set", "data.max_tokens=900"),
)
QUICK = ("--no-tune", "--threads", "1", "--quiet")
FEW = (*QUICK, *SMALL, "--set", "train.steps=4", "--set", "train.save_every=2", "--set", "train.validate_every=2")


def tone(letter: str) -> np.ndarray:
    """A vowel of a tenth of a second, with a pitch for each letter."""
    time = np.arange(RATE // 10) / RATE
    pitch = 200 + 60 * "abcd".index(letter)
    return 0.4 * sum(np.sin(2 * np.pi * pitch * harmonic * time) / harmonic for harmonic in (1, 2, 3)) * np.hanning(800)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("voice")
    generator = np.random.default_rng(0)
    lines = []
    for number in range(30):
        text = "".join(generator.choice(list("abcd"), size=generator.integers(1, 4)))
        (folder / f"{number}.wav").write_bytes(wav(np.concatenate([tone(letter) for letter in text]), RATE))
        lines.append(f"{number}.wav\t{text}\n")
    (folder / "clips.tsv").write_text("".join(lines))
    return folder / "clips.tsv"


@pytest.fixture(scope="module")
def run(clips: Path, tmp_path_factory: pytest.TempPathFactory, foveate: Any) -> Path:
    """A run that has learnt almost nothing. Read only."""
    folder = tmp_path_factory.mktemp("spoken") / "run"
    said = foveate("train", "speak", "--data", clips, "--out", folder, *FEW)
    assert said.code == 0, said.err
    return folder


def samples(data: bytes) -> tuple[int, int]:
    """The rate and the number of samples of a WAV file."""
    with wave.open(io.BytesIO(data)) as file:
        return file.getframerate(), file.getnframes()


def test_a_text_becomes_a_file_and_several_become_a_folder(run: Path, tmp_path: Path, foveate: Any) -> None:
    said = foveate("speak", run, "abc", "--out", tmp_path / "abc.wav")
    assert said.code == 0, said.err
    rate, count = samples((tmp_path / "abc.wav").read_bytes())
    assert said.out == f"{tmp_path / 'abc.wav'}\t{count / rate:.2f} s\n"
    assert rate == RATE
    assert foveate("speak", run, "abc", "d", "--out", tmp_path / "both").code == 0
    assert (tmp_path / "both" / "1.wav").read_bytes() == (tmp_path / "abc.wav").read_bytes()
    assert (tmp_path / "both" / "2.wav").exists()


def test_speech_that_ends_at_once_is_remarked(
    run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(voice, "_quiet", False)
    speaker = Speaker.load(run)
    with torch.no_grad():
        speaker.model.output.bias[40::41] = 100.0
    side = SpeakSide()
    assert side._spoken(speaker, "abcd", 2).seconds < 0.1
    assert "Text 2 lasts 0.0" in (said := capsys.readouterr().err)
    assert "for 4 letters, which nobody could say so fast. The model has not learnt to speak it" in said
    with torch.no_grad():
        speaker.model.output.bias[40::41] = -100.0
    speaker.max_frames = 50
    side._spoken(speaker, "abcd", 2)
    assert "nobody could say" not in capsys.readouterr().err


def test_speech_that_does_not_end_is_cut_at_the_limit(run: Path) -> None:
    speaker = Speaker.load(run)
    with torch.no_grad():
        speaker.model.output.bias[40::41] = -100.0
    speaker.max_frames = 30
    speech = speaker.speak("ab")
    assert len(speech.energies) == 30
    assert not speech.finished
    assert speaker.speak("").recording is None


def test_a_resumed_run_ends_with_the_same_bits(clips: Path, run: Path, tmp_path: Path, foveate: Any) -> None:
    start = ("train", "speak", "--data", clips, *FEW, "--set", "train.schedule=constant", "--out")
    assert foveate(*start, tmp_path / "whole").code == 0
    assert foveate(*start, tmp_path / "part", "--set", "train.steps=2").code == 0
    assert foveate("resume", tmp_path / "part", "--set", "train.steps=4", *QUICK).code == 0
    whole, part = (
        load_file(tmp_path / name / "checkpoints" / "step-00000004" / "model.safetensors") for name in ("whole", "part")
    )
    assert all(torch.equal(whole[name], part[name]) for name in whole)


def test_a_run_is_measured_and_planned(clips: Path, run: Path, foveate: Any) -> None:
    said = foveate("evaluate", run, "--data", clips)
    assert said.code == 0, said.err
    assert [line.split(" = ")[0] for line in said.out.splitlines()] == ["loss", "distance"]
    said = foveate("plan", "speak", "--data", clips, "--no-tune", *SMALL)
    assert said.code == 0, said.err
    assert "Synthesiser: " in said.out


def test_a_trace_shows_the_letters_that_each_frame_speaks(run: Path) -> None:
    trace = Speaker.load(run).trace("abca")
    (site,) = [site for site in trace.sites if site.kind == "cross"]
    target, source = trace.tracks[site.query], trace.tracks[site.key]
    assert source.labels[:4] == ("a", "b", "c", "a")
    assert target.kind == "frames"
    assert target.sound is not None
    assert (site.queries, site.keys) == (len(target), len(source))
    assert target.hop == pytest.approx(4 * 0.01)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("speak", "RUN", "a", "b"), "There are 2 texts, and standard output takes one."),
        (("speak", "RUN", " ", "--out", "x.wav"), "Text 1 is empty"),
        (("speak", "RUN", "a", "--out", "a.mp3"), "--out a.mp3 would be a WAV file."),
        (("speak", "RUN", "a", "b", "--out", "x.wav"), "There are 2 texts, and "),
        (("export", "RUN", "--to", "onnx", "out"), "There is no export of models that speak"),
    ],
)
def test_what_cannot_be_spoken_is_refused(
    arguments: tuple[str, ...], message: str, run: Path, tmp_path: Path, foveate: Any
) -> None:
    names = {"RUN": run, "x.wav": tmp_path / "x.wav", "out": tmp_path / "out"}
    said = foveate(*(names.get(one, one) for one in arguments))
    assert said.code == 2
    assert message in said.err


def test_frames_that_cannot_become_sound_are_refused(clips: Path, tmp_path: Path, foveate: Any) -> None:
    said = foveate("train", "speak", "--data", clips, "--out", tmp_path / "run", *FEW, "--set", "reader.deltas=1")
    assert said.code == 2
    assert "reader.deltas must be 0 for speech, got 1" in said.err
    foveate("train", "classify", "--data", clips, "--out", tmp_path / "other", *QUICK, "--set", "train.steps=1")
    with pytest.raises(UsageError, match="classify"):
        Speaker.load(tmp_path / "other")
