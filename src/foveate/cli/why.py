"""foveate look --why"""

import argparse
import re
import shlex
from collections.abc import Sequence

from foveate.cli.look_drawing import is_pictured
from foveate.errors import UsageError
from foveate.tasks import task_of
from foveate.tasks.option import require_used
from foveate.voice import say

OTHERS = {
    **dict.fromkeys(("html", "trace", "png", "svg", "pdf"), "attention, and --out writes"),
    **dict.fromkeys(("words", "scale"), "drawings of attention"),
    "steps": "attention",
    **dict.fromkeys(("no_browser", "port"), "the viewer"),
    "ablations": "a page: --html",
    "beside": "the viewer and a page: --html",
    "hops": "a node of a graph",
}
"""Options of `look` that would change nothing."""


def explain(arguments: argparse.Namespace) -> None:
    """Print, or write to a file, what mattered for the words of an answer. Raises UsageError for a trace, for options
    without effect, and for a word that is not in the answer.
    """
    import json

    from foveate.cli.setup import prepare_machine
    from foveate.inspect.attribution import why
    from foveate.inspect.figure.picture_file import write_drawing
    from foveate.inspect.figure.raster import DPI
    from foveate.inspect.trace import is_trace
    from foveate.storage.run import read_run
    from foveate.storage.shipped import run_folder

    require_used(arguments, OTHERS, (), "with --why")
    pictures = {"outlines": ".svg", "dpi": ".png"}
    for name, ending in pictures.items():
        if not is_pictured(arguments.out, ending):
            require_used(arguments, {name: f"--out FILE{ending}"}, (), "here")
    text = arguments.viewed if arguments.text is None else arguments.text
    if is_trace(arguments.run):
        raise UsageError("A trace holds no model, which --why asks again. Give the run folder.")
    if text is None or (arguments.text is not None and arguments.viewed is not None):
        raise UsageError(f'Give one text before --why: `foveate look {shlex.quote(arguments.run)} "…" --why`.')
    task = task_of(read_run(run_folder(arguments.run)))
    require_used(arguments, {"to": "a translator of several languages"}, task.looks, f"for a run of {task.name}")
    prepare_machine(arguments, quiet=True)
    answer = task.side.answer(arguments, text)
    if any(getattr(arguments, name) is not None for name in ("site", "layer", "head")):
        answer.view  # noqa: B018 -- `why` would only leave out the methods of an attention that is not there.
    reasons = why(answer, outputs=_chosen(arguments.why, answer.outputs), way=arguments.occlude)
    if arguments.out is None:
        print(reasons)
        return
    plain = json.dumps(reasons.plain(), ensure_ascii=False, indent=1)
    dpi = DPI if arguments.dpi is None else arguments.dpi
    path = write_drawing(
        reasons.svg(), str(reasons), arguments.out, title=text, what="table of reasons", json=plain, dpi=dpi
    )
    say(f"Wrote {path}.")


def _chosen(name: str, outputs: Sequence[str]) -> list[int] | None:
    """The numbers of the output words that --why names; None: all. A tag is named by its word, and punctuation at a
    word's ends may be left out.
    """
    if not name:
        return None
    if name.isdecimal() and int(name) < len(outputs):
        return [int(name)]
    chosen = [
        number
        for number, word in enumerate(outputs)
        if name in (word, word.rpartition("/")[0], re.sub(r"^\W+|\W+$", "", word))
    ]
    if not chosen:
        some = ", ".join(f"{number} {word}" for number, word in enumerate(outputs[:12]))
        more = f" … {len(outputs) - 1}" if len(outputs) > 12 else ""
        raise UsageError(f"The answer has no word {name!r}. It has {some}{more}.")
    return chosen
