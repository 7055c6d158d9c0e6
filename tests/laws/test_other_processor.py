"""Kernels keep their definitions where vectors are shorter than those of this processor."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from foveate import native

NEEDS = {"x86-64-v2": ("sse4_2", "popcnt", "avx2"), "haswell": ("avx2", "fma", "avx512f")}
"""Kinds of processors with shorter vectors, and properties of those that have longer ones and run the same code."""
FILES = (
    *("unit/nn/prepared/test_flat_step.py", "unit/nn/prepared/test_flat_block.py"),
    *("unit/nn/prepared/test_flat_encoder.py", "unit/nn/test_dropout.py", "unit/nn/test_exponential.py"),
    "unit/attention/paths/test_short_path.py",
)


@pytest.mark.parametrize("kind", [kind for kind, flags in NEEDS.items() if {*flags} <= {*native.processor().split()}])
def test_kernels_are_right_on_processors_with_shorter_vectors(kind: str) -> None:
    """Vectors of 16 floats were right everywhere, and with AVX2 alone made decoding six times as slow as it is now."""
    tests = Path(__file__).parents[1]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *(tests / name for name in FILES)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    run = subprocess.run(
        command,
        env=environment | {"FOVEATE_TESTED_PROCESSOR": kind},
        capture_output=True,
        text=True,
        cwd=tests.parent,
    )
    assert run.returncode == 0, run.stdout[-3000:]
