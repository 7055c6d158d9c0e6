"""foveate evaluate"""

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from foveate.cli.files import option, pairs_hint
from foveate.errors import UsageError
from foveate.suggestion import counted
from foveate.tasks import TASKS, task_of
from foveate.tasks.option import (
    columns_argument,
    count,
    decode_arguments,
    head_arguments,
    language_argument,
    machine_arguments,
    metric_names,
    occlude_argument,
    require_ending,
    require_used,
)
from foveate.voice import say

if TYPE_CHECKING:
    from foveate.metrics import Score
    from foveate.tasks.entry import Entry


TRANSLATING = ("source", "target", "columns", "metrics", "to", "precision", "beam", "set")
SEARCHED = ("precision", "beam", "set")
MODES = {
    "text": ("run", "text", "context", "report", "json", "precision"),
    "gold": (
        *("run", "source", "target", "columns", "gold", "per_head", "save", "json", "precision"),
        "to",
        *("layer", "head", "when"),
        *("report", "metrics"),  # for which there is a sentence of its own
    ),
    "links": ("links", "gold", "json"),
    "output": ("output", "target", "metrics", "json"),
    "data": ("run", "data", "columns", "per_class", "save", "report", "json", "metrics", *SEARCHED),
    "source": ("run", *TRANSLATING, "save", "report", "json"),
}
"""The kinds of evaluation by the option that selects each, with the options that it uses."""
OTHERS = ("run", "columns", "per_class", "save", "report", "json")
"""The options used by a task whose file has an option of its own."""
USES = {
    "run": "--source, --data or --text",
    "source": "RUN",
    "target": "--source or --output",
    "data": "RUN alone",
    "columns": "RUN and --source or --data",
    "per_class": "RUN and --data",
    "nodes": "--edges",
    "context": "RUN and --text",
    "output": "--target alone",
    "links": "--gold alone",
    "gold": "--links, or RUN and --source",
    "per_head": "RUN and --gold",
    "metrics": "translations and transcripts",
    "save": "RUN and --source or --data",
    "report": "RUN and --source, --data or --text",
    "to": "RUN and --source",
    "precision": "RUN and --source, --gold, --text or --data",
    "beam": "RUN and --source or --data",
    "set": "RUN and --source or --data",
    "layer": "RUN and --gold",
    "head": "RUN and --gold",
    "when": "RUN and --gold",
}
PARTNERS = {
    "text": ("run", "--text is for a language model to be scored on: give RUN too."),
    "gold": (
        "source",
        "--gold with a run needs --source FILE (and --target FILE), the sentences that were linked.",
    ),
    "links": ("gold", "--links needs --gold FILE, the alignments to compare with."),
    "output": ("target", "--output needs --target FILE, the reference lines."),
}
"""The other option that an evaluation needs, and the message for a missing one."""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate evaluate run/ --source test.en --target test.fr
  foveate evaluate run/ --source test.tsv --metrics phone_error,word_error --save output.txt
  foveate evaluate run/ --source test.tsv --report report.html
  foveate evaluate run/ --data test.txt --per-class             a tagger or a classifier
  foveate evaluate papers/ --per-class                          a model of nodes, on the test nodes of its graph
  foveate evaluate run/ --text test.txt --context 64            a language model: perplexity, bits per byte
  foveate evaluate run/ --data test.txt --faithfulness          whether attention tells which words matter
  foveate evaluate --output output.fr --target test.fr          score an existing file
  foveate evaluate --links system.pharaoh --gold gold.pharaoh   alignment error rate
  foveate evaluate run/ --source test.tsv --gold gold.pharaoh   alignment error rate of the model's attention
"""
    parser.add_argument("run", nargs="?", metavar="RUN", help="the run folder")
    parser.add_argument("--source", metavar="FILE", help="source lines, or tab-separated pairs")
    parser.add_argument("--target", metavar="FILE", help="reference lines")
    parser.add_argument("--data", metavar="FILE", help="labelled examples for a tagger or a classifier")
    columns_argument(parser)
    parser.add_argument(
        "--per-class",
        action="store_true",
        help="of a tagger, a classifier or a model of nodes: print F1 of every class",
    )
    parser.add_argument("--text", metavar="FILE", help="text to score a language model on")
    parser.add_argument(
        "--context",
        type=count,
        metavar="N",
        help="with --text: tokens of context, unscored, that each block repeats from the one before",
    )
    parser.add_argument("--output", metavar="FILE", help="score these lines instead of translating")
    parser.add_argument("--links", metavar="FILE", help="predicted alignments, Pharaoh format")
    parser.add_argument("--gold", metavar="FILE", help="gold alignments: sure links 3-4, possible links 3p4")
    parser.add_argument(
        "--per-head", action="store_true", help="with RUN and --gold: print a line for every layer and head"
    )
    parser.add_argument("--metrics", metavar="A,B", help="metrics to compute; by default those that suit the data")
    parser.add_argument(
        "--save",
        metavar="FILE",
        help="write the answers (translations, labels, tags …), or with --gold the links, to a file",
    )
    parser.add_argument("--report", metavar="FILE", help="write the run's report, with these scores and alignments")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument(
        "--faithfulness",
        action="store_true",
        help="how well attention, gradients and others order the words of each text as leaving them out does, with "
        "standard errors over texts",
    )
    occlude_argument(parser, "--faithfulness")
    language_argument(parser)
    decode_arguments(parser)
    head_arguments(parser)
    machine_arguments(parser)
    known = {action.dest for action in parser._actions}
    for name, says in {name: says for task in TASKS.values() for name, says in task.tests.items()}.items():
        if name not in known:
            parser.add_argument(option(name), metavar="FILE", help=says)
    for name in set(modes()) - set(MODES) - {action.dest for action in parser._actions}:
        parser.add_argument(option(name), metavar="FILE", help="data to score a model on")


def modes() -> dict[str, tuple[str, ...]]:
    """`MODES`, and the files that tasks are scored on."""
    return {**{task.first: (task.first, *task.tests, *OTHERS) for task in TASKS.values()}, **MODES}


def run(arguments: argparse.Namespace) -> int:
    import json

    mode = _mode(arguments)
    if arguments.faithfulness:
        _print_faithfulness(arguments, mode)
        return 0
    require_used(arguments, {"occlude": "--faithfulness"}, (), "without")
    _require_sense(arguments, mode)
    scores = _scored(arguments, mode)
    if isinstance(scores, Mapping):
        lines = [f"{name} = {value:.4g}" for name, value in scores.items()]
        print(json.dumps(dict(scores)) if arguments.json else "\n".join(lines))
    elif scores is not None:
        table = {score.name: {"value": score.value, "signature": score.signature} for score in scores}
        print(json.dumps(table) if arguments.json else "\n".join(map(str, scores)))
    return 0


def _mode(arguments: argparse.Namespace) -> str | None:
    """The kind of evaluation; None if no option selects one, and the run has no test data of its own."""
    from foveate.storage.run import read_run
    from foveate.storage.shipped import run_folder

    for mode in (*MODES, *(set(modes()) - set(MODES))):
        if getattr(arguments, mode) and (arguments.run or mode in ("text", "links", "output")):
            return mode
    task = task_of(read_run(run_folder(arguments.run))) if arguments.run else None
    return task.first if task is not None and task.keeps_test else None


def _require_sense(arguments: argparse.Namespace, mode: str | None) -> None:
    """Raises UsageError for options that would change nothing, and for those that lack another one."""
    from foveate.storage.run import model_type_of
    from foveate.storage.shipped import is_shipped, run_folder

    if arguments.report:
        if not arguments.run or mode in (None, "links", "output"):
            raise UsageError("--report is about a model: give RUN and --source FILE (or --data, or --text FILE) too.")
        folder = run_folder(arguments.run)
        if is_shipped(folder) or model_type_of(folder) is not None:
            raise UsageError(f"--report describes a training run, and {arguments.run} comes without one. Leave it out.")
    if arguments.context is not None and not arguments.text:
        raise UsageError("--context is how much of a text is read again before each block: give --text FILE too.")
    if arguments.report:
        require_ending("--report", arguments.report, "HTML")
    if mode is None:
        raise UsageError(
            "Give RUN with --source (and --target, or --gold) or --data, or --output with --target, or --links with "
            "--gold."
        )
    doing = f"where --{mode} is scored" if getattr(arguments, mode) else "where the run's own test data are scored"
    taken = modes()[mode] if getattr(arguments, mode) else [name for name in modes()[mode] if name != "nodes"]
    require_used(arguments, USES, taken, doing)
    if mode in PARTNERS and not getattr(arguments, PARTNERS[mode][0]):
        raise UsageError(PARTNERS[mode][1])
    if mode == "gold":
        for name in ("report", "metrics"):
            if getattr(arguments, name):
                raise UsageError(
                    f"--{name} is for translations, and --gold scores the attention. Leave one of them out."
                )
        if arguments.per_head and not arguments.save:
            require_used(arguments, dict.fromkeys(("layer", "head", "when"), "--gold alone"), (), "beside --per-head")


def _scored(arguments: argparse.Namespace, mode: str | None) -> "Sequence[Score] | Mapping[str, float] | None":
    """Scores of files alone, or of a run by its own task on the file of an option that the task reads."""
    if mode == "links":
        return _links(arguments.links, arguments.gold)
    if mode == "output":
        return _file(arguments)
    return _task(arguments, mode).side.evaluate(arguments)


def _print_faithfulness(arguments: argparse.Namespace, mode: str | None) -> None:
    """Print the table of methods. Raises UsageError for options without effect."""
    import json

    if mode not in ("source", "data", "text"):
        raise UsageError("--faithfulness needs RUN and a file of texts: --source, --data or --text FILE.")
    used = ("run", "columns", "target", "to", mode)
    require_used(arguments, {name: use for name, use in USES.items() if name != mode}, used, "with --faithfulness")
    measured = _task(arguments, mode).side.faithfulness(arguments)
    print(json.dumps(measured.plain(), ensure_ascii=False) if arguments.json else measured)
    say(f"{counted(measured.sentences, 'text')}; {measured.note}.")


def _task(arguments: argparse.Namespace, mode: str | None) -> "Entry":
    """The task of a run. Raises UsageError for a file of another task."""
    from foveate.cli.setup import prepare_machine
    from foveate.storage.run import read_run
    from foveate.storage.shipped import run_folder

    task, name = task_of(read_run(run_folder(arguments.run))), "source" if mode == "gold" else str(mode)
    if name != task.first:
        raise UsageError(
            f"{arguments.run} is a run of the task {task.name}, which is not scored with {option(name)}. "
            f"Use {option(task.first)}.{pairs_hint(task.name, name)}"
        )
    uses = {"to": "a translator of several languages"}
    require_used(arguments, uses, task.looks, f"for a run of {task.name}")
    prepare_machine(arguments, quiet=True)
    return task


def _file(arguments: argparse.Namespace) -> "list[Score]":
    from foveate.data.text import read_pairs
    from foveate.metrics.corpus import FOR_SENTENCES, evaluate

    pairs = list(read_pairs(arguments.output, arguments.target))
    names = metric_names(arguments) or FOR_SENTENCES
    return evaluate([pair.source for pair in pairs], [pair.target for pair in pairs], names)


def _links(predicted: str, gold: str) -> "list[Score]":
    from foveate.data.text import read_lines
    from foveate.metrics import alignment_error_rate, parse_pharaoh

    links_of_lines = [links.possible for links in parse_pharaoh(read_lines(predicted), predicted)]
    return [alignment_error_rate(links_of_lines, parse_pharaoh(read_lines(gold), gold))]
