"""The command line: one file per command, which parses, calls and prints."""

import sys
from collections.abc import Sequence

COMMANDS = {
    "train": "train a model on your data",
    "resume": "continue a training run exactly where it stopped",
    "translate": "translate text with a trained model",
    "tag": "label every word with a trained model",
    "classify": "label texts with a trained model",
    "generate": "go on from a prompt with a trained language model",
    "compare": "train variants on the same data with the same budget, with error bars",
    "fill": "fill the gaps of texts with a trained masked language model",
    "evaluate": "score a trained model, or a file of its output",
    "report": "write a run's report: curves, samples, what was looked at",
    "export": "write a trained model for another engine",
    "look": "draw what a model attended to",
    "plan": "parameters, memory, arithmetic and attention paths, before training",
    "completion": "print what makes your shell complete commands and options",
    "doctor": "versions, what this machine is good at, and a self-test",
}
"""Each command is a module of this package with `arguments(parser)` and `run(arguments)`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code: 0 done, 2 usage, 3 data, 4 environment, 130 interrupted."""
    try:
        # Here, and nothing at the top of this file: Ctrl-C while modules are read is as quiet as it is later.
        from foveate.cli.program import run

        return run(sys.argv[1:] if argv is None else list(argv))
    except KeyboardInterrupt:
        print("foveate: stopped.", file=sys.stderr)
        return 130
