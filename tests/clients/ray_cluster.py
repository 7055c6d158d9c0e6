"""The example on a cluster of Ray writes what the command writes. `make clients` installs Ray."""

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples/corpus/ray_translate.py"


def test_a_local_cluster_writes_the_same_lines(tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("The cat is sleeping.\nHow are you?\n" * 3)
    subprocess.run([sys.executable, EXAMPLE, "en-fr", source, target], check=True, timeout=300)
    command = [sys.executable, "-m", "foveate", "translate", "en-fr", "--threads", "1"]
    result = subprocess.run(command, input=source.read_text(), capture_output=True, text=True, check=True, timeout=300)
    assert target.read_text() == result.stdout
