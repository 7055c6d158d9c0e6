"""A run on another device has the numbers of the CPU, and no operation mixes tensors of two devices.

The device is that of `other_device`, in a process of its own, because torch knows one such device from then on.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from task_example import SETTINGS, VARIANTS

PROGRAM = Path(__file__).parents[1] / "device_program.py"


@pytest.fixture(scope="module")
def distances(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PROGRAM), str(tmp_path_factory.mktemp("device") / "runs")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr[-3000:]
    results: dict[str, Any] = json.loads(done.stdout)
    return results


@pytest.mark.parametrize("name", [*SETTINGS, *VARIANTS])
def test_two_steps_and_a_validation_are_those_of_the_cpu(name: str, distances: dict[str, Any]) -> None:
    here, there = distances[name]["figures"]
    assert there == pytest.approx(here, rel=1e-5)
    assert distances[name]["distance"] < 1e-6
    assert distances[name]["learnt"] > 1e-4, "the steps changed the weights"


def test_a_run_is_continued_on_the_device_with_the_same_bits(distances: dict[str, Any]) -> None:
    assert distances["continued"]["resumed"] == 0
    assert distances["continued"]["noise"] > 1e-4, "dropout draws noise on the device"


def test_a_run_goes_to_the_device_and_back(distances: dict[str, Any]) -> None:
    assert distances["continued"]["moved"] < 1e-6
