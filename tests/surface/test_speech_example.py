"""The tables of recordings: parts share no recording, words are where the tracks say, and labels are the texts."""

import ctypes.util
import doctest
import gzip
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file

from foveate.attention import AttentionConfig, window
from foveate.data.audio import AudioReader, AudioRows
from foveate.data.tokeniser import WordTokeniser
from foveate.models import RecogniserConfig
from foveate.models.speller import SpellerConfig
from foveate.nn import BlockConfig, TransformerEncoderConfig, Vectors
from foveate.tasks.transcribe.use import Transcriber

FOLDER = Path(__file__).parents[2] / "examples" / "speech"
RATE = 8000


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"speech_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tone(path: Path, *, frequency: float = 440, seconds: float = 0.05) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    time = np.arange(round(seconds * RATE)) / RATE
    soundfile.write(path, 0.5 * np.sin(2 * np.pi * frequency * time), RATE)
    return path


def rows(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """Two digits by two speakers; the length of a recording, in samples, is 400 times its index plus 100."""
    for digit in (3, 8):
        for speaker in ("ann", "bob"):
            for index in (0, 4, 5, 6, 7, 49):
                path = tmp_path / f"recordings/{digit}_{speaker}_{index}.wav"
                tone(path, seconds=(400 * index + 100) / RATE)
    tone(tmp_path / "recordings/noise.wav")
    return tmp_path / "recordings"


@pytest.fixture
def digits() -> ModuleType:
    module = load("digits")
    module.SIZES = {"train": 20, "valid": 5, "test": 5}
    return module


@pytest.fixture
def strings(digits: ModuleType, recordings: Path, tmp_path: Path) -> Path:
    """The folder of strings of digits."""
    assert digits.main([str(recordings), str(tmp_path / "digits"), "--train", "40"]) == 0
    return tmp_path / "digits"


def test_words_of_a_string_are_the_recordings_at_the_times_of_its_track(
    digits: ModuleType, recordings: Path, tmp_path: Path
) -> None:
    assert digits.main([str(recordings), str(tmp_path / "out"), "--train", "20"]) == 0
    parts = {"train": {7, 49}, "valid": {5, 6}, "test": {0, 4}}
    for part, indices in parts.items():
        for (name, text), (same, track) in zip(
            rows(tmp_path / f"out/{part}.tsv"), rows(tmp_path / f"out/{part}.words.tsv"), strict=True
        ):
            assert name == same
            samples, rate = soundfile.read(tmp_path / "out" / name)
            words = rows(tmp_path / "out" / track)
            assert text.split() == [word for *_, word in words]
            assert set(text.split()) <= {"three", "eight"}
            ends = [0.0]
            for start, end, _ in words:
                length = round((float(end) - float(start)) * rate)
                assert length in {400 * index + 100 for index in indices}
                expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(length) / rate)
                first = round(float(start) * rate)
                np.testing.assert_allclose(samples[first : first + length], expected, atol=1e-4)
                assert float(start) - ends[-1] <= 0.25
                ends.append(float(end))
            assert ends[-1] <= len(samples) / rate <= ends[-1] + 0.25


def test_strings_are_a_function_of_the_seed(digits: ModuleType, recordings: Path, tmp_path: Path) -> None:
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        digits.main([str(recordings), str(tmp_path / folder), "--seed", str(seed)])
    tables = {folder: (tmp_path / folder / "train.tsv").read_text() for folder in "abc"}
    sounds = {folder: (tmp_path / folder / "train/00000.wav").read_bytes() for folder in "abc"}
    assert tables["a"] == tables["b"] != tables["c"]
    assert sounds["a"] == sounds["b"] != sounds["c"]


def test_a_folder_without_recordings_is_refused(
    digits: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        digits.main([str(tmp_path), str(tmp_path / "out")])
    assert "such as 0_george_0.wav" in capfd.readouterr().err


NUMBERS = {
    ("en", 42): "forty two",
    ("es", 42): "cuarenta y dos",
    ("es", 27): "veintisiete",
    ("fr", 21): "vingt et un",
    ("fr", 71): "soixante et onze",
    ("fr", 81): "quatre-vingt un",
    ("fr", 97): "quatre-vingt dix-sept",
    ("fr", 91): "quatre-vingt onze",
    ("it", 38): "trentotto",
    ("it", 33): "trenta tre",
    ("ru", 19): "девятнадцать",
    ("ru", 90): "девяносто",
}


@pytest.mark.parametrize(("language", "number"), NUMBERS)
def test_numbers_are_read_as_their_language_does(
    scripts: Callable[[str], ModuleType], language: str, number: int
) -> None:
    parts = scripts("counting").parts_of(number, language)
    assert " ".join(word for _, word in parts) == NUMBERS[language, number]


def test_numbers_for_testing_occur_in_no_training_string(
    scripts: Callable[[str], ModuleType], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    counting = scripts("counting")
    counting.SIZES = {"train": 60, "valid": 10, "test": 10}
    with pytest.raises(SystemExit, match="apt install asterisk-core-sounds-en-wav"):
        counting.main([str(tmp_path / "out"), "--sounds", str(tmp_path)])
    for language in counting.LANGUAGES:
        names = {name for number in range(100) for name, _ in counting.parts_of(number, language)}
        for name in names:
            tone(tmp_path / f"sounds/{language}_voice/digits/{name}.wav", seconds=0.02)
    assert counting.main([str(tmp_path / "out"), "--sounds", str(tmp_path / "sounds"), "--train", "60"]) == 0
    for language in counting.LANGUAGES:
        divided = {part: set() for part in ("train", "valid", "test")}
        for number in range(100):
            divided[counting.part_of(number, language)].add(number)
        assert min(map(len, divided.values())) >= 3
        strings = rows(tmp_path / f"out/test-{language}.tsv")
        assert len(strings) == 10
        unseen = {" ".join(word for _, word in counting.parts_of(one, language)) for one in divided["test"]}
        for _, text in strings:
            assert _is_joined_from(text, unseen)
    assert len(rows(tmp_path / "out/train.tsv")) == 60


def _is_joined_from(text: str, parts: set[str]) -> bool:
    """Whether a text is a sequence of these parts."""
    return not text or any(
        text == part or (text.startswith(part + " ") and _is_joined_from(text[len(part) + 1 :], parts))
        for part in parts
    )


def test_sentences_and_voices_of_the_parts_differ() -> None:
    phones = load("phones")
    sentences, voices = phones.verses(), phones.VOICES
    assert sum(map(len, sentences.values())) == 5706
    for kind in (sentences, voices):
        assert min(len(kind[part]) for part in phones.SIZES) >= 4
    assert len({voice for part in voices.values() for voice in part}) == sum(map(len, voices.values()))


def test_own_sentences_are_split_by_their_order(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("".join(f"line {n}\n\nline {n}\n" for n in range(20)))
    parts = load("phones").own(tmp_path / "text")
    assert {part: len(lines) for part, lines in parts.items()} == {"train": 16, "valid": 2, "test": 2}
    assert parts["train"] + parts["valid"] + parts["test"] == [f"line {n}" for n in range(20)]


def test_phones_are_written_with_their_times_or_the_way_to_a_synthesiser_is_named(tmp_path: Path) -> None:
    phones = load("phones")
    (tmp_path / "text").write_text("One sheep.\nTwo ships.\nThree shops.\n")
    command = [str(tmp_path / "out"), "--text", str(tmp_path / "text")]
    with pytest.raises(SystemExit, match=r"missing\.so.*apt install espeak-ng"):
        phones.main([*command, "--library", str(tmp_path / "missing.so")])
    if ctypes.util.find_library("espeak-ng") is None:
        return
    assert phones.main(command) == 0
    for part, word in (("train", "wVn"), ("valid", "tu:"), ("test", "Tri:")):
        ((name, track),) = rows(tmp_path / f"out/{part}.tsv")
        samples, rate = soundfile.read(tmp_path / "out" / name)
        stretches = rows(tmp_path / "out" / track)
        assert [end for _, end, _ in stretches[:-1]] == [start for start, _, _ in stretches[1:]]
        assert float(stretches[-1][1]) == pytest.approx(len(samples) / rate, abs=1e-5)
        assert "".join(phone for *_, phone in stretches if phone != "_").startswith(
            word[-1:] if word == "WVn" else word
        )
        silent = [samples[int(float(a) * rate) : int(float(b) * rate)] for a, b, phone in stretches if phone == "_"]
        assert max(np.abs(silent[-1])) < np.abs(samples).max() / 4


def test_prompts_are_recordings_with_texts_in_words(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sounds = tmp_path / "sounds"
    for name in ("hello", "digits/1", "beep", "press", "twice", "unknown"):
        tone(sounds / f"fr_CA_f_June/{name}.wav")
    (sounds / "fr").symlink_to("fr_CA_f_June")
    listing = tmp_path / "texts/asterisk-core-sounds-fr/core-sounds-fr.txt.gz"
    listing.parent.mkdir(parents=True)
    text = "; French\n\nhello: C’est l'été !\ndigits/1: Un\nbeep: [beep]\npress: Appuyez 1\nmissing: Non\n"
    text += "twice: Zéro\ntwice: Dix\n"
    listing.write_bytes(gzip.compress(text.encode()))
    command = [str(tmp_path / "out"), "--sounds", str(sounds), "--texts", str(tmp_path / "texts"), "--languages"]
    assert load("prompts").main([*command, "fr"]) == 0
    assert "fr: 2 prompts; 4 have no text in words, or two texts" in capfd.readouterr().out
    every = [row for part in ("train", "valid", "test") for row in rows(tmp_path / f"out/fr/{part}.tsv")]
    folder = sounds / "fr_CA_f_June"
    assert sorted(every) == [[str(folder / "digits/1.wav"), "un"], [str(folder / "hello.wav"), "c'est l'été"]]
    labels = [row for part in ("train", "valid", "test") for row in rows(tmp_path / f"out/language/{part}.tsv")]
    assert sorted(labels) == [[path, "fr"] for path, _ in sorted(every)]
    with pytest.raises(SystemExit, match="apt install asterisk-core-sounds-ru asterisk-core-sounds-ru-wav"):
        load("prompts").main([*command, "ru"])


def test_a_picture_is_in_one_part_in_all_languages(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    stamps = tmp_path / "stamps"
    for picture in range(40):
        for language in ("es", "fr", "nl"):
            tone(stamps / f"animals/{picture}_desc_{language}.ogg")
        tone(stamps / f"animals/{picture}.ogg")
    command = [str(tmp_path / "out"), "--stamps", str(stamps), "--languages", "es,fr"]
    assert load("captions").main(command) == 0
    assert capfd.readouterr().out == "es: 40, fr: 40\n"
    parts = {part: rows(tmp_path / f"out/{part}.tsv") for part in ("train", "valid", "test")}
    assert sorted([*parts["train"], *parts["valid"], *parts["test"]]) == sorted(rows(tmp_path / "out/all.tsv"))
    assert all(f"_desc_{language}.ogg" in path for part in parts.values() for path, language in part)
    pictures = [{Path(path).name.split("_")[0] for path, _ in part} for part in parts.values()]
    assert min(map(len, pictures)) >= 1
    assert sum(map(len, pictures)) == len(set.union(*pictures)) == 40


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A script that imports its neighbours. One step tells its pace, so that a test takes seconds."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    importlib.import_module("measure").TRIAL = 1
    yield load
    for name in ("measure", "figures", "digits"):
        sys.modules.pop(name, None)


def test_recognisers_are_measured_by_words_and_by_where_they_were_heard(
    strings: Path, scripts: Callable[[str], ModuleType], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    recognition = scripts("recognition")
    results = tmp_path / "results.json"
    command = [str(strings), "--out", str(tmp_path / "runs"), "--results", str(results)]
    variants = ["--variant", "window-4", "--variant", "bilstm", "--variant", "neighbours-5"]
    assert recognition.main([*command, *variants, "--seconds", "0.5"]) == 0
    table = json.loads(results.read_text())["digits, 0.5 s"]
    assert list(table) == ["window-4", "bilstm", "neighbours-5"]
    for row in table.values():
        assert row["0"]["WER"] >= 0
        assert 0 <= row["0"]["strings right"] <= 100
        assert row["0"]["steps"] >= 1
    assert "latency" in table["window-4"]["0"]
    assert "latency" not in table["bilstm"]["0"]
    assert "| window-4 |" in capfd.readouterr().out


def test_a_word_is_heard_within_its_time_or_outside(scripts: Callable[[str], ModuleType]) -> None:
    recognition = scripts("recognition")
    word = recognition.Segment(1.0, 1.5, "one")
    assert [recognition.within(second, word) for second in (0.97, 0.99, 1.2, 1.51, 1.53)] == [
        *(False, True, True, True, False)
    ]


def test_words_are_heard_within_their_recording_and_the_latency_is_that_of_the_stream(
    scripts: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    reader = AudioReader(rate=RATE, bands=8)
    rows = AudioRows(settings=reader, mean=(0.0,) * 8, deviation=(1.0,) * 8)
    block = BlockConfig(
        model_dim=8,
        num_heads=2,
        feedforward_dim=8,
        encoder_attention=AttentionConfig(visibility=window(left=2, right=2)),
    )
    torch.manual_seed(0)
    words = WordTokeniser.train(["one two three"])
    model = RecogniserConfig(encoder=TransformerEncoderConfig(block=block, num_layers=2)).build(
        rows.input, words.vocab_size
    )
    assert model.ctc_output is not None
    with torch.no_grad():
        model.ctc_output.bias[0] = -20
    recognition, transcriber = scripts("recognition"), Transcriber(model, rows, words)
    noise = np.random.default_rng(0).normal(scale=0.1, size=4 * RATE)
    soundfile.write(tmp_path / "noise.wav", noise, RATE)
    (heard,) = recognition.listened(transcriber, [tmp_path / "noise.wav"])
    assert len(heard.words) == len(heard.seconds) > 3
    assert 0 <= heard.seconds[0] < 1
    assert 3 < heard.seconds[-1] <= 4
    assert recognition.latency(transcriber)["latency"] == pytest.approx(model.stream().look_ahead * rows.hop)
    assert recognition.latency(transcriber)["latency"] < 0.5


@pytest.mark.parametrize(
    ("english", "german"),
    [
        ("four two seven", "zwei und vierzig sieben"),
        ("two one", "ein und zwanzig"),
        ("one two zero five", "zwölf null fünf"),
        ("nine zero zero zero", "neunzig null null"),
        ("", ""),
    ],
)
def test_german_numbers_say_units_before_tens(scripts: Callable[[str], ModuleType], english: str, german: str) -> None:
    translation = scripts("translation")
    assert translation.german(english) == german
    places = [word.places for word in translation.words("four two seven")]
    assert places == [(1,), (), (0,), (2,)]
    pairs = {translation.german(f"{ten} {unit}") for ten in translation.ENGLISH for unit in translation.ENGLISH}
    assert len(pairs) == 100


def test_translations_of_speech_are_measured_beside_their_rivals(
    strings: Path, scripts: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    translation, results = scripts("translation"), tmp_path / "results.json"
    command = [str(strings), "--out", str(tmp_path / "runs"), "--results", str(results)]
    names = ["words", "both", "ctc", "attention, lent", "frequent"]
    variants = [text for name in names for text in ("--variant", name)]
    assert translation.main([*command, *variants, "--seconds", "0.2"]) == 0
    pairs = (rows(strings / f"test{kind}.tsv") for kind in ("", ".german"))
    for english, german in zip(*pairs, strict=True):
        assert english[0] == german[0]
        assert german[1] == translation.german(english[1])
    table = json.loads(results.read_text())["German numbers, 0.2 s"]
    assert list(table) == names
    assert all(row["0"]["WER"] >= 0 and 0 <= row["0"]["strings right"] <= 100 for row in table.values())
    texts = [german for _, german in rows(strings / "train.german.tsv")]
    answer = max(texts, key=texts.count)
    right = [german == answer for _, german in rows(strings / "test.german.tsv")]
    assert table["frequent"]["0"]["strings right"] == pytest.approx(100 * sum(right) / len(right))
    name = next(name for name, text in rows(strings / "test.tsv") if len(text.split()) >= 2)
    text = translation.german(dict(rows(strings / "test.tsv"))[name]).split()
    for variant in ("both", "ctc"):
        transcriber = translation.Transcriber.load(tmp_path / f"runs/{variant}-0-0.2")
        seconds = translation.heard(transcriber, strings / name, text)
        assert len(seconds) == len(text)
        assert all(0 <= second <= soundfile.info(strings / name).duration + 0.1 for second in seconds)
        figures = translation.pointing(transcriber, strings, [name])
        assert 0 <= figures["pointing"] <= 100
        assert variant != "ctc" or figures["back"] == 0  # CTC writes in the order of its outputs


def test_a_model_begins_with_the_ears_of_a_recogniser(scripts: Callable[[str], ModuleType], tmp_path: Path) -> None:
    models = [RecogniserConfig(decoder=decoder).build(Vectors(40), 9) for decoder in (None, SpellerConfig())]
    ears, model = models
    save_file(dict(ears.state_dict()), tmp_path / "model.safetensors")
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    translation = scripts("translation")
    translation.Loan(tmp_path, translation.EARS).lend(model)
    shared = {name for name in before if name.startswith(("subsampling.", "encoder."))}
    assert shared < set(before)
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, ears.state_dict()[name] if name in shared else before[name])


def test_a_voice_is_judged_by_a_recogniser_beside_the_sounds_that_it_learns_from(
    strings: Path,
    recordings: Path,
    scripts: Callable[[str], ModuleType],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    voice, recognition = scripts("voice"), scripts("recognition")
    voice.SIZES.update({"train": 12, "valid": 4, "test": 5})
    command = [str(strings), "--out", str(tmp_path / "runs"), "--results", str(tmp_path / "other.json")]
    assert recognition.main([*command, "--variant", "neighbours-5", "--seconds", "0.2"]) == 0
    (recogniser,) = (tmp_path / "runs").glob("runs/neighbours-5-*")
    command = [str(recordings), "--out", str(tmp_path / "voice"), "--speaker", "ann"]
    with pytest.raises(SystemExit):
        voice.main(command)
    assert "--recogniser is missing" in capfd.readouterr().err
    results = tmp_path / "results.json"
    given = ["--recogniser", str(recogniser), "--seconds", "0.5", "--results", str(results)]
    assert voice.main([*command, *given, "--set", "data.max_length=300"]) == 0
    table = json.loads(results.read_text())["voice, 0.5 s, data.max_length=300"]
    assert list(table) == ["recorded", "frames", "spoken"]
    assert 0 <= table["spoken"]["0"]["forward"] <= 100
    assert 0 <= table["spoken"]["0"]["ended"] <= 100
    known = {text for _, text in rows(tmp_path / "voice/train.tsv")}
    assert all(text not in known for _, text in voice.test(tmp_path / "voice"))
    with pytest.raises(SystemExit, match=r"no train recordings of 'eve'\. Speakers: ann, bob"):
        voice.main([str(recordings), "--out", str(tmp_path / "voice"), "--speaker", "eve", "--tables"])


def test_phones_of_frames_are_measured(
    scripts: Callable[[str], ModuleType], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for part in ("train", "valid", "test"):
        for number in range(4):
            tone(tmp_path / f"{part}/{number}.wav", frequency=400 + 300 * number, seconds=0.4)
            (tmp_path / f"{part}/{number}.txt").write_text(f"0.0\t0.2\t{number % 2}\n0.2\t0.4\t_\n")
        table = "".join(f"{part}/{number}.wav\t{part}/{number}.txt\n" for number in range(4))
        (tmp_path / f"{part}.tsv").write_text(table)
    frames, results = scripts("frames"), tmp_path / "results.json"
    command = [str(tmp_path), "--out", str(tmp_path / "runs"), "--results", str(results), "--seconds", "0.3"]
    assert frames.main([*command, "--variant", "alone", "--variant", "window-16"]) == 0
    table = json.loads(results.read_text())["phones, 0.3 s"]
    for row in table.values():
        assert 0 <= row["0"]["frames right"] <= 100
        assert 0 <= row["0"]["smoothed frames right"] <= 100
        assert row["0"]["edits of phones"] >= 0


def test_a_classifier_is_tested_on_the_collection_that_it_has_not_learnt_from(
    scripts: Callable[[str], ModuleType], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for place in ("prompts/language", "captions", "voices/es", "voices/fr", "voices/ru"):
        for part in ("train", "valid", "test"):
            rows = []
            for number in range(6):
                path = tone(tmp_path / place / f"{part}-{number}.wav", frequency=300 + 200 * (number % 3), seconds=0.2)
                rows.append(f"{path}\t{('es', 'fr', 'ru')[number % 3]}\n")
            (tmp_path / place / f"{part}.tsv").write_text("".join(rows))
            (tmp_path / place / f"{part}.text.tsv").write_text("".join(rows))
    across, results = scripts("across"), tmp_path / "results.json"
    command = [*(str(tmp_path / name) for name in ("prompts", "captions", "voices")), "--out", str(tmp_path / "runs")]
    assert across.main([*command, "--source", "prompts", "--seconds", "0.3", "--results", str(results)]) == 0
    figures = json.loads(results.read_text())["language, 0.3 s"]["prompts"]["0"]
    assert {name for name in figures if name.startswith("on ")} == {"on prompts", "on captions", "on voices"}
    assert "prompts: the most frequent language has 33.3 %" in capfd.readouterr().out
    collections = {part: [part] for part in ("train", "valid", "test")}
    assert across.tested("prompts", "prompts", collections) == ["test"]
    assert across.tested("prompts", "captions", collections) == ["train", "valid", "test"]


def test_figures_of_several_seeds_have_their_mean_and_deviation(
    scripts: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    figures = importlib.import_module("figures")
    for seed, error in ((0, 4.0), (1, 5.0), (1, 6.0)):
        figures.keep("digits", "CTC", seed, {"WER": error}, path=tmp_path / "results.json")
    assert json.loads((tmp_path / "results.json").read_text())["digits"]["CTC"] == {
        "0": {"WER": 4.0},
        "1": {"WER": 6.0},
    }
    assert doctest.testmod(figures).failed == 0


def test_data_prepared_by_other_settings_are_not_taken(scripts: Callable[[str], ModuleType]) -> None:
    measure = importlib.import_module("measure")
    prepared = {"reader": {"bands": 40}, "data": {"data": "a.tsv"}, "train": {"steps": 1}}
    measure.require_same(prepared, {**prepared, "train": {"steps": 2}}, Path("store"))
    with pytest.raises(SystemExit, match="store was prepared with other settings of reader"):
        measure.require_same(prepared, {**prepared, "reader": {"bands": 20}}, Path("store"))
