"""A service that answers files, recordings and pictures: every interface, limits before decoding, and refusals."""

import concurrent.futures
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import openai
import pytest
import soundfile
from huggingface_hub import InferenceClient
from PIL import Image
from tests.surface.sense_run import captioner, picture, picture_classifier, recogniser, sound
from tests.surface.service_process import RUNS, ServiceProcess

from foveate.tasks.caption.use import Describer
from foveate.tasks.classify.use import RowClassifier
from foveate.tasks.transcribe.use import Transcriber

KEY = "0123456789abcdef0123"
TEXTS = RUNS / "classify_transformer"


@pytest.fixture(scope="module")
def asr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recogniser(tmp_path_factory.mktemp("asr"))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return picture_classifier(tmp_path_factory.mktemp("labelled"))


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return captioner(tmp_path_factory.mktemp("described"))


@pytest.fixture(scope="module")
def service(asr: Path, labelled: Path, described: Path) -> Iterator[ServiceProcess]:
    keys = asr.parent / "keys.txt"
    keys.write_text(f"{KEY}\n")
    runs = ("en-fr", f"labels={TEXTS}", f"asr={asr}", f"pictures={labelled}", f"captions={described}")
    with ServiceProcess(*runs, "--api-key-file", str(keys), "--wait", "20") as running:
        running.client.headers["authorization"] = f"Bearer {KEY}"
        yield running


@pytest.fixture(scope="module")
def alone(asr: Path) -> dict[str, Any]:
    """What the model writes without a service."""
    paths = sorted(asr.parent.glob("*.wav"))[:4]
    return {one.name: one for one in Transcriber.load(asr).transcribe([str(path) for path in paths])}


def test_a_recording_has_the_words_and_times_that_it_has_without_a_service(
    service: ServiceProcess, alone: dict[str, Any]
) -> None:
    for path, transcript in alone.items():
        content = Path(path).read_bytes()
        by_form = service.client.post("/transcribe", files={"file": content}, data={"run": "asr"})
        as_body = service.client.post("/transcribe", content=content, headers={"content-type": "audio/wav"})
        value = by_form.json()
        assert value["text"] == as_body.json()["text"] == transcript.text
        assert [each["word"] for each in value["words"]] == [each.label for each in transcript.words]
        assert [each["start"] for each in value["words"]] == pytest.approx(
            [each.start for each in transcript.words], abs=1e-3
        )
        assert value["seconds"] == pytest.approx(soundfile.info(path).duration, abs=2e-3)
        assert value["log_probability"] == pytest.approx(transcript.log_probability, rel=1e-4)
    files = [("file", Path(path).read_bytes()) for path in alone]
    several = service.client.post("/transcribe", files=files).json()
    assert [each["text"] for each in several] == [transcript.text for transcript in alone.values()]
    metrics = service.client.get("/metrics").text
    assert 'foveate_tokens_total{run="asr",side="read"}' in metrics
    assert 'foveate_requests_total{route="transcribe",status="200"}' in metrics


def test_many_clients_at_once_get_what_one_gets(service: ServiceProcess, alone: dict[str, Any]) -> None:
    paths = list(alone) * 6

    def asked(path: str) -> str:
        return str(service.client.post("/transcribe", content=Path(path).read_bytes()).json()["text"])

    with concurrent.futures.ThreadPoolExecutor(12) as clients:
        assert list(clients.map(asked, paths)) == [alone[path].text for path in paths]


@pytest.mark.parametrize("kind", ["WAV", "FLAC", "OGG", "MP3", "AIFF"])
def test_every_format_is_read_from_bytes(service: ServiceProcess, kind: str) -> None:
    response = service.client.post("/models/asr", content=sound(1.0, kind), headers={"content-type": "audio/x"})
    assert response.status_code == 200, response.text
    assert list(response.json()) == ["text"]


def test_client_of_openai(service: ServiceProcess, alone: dict[str, Any]) -> None:
    client = openai.OpenAI(base_url=f"{service.address}/v1", api_key=KEY, max_retries=0)
    path, transcript = next(iter(alone.items()))
    ask: Any = client.audio.transcriptions.create
    assert ask(model="asr", file=Path(path)).text == transcript.text
    assert ask(model="asr", file=Path(path), response_format="text") == f"{transcript.text}\n"
    whole = ask(
        model="asr",
        file=("talk.wav", Path(path).read_bytes()),
        response_format="verbose_json",
        timestamp_granularities=["word"],
        language="en",
        temperature=0,
    )
    assert whole.text == transcript.text
    assert whole.language == "en"
    assert [each.word for each in whole.words] == [each.label for each in transcript.words]
    assert whole.usage.seconds == whole.duration > 0
    for settings, words in (
        ({"response_format": "srt"}, "srt"),
        ({"temperature": 0.5}, "temperature"),
        ({"prompt": "tones"}, "prompt"),
        ({"timestamp_granularities": ["segment"], "response_format": "verbose_json"}, "segments"),
        ({"timestamp_granularities": ["word"]}, "verbose_json"),
        ({"stream": True}, "Streams"),
        ({"include": ["logprobs"]}, "include"),
    ):
        with pytest.raises(openai.BadRequestError, match=words):
            ask(model="asr", file=Path(path), **settings)
    with pytest.raises(openai.NotFoundError, match="Did you mean 'asr'"):
        ask(model="as", file=Path(path))
    with pytest.raises(openai.NotFoundError, match="can translate"):
        ask(model="en-fr", file=Path(path))
    with pytest.raises(openai.UnprocessableEntityError, match="is not a recording that can be read"):
        ask(model="asr", file=b"no sound")
    with pytest.raises(openai.PermissionDeniedError):
        openai.OpenAI(base_url=f"{service.address}/v1", api_key="0" * 20).audio.transcriptions.create(
            model="asr", file=Path(path)
        )


def test_client_of_hugging_face(
    service: ServiceProcess, alone: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # which would forbid this machine, too
    client = InferenceClient(model=f"{service.address}/models/asr", token=KEY)
    for path, transcript in alone.items():
        assert client.automatic_speech_recognition(path).text == transcript.text
    timed: Any = client.automatic_speech_recognition(Path(path).read_bytes(), extra_body={"return_timestamps": "word"})
    assert [each["text"] for each in timed.chunks] == [each.label for each in transcript.words]


def test_pictures_have_the_labels_and_captions_that_they_have_without_a_service(
    service: ServiceProcess, labelled: Path, described: Path
) -> None:
    paths = sorted(labelled.parent.glob("*.png"))[:3]
    contents = [path.read_bytes() for path in paths]
    labels = RowClassifier.load(labelled).classify(paths)
    captions = Describer.load(described).caption(paths)
    for content, label, caption in zip(contents, labels, captions, strict=True):
        by_form = service.client.post("/classify", files={"file": content}, data={"run": "pictures"}).json()
        as_body = posted(service, "/classify", content, "image/png").json()
        assert by_form["label"] == as_body["label"] == label.label
        assert by_form["probabilities"] == pytest.approx(label.probabilities, rel=1e-4)
        scores = posted(service, "/models/pictures", content, "image/png").json()
        assert [each["label"] for each in scores] == list(label.probabilities)
        assert sum(each["score"] for each in scores) == pytest.approx(1)
        assert posted(service, "/caption", content, "image/png").json()["text"] == caption.text
        written = posted(service, "/models/captions", content, "image/png").json()
        assert written == [{"generated_text": caption.text}]
    files = [("file", content) for content in contents]
    several = service.client.post("/caption", files=files).json()
    assert [each["text"] for each in several] == [caption.text for caption in captions]
    by_text = service.client.post("/classify", json={"text": "a b"}).json()
    assert by_text["label"] in by_text["probabilities"], "a form is for pictures, and JSON for texts"


def test_client_of_hugging_face_with_pictures(
    service: ServiceProcess, labelled: Path, described: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    path = labelled.parent / "00.png"
    client = InferenceClient(model=f"{service.address}/models/pictures", token=KEY)
    (label,), (caption,) = RowClassifier.load(labelled).classify([path]), Describer.load(described).caption([path])
    labels = client.image_classification(str(path))
    assert labels[0].label == label.label
    assert client.image_classification(path.read_bytes(), top_k=1) == labels[:1]
    client = InferenceClient(model=f"{service.address}/models/captions", token=KEY)
    assert client.image_to_text(str(path)).generated_text == caption.text


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF"])
def test_every_format_of_a_picture_is_read_from_bytes(service: ServiceProcess, kind: str) -> None:
    file = io.BytesIO()
    Image.open(io.BytesIO(picture(33))).save(file, kind)
    value = service.client.post("/classify", files={"file": file.getvalue()}).json()
    assert value["label"] in value["probabilities"]
    assert any("another size" in remark for remark in value["remarks"])


def test_pictures_that_are_too_large_or_damaged_are_refused_and_never_fail_the_service(service: ServiceProcess) -> None:
    noise, (model,) = np.random.default_rng(0), service.children
    bomb = io.BytesIO()
    Image.new("1", (8_192, 4_096)).save(bomb, "PNG")
    assert len(bomb.getvalue()) < 10_000
    vast = b"GIF89a\xff\xff\xff\xff" + bytes(90)
    for path in ("/classify", "/caption", "/models/pictures"):
        for content, words in ((bomb.getvalue(), "8192 × 4096 pixels"), (vast, "65535 × 65535")):
            large = posted(service, path, content, "image/png")
            assert large.status_code == 422
            assert words in large.json()["error"]
            assert "16,777,216 are read" in large.json()["error"]
    for kind in ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM"):
        file = io.BytesIO()
        Image.open(io.BytesIO(picture(20))).save(file, kind)
        for _ in range(15):
            content = bytearray(file.getvalue())
            for place in noise.integers(0, len(content), 4):
                content[place] = noise.integers(0, 256)
            response = posted(service, "/models/pictures", bytes(content[: noise.integers(1, 2 * len(content))]), "")
            assert response.status_code in (200, 422), (kind, response.text)
    empty = posted(service, "/caption", b"", "image/png")
    assert (empty.status_code, empty.json()["error"]) == (422, "The picture is empty. Leave it out.")
    two = [("file", picture(8)), ("file", b"no picture")]
    assert "Picture 2 is not" in service.client.post("/caption", files=two).json()["error"]
    assert "recording" in posted(service, "/transcribe", picture(8), "audio/wav").json()["error"]
    assert "reads texts" in posted(service, "/classify?run=labels", picture(8), "image/png").json()["error"]
    assert "reads pictures" in service.client.post("/classify", json={"text": "a", "run": "pictures"}).json()["error"]
    assert service.children == [model], "the process of the model lives"


def posted(service: ServiceProcess, path: str, content: bytes, kind: str) -> httpx.Response:
    return service.client.post(path, content=content, headers={"content-type": kind})


def test_refusals_say_what_is_wrong(service: ServiceProcess) -> None:
    wave, form = sound(0.5), "multipart/form-data; boundary=a"
    silent = io.BytesIO()
    soundfile.write(silent, np.zeros(0, np.float32), 8_000, format="WAV")
    part = b'--a\r\ncontent-disposition: form-data; name="file"\r\n\r\n'
    for path, content, kind, status, words in (
        ("/transcribe", b"", "audio/wav", 422, "The recording is empty"),
        ("/transcribe", silent.getvalue(), "audio/wav", 422, "has no samples"),
        ("/transcribe", wave[:60] + b"\0" * 20, "audio/flac", 200, "text"),
        ("/transcribe", sound(2, "FLAC")[:-60], "audio/flac", 422, "damaged"),
        ("/transcribe", b"x" * 9_000, "audio/wav", 422, "not a recording"),
        ("/transcribe?run=en-fr", wave, "audio/wav", 422, "cannot transcribe"),
        ("/transcribe?run=asr&a=b", wave, "audio/wav", 422, "no field 'a'"),
        ("/transcribe", b"{}", "application/json", 415, "files, not JSON"),
        ("/transcribe", b"", form, 400, "end is missing"),
        ("/transcribe", b"--a--\r\n", form, 422, "has no file"),
        ("/transcribe", part + wave, form, 400, "end is missing"),
        ("/transcribe", b"nonsense", form, 400, "not divided"),
        ("/transcribe", part + wave + b"\r\n--a--", "multipart/form-data", 400, "no boundary"),
        (
            "/transcribe",
            part.replace(b'"file"', b'"song"; filename="a"') + wave + b"\r\n--a--",
            form,
            422,
            "part 'song'",
        ),
        ("/transcribe", part.replace(b'"file"', b'"run"') + b"asr\r\n--a--", form, 422, "has no file"),
        ("/transcribe", part.replace(b'"file"', b'"run"') + b"\xff\r\n--a--", form, 400, "UTF-8"),
        ("/transcribe", b"".join([part, wave, b"\r\n"] * 17) + b"--a--", form, 422, "more than 16 files"),
        ("/models/asr", part + wave + b"\r\n--a--", form, 415, "the body is the file"),
        ("/models/asr", b'{"inputs": "a"}', "application/json", 422, "base64"),
        ("/models/asr", b'{"inputs": "", "parameters": {"top_k": 1}}', "application/json", 422, "top_k"),
        ("/models/en-fr", wave, "audio/wav", 400, "not JSON"),
        ("/v1/audio/transcriptions", wave, "audio/wav", 415, "form of several parts"),
        ("/v1/models/asr:predict", b'{"instances": ["a"]}', "application/json", 422, "reads recordings"),
        ("/v2/models/asr/infer", b'{"inputs": []}', "application/json", 422, "reads recordings"),
        ("/explain", b'{"source": "a", "run": "asr"}', "application/json", 422, "reads recordings"),
        ("/v1/completions", b'{"model": "asr", "prompt": "a"}', "application/json", 404, "/transcribe"),
    ):
        response = posted(service, path, content, kind)
        assert response.status_code == status, (path, kind, response.text)
        assert words in response.text, response.text
    bare = httpx.post(f"{service.address}/transcribe", content=wave)
    assert bare.status_code == 401
    assert posted(service, "/explain", b'{"source": "Good morning."}', "application/json").status_code == 200


def test_an_hour_of_sound_and_a_large_file_are_refused_with_the_numbers(service: ServiceProcess) -> None:
    hour = posted(service, "/transcribe", sound(3600, "FLAC"), "audio/flac")
    assert hour.status_code == 422
    assert "lasts 3,600.0 seconds, and at most 600 are read" in hour.json()["error"]
    for path in ("/transcribe", "/models/asr"):
        large = posted(service, path, b"\0" * 25_000_001, "audio/wav")
        assert large.status_code == 413
        assert "25,000,000 bytes" in large.json()["error"]
    form = service.client.post("/v1/audio/transcriptions", files={"file": b"\0" * 25_000_001}, data={"model": "asr"})
    assert form.status_code == 413
    assert form.json()["error"]["code"] == "too_large"
    assert service.client.get("/health").status_code == 200


def test_a_header_that_promises_hours_does_not_take_the_service_down(service: ServiceProcess) -> None:
    (model,) = service.children
    wave = bytearray(sound(0.5))
    for size in (0x7FFFFFFE, 0xFFFFFFFE):
        wave[40:44] = size.to_bytes(4, "little")
        assert posted(service, "/transcribe", bytes(wave), "audio/wav").status_code in (200, 422)
    wave[24:32] = (768_000).to_bytes(4, "little") + (1).to_bytes(4, "little")  # a false number of bytes a second
    assert posted(service, "/transcribe", bytes(wave), "audio/wav").status_code in (200, 422)
    assert service.children == [model], "the process of the model lives"


def test_damaged_files_are_refused_or_read_and_never_fail_the_service(service: ServiceProcess) -> None:
    noise, (model,) = np.random.default_rng(0), service.children
    for kind in ("WAV", "FLAC", "OGG", "MP3", "AIFF"):
        file = sound(0.5, kind)
        for _ in range(20):
            content = bytearray(file)
            for place in noise.integers(0, min(len(content), 400), 6):
                content[place] = noise.integers(0, 256)
            response = posted(service, "/models/asr", bytes(content[: noise.integers(1, len(content))]), "audio/x")
            assert response.status_code in (200, 422), (kind, response.text)
    assert service.children == [model], "the process of the model lives"


def test_the_list_of_models_says_what_they_read(service: ServiceProcess) -> None:
    models = {each["id"]: each for each in service.client.get("/v1/models").json()["data"]}
    assert (models["asr"]["task"], models["asr"]["reads"]) == ("transcribe", "recordings")
    assert (models["pictures"]["task"], models["pictures"]["reads"]) == ("classify", "pictures")
    assert (models["captions"]["task"], models["captions"]["reads"]) == ("caption", "pictures")
    assert models["en-fr"]["reads"] == "texts"
    assert len(models["asr"]["digest"]) == 64
    runs = {each["name"]: each for each in service.client.get("/about").json()["runs"]}
    assert runs["asr"]["reads"] == "recordings"


def test_the_log_has_no_names_of_files(service: ServiceProcess) -> None:
    files = {"file": ("secret-name.wav", b"secret content", "audio/wav")}
    response = service.client.post("/transcribe", files=files)
    line = json.loads(service.wait_for(response.headers["x-request-id"]))
    assert (line["route"], line["status"]) == ("transcribe", 422)
    assert "secret" not in response.text
    assert not any("secret" in line for line in service.lines)


def test_a_malformed_form_leaves_one_line_of_json(service: ServiceProcess) -> None:
    before = len(service.lines)
    form = b"--x\r\nContent=Disposition: a\r\n\r\nabc\r\n--x--\r\n"
    response = posted(service, "/transcribe", form, "multipart/form-data; boundary=x")
    assert response.status_code == 400
    service.wait_for(response.headers["x-request-id"])
    assert all(json.loads(line) for line in service.lines[before:])
