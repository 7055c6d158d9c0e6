"""A service that answers arrays of vectors and labels the frames of recordings: by files, and as tensors."""

import io
import json
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.surface.sense_run import recording_tagger, trained, vector_classifier, vector_tagger
from tests.surface.service_process import ServiceProcess

from foveate.tasks.classify.use import RowClassifier
from foveate.tasks.tag.frame_use import FrameLabeller

BYTES = "application/octet-stream"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    make = {"gestures": vector_classifier, "steps": vector_tagger, "tones": recording_tagger}
    return {name: function(tmp_path_factory.mktemp(name)) for name, function in make.items()}


@pytest.fixture(scope="module")
def service(runs: dict[str, Path]) -> Iterator[ServiceProcess]:
    with ServiceProcess("en-fr", *(f"{name}={run}" for name, run in runs.items()), "--wait", "20") as running:
        yield running


def npy(values: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


def test_vectors_have_the_label_that_they_have_without_a_service(
    service: ServiceProcess, runs: dict[str, Path]
) -> None:
    classifier = RowClassifier.load(runs["gestures"])
    path = runs["gestures"].parent / "data.npz"
    things, arrays = list(classifier.things([str(path)])), np.load(path)["inputs"]
    alone = classifier.classify(things)
    files = [("file", npy(one)) for one in arrays[:6]]
    together = service.client.post("/classify", files=files, data={"run": "gestures"}).json()
    for values, one, value in zip(arrays, alone, together, strict=False):
        single = service.client.post("/classify?run=gestures", content=npy(values), headers={"content-type": BYTES})
        assert single.json()["label"] == value["label"] == one.label
        assert value["probabilities"] == pytest.approx(one.probabilities, abs=1e-6)
    listed = service.client.get("/v1/models").json()["data"]
    assert {each["id"]: each["reads"] for each in listed} == {
        "en-fr": "texts",
        "gestures": "vectors",
        "steps": "vectors",
        "tones": "recordings",
    }


def test_each_vector_has_a_label_and_segments_their_numbers_or_times(
    service: ServiceProcess, runs: dict[str, Path]
) -> None:
    for name, ending, unit in (("steps", "npy", "vectors"), ("tones", "wav", "seconds")):
        path = runs[name].parent / f"03.{ending}"
        (alone,) = (labeller := FrameLabeller.load(runs[name])).label(list(labeller.things([str(path)])))
        response = service.client.post("/tag", files={"file": path.read_bytes()}, data={"run": name})
        assert response.status_code == 200, response.text
        value = response.json()
        assert value["unit"] == unit
        found = [(one["label"], one["start"], one["end"]) for one in value["segments"]]
        assert [label for label, _, _ in found] == [one.label for one in alone.segments]
        times = [time for _, start, end in found for time in (start, end)]
        assert times == pytest.approx([time for one in alone.segments for time in (one.start, one.end)], abs=1e-4)
        counts = [len(list(run)) for _, run in groupby(alone.labels)]
        whole = sum(one["probability"] * count for one, count in zip(value["segments"], counts, strict=True))
        assert whole == pytest.approx(sum(alone.probabilities), rel=1e-4)


@pytest.mark.parametrize("binary", [False, True])
def test_tensors_have_the_answers_of_files(service: ServiceProcess, runs: dict[str, Path], binary: bool) -> None:
    """Numbers in JSON, and in bytes behind it as Triton's client sends them."""
    arrays = np.load(runs["gestures"].parent / "data.npz")["inputs"]
    files = [("file", npy(one)) for one in arrays[:6]]
    alone = [one["label"] for one in service.client.post("/classify", files=files, data={"run": "gestures"}).json()]
    described = service.client.get("/v2/models/gestures").json()
    assert described["inputs"] == [{"name": "vectors", "datatype": "FP32", "shape": [-1, -1]}]
    for values, kind, expected in (
        (arrays[:6], "FP32", alone),
        (arrays[:2].astype(np.float64), "FP64", alone[:2]),
        (arrays[0], "FP32", alone[:1]),
    ):
        tensor: dict[str, Any] = {"name": "vectors", "datatype": kind, "shape": values.shape}
        after = values.tobytes() if binary else b""
        tensor |= {"parameters": {"binary_data_size": len(after)}} if binary else {"data": values.tolist()}
        head = json.dumps({"inputs": [tensor], "outputs": [{"name": "label"}]}).encode()
        headers = {"inference-header-content-length": str(len(head))} if binary else {}
        answer = service.client.post("/v2/models/gestures/infer", content=head + after, headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"] == [
            {"name": "label", "datatype": "BYTES", "shape": [len(expected)], "data": expected}
        ]
    body = {"inputs": [{"name": "vectors", "datatype": "INT32", "shape": [2, 3], "data": [[1, 2, 3], [4, 5, 6]]}]}
    answer = service.client.post("/v2/models/steps/infer", json=body).json()
    assert [output["name"] for output in answer["outputs"]] == ["json"]
    assert '"unit":"vectors"' in answer["outputs"][0]["data"][0]


@pytest.mark.parametrize(
    ("tensor", "sentence"),
    [
        (
            {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]},
            "one input with the name vectors, got text",
        ),
        ({"datatype": "BYTES", "data": ["a"]}, "has the datatype FP16 or FP32 or"),
        ({"data": ["a", "b", "c"]}, "are numbers, got str"),
        ({"data": [True, 1, 2]}, "are numbers, got bool"),
        ({"data": [1, 2]}, "has 2 numbers, which is not the product of its shape"),
        ({"shape": [1, 1, 1, 3]}, "has the shape (width), (length, width) or (examples, length, width)"),
        ({"shape": [0, 3]}, "has the shape (width)"),
        ({"shape": [10**2500, 10**2500], "data": [0]}, "has the shape (width)"),
        ({"shape": [999, 1, 3], "data": [0] * 2997}, "The request has 999 examples, and at most 128"),
        ({"datatype": "INT8", "data": [1000, 0, 0]}, "has numbers that are not INT8"),
        ({"datatype": "INT8", "data": [1.5, 0, 0]}, "are whole numbers, got float"),
        ({"data": [1e300, 0, 0]}, "has a number that is not finite"),
        ({"shape": [1, 4], "data": [0, 0, 0, 0]}, "has vectors of 4 numbers, but 3 are needed"),
    ],
)
def test_other_tensors_are_refused_in_words(service: ServiceProcess, tensor: dict[str, Any], sentence: str) -> None:
    sound = {"name": "vectors", "datatype": "FP32", "shape": [1, 3], "data": [0, 0, 0]}
    response = service.client.post("/v2/models/steps/infer", json={"inputs": [{**sound, **tensor}]})
    assert (response.status_code, sentence in response.text) == (422, True), response.text


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "The file is not an .npy file"),
        (b"PK\3\4 an archive", "The file is not an .npy file"),
        (npy(np.zeros((2, 3)))[:-1], "The file has 47 bytes of numbers, and the shape (2, 3) of float64 has 48"),
        (npy(np.zeros((1, 2, 3))), "The file has no array of shape (width,) or (length, width)"),
        (npy(np.array(["a"])), "The file holds str"),
        (npy(np.full((2, 3), np.nan)), "The file has a number that is not finite"),
        (npy(np.zeros((0, 3))), "The file is empty"),
        (npy(np.zeros((2, 4))), "The file has vectors of 4 numbers, but 3 are needed"),
    ],
)
def test_damaged_files_are_refused_in_words(service: ServiceProcess, content: bytes, sentence: str) -> None:
    response = service.client.post("/tag?run=steps", content=content, headers={"content-type": BYTES})
    assert (response.status_code, sentence in response.text) == (422, True), response.text


def test_what_has_no_shape_in_an_interface_is_refused_in_words(service: ServiceProcess) -> None:
    body = npy(np.zeros((2, 3)))
    response = service.client.post("/models/steps", content=body, headers={"content-type": BYTES})
    assert (response.status_code, "which has no shape here. Use /tag." in response.text) == (422, True)
    response = service.client.post("/tag", json={"text": "a b", "run": "steps"})
    assert (response.status_code, "reads vectors, not texts. Send a file to /tag" in response.text) == (422, True)
    tensor = {"name": "vectors", "datatype": "FP32", "shape": [1, 3], "data": [0, 0, 0]}
    response = service.client.post("/v2/models/tones/infer", json={"inputs": [tensor]})
    assert (response.status_code, "reads recordings, not texts" in response.text) == (422, True)
    response = service.client.post("/v2/models/steps/infer", json={"inputs": [tensor], "parameters": {"beam": 2}})
    assert (response.status_code, "has no settings: beam" in response.text) == (422, True)


def test_a_recogniser_of_vectors_counts_vectors_and_is_for_our_own_interface(tmp_path: Path) -> None:
    noise = np.random.default_rng(0)
    lengths = [40 + number for number in range(12)]
    texts = ["ab" if number % 2 else "ba" for number in range(12)]
    inputs = noise.normal(size=(sum(lengths), 3)).astype(np.float32)
    np.savez(tmp_path / "data.npz", inputs=inputs, labels=texts, lengths=lengths)
    run = trained("transcribe", tmp_path / "data.npz", *("--set", "reader=vector"))
    with ServiceProcess(f"lines={run}", "--wait", "20") as service:
        value = service.client.post("/transcribe", files={"file": npy(inputs[:40])}).json()
        assert (value["unit"], value["seconds"]) == ("vectors", None)
        form = {"model": "lines", "response_format": "verbose_json"}
        refused = service.client.post("/v1/audio/transcriptions", files={"file": npy(inputs[:40])}, data=form)
        assert (refused.status_code, "reads vectors, and this path is for recordings" in refused.text) == (404, True)
        long = service.client.post("/transcribe", files={"file": npy(np.zeros((60_001, 3), np.uint8))})
        assert (long.status_code, "has 60,001 vectors, and at most 60,000 are allowed" in long.text) == (422, True)
