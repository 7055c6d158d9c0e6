"""Every client that is promised, against the real service, with and without a key: `make clients`.

Each program of `program/` uses a client as its users do, and prints what it got. The clients stand in environments of
their own, because what some of them bring along is larger than this package.
"""

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.surface.letter_languages import CAPITALS, FOLLOWING, TEXT, train, write_pairs
from tests.surface.sense_run import captioner, picture_classifier, recogniser, voice
from tests.surface.service_process import ALL, ServiceProcess

from foveate import Translator
from foveate.data.waveform import wav
from foveate.tasks.caption.use import Describer
from foveate.tasks.classify.use import RowClassifier
from foveate.tasks.speak.use import Speaker
from foveate.tasks.transcribe.use import Transcriber

HERE = Path(__file__).parent
PYTHON = os.environ.get("FOVEATE_CLIENTS", str(HERE.parents[1] / "build/clients/bin/python"))
KEY = "0123456789abcdef0123"
TEXTS = ["The black cat sleeps.", "A man is riding a bicycle.", "« Good morning », said the child."]
CLIENTS = (
    "libre_translate_py.py",
    "deep_translator_libre.py",
    "openai_py.py",
    "openai.mjs",
    "libretranslate-ts.mjs",
    "translate.mjs",
    "weblate_machinery.py libretranslate",
    "weblate_machinery.py openai",
    "triton_client.py json",
    "triton_client.py binary",
    "hugging_face_hub.py",
    "kserve_client.py 1",
    "kserve_client.py 2",
)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A translator of several languages, which is the run `all` of the service."""
    return train(write_pairs(tmp_path_factory.mktemp("all") / "pairs.tsv", capitals="de", following="ru"))


@pytest.fixture(scope="module")
def asr(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recogniser, which is the run `asr` of the service, beside its recordings."""
    return recogniser(tmp_path_factory.mktemp("asr"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A classifier and a captioner of pictures, the runs `pictures` and `captions`."""
    return picture_classifier(tmp_path_factory.mktemp("labels")), captioner(tmp_path_factory.mktemp("captions"))


@pytest.fixture(scope="module")
def speaking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run `voice` of the service."""
    return voice(tmp_path_factory.mktemp("voice"))


@pytest.fixture(scope="module", params=[None, KEY], ids=["without a key", "with a key"])
def question(
    request: pytest.FixtureRequest,
    several: Path,
    asr: Path,
    pictures: tuple[Path, Path],
    speaking: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, object]]:
    """A service, and the question to every program."""
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text(f"{KEY}\n")
    guard = ("--api-key-file", str(keys)) if request.param else ()
    letters = {"de": CAPITALS, "ru": FOLLOWING}
    path = str(asr.parent / "00.wav")
    (transcript,) = Transcriber.load(asr).transcribe([path])
    said = {"path": path, "text": transcript.text, "words": [each.label for each in transcript.words]}
    classifier, describer = pictures
    seen = classifier.parent / "00.png"
    (label,), (caption,) = RowClassifier.load(classifier).classify([seen]), Describer.load(describer).caption([seen])
    shown = {"path": str(seen), "label": label.label, "caption": caption.text}
    recording = Speaker.load(speaking).speak("star rest tea").recording
    assert recording is not None
    sound = hashlib.sha256(wav(recording.samples, recording.rate)).hexdigest()
    heard = {"text": "star rest tea", "sha256": sound}
    senses = (f"asr={asr}", f"pictures={classifier}", f"captions={describer}", f"voice={speaking}")
    with ServiceProcess(*ALL, f"all={several}", *senses, *guard, "--wait", "20") as service:
        asked = {"texts": TEXTS, "text": TEXT, "letters": letters, "recording": said, "picture": shown}
        asked["speech"] = heard
        yield {"address": service.address, "key": request.param, **asked}


@pytest.fixture(scope="module")
def translations() -> list[str]:
    """What the model writes without a service."""
    return [translation.text for translation in Translator.load("en-fr").translate(TEXTS)]


@pytest.mark.parametrize("client", CLIENTS)
def test_client(client: str, question: dict[str, object], translations: list[str]) -> None:
    name, *arguments = client.split()
    program = "node" if name.endswith(".mjs") else PYTHON
    command = [program, str(HERE / "program" / name), json.dumps(question), *arguments]
    environment = {**os.environ, "HF_HUB_OFFLINE": "0"}  # which would forbid this machine, too
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == translations
