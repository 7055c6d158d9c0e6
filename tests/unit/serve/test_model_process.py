"""A model process: the cards of its runs."""

import hashlib
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from foveate.errors import DataError
from foveate.models.hugging_face_folder import folder_files
from foveate.serve.service.model_process import ModelProcess
from foveate.storage.checkpoint import Checkpoints
from foveate.storage.manifest import files_digest
from foveate.storage.tensor import read_tensors, write_tensors

RUN = Path(__file__).parents[2] / "golden/version_0_1/runs/tag_transformer"


def digest_of(run: Path) -> str:
    own, other = socket.socketpair()
    with own, other:
        return ModelProcess(own)._loaded("run", str(run), "float32").digest


def test_the_digest_is_that_of_the_weights_that_answer(tmp_path: Path) -> None:
    """Of a run that is not finished, they are those of its best checkpoint."""
    run = tmp_path / "run"
    shutil.copytree(RUN, run)
    assert digest_of(run) == hashlib.sha256((run / "model.safetensors").read_bytes()).hexdigest()
    checkpoints = Checkpoints(run / "checkpoints")
    best, weights = checkpoints.newest(), read_tensors(run / "model.safetensors")
    assert best is not None
    checkpoints.save(best.step + 7, model={**weights, "more": weights[next(iter(weights))]}, optimiser={}, state={})
    for name in ("model.safetensors", "model.json"):
        (run / name).unlink()
    stored = checkpoints.path(best.step) / "model.safetensors"
    assert digest_of(run) == hashlib.sha256(stored.read_bytes()).hexdigest()
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(DataError, match="no trained weights"):
        digest_of(run)


def test_the_digest_of_several_files_is_that_of_their_list(tmp_path: Path) -> None:
    tensors = list(read_tensors(RUN / "model.safetensors").items())
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    write_tensors(tmp_path / names[0], dict(tensors[:1]))
    write_tensors(tmp_path / names[1], dict(tensors[1:]))
    index = f'{{"weight_map": {{"a": "{names[1]}", "b": "{names[0]}"}}}}'
    (tmp_path / "model.safetensors.index.json").write_text(index)
    listed = subprocess.run("sha256sum model-*.safetensors | sha256sum", shell=True, cwd=tmp_path, capture_output=True)
    assert files_digest(folder_files(tmp_path)) == listed.stdout.decode().split()[0]
