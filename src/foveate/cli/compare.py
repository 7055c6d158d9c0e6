"""foveate compare"""

import argparse
from typing import Any

from foveate.cli.files import examples, file_arguments, files_given, named
from foveate.errors import UsageError
from foveate.suggestion import counted
from foveate.tasks import TASKS
from foveate.tasks.option import columns_argument, machine_arguments, metric_names, size_argument
from foveate.voice import say, tell

EXAMPLE = """
examples:
  foveate compare translate run.toml --vary model.attention.score=additive,dot,general --out scores/
  foveate compare tag --data tagged.txt --vary model.encoder=cnn,rnn,transformer --seeds 5 --out encoders/
  foveate compare translate compare.toml --plan
  foveate compare language_model run.toml --vary model=gpt,recurrent --budget seconds=120 --out models/

A TOML file may have a table [compare]: seeds, budget, metrics, test, and variants by name, each with the settings that
it changes:

  [compare.variants.attention]
  [compare.variants."fixed vector"]
  model = { kind = "fixed_context", hidden_dim = 256 }

Every variant is trained with every seed on the same data with the same budget, in run folders of its own. The table
has means with standard errors, and differences from the first variant, seed by seed; report.html, results.json and CSV
files are written to the folder. The same command continues a stopped comparison, and adds further variants and seeds.
"""


def tests() -> dict[str, str]:
    """Options for files of test data, each with its help text."""
    return {name: says for task in TASKS.values() for name, says in task.tests.items()}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = examples(EXAMPLE, parser)
    parser.add_argument("task", choices=list(TASKS), help="the task; see `foveate train --help`")
    parser.add_argument(
        "config", nargs="?", metavar="TOML", help="the configuration that all variants share, with a table [compare]"
    )
    file_arguments(parser)
    columns_argument(parser)
    parser.add_argument(
        "--vary",
        action="append",
        default=[],
        metavar="A.B=X,Y",
        help="one variant for each value; if repeated, one for each combination",
    )
    parser.add_argument("--seeds", metavar="N", help="number of seeds, or a list such as 0,1,5 (default 3)")
    parser.add_argument(
        "--budget", metavar="B", help="steps=N, tokens=N or seconds=N for each cell (default: train.steps)"
    )
    parser.add_argument("--metrics", metavar="A,B", help="metrics to measure, the most important first")
    taken = {name for task in named(parser) for name in TASKS[task].tests}
    for name, says in tests().items():
        parser.add_argument(f"--test-{name}", metavar="FILE", help=says if name in taken else argparse.SUPPRESS)
    parser.add_argument("--out", metavar="FOLDER", help="the folder of the comparison")
    parser.add_argument("--plan", action="store_true", help="show the cells with their estimated times, and stop")
    parser.add_argument(
        "--set", action="append", default=[], metavar="A.B=C", help="set one setting for all; may be repeated"
    )
    size_argument(parser)
    parser.add_argument("--quiet", action="store_true", help="print only results and errors")
    machine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from foveate.cli.setup import choices, plain, prepare_machine, suggested
    from foveate.comparison import compare, design_of, plan, table
    from foveate.comparison.design import varied
    from foveate.config import read_toml
    from foveate.train import watch

    files, overrides = files_given(arguments, arguments.task), _asked(arguments)
    suggestion = suggested(arguments.task, arguments.config, files, arguments)
    base = plain(suggestion.settings if suggestion else read_toml(arguments.config), files, arguments.set)
    variants = varied(arguments.vary) if arguments.vary else None
    design = design_of(arguments.task, base, variants, **overrides)
    if not arguments.out and not arguments.plan:
        raise UsageError("--out is missing: name the folder of the comparison.")
    if suggestion:
        varied_ones = sorted({path for changes in design.changes.values() for path in changes})
        budget = f"{design.budget.words} for each cell"
        for sentence in choices(suggestion, design.base, varied=varied_ones, budget=budget):
            say(sentence)
    for setting in design.set_aside:
        say(f"{setting} is set aside: every cell gets {design.budget.words}.")
    prepare_machine(arguments, quiet=arguments.quiet)
    if arguments.plan:
        _print_plan(plan(design, Path(arguments.out) if arguments.out else None), design)
        return 0
    try:
        result = compare(
            arguments.task,
            base,
            variants,
            out=arguments.out,
            progress=lambda: watch(sys.stderr, quiet=arguments.quiet),
            note=say,
            **overrides,
        )
    except KeyboardInterrupt:
        tell("Stopped; everything is saved. The same command goes on.")
        return 130
    print(table(result))
    say(f"The report is in {Path(arguments.out) / 'report.html'}, all numbers beside it.")
    return 3 if result.failures else 0


def _asked(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings of the comparison itself from the command line."""
    from pathlib import Path

    test = {name: getattr(arguments, f"test_{name}") for name in tests()}
    overrides: dict[str, Any] = {
        "seeds": None if arguments.seeds is None else _seeds(arguments.seeds),
        "budget": arguments.budget,
        "metrics": None if arguments.metrics is None else metric_names(arguments),
        "test": {name: str(Path(path).absolute()) for name, path in test.items() if path} or None,
    }
    return {name: value for name, value in overrides.items() if value is not None}


def _seeds(words: str) -> int | list[int]:
    parts = [part.strip() for part in words.split(",")]
    if not all(part.isdecimal() for part in parts) or parts == ["0"]:
        raise UsageError(f"--seeds {words}: write how many, like 3, or which, like 0,1,5.")
    return int(parts[0]) if len(parts) == 1 else [int(part) for part in parts]


def _print_plan(cells: Any, design: Any) -> None:
    from foveate.comparison.comparison_report import aligned

    rows = [["cell", "state", "weights", "minutes left"]]
    for cell in cells:
        name = f"{cell.variant}, seed {cell.seed}"
        rows.append([name, cell.state, f"{cell.parameters:,}", f"{cell.seconds / 60:.1f}"])
    print(*aligned(rows), sep="\n")
    total = sum(cell.seconds for cell in cells)
    print(
        f"\n{len(design.variants)} variants × {counted(len(design.seeds), 'seed')} = {len(cells)} cells of "
        f"{design.budget.words}; "
        f"about {total / 60:.1f} minutes left here, and a little for measuring."
    )
