"""What foveate computes from the folders here, as numbers and texts: by names and commands that users have.

`write.py` stores what version 0.1.0 computed; `test_version_0_1.py` compares what this version does.
"""

import contextlib
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np

from foveate import Filler, Generator, SentenceTagger, TextClassifier, Translator
from foveate.cli import main
from foveate.decode import GreedyConfig
from foveate.inspect import Trace
from foveate.inspect.tile import TraceProvider

HERE = Path(__file__).parent
RUNS, TRACES, EXPORT, DATA = HERE / "runs", HERE / "traces", HERE / "export", HERE / "data"
SOURCES = ["the a i sleeps", "the c n sleeps", "the d", ""]
LINES = ["abc ab", "bca"]
GAPS = ["red ___ swim", "___ birds sing"]
SENTENCES = ["I saw a saw", "a dog saw I"]
TEXTS = ["red fish swim", "blue birds sing", "birds"]
PAIRS = ["red fish\tfish swim", "blue birds\tfish swim"]
EVALUATION = {
    "translate": ("--source", DATA / "pairs.tsv"),
    "language_model": ("--text", DATA / "letters.txt"),
    "masked_language_model": ("--text", DATA / "words.txt"),
    "tag": ("--data", DATA / "tagged.txt"),
    "classify": ("--data", DATA / "labelled.tsv"),
}
"""The files that runs of each task are scored on."""
QUIET = ("--no-tune", "--threads", "1")


def task_of(run: Path) -> str:
    return str(json.loads((run / "config.json").read_text(encoding="utf-8"))["task"])


def command(*words: object) -> str:
    """What a command prints; raises AssertionError where it fails."""
    out, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = main([str(word) for word in words])
    assert code == 0, errors.getvalue()
    return out.getvalue()


def outputs(run: Path) -> dict[str, Any]:
    """What the model of a run answers, with its probabilities, losses and weights."""
    match task_of(run):
        case "translate":
            return translations(Translator.load(run))
        case "language_model":
            return continuations(Generator.load(run))
        case "masked_language_model":
            return fillings(Filler.load(run))
        case "tag":
            return tags(SentenceTagger.load(run))
        case _:
            return labels(TextClassifier.load(run))


def translations(translator: Translator) -> dict[str, Any]:
    made = {"beam": translator.translate(SOURCES), "greedy": translator.translate(SOURCES, config=GreedyConfig())}
    answers: dict[str, Any] = {
        name: [[one.text, [hypothesis.score for hypothesis in one.hypotheses]] for one in translated]
        for name, translated in made.items()
    }
    forced = translator.forced("the a i sleeps", "le i a dort")
    answers["forced"] = [hypothesis.score for hypothesis in forced.hypotheses]
    if translator.attends:
        answers["weights"] = numbers(translator.align(forced).weights)
    return answers


def continuations(generator: Generator) -> dict[str, Any]:
    made = generator.generate(LINES[0], length=8, config=GreedyConfig())
    aligned = generator.align(LINES[0])
    weights = None if aligned is None else numbers(aligned.weights)
    return {"greedy": [str(one) for one in made], "figures": generator.evaluate(LINES), "weights": weights}


def fillings(filler: Filler) -> dict[str, Any]:
    made = [[filling.text, filling.choices] for filling in filler.fill(GAPS, best=3)]
    aligned = filler.align(GAPS[0])
    return {"gaps": made, "weights": None if aligned is None else numbers(aligned.weights)}


def tags(tagger: SentenceTagger) -> dict[str, Any]:
    return {"tags": [[str(one), list(one.probabilities)] for one in tagger.tag(SENTENCES)]}


def labels(classifier: TextClassifier) -> dict[str, Any]:
    texts = PAIRS if classifier.pairs else TEXTS
    made = [[one.label, dict(one.probabilities)] for one in classifier.classify(texts)]
    return {"labels": made, "weights": numbers(classifier.align(texts[0]).weights) if classifier.attends else None}


def scores(run: Path) -> dict[str, Any]:
    """What `foveate evaluate` prints."""
    task = task_of(run)
    files = EVALUATION[task]
    if "pairs" in run.name and task == "classify":
        files = ("--data", DATA / "labelled_pairs.tsv")
    figures = json.loads(command("evaluate", run, *files, "--json", *QUIET))
    return {name: one["value"] if isinstance(one, dict) else one for name, one in figures.items()}


def resumed(run: Path, steps: int = 2) -> list[dict[str, Any]]:
    """Trains a copy of a run for some steps more; the losses that its log says of them."""
    last = json.loads((run / "config.json").read_text(encoding="utf-8"))["config"]["train"]["steps"]
    settings = (f"train.steps={last + steps}", "train.log_every=1")
    command("resume", run, *(word for setting in settings for word in ("--set", setting)), "--quiet", *QUIET)
    entries = [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{name: entry[name] for name in ("kind", "step", "loss")} for entry in entries if entry["step"] > last]


def reported(run: Path) -> dict[str, int]:
    """How many figures, tables and sections the report of a run has."""
    command("report", run)
    page = (run / "report.html").read_text(encoding="utf-8")
    return {name: page.count(f"<{name}") for name in ("svg", "table", "h2")}


def described(trace: Trace) -> dict[str, Any]:
    """A trace's header, the weights of its sites, and tiles as the viewer asks for them."""
    provider = TraceProvider(trace)
    sites = []
    for number, site in enumerate(trace.sites):
        heads = [
            {
                "weights": numbers(site.weights(head)[0]),
                "peak": provider.tile(number, head, 0, 0, 0, "peak")[: site.queries, : site.keys].tolist(),
                "mass": provider.tile(number, head, 1, 0, 0, "mass")[
                    : math.ceil(site.queries / 2), : math.ceil(site.keys / 2)
                ].tolist(),
            }
            for head in range(site.heads)
        ]
        sites.append({"name": site.name, "title": site.title, "kind": site.kind, "heads": heads})
    tracks = {name: list(track.labels) for name, track in trace.tracks.items()}
    return {"sites": sites, "tracks": tracks, "opening": list(trace.opening)}


def numbers(values: Any) -> Any:
    """Nested lists with five digits after the point."""
    return np.round(np.array(values.tolist()), 5).tolist()
