"""Recordings on the command line: trained on with masks and speeds, written down from files, stretches and pipes."""

import fcntl
import html
import json
import os
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import load_file

from foveate.data.audio_file import Clip
from foveate.data.synthetic import tones
from foveate.data.tokeniser import SPECIALS
from foveate.decode import CTCConfig
from foveate.inspect import read_trace
from foveate.tasks.transcribe.use import Transcriber

RATE = 8_000
QUICK = ("--no-tune", "--threads", "1", "--quiet")
SMALL = (
    *("--set", "model.encoder.num_layers=1", "--set", "model.encoder.block.model_dim=32"),
    *("--set", "model.encoder.block.feedforward_dim=64", "--set", "model.subsampling.hidden_dim=32"),
    *("--set", "model.subsampling.maps=4", "--set", "data.max_tokens=1500", "--set", "data.max_length=800"),
)
FEW = (*QUICK, *SMALL, "--set", "train.steps=6", "--set", "train.save_every=3", "--set", "train.validate_every=3")


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of recordings of tones."""
    folder, lines = tmp_path_factory.mktemp("tones"), []
    for number, one in enumerate(tones(40, seed=0, rate=RATE)):
        soundfile.write(folder / f"{number:02}.wav", one.samples, RATE)
        lines.append(f"{number:02}.wav\t{one.text}\n")
    (folder / "clips.tsv").write_text("".join(lines))
    return folder / "clips.tsv"


@pytest.fixture(scope="module")
def run(clips: Path, tmp_path_factory: pytest.TempPathFactory, foveate: Any) -> Path:
    """A run with CTC and an attention decoder, which has hardly learnt anything. Read only."""
    folder = tmp_path_factory.mktemp("written") / "run"
    joint = ("--set", "model.decoder.kind=recurrent", "--set", "model.decoder.hidden_dim=32")
    said = foveate("train", "transcribe", "--data", clips, "--out", folder, *FEW, *joint)
    assert said.code == 0, said.err
    return folder


def test_the_choice_for_recordings_is_explained(clips: Path, tmp_path: Path, foveate: Any) -> None:
    said = foveate("train", "transcribe", "--data", clips, "--out", tmp_path / "run", *FEW[:3], *SMALL, *FEW[-6:])
    assert said.code == 0, said.err
    assert "40 recordings of about " in said.err
    assert "reader: 40 log-mel energies of each frame, every 10 ms, at 8,000 samples a second" in said.err
    assert "with masks in training, and three speeds" in said.err
    assert "train: All 36 recordings are used. Texts are read as written" in said.err
    settings = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert settings["reader"]["kind"] == "audio"
    assert settings["reader"]["augmentation"]["speeds"] == [0.9, 1.0, 1.1]
    assert (tmp_path / "run" / "data" / "train" / "variants").exists()
    assert not (tmp_path / "run" / "data" / "valid" / "variants").exists()


def test_files_stretches_folders_and_pipes_are_written_down(clips: Path, run: Path, foveate: Any) -> None:
    one = clips.parent / "00.wav"
    whole = foveate("transcribe", run, one)
    assert whole.code == 0, whole.err
    assert len(whole.out.splitlines()) == 1
    assert foveate("transcribe", run, stdin=one.read_bytes()).out == whole.out
    samples, _ = soundfile.read(one, dtype="int16")
    raw = foveate("transcribe", run, "--rate", RATE, stdin=samples.astype("<i2").tobytes())
    assert raw.out == whole.out
    assert len(foveate("transcribe", run, f"{one}:0.1-0.5", one).out.splitlines()) == 2
    assert len(foveate("transcribe", run, clips.parent).out.splitlines()) == 40


@pytest.mark.parametrize("stream", [(), ("--stream",)])
def test_a_bad_recording_does_not_end_the_others_and_a_pipe_is_one_of_them(
    clips: Path, run: Path, stream: tuple[str, ...], tmp_path: Path, foveate: Any
) -> None:
    one, two, bad = clips.parent / "00.wav", clips.parent / "01.wav", tmp_path / "bad.wav"
    bad.write_bytes(b"no sound")
    lines = [foveate("transcribe", run, name, *stream).out.rstrip("\n") for name in (one, two)]
    said = foveate("transcribe", run, one, bad, tmp_path / "none.wav", "-", *stream, stdin=two.read_bytes())
    assert said.out == f"{lines[0]}\n\n\n{lines[1]}\n"
    assert said.code == 3
    assert "foveate transcribe: 2 of 4 inputs could not be read; the reasons are above." in said.err
    assert said.err.count("bad.wav is not a recording") == said.err.count("none.wav: there is no such file") == 1


def test_a_full_disk_is_named_in_words(clips: Path, run: Path) -> None:
    with Path("/dev/full").open("wb") as full:
        said = _process("transcribe", run, clips.parent / "00.wav", stdout=full)
    _, err = said.communicate()
    assert (said.returncode, err.count(b"\n")) == (4, 1), err
    assert b"foveate transcribe: the output cannot be written: No space left on device." in err


@pytest.mark.parametrize("pieces", [1, 2])
def test_ctrl_c_ends_a_microphone_and_the_rest_is_written(clips: Path, run: Path, pieces: int, tmp_path: Path) -> None:
    samples, _ = soundfile.read(clips.parent / "00.wav", dtype="int16")
    part = samples[: pieces * RATE // 5].astype("<i2")
    soundfile.write(tmp_path / "part.wav", part, RATE)
    quick = ("--no-tune", "--threads", "1")
    process = _process("transcribe", run, "--stream", "--rate", RATE, *quick)
    assert process.stdin is not None
    process.stdin.write(part.tobytes())
    process.stdin.flush()
    _wait_until_it_listens(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert (process.returncode, b"Traceback" in err) == (0, False), err
    assert b"A stream is written by CTC alone, because attention needs the whole recording." in err
    whole, _ = _process("transcribe", run, tmp_path / "part.wav", "--set", "kind=ctc", *quick).communicate()
    assert out == whole
    assert out.endswith(b"\n")


def _wait_until_it_listens(process: "subprocess.Popen[bytes]") -> None:
    """Wait until a process has read its input and sleeps for more."""
    assert process.stdin is not None
    asleep = 0
    while asleep < 8:
        assert process.poll() is None
        waiting = bytearray(4)
        fcntl.ioctl(process.stdin, termios.FIONREAD, waiting)
        state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        asleep = asleep + 1 if state == "S" and not any(waiting) else 0
        time.sleep(0.03)


def test_remarks_on_a_recording_are_printed_with_its_name(run: Path, tmp_path: Path, foveate: Any) -> None:
    tone = np.sin(np.arange(2 * RATE) / 9).astype(np.float32)
    soundfile.write(tmp_path / "silent.wav", 0 * tone, RATE)
    soundfile.write(tmp_path / "loud.wav", np.clip(3 * tone, -1, 1), RATE)
    soundfile.write(tmp_path / "fast.wav", 0.3 * tone, 2 * RATE)
    soundfile.write(tmp_path / "both.wav", 0.3 * np.stack([tone, tone], 1), RATE)
    soundfile.write(tmp_path / "cut.wav", 0.3 * tone, RATE)
    (tmp_path / "cut.wav").write_bytes((tmp_path / "cut.wav").read_bytes()[:9_000])
    said = foveate("transcribe", run, tmp_path)
    assert said.code == 0, said.err
    assert said.err.splitlines() == [
        f"{tmp_path}/both.wav: 2 channels, whose mean is read.",
        f"{tmp_path}/cut.wav: cut off: the file ends before the last sample that its header promises.",
        f"{tmp_path}/fast.wav: 16,000 samples a second, resampled to 8,000.",
        f"{tmp_path}/loud.wav: clipping: samples at full scale.",
        f"{tmp_path}/silent.wav: silence.",
    ]


def test_texts_that_are_names_of_folders_are_announced(clips: Path, tmp_path: Path, foveate: Any) -> None:
    for number, line in enumerate(clips.read_text().splitlines()[:20]):
        folder = tmp_path / "data" / ("one" if number % 2 else "two")
        folder.mkdir(parents=True, exist_ok=True)
        name = line.partition("\t")[0]
        (folder / name).write_bytes((clips.parent / name).read_bytes())
    said = foveate(
        "train", "transcribe", "--data", tmp_path / "data", "--out", tmp_path / "run", *FEW[:3], *SMALL, *FEW[-6:]
    )
    assert said.code == 0, said.err
    first = next(iter(sorted((tmp_path / "data" / "one").iterdir())))
    assert f"Each text is the name of a folder, such as 'one' for {first}. For other texts, name a table" in said.err


def _process(*words: object, stdout: Any = subprocess.PIPE) -> "subprocess.Popen[bytes]":
    """The program in a process of its own."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    argv = [sys.executable, "-m", "foveate.cli", *map(str, words)]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE, "stdout": stdout}
    return subprocess.Popen(argv, env={**os.environ, "PYTHONPATH": path}, **pipes)


@pytest.mark.parametrize("search", [(), ("--set", "kind=ctc"), ("--set", "kind=greedy"), ("--beam", "3")])
def test_a_text_is_searched_for_as_asked(clips: Path, run: Path, search: tuple[str, ...], foveate: Any) -> None:
    said = foveate("transcribe", run, clips.parent / "00.wav", *search)
    assert said.code == 0, said.err
    assert len(said.out.splitlines()) == 1


def test_the_best_texts_have_scores_that_fall(clips: Path, run: Path, foveate: Any) -> None:
    files = [clips.parent / "00.wav", clips.parent / "01.wav"]
    said = foveate("transcribe", run, *files, "--n-best", "3", "--set", "kind=ctc")
    rows = [line.split("\t") for line in said.out.splitlines()]
    assert [row[0] for row in rows] == ["1"] * 3 + ["2"] * 3
    scores = [float(row[1]) for row in rows[:3]]
    assert scores == sorted(scores, reverse=True)


def test_the_times_of_a_stretch_are_those_of_its_file(clips: Path, run: Path, tmp_path: Path) -> None:
    """A file that has only the stretch has the same words, earlier; a TextGrid ends with the file, or the stretch."""
    samples, rate = soundfile.read(clips.parent / "00.wav", dtype="int16")
    begin, end = rate // 4, len(samples) - 3
    soundfile.write(tmp_path / "cut.wav", samples[begin:end], rate)
    transcriber = Transcriber.load(run)
    stretch = Clip(clips.parent / "00.wav", 0.25, end / rate)
    whole, part, cut = (transcriber.align(one, "a") for one in (clips.parent / "00.wav", stretch, tmp_path / "cut.wav"))
    assert part.name == str(clips.parent / "00.wav")
    assert part.seconds == pytest.approx(end / rate)
    for one, other in zip(part.tier("words"), cut.tier("words"), strict=True):
        assert (one.start, one.end) == pytest.approx((0.25 + other.start, 0.25 + other.end))
    assert (whole.seconds, cut.seconds) == pytest.approx((len(samples) / rate, (end - begin) / rate))
    assert f"xmax = {whole.seconds:g}" in whole.text_grid()
    (transcript,) = transcriber.transcribe([stretch], config=CTCConfig())
    assert transcript.times is None or transcript.times.seconds == part.seconds


def test_times_are_written_in_every_format(clips: Path, run: Path, foveate: Any) -> None:
    one, search = clips.parent / "00.wav", ("--set", "kind=ctc")
    written = {
        kind: foveate("transcribe", run, one, *search, "--format", kind).out
        for kind in ("text", "json", "ctm", "textgrid")
    }
    words = foveate("transcribe", run, one, *search, "--words-with-times").out.splitlines()
    if words == [""]:  # nothing is recognised
        assert set(written.values()) == {""}
        return
    assert 'class = "TextGrid"' in written["textgrid"]
    assert len(written["ctm"].splitlines()) == len(words) - 1
    assert json.loads(written["json"])
    assert "█" in written["text"] or "░" in written["text"]


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (("--rate", "8000", "CLIP"), b"", "--rate goes with sound from standard input"),
        (("CLIP", "--n-best", "2", "--words-with-times"), b"", "--words-with-times and --n-best print different"),
        (("CLIP", "--beam", "2", "--n-best", "9"), b"", "--n-best 9 asks for more texts than a beam of 2 keeps"),
        (("none.wav",), b"", "none.wav"),
        ((), b"no sound at all", "standard input is not a WAV file"),
        ((), b"", "standard input is empty"),
    ],
)
def test_what_cannot_be_written_down_is_refused(
    clips: Path, run: Path, words: tuple[str, ...], stdin: bytes, message: str, foveate: Any
) -> None:
    named = [clips.parent / "00.wav" if word == "CLIP" else word for word in words]
    said = foveate("transcribe", run, *named, stdin=stdin)
    assert (said.code in (2, 3), message in said.err) == (True, True), said.err


def test_a_look_shows_attention_and_ctc_over_the_sound(clips: Path, run: Path, tmp_path: Path, foveate: Any) -> None:
    said = foveate("look", run, clips.parent / "00.wav", "--trace", tmp_path / "kept")
    assert said.code == 0, said.err
    trace = read_trace(tmp_path / "kept")
    source = trace.tracks["source"]
    assert source.kind == "frames"
    assert source.sound is not None
    assert source.picture is not None
    assert source.sound.seconds == pytest.approx(len(source) * (source.hop or 0), abs=0.03)
    across = {site.name for site in trace.sites if site.kind == "cross"}
    assert "decoder.attention" in across


def test_a_resumed_run_of_recordings_ends_with_the_same_bits(clips: Path, tmp_path: Path, foveate: Any) -> None:
    start = ("train", "transcribe", "--data", clips, *FEW, "--set", "train.schedule=constant", "--out")
    assert foveate(*start, tmp_path / "whole").code == 0
    assert foveate(*start, tmp_path / "part", "--set", "train.steps=3").code == 0
    assert foveate("resume", tmp_path / "part", "--set", "train.steps=6", *QUICK).code == 0
    whole, part = (
        load_file(tmp_path / name / "checkpoints" / "step-00000006" / "model.safetensors") for name in ("whole", "part")
    )
    assert whole.keys() == part.keys()
    assert all(torch.equal(whole[name], part[name]) for name in whole)


def test_a_killed_run_goes_on_to_the_same_bits(clips: Path, tmp_path: Path, foveate: Any) -> None:
    start = ("train", "transcribe", "--data", clips, *FEW, "--set", "train.schedule=constant", "--out")
    assert foveate(*start, tmp_path / "whole", "--set", "train.steps=60").code == 0
    words = [*start, tmp_path / "killed", "--set", "train.steps=100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "foveate", *map(str, words)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    checkpoint, until = tmp_path / "killed" / "checkpoints" / "step-00000003", time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < until:
        time.sleep(0.01)
    process.kill()
    process.wait()
    said = foveate("resume", tmp_path / "killed", "--set", "train.steps=60", *QUICK)
    assert said.code == 0, said.err
    whole, killed = (
        load_file(tmp_path / name / "checkpoints" / "step-00000060" / "model.safetensors")
        for name in ("whole", "killed")
    )
    assert all(torch.equal(whole[name], killed[name]) for name in whole)


def test_a_recogniser_by_ctc_is_exported(clips: Path, tmp_path: Path, foveate: Any) -> None:
    pytest.importorskip("onnxruntime")
    assert foveate("train", "transcribe", "--data", clips, "--out", tmp_path / "run", *FEW).code == 0
    said = foveate("export", tmp_path / "run", tmp_path / "onnx", "--to", "onnx")
    assert said.code == 0, said.err
    description = json.loads((tmp_path / "onnx" / "export.json").read_text())
    (signature,) = description["files"].values()
    assert {"log_probabilities", "output_lengths"} <= set(signature["outputs"])
    assert (tmp_path / "onnx" / "rows.json").exists()
    assert (tmp_path / "onnx" / "text.tokeniser.json").exists()


def test_an_export_says_that_the_decoder_is_left_out(run: Path, tmp_path: Path, foveate: Any) -> None:
    said = foveate("export", run, tmp_path / "onnx", "--to", "onnx")
    assert said.code == 0, said.err
    assert "The graph contains CTC; the decoder is left out." in said.err
    assert json.loads((tmp_path / "onnx" / "export.json").read_text())["left_out"] == ["decoder"]


def test_bad_recordings_are_named(clips: Path, tmp_path: Path, foveate: Any) -> None:
    table = "".join(f"{clips.parent}/{line}" for line in clips.read_text().splitlines(keepends=True))
    soundfile.write(tmp_path / "silent.wav", np.zeros(4_000, np.float32), RATE)
    (tmp_path / "clips.tsv").write_text(f"{table}silent.wav\tsea\n")
    said = foveate(
        "train", "transcribe", "--data", tmp_path / "clips.tsv", "--out", tmp_path / "run", *FEW[:3], *SMALL, *FEW[-6:]
    )
    assert said.code == 0, said.err
    assert "Warning: silence: line 41." in said.err
    (tmp_path / "broken.wav").write_bytes(b"RIFF no sound")
    (tmp_path / "clips.tsv").write_text(f"{table}broken.wav\tsea\n")
    said = foveate("train", "transcribe", "--data", tmp_path / "clips.tsv", "--out", tmp_path / "again", *FEW)
    assert (said.code, f"{tmp_path}/clips.tsv:41: {tmp_path}/broken.wav" in said.err) == (3, True)


def test_the_text_of_a_stream_is_that_of_the_file(clips: Path, run: Path, foveate: Any) -> None:
    one, search = clips.parent / "00.wav", ("--set", "kind=ctc")
    whole = foveate("transcribe", run, one, *search)
    assert foveate("transcribe", run, one, "--stream").out == whole.out
    assert foveate("transcribe", run, "--stream", stdin=one.read_bytes()).out == whole.out
    cut = foveate("transcribe", run, "--stream", stdin=one.read_bytes()[:-2])
    assert "standard input: cut off: " in cut.err
    said = foveate("transcribe", run, "--stream", "--rate", "16000", stdin=b"\0" * 9_000)
    assert (said.code, "Standard input has 16,000 samples a second, and the model reads 8,000." in said.err) == (
        2,
        True,
    )
    said = foveate("transcribe", run, one, "--stream", "--beam", "2")
    assert (said.code, "--stream searches by CTC alone" in said.err) == (2, True)


def test_a_rule_for_the_encoder_is_a_setting_of_the_command(
    clips: Path, run: Path, tmp_path: Path, foveate: Any
) -> None:
    one, view = clips.parent / "00.wav", ("--set", "kind=ctc", "--set", "visibility=chunk(4, left=2)")
    whole = foveate("transcribe", run, one, *view)
    assert 'The model was not trained under "chunk(4, left=2)": expect more errors.' in whole.err
    assert foveate("transcribe", run, one, "--stream", *view).out == whole.out
    assert foveate("transcribe", run, one, "--stream", *view[2:]).out == whole.out
    report = tmp_path / "report.html"
    said = foveate("evaluate", run, "--data", clips, "--report", report, *view[2:])
    assert (said.code, "not trained under" in said.err) == (0, True)
    assert said.out.count("visibility:chunk(4, left=2)") == 2
    page = html.unescape(report.read_text())
    assert "the encoder under chunk(4, left=2)" in page
    assert page.count("--set 'visibility=chunk(4, left=2)'") == 2
    own = foveate("transcribe", run, one, "--set", "visibility=everything()")
    assert (own.code, "not trained under" in own.err) == (0, False)
    said = foveate("transcribe", run, one, "--set", "visibility=padding([3])")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("foveate transcribe: The rule cannot be 'padding([3])': it contains the lengths")
    said = foveate("transcribe", run, one, "--set", "visibility=chonk(4)")
    assert (said.code, "--set visibility: " in said.err, "Did you mean 'chunk'?" in said.err) == (2, True, True)


def test_a_look_aligns_a_known_text(clips: Path, run: Path, tmp_path: Path, foveate: Any) -> None:
    text = clips.read_text().splitlines()[0].split("\t")[1]
    looked = foveate("look", run, clips.parent / "00.wav", "--target", text, "--trace", tmp_path / "kept")
    assert looked.code == 0, looked.err
    trace = read_trace(tmp_path / "kept")
    assert trace.tracks["target"].text == text
    heard, _ = trace["ctc"].weights(0)
    assert bool((heard[:-1].amax(1) > 0).all())  # the last row is that of </s>
    assert bool((heard.sum(0) <= 1 + 1e-5).all())


def test_a_look_is_restricted_by_a_rule(clips: Path, run: Path, tmp_path: Path, foveate: Any) -> None:
    one, seen = clips.parent / "00.wav", {}
    for name, view in (("own", ()), ("chunks", ("--set", "visibility=chunk(4, left=0)"))):
        looked = foveate("look", run, one, *view, "--trace", tmp_path / name)
        assert (looked.code, "not trained under" in looked.err) == (0, bool(view)), looked.err
        trace = read_trace(tmp_path / name)
        site = next(site for site in trace.sites if site.kind == "self" and site.query == "source")
        weights, visible = site.weights(0)
        seen[name] = weights.new_ones(weights.shape).bool() if visible is None else visible
        text = foveate("transcribe", run, one, *view).out.rstrip("\n")
        assert trace.tracks["target"].text == text
    place = torch.arange(len(seen["own"]))
    same = place[:, None] // 4 == place[None, :] // 4
    assert torch.equal(seen["chunks"], seen["own"] & same)
    assert not bool(same.all())
    said = foveate("look", run, one, "--set", "kind=ctc")
    assert (said.code, "--set goes with searches, or names a rule as visibility=RULE" in said.err) == (2, True)


def test_variants_are_compared_on_the_same_recordings(clips: Path, tmp_path: Path, foveate: Any) -> None:
    words = ("--vary", "model.encoder.num_layers=1,2", "--seeds", "2", "--budget", "steps=2", "--out", tmp_path / "out")
    said = foveate("compare", "transcribe", "--data", clips, *words, *QUICK, *SMALL[2:])
    assert said.code == 0, said.err
    assert "word_error" in said.out
    kept = (tmp_path / "out" / "data" / "valid.tsv").read_text().splitlines()
    assert kept[0] == "path\tstart\tend\ttext"
    assert len(kept) == 5
    assert str(clips.parent) in kept[1]


def test_a_plan_has_the_vocabulary_of_the_texts_or_says_that_it_is_assumed(clips: Path, foveate: Any) -> None:
    letters = {*"".join(line.partition("\t")[2] for line in clips.read_text().splitlines())}
    said = foveate("plan", "transcribe", "--data", clips, *QUICK[:3], "--set", "tokeniser=character", *SMALL)
    assert f"a vocabulary of {len(letters) + len(SPECIALS)})" in said.out, said.err + said.out
    said = foveate("plan", "transcribe", *QUICK[:3], *SMALL[:8], "--set", "data.max_tokens=1500")
    assert "a vocabulary of 8,000 (assumed: give --data or --vocab))" in said.out, said.err + said.out


@pytest.mark.parametrize("window", ["window(left=16, right=2)", "chunk(8, left=2)"])
def test_a_plan_has_the_latency_of_a_stream(clips: Path, window: str, foveate: Any) -> None:
    said = foveate(
        *("plan", "transcribe", "--data", clips, "--no-tune", "--threads", "1", *SMALL),
        *("--set", f"model.encoder.block.encoder_attention.visibility={window}"),
    )
    assert said.code == 0, said.err
    assert "latency of a stream: " in said.out
    assert "frames 25 ms" in said.out
    said = foveate(
        *("plan", "transcribe", "--data", clips, "--no-tune", "--threads", "1", *SMALL),
        *("--set", f'views=["{window}", "chunk(2, left=2)"]'),
    )
    assert f"under {window}: latency of a stream: " in said.out
    assert "under chunk(2, left=2): latency of a stream: " in said.out
    said = foveate("plan", "transcribe", "--data", clips, "--no-tune", "--set", "model.encoder=rnn")
    assert "no stream: " in said.out
    said = foveate("plan", "transcribe", "--data", clips, *SMALL, "--set", "reader.normalisation=recording")
    assert "no stream: Vectors that are normalised by the whole recording" in said.out
