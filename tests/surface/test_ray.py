"""The example on a cluster of Ray writes what the command writes. It needs the package ray, which no extra brings."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples/corpus/ray_translate.py"


def test_a_local_cluster_writes_the_same_lines(foveate: Any, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("The cat is sleeping.\nHow are you?\n" * 3)
    subprocess.run([sys.executable, EXAMPLE, "en-fr", source, target], check=True, timeout=300)
    said = foveate("translate", "en-fr", "--threads", "1", stdin=source.read_bytes())
    assert target.read_text() == said.out
