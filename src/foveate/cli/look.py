"""foveate look"""

import argparse
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from foveate.cli.look_drawing import dpi_of, draw, is_pictured, site_of
from foveate.errors import FoveateError, SetupError, UsageError
from foveate.tasks import task_of
from foveate.tasks.option import (
    count,
    decode_arguments,
    head_arguments,
    language_argument,
    machine_arguments,
    occlude_argument,
    port,
    require_ending,
    require_used,
)
from foveate.voice import say

if TYPE_CHECKING:
    from foveate.inspect import Trace


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog = """
examples:
  foveate look run/ --text "A man is riding a bicycle ."          opens the viewer
  foveate look run/ "A man is riding a bicycle ."                 draws in the terminal
  foveate look run/ "…" --out alignment.svg --words
  foveate look run/ "…" --target "…" --out links.pharaoh
  foveate look run/ "…" --why bicycle                             what mattered for a word, beside attention
  foveate look gpt/ "To be, or not to be" --layer 0               the attention of each piece to those before it
  foveate look papers/ --node 31336                               the edges that the class of a node depends on
  foveate look run/ "…" --html page.html                          one file, works offline
  foveate look run/ "…" --html page.html --ablations              … whose words can be switched off, one at a time
  foveate look run/ --beside other/ --text "…"                    two models and one text: answers and maps compared
  foveate look run/ "…" --trace kept.trace
  foveate look kept.trace                                         opens the viewer
  foveate look kept.trace --site 3 --head 0 --scale log --svg head.svg
  foveate look frames/ talk.wav --target talk.TextGrid            a tagger's labels along the time, and the true ones
  foveate look kept.trace --steps 2 --out steps.pdf               one query's attention, term by term
  foveate look --example self-attention                           a lecture's numbers step by step, to change and try

The viewer is reachable from this machine only, at an address that cannot be guessed. The extension of --out chooses the
format: .svg .pdf .png .txt .pharaoh, with --steps .svg .pdf .png .tex .txt, with --why .svg .pdf .png .json .txt, and
for the words of a recording with their times .TextGrid .ctm .json .svg .pdf .png .txt
"""
    parser.add_argument("run", metavar="RUN", nargs="?", help="the run folder, or the folder of a trace")
    parser.add_argument("text", metavar="TEXT", nargs="?", help="the source text, to draw in the terminal")
    viewed = parser.add_mutually_exclusive_group()
    viewed.add_argument("--text", dest="viewed", metavar="TEXT", help="the source text, to open in the viewer")
    viewed.add_argument("--node", dest="viewed", metavar="NAME", help="the node of a graph, to open in the viewer")
    parser.add_argument(
        "--example", choices=EXAMPLES, help="in place of RUN: a worked example of the lectures, opened at its steps"
    )
    parser.add_argument("--hops", type=count, metavar="N", help="how far from a node to draw; by default all it reads")
    parser.add_argument(
        "--target",
        metavar="TEXT",
        help="align with this target instead of the model's own translation, transcript or caption; for a tagger of "
        "recordings, the file with the true label track",
    )
    parser.add_argument("--out", metavar="FILE", help="write a picture or links instead of drawing in the terminal")
    parser.add_argument("--words", action="store_true", help="merge pieces into words")
    parser.add_argument("--html", metavar="FILE", help="write the viewer and the numbers as one page")
    parser.add_argument(
        "--ablations",
        action="store_true",
        help="with --html: the page also has the answers without each word of the text in turn",
    )
    parser.add_argument(
        "--beside",
        metavar="RUN",
        help="in the viewer or with --html: another run, whose model reads the same text, or a trace of it; both are "
        "shown one above the other, and their maps are compared word by word",
    )
    parser.add_argument("--trace", metavar="FOLDER", help="save the attention, to open it later without the model")
    parser.add_argument("--png", metavar="FILE", help="write one head's map as pixels")
    parser.add_argument("--svg", metavar="FILE", help="write one head's map as a drawing")
    parser.add_argument("--pdf", metavar="FILE", help="write one head's map as PDF, for papers")
    parser.add_argument(
        "--site", metavar="SITE", help="the attention layer to draw with --png, --svg or --pdf, by number or name"
    )
    parser.add_argument(
        "--steps",
        metavar="QUERY",
        help="the formula term by term with the numbers of one query, by number from 0 or by its piece; with --out as "
        "picture (.svg .png .pdf), LaTeX (.tex) or text",
    )
    parser.add_argument(
        "--why",
        nargs="?",
        const="",
        metavar="WORD",
        help="which input words mattered for each word of the answer, or for this one (by number from 0, or as "
        "written): attention, gradients and leave-one-out side by side; write it after the text",
    )
    occlude_argument(parser, "--why")
    parser.add_argument("--dpi", type=count, metavar="N", help="pixels per inch of a PNG (default 192)")
    parser.add_argument(
        "--outlines",
        action="store_true",
        help="letters of an .svg as shapes, so that it looks the same in every program, with no fonts",
    )
    parser.add_argument(
        "--scale",
        choices=["linear", "log", "lift"],
        default="linear",
        help="colour scale of pictures: log covers six powers of ten; lift is relative to uniform weights",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="print the viewer's address without opening a browser"
    )
    parser.add_argument("--port", type=port, default=0, metavar="N", help="port of the viewer; by default a free one")
    language_argument(parser)
    decode_arguments(parser)
    head_arguments(parser)
    machine_arguments(parser)


EXAMPLES = ("self-attention", "action-gets-results", "one-hot")
"""Those of `foveate.inspect.example`, which imports torch."""
BY_TASK = {"hops": "a node of a graph", "to": "a translator of several languages"}
"""Options for runs of some tasks."""
FIGURES: tuple[Literal["png", "svg", "pdf"], ...] = ("png", "svg", "pdf")
FILES = ("html", "trace", *FIGURES)


def run(arguments: argparse.Namespace) -> int:
    from foveate.inspect.trace import is_trace

    if (arguments.run is None) == (arguments.example is None):
        raise UsageError("Say what to look at: RUN, the folder of a run or of a trace, or --example with a name.")
    if arguments.why is not None:
        if arguments.example is not None:
            raise UsageError("--why needs a run: a worked example has no model behind its numbers.")
        from foveate.cli.why import explain

        explain(arguments)
        if arguments.outlines:
            _outline(arguments)
        return 0
    require_used(arguments, {"occlude": "--why"}, (), "without")
    of_trace = arguments.example is not None or is_trace(arguments.run)
    written = any(getattr(arguments, kind) for kind in FILES)
    drawn = arguments.out is not None or arguments.steps is not None
    drawn = drawn or not (of_trace or written or arguments.viewed is not None)
    _require_sense(arguments, of_trace=of_trace, drawn=drawn, written=written)
    sight: Any = _Kept(arguments) if of_trace else _of_run(arguments)
    if drawn:
        draw(arguments, sight)
    if written:
        _write(arguments, sight)
    elif not drawn:
        _serve(arguments, sight)
    if arguments.outlines:
        _outline(arguments)
    return 0


def _require_sense(arguments: argparse.Namespace, *, of_trace: bool, drawn: bool, written: bool) -> None:
    """Raises UsageError for options without effect, and for files whose ending names another format."""
    for kind in ("html", *FIGURES):
        if getattr(arguments, kind):
            require_ending(f"--{kind}", getattr(arguments, kind), kind.upper())
    if arguments.text is not None and arguments.viewed is not None:
        raise UsageError("The text is there twice. Leave one of them out.")
    if arguments.site is not None and arguments.layer is not None:
        raise UsageError("--site and --layer both say which attention. Leave one of them out.")
    figure = any(getattr(arguments, kind) for kind in FIGURES)
    walked = arguments.steps is not None
    conditions = {
        ("layer", "head"): (drawn or figure, "drawings: TEXT, --out, --png, --svg or --pdf"),
        ("words",): (figure or (drawn and not walked), "drawings: TEXT, --out, --png, --svg or --pdf"),
        ("when",): (drawn and not of_trace and not walked, "a drawing of a run: TEXT or --out"),
        ("site",): (figure or walked or (of_trace and drawn), "--png, --svg, --pdf and --steps"),
        ("scale",): (figure or (is_pictured(arguments.out) and not walked), "pictures: --png, --svg, --pdf or --out"),
        ("dpi",): (bool(arguments.png) or is_pictured(arguments.out, ".png"), "a PNG: --png or --out FILE.png"),
        ("outlines",): (bool(arguments.svg) or is_pictured(arguments.out, ".svg"), "an SVG: --svg or --out FILE.svg"),
        ("ablations",): (bool(arguments.html), "a page: --html"),
        ("beside",): (bool(arguments.html) or (not drawn and not written), "the viewer and a page: --html"),
        ("no_browser", "port"): (not drawn and not written, "the viewer, which files and drawings leave closed"),
        ("beam", "set"): (not of_trace and arguments.target is None, "the model's own translation of a text"),
        ("precision", "hops", "to"): (not of_trace, "a run"),
    }
    for names, (counts, use) in conditions.items():
        require_used(arguments, dict.fromkeys(names, use), names if counts else (), "here")


def _outline(arguments: argparse.Namespace) -> None:
    """Turn the letters of the .svg files that were written into shapes."""
    from foveate.inspect.figure.outline import outline_file

    for path in (arguments.svg, arguments.out):
        if path is not None and path.lower().endswith(".svg"):
            outline_file(path)


class _Kept:
    """A trace without its model, as a `foveate.tasks.sight.Sight`, which would import torch."""

    alignment: Callable[[argparse.Namespace], None] = staticmethod(lambda arguments: None)
    times = alignment
    rerunner = ablator = None

    def __init__(self, arguments: argparse.Namespace) -> None:
        from foveate.inspect import example, read_trace

        if arguments.text is not None or arguments.viewed is not None or arguments.target is not None:
            raise UsageError("A trace holds its own text, and no model to run another one. Leave the text out.")
        self.trace = read_trace(arguments.run) if arguments.example is None else example(arguments.example)


def _of_run(arguments: argparse.Namespace) -> Any:
    """The attention of a run's model to the text."""
    from foveate.cli.setup import prepare_machine
    from foveate.storage.run import read_run
    from foveate.storage.shipped import run_folder

    task = task_of(read_run(run_folder(arguments.run)))  # nothing is asked about a run that is not there
    require_used(arguments, BY_TASK, task.looks, f"for a run of {task.name}")
    text = arguments.viewed if arguments.text is None else arguments.text
    if text is None:
        raise UsageError(
            f'What should the model look at? Write `foveate look {shlex.quote(arguments.run)} --text "…"` to open the '
            "viewer, or the text without --text to draw in the terminal."
        )
    prepare_machine(arguments, quiet=True)
    return task.side.sight(arguments, text)


def _beside(arguments: argparse.Namespace, trace: "Trace") -> "Trace | None":
    """The trace of the other model, named after its run. Raises UsageError where it read another text."""
    from foveate.inspect.text_unit import common_units
    from foveate.inspect.trace import is_trace

    if arguments.beside is None:
        return None
    others = argparse.Namespace(**{**vars(arguments), "run": arguments.beside, "example": None})
    if is_trace(arguments.beside):
        others.text = others.viewed = others.target = None
        other = _Kept(others).trace
    else:
        try:
            other = _named(others, _of_run(others).trace)
        except FoveateError as error:  # which names no run, and here there are two
            raise type(error)(f"--beside {arguments.beside}: {error}") from error
    common_units(*(each.tracks[each.sites[each.opening[0]].key] for each in (trace, other)))
    return other


def _named(arguments: argparse.Namespace, trace: "Trace") -> "Trace":
    """The trace with the name of its run; a stored trace keeps its own."""
    from foveate.inspect.trace import is_trace
    from foveate.storage.shipped import run_name

    stored = arguments.example is not None or is_trace(arguments.run)
    return trace if stored else trace.named(run_name(arguments.run))


def _write(arguments: argparse.Namespace, sight: Any) -> None:
    """The files that options name."""
    from pathlib import Path

    from foveate.inspect import figure, standalone, write_trace
    from foveate.storage.draft import write_output

    trace = _named(arguments, sight.trace)
    if arguments.trace:
        say(f"Wrote {write_trace(trace, arguments.trace)}.")
    if arguments.html:
        header = _ablations(sight) if arguments.ablations else None
        page = standalone(trace, header=header, beside=_beside(arguments, trace))
        write_output(Path(arguments.html), page.encode())
        say(f"Wrote {Path(arguments.html)}.")
    for kind in FIGURES:
        if not getattr(arguments, kind):
            continue
        path = Path(getattr(arguments, kind))
        picture = figure(
            trace,
            site=site_of(arguments, trace),
            head=arguments.head,
            kind=kind,
            level="word" if arguments.words else None,
            scale=arguments.scale,
            dpi=dpi_of(arguments),
        )
        write_output(path, picture)
        say(f"Wrote {path}.")


def _ablations(sight: Any) -> dict[str, Any]:
    """The answers without each word in turn, as a page has them. Raises UsageError for a trace without its model."""
    from foveate.inspect.answer_switch import single_switches

    if sight.ablator is None:
        raise UsageError(
            "--ablations switches the words of a text off, which needs a run whose model reads text, with attentions "
            "that can hide words. Leave it out."
        )
    switches = single_switches(sight.ablator, sight.trace)
    return {"ablates": sight.ablator.track, "ablations": [each.header(sight.trace.tracks) for each in switches]}


def _serve(arguments: argparse.Namespace, sight: Any) -> None:
    try:
        from foveate.serve import Session, open_viewer
    except ImportError as error:
        raise SetupError(
            f"The viewer's server needs {error.name}: `pip install {error.name}`. Or write a page with --html."
        ) from error
    trace = _named(arguments, sight.trace)
    session = Session(trace, sight.rerunner, sight.ablator, beside=_beside(arguments, trace))
    open_viewer(session, say=say, browser=not arguments.no_browser, port=arguments.port)
