"""A service with a model over molecules, whose texts are SMILES."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.surface.sense_run import molecule_predictor
from tests.surface.service_process import ServiceProcess

from foveate.tasks.molecule.use import MoleculePredictor

SMILES = ["CCO", "CC(=O)Oc1ccccc1C(=O)O", "c1ccccc1"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return molecule_predictor(tmp_path_factory.mktemp("molecules"))


@pytest.fixture(scope="module")
def service(run: Path) -> Iterator[ServiceProcess]:
    with ServiceProcess(f"solubility={run}", "en-fr", "--wait", "20") as running:
        yield running


def test_molecules_have_the_values_that_they_have_without_a_service(service: ServiceProcess, run: Path) -> None:
    alone = [one.values for one in MoleculePredictor.load(run).predict(SMILES)]
    answers = service.client.post("/predict", json={"text": SMILES}).json()
    assert [each["values"]["solubility"] for each in answers] == pytest.approx([each["solubility"] for each in alone])
    one = service.client.post("/predict", json={"text": SMILES[1]}).json()
    assert one["values"] == pytest.approx(alone[1])
    by_instance = service.client.post("/v1/models/solubility:predict", json={"instances": SMILES[:1]}).json()
    assert by_instance["predictions"][0]["values"] == pytest.approx(alone[0])


def test_an_explanation_has_the_atoms_that_the_answer_looks_at(service: ServiceProcess) -> None:
    value = service.client.post("/explain", json={"source": SMILES[1], "run": "solubility", "page": True}).json()
    assert len(value["columns"]) == 13
    assert sum(value["weights"][0]) == pytest.approx(1, abs=1e-4)
    assert service.client.get(value["page"]).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("/predict", {"text": ["CCO", "CXC"]}, "Text 2"),
        ("/predict", {"text": "C" * 40}, "40 atoms"),
        ("/predict", {"text": ""}, "SMILES"),
        ("/predict", {"text": "CCO", "settings": {"beam": 2}}, "no setting 'beam'"),
        ("/predict", {"text": "CCO", "run": "en-fr"}, "cannot predict"),
        ("/models/solubility", {"inputs": "CCO"}, "Use /predict"),
        ("/v2/models/solubility/infer", {"inputs": []}, "Use /predict"),
    ],
)
def test_refusals_say_what_is_wrong(service: ServiceProcess, path: str, body: dict[str, Any], words: str) -> None:
    answer = service.client.post(path, json=body)
    assert answer.status_code == 422, answer.text
    assert words in answer.json()["error"]
