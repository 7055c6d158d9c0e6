"""A service with a voice: every interface that answers with a sound, its formats, and refusals."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import openai
import pytest
import soundfile
from huggingface_hub import InferenceClient
from tests.surface.sense_run import RATE, voice
from tests.surface.service_process import ServiceProcess

from foveate.data.waveform import wav
from foveate.tasks.speak.use import Speaker, Speech

KEY = "0123456789abcdef0123"
TEXT = "star rest tea"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return voice(tmp_path_factory.mktemp("voice"))


@pytest.fixture(scope="module")
def alone(run: Path) -> Speech:
    """What the model speaks without a service."""
    return Speaker.load(run).speak(TEXT)


@pytest.fixture(scope="module")
def service(run: Path) -> Iterator[ServiceProcess]:
    keys = run.parent / "keys.txt"
    keys.write_text(f"{KEY}\n")
    with ServiceProcess("en-fr", f"voice={run}", "--api-key-file", str(keys), "--wait", "20") as running:
        running.client.headers["authorization"] = f"Bearer {KEY}"
        yield running


def test_a_text_has_the_sound_that_it_has_without_a_service(service: ServiceProcess, alone: Speech) -> None:
    assert alone.recording is not None
    answer = service.client.post("/speak", json={"text": TEXT})
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.content == wav(alone.recording.samples, RATE)
    assert float(answer.headers["x-foveate-seconds"]) == pytest.approx(alone.seconds, abs=1e-3)
    assert ("x-foveate-finished" in answer.headers) != alone.finished
    by_instance = service.client.post("/v1/models/voice:predict", json={"instances": [TEXT]}).json()["predictions"][0]
    assert (by_instance["format"], by_instance["finished"]) == ("wav", alone.finished)
    metrics = service.client.get("/metrics").text
    assert 'foveate_requests_total{route="speak",status="200"}' in metrics
    assert f'foveate_tokens_total{{run="voice",side="written"}} {2 * len(alone.energies)}.0' in metrics


@pytest.mark.parametrize("form", ["wav", "flac", "mp3", "opus", "pcm"])
def test_client_of_openai_gets_every_format(service: ServiceProcess, alone: Speech, form: Any, tmp_path: Path) -> None:
    client = openai.OpenAI(base_url=f"{service.address}/v1", api_key=KEY, max_retries=0)
    path = tmp_path / f"speech.{form}"
    client.audio.speech.create(model="voice", voice="alloy", input=TEXT, response_format=form).write_to_file(path)
    if form == "pcm":
        samples, rate = np.frombuffer(path.read_bytes(), "<i2") / 32768, 24_000
    else:
        samples, rate = soundfile.read(path)
    assert len(samples) / rate == pytest.approx(alone.seconds, abs=0.2), "MP3 begins and ends with some silence"
    assert 0.1 < np.abs(samples).max() <= 1


def test_client_of_openai_gets_mp3_without_a_format_and_refusals_in_words(service: ServiceProcess) -> None:
    client = openai.OpenAI(base_url=f"{service.address}/v1", api_key=KEY, max_retries=0)
    ask: Any = client.audio.speech.create
    assert soundfile.info(io.BytesIO(ask(model="voice", voice="alloy", input=TEXT).read())).format == "MP3"
    for settings, words in (
        ({"response_format": "aac"}, "wav, flac, mp3, opus, pcm"),
        ({"speed": 2.0}, "speed"),
        ({"instructions": "Whisper."}, "instructions"),
        ({"stream_format": "sse"}, "Streams"),
    ):
        with pytest.raises(openai.BadRequestError, match=words):
            ask(model="voice", voice="alloy", input=TEXT, **settings)
    with pytest.raises(openai.NotFoundError, match="can translate"):
        ask(model="en-fr", voice="alloy", input=TEXT)
    with pytest.raises(openai.NotFoundError, match="can speak"):
        client.chat.completions.create(model="voice", messages=[{"role": "user", "content": TEXT}])
    with pytest.raises(openai.UnprocessableEntityError, match="nothing to speak"):
        ask(model="voice", voice="alloy", input="")


def test_client_of_hugging_face(service: ServiceProcess, alone: Speech, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # which would forbid this machine, too
    client = InferenceClient(model=f"{service.address}/models/voice", token=KEY)
    assert alone.recording is not None
    assert client.text_to_speech(TEXT) == wav(alone.recording.samples, RATE)


def test_an_explanation_has_the_letters_that_each_stretch_looks_at(service: ServiceProcess) -> None:
    value = service.client.post("/explain", json={"source": TEXT, "run": "voice", "page": True}).json()
    assert [sum(row) for row in value["weights"]] == pytest.approx([1] * len(value["rows"]), abs=1e-4)
    assert value["rows"][0] == "0.00 s"
    assert "<title>" in service.client.get(value["page"]).text


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("/speak", {"text": ""}, 422, "nothing to speak"),
        ("/speak", {"text": TEXT, "format": "aac"}, 422, "aac"),
        ("/speak", {"text": [TEXT]}, 422, "str"),
        ("/speak", {"text": TEXT, "run": "en-fr"}, 422, "cannot speak"),
        ("/tag", {"text": TEXT, "run": "voice"}, 422, "can speak"),
        ("/models/voice", {"inputs": [TEXT]}, 422, "one text"),
        ("/models/voice", {"inputs": TEXT, "parameters": {"speed": 2}}, 422, "speed"),
        ("/v2/models/voice/infer", {"inputs": []}, 422, "Use /speak"),
    ],
)
def test_refusals_say_what_is_wrong(
    service: ServiceProcess, path: str, body: dict[str, Any], status: int, words: str
) -> None:
    answer = service.client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["error"]
