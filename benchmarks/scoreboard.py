"""The page of `reliability.py`."""

from dataclasses import dataclass, field
from typing import Any

import race

INTRODUCTION = """# Reliability

What happens when requests are malformed, processes are killed and files are damaged, counted by one command:

```console
$ python benchmarks/reliability.py --out docs/reliability.md
```

Small versions of most lines are tests. Overload is measured beside other servers in
[benchmarks](../benchmarks/README.md#under-load).
"""
TESTS = (
    (
        "A save that is cut at any system call, by a kill or a full disk, leaves the old state or the new one.",
        "tests/unit/storage/test_checkpoint.py",
    ),
    (
        "Hundreds of damaged and malicious folders end every command with a sentence and an exit code.",
        "tests/surface/test_hostile.py",
    ),
    ("Opening a folder executes nothing; each sentence of SECURITY.md is proved.", "tests/surface/test_security.py"),
    ("`explain` equals `run` for every path, with empty rows, NaN in hidden keys and both paddings.", "tests/laws"),
    ("The result of a sentence depends neither on its neighbours in a batch nor on padding.", "tests/laws"),
    ("A full disk and a full memory end in one sentence with the remedy.", "tests/surface/test_security.py"),
    ("A client that sends or reads slowly does not keep its place.", "tests/unit/serve/test_http_connection.py"),
    ("`foveate --help` does not import torch.", "tests/surface/test_start.py"),
)
LIMITS = "Not measured: power loss, network file systems, GPUs, hours of load without a pause."


@dataclass
class Line:
    """One line of the scoreboard."""

    name: str
    done: str
    result: str
    holds: bool
    figures: dict[str, Any] = field(default_factory=dict)


def page(lines: list[Line], machine: dict[str, Any]) -> str:
    """The scoreboard as Markdown."""
    rows = [[line.name, line.done, line.result, "yes" if line.holds else "**no**"] for line in lines]
    date = machine["date"].removesuffix("+00:00").replace("T", " ")
    when = f"Measured on {date} UTC on {machine['processor']}, with one thread for the model; the load average was "
    when += f"{machine['load'][0]:.1f}."
    measured = race.table(["what", "how often", "result", "holds"], rows)
    tests = race.table(["promise", "tests"], [[promise, f"`{file}`"] for promise, file in TESTS])
    return f"{INTRODUCTION}\n{when}\n\n{measured}\n\n## Promises that tests hold\n\n{tests}\n\n{LIMITS}\n"
