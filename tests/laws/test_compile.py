"""Attention under torch.compile, without a compiler behind it: the trace is short and the context is the same."""

import subprocess
import sys
from pathlib import Path


def test_a_compiled_run_is_the_run_and_traces_no_table_of_rates() -> None:
    script = Path(__file__).with_name("compiled.py")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "12 compiled\n"
