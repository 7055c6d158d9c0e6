"""Processes that have parts of a model make the updates of processes that have it whole."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed.checkpoint as distributed
from torch.distributed.checkpoint import HuggingFaceStorageReader

from foveate.storage.checkpoint import Checkpoints

GROUP = Path(__file__).with_name("sharding_group.py")


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """What happened in each experiment of `sharding_group`, and what its processes wrote to standard error."""
    folder = tmp_path_factory.mktemp("sharding")
    path = os.pathsep.join(path for path in sys.path if path)
    variables = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "TORCH_CPP_LOG_LEVEL": "ERROR"}
    done = subprocess.run([sys.executable, str(GROUP), str(folder)], capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stderr
    return SimpleNamespace(**json.loads(done.stdout), stderr=done.stderr, folder=folder)


def figures(rows: list[dict[str, object]]) -> dict[str, object]:
    """The losses and norms of a log, by kind and step."""
    return {
        f"{name} {row['kind']} {row['step']}": row[name] for row in rows for name in ("loss", "norm") if name in row
    }


@pytest.mark.parametrize("name", ["replicate", "full", "moments", "chain", "killed"])
def test_losses_and_norms_are_those_of_one_process(worlds: SimpleNamespace, name: str) -> None:
    assert figures(worlds.rows[name]) == pytest.approx(figures(worlds.rows["alone"]), rel=1e-6)


def test_gradients_of_divided_models_are_those_of_whole_ones(worlds: SimpleNamespace) -> None:
    assert len(worlds.distances) == 8
    assert max(worlds.distances.values()) < 1e-7, worlds.distances


def test_products_in_bfloat16_stay_as_near_as_their_rounding(worlds: SimpleNamespace) -> None:
    alone, full = (figures(worlds.rows[f"{name} in bfloat16"]) for name in ("alone", "full"))
    assert full == pytest.approx(alone, rel=2e-3)
    assert full != pytest.approx(figures(worlds.rows["alone"]), rel=1e-6)


@pytest.mark.parametrize("name", ["full", "moments", "chain", "killed", "full in bfloat16"])
def test_all_processes_end_with_the_whole_weights_that_were_written(worlds: SimpleNamespace, name: str) -> None:
    for ending in worlds.ends[name][-1]:
        assert (ending["code"], ending["step"], ending["as written"]) == (0, 12, True)


def test_a_run_moves_between_whole_and_divided_and_between_worlds(worlds: SimpleNamespace) -> None:
    assert [[ending["step"] for ending in world] for world in worlds.ends["chain"]] == [
        [4, 4],
        [5],
        [7, 7],
        [9, 9, 9],
        [12, 12, 12],
    ]


def test_a_process_alone_reads_what_several_have_saved(worlds: SimpleNamespace) -> None:
    """The best checkpoint of a run that has not ended, and the final weights, give the loss that was logged."""
    logged = {row["step"]: row["loss"] for row in worlds.rows["chain"] if row["kind"] == "valid"}
    assert worlds.loss["chain"] == pytest.approx([logged[3], logged[3], logged[6], logged[6], logged[12]], rel=1e-6)


def test_parameters_without_a_gradient_keep_their_values(worlds: SimpleNamespace) -> None:
    """Weight decay would change a matrix whose gradient is zero, but not one that has none."""
    first = Checkpoints(worlds.folder / "warm" / "checkpoints").load(1).model
    for name in ("alone", "replicate", "full", "moments"):
        last = Checkpoints(worlds.folder / name / "checkpoints").load(12).model
        assert torch.equal(last["never.weight"], first["never.weight"])
        assert not torch.equal(last["odd.weight"], first["odd.weight"])
        assert last["scale"] != first["scale"]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_checkpoints_are_safetensors_and_json_which_torch_reads(worlds: SimpleNamespace) -> None:
    assert worlds.files["full"][-1] == [
        "MANIFEST",
        *(f"{what}-0000{part}-of-00002.safetensors" for what in ("model", "optimiser") for part in (1, 2)),
        "state.json",
    ]
    checkpoint = Checkpoints(worlds.folder / "full" / "checkpoints").load(12)
    expected = {**checkpoint.model, **checkpoint.optimiser}
    received = {name: torch.empty_like(tensor) for name, tensor in expected.items()}
    distributed.load(received, storage_reader=HuggingFaceStorageReader(str(checkpoint.path)), no_dist=True)
    assert all(torch.equal(received[name], expected[name]) for name in expected)
    whole = Checkpoints(worlds.folder / "alone" / "checkpoints").load(12)
    assert {k: v.shape for k, v in expected.items()} == {
        k: v.shape for k, v in {**whole.model, **whole.optimiser}.items()
    }


def test_a_process_killed_inside_a_save_leaves_the_checkpoint_before(worlds: SimpleNamespace) -> None:
    assert worlds.draft[0].startswith(".tmp-step-00000006")
    assert [ending["code"] for ending in worlds.ends["killed"][0]] == [-9, 5]
    logged = {row["step"]: row["loss"] for row in worlds.rows["killed"] if row["kind"] == "valid"}
    assert worlds.loss["killed"] == pytest.approx([logged[3], logged[12]], rel=1e-6)


def test_a_full_disk_of_another_process_stops_all(worlds: SimpleNamespace) -> None:
    endings = worlds.ends["full-disk"][0]
    assert {(ending["code"], ending["kind"]) for ending in endings} == {(4, "SetupError")}
    assert "step-00000006 cannot be written" in endings[0]["error"]
    assert [path.name for path in (worlds.folder / "full-disk" / "checkpoints").iterdir()] == ["step-00000003"]


def test_a_model_that_reads_weights_outside_of_its_methods_is_refused_by_the_process_that_notices(
    worlds: SimpleNamespace,
) -> None:
    endings = worlds.ends["outside"][0]
    assert [ending["kind"] for ending in endings] == ["PeerError", "UsageError"]
    assert "rank 1: Transformer reads weights outside of its blocks and methods" in worlds.stderr
    assert 'train.sharding = "replicate"' in endings[1]["error"]


def test_a_process_that_hangs_is_named_while_the_others_wait_for_its_weights(worlds: SimpleNamespace) -> None:
    assert worlds.ends["hanging"][0][0]["code"] == 5
    assert "Rank 1 of 2 has been at an update for 2 seconds while the others wait" in worlds.stderr
    assert "Rank 0 of 2 has been" not in worlds.stderr
