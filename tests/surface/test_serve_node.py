"""A service with a model over the nodes of a graph, whose texts are names of nodes."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.surface.sense_run import node_classifier, trained
from tests.surface.service_process import ServiceProcess

from foveate.tasks.node.use import NodeClassifier


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return node_classifier(tmp_path_factory.mktemp("graph"))


@pytest.fixture(scope="module")
def service(run: Path) -> Iterator[ServiceProcess]:
    with ServiceProcess(f"places={run}", "--wait", "20") as running:
        yield running


def test_nodes_have_the_classes_that_they_have_without_a_service(service: ServiceProcess, run: Path) -> None:
    alone = NodeClassifier.load(run).classify(["n5", "n300"])
    answers = service.client.post("/predict", json={"text": ["n5", "n300"]}).json()
    assert [each["label"] for each in answers] == [each.label for each in alone]
    for answer, one in zip(answers, alone, strict=True):
        assert answer["probabilities"] == pytest.approx(one.probabilities, abs=1e-6)
        assert next(iter(answer["probabilities"])) == answer["label"]
    assert service.client.post("/predict", json={"text": "n5"}).json() == answers[0]
    by_instance = service.client.post("/v1/models/places:predict", json={"instances": ["n300"]}).json()
    assert by_instance["predictions"] == answers[1:]


def test_an_explanation_has_the_edges_that_the_answer_depends_on(service: ServiceProcess, run: Path) -> None:
    value = service.client.post("/explain", json={"source": "n360", "page": True}).json()
    trace = NodeClassifier.load(run).trace("n360")
    assert value["rows"] == value["columns"] == list(trace.tracks["nodes"].labels)
    assert value["rows"] == ["n360", "n359", "n361", "n358", "n362"]
    assert sum(value["weights"][0]) == pytest.approx(1, abs=1e-4)
    assert value["weights"][0][3:] == [0, 0]  # two hops away: seen by its neighbours alone
    assert value["label"] == NodeClassifier.load(run).classify(["n360"])[0].label
    assert service.client.get(value["page"]).status_code == 200
    by_instance = service.client.post(
        "/v1/models/places:explain", json={"instances": ["n360"], "parameters": {"hops": 1}}
    ).json()
    assert by_instance["explanations"][0]["rows"] == ["n360", "n359", "n361"]


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/predict", {"text": ["n5", "n400"]}, "Text 2: The graph has no node 'n400'"),
        ("/predict", {"text": "n5", "settings": {"hops": 1}}, "no setting 'hops'"),
        ("/explain", {"source": "n400"}, "no node 'n400'"),
        ("/explain", {"source": "n360", "hops": 3}, "hops cannot be 3"),
        ("/explain", {"source": "n360", "target": "sea"}, "Leave it out"),
        ("/explain", {"source": "n0"}, "at most 300"),
        ("/explain", {"source": "n5", "hops": 2}, "such as 1"),
        ("/models/places", {"inputs": "n5"}, "Use /predict"),
        ("/v2/models/places/infer", {"inputs": []}, "Use /predict"),
    ],
)
def test_refusals_say_what_is_wrong(service: ServiceProcess, path: str, body: dict[str, Any], words: str) -> None:
    answer = service.client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["error"]


def test_a_map_with_too_many_weights_is_refused(tmp_path: Path) -> None:
    """270 nodes are few enough for a drawing, and too many for an answer."""
    rows = "".join(f"n{number}\t{('sea', 'land')[number % 2]}\t1.0\n" for number in range(270))
    (tmp_path / "nodes.tsv").write_text("name\tlabel\theight\n" + rows)
    (tmp_path / "edges.tsv").write_text("".join(f"n0\tn{number}\n" for number in range(1, 270)))
    small = ("--set", "model.num_heads=2", "--nodes", str(tmp_path / "nodes.tsv"))
    run = trained("node", tmp_path / "edges.tsv", *small, option="--edges")
    with ServiceProcess(f"star={run}", "--wait", "20") as service:
        answer = service.client.post("/explain", json={"source": "n5"})
        assert answer.status_code == 422
        assert "270 × 270" in answer.json()["error"]
        assert "Ask for fewer `hops`" in answer.json()["error"]
        assert service.client.post("/explain", json={"source": "n5", "hops": 1}).json()["rows"] == ["n5", "n0"]
