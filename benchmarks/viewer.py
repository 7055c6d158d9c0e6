"""How long an input a viewer opens: size of the page, time to its first picture. One layer, twelve heads, side by side.
And how a head of many tokens is explored through the server: first tile, every step of zooming in, memory.

cd viewer && npm ci && npm run build && cd ..
python benchmarks/viewer.py                                              # ours alone
python benchmarks/viewer.py --scale 65536                                # one causal head of 65,536 tokens
python benchmarks/viewer.py --story 10                                   # the shipped translator's page, ten visits

The rivals are installed apart, because they bring much; BertViz loads scripts from a CDN, which are served from disk:

pip install --target rivals --no-deps bertviz circuitsvis ipython traitlets importlib-metadata zipp decorator pygments
npm install --prefix cdn requirejs@2.3 d3@5 jquery@2
PYTHONPATH=rivals python benchmarks/viewer.py --rivals --cdn cdn/node_modules
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import torch

from foveate.attention import Attention, causal, record
from foveate.inspect import Trace, Track, read_trace, standalone, write_trace
from foveate.inspect.trace import Site
from foveate.inspect.trace.conversion import statistic

ROOT = Path(__file__).parents[1]
NOW = datetime.now().strftime("%Y-%m-%d-%H%M")
HEADS, DIM = 12, 64
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
SENTENCE = "A man in a red shirt is riding a bicycle down the street ."
PATIENCE = 60
"""Seconds after which a page counts as one that does not open, and nothing longer is tried; give more where other work
runs on the machine."""


def qk(length: int) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(1, HEADS, length, DIM), torch.randn(1, HEADS, length, DIM)


@torch.no_grad()
def ours(length: int) -> str:
    query, key = qk(length)
    site = Attention(visibility=causal())
    with record(site) as seen:
        site.run(query, key, key)
    return standalone(Trace.of(seen))


def weights(length: int) -> torch.Tensor:
    query, key = qk(length)
    return Attention(visibility=causal()).explain(query, key, key).weights


def bertviz(length: int) -> str:
    from bertviz import head_view

    return str(head_view((weights(length),), [str(i) for i in range(length)], html_action="return").data)


def circuitsvis(length: int) -> str:
    from circuitsvis.attention import attention_heads

    page = attention_heads(attention=weights(length)[0], tokens=[str(i) for i in range(length)]).local_src
    return f"<!DOCTYPE html><meta charset=utf-8><body>{page}</body>"


def browser(*words: str, patience: float) -> Any:
    """What browser.cjs says; None when it does not in time."""
    playwright = str(ROOT / "viewer" / "node_modules" / "playwright-core")
    command = ["node", str(Path(__file__).with_name("browser.cjs")), playwright, *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        print(str(error.stderr)[-400:], file=sys.stderr)
        return None
    return json.loads(done.stdout)


def first_picture(html: str, cdn: str, patience: float) -> dict[str, Any]:
    """Seconds until the page shows something; or None, and why."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(html, encoding="utf-8")
        found = browser("picture", str(page), cdn, str(patience), patience=2 * patience)
    return found or {"seconds": None, "why": f"the browser did not answer within {2 * patience:g} s"}


def long_trace(length: int) -> Trace:
    """One causal head, without running a model: its features, and the one number per row."""
    torch.manual_seed(0)
    whole = torch.arange(length, dtype=torch.int32)
    features = {name: torch.randn(1, length, DIM).half() for name in ("query", "key")}
    site = Site(
        name="decoder.0.self_attention.attention", kind="self", layer=0, heads=1, kv_heads=1, queries=length,
        keys=length, query="source", key="source", score={"kind": "product", "factor": DIM**-0.5},
        visibility={"code": "causal()", "native": {"left": None, "right": 0}}, formula="softmax(q·k / √64)",
        normaliser={"kind": "softmax", "temperature": 1.0},
        tensors={**features, "query_position": whole, "key_position": whole.clone()},
    )  # fmt: skip
    return Trace(tracks={"source": Track.numbered(length)}, sites=(site.with_statistic(statistic(site)),))


def explored(length: int) -> dict[str, Any]:
    """The server and its browser, on this machine: seconds of the clock, and of the server's processor."""
    from foveate.serve import Session, open_viewer

    facts: dict[str, Any] = {"length": length}
    folder = ROOT / "benchmarks" / "work" / f"head-{length}.trace"
    if not folder.exists():
        began = time.process_time()
        write_trace(long_trace(length), folder)
        facts["record_cpu"] = round(time.process_time() - began, 1)
    session = Session(read_trace(folder))
    at_rest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told, ready = [], threading.Event()

    def say(line: str) -> None:
        told.append(line)
        ready.set()

    marks: list[float] = []
    guess = session.main.estimate

    def noted(*place: Any) -> Any:
        found = guess(*place)
        marks.append(time.process_time())
        return found

    session.main.estimate = noted  # type: ignore[method-assign]
    threading.Thread(target=open_viewer, args=(session,), kwargs={"say": say, "browser": False}, daemon=True).start()
    ready.wait(60)
    url = next(word for word in " ".join(told).split() if word.startswith("http"))
    began = time.process_time()
    found = browser("explore", url, str(length), patience=900)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        **facts, **(found or {}), "first_tile_cpu": round(marks[0] - began, 2) if marks else None,
        "server_cpu": round(time.process_time() - began, 1), "load": os.getloadavg()[0],
        "resident_mb": round(at_rest / 1024), "grown_mb": round((peak - at_rest) / 1024),
    }  # fmt: skip


def story(visits: int) -> dict[str, Any]:
    """The size of the shipped translator's page, and the milliseconds to the first word and line of its story."""
    from foveate import Translator
    from foveate.inspect import standalone

    translator = Translator.load("en-fr")
    html = standalone(translator.trace(SENTENCE).named("en-fr"))
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        page.write_text(html, encoding="utf-8")
        times = browser("story", str(page), str(visits), patience=600)
    shares = {
        name: {"median": round(statistics.median(each)), "least": round(min(each)), "largest": round(max(each))}
        for name in ("navigation", "load")
        for each in [[visit[name] for visit in times]]
    }
    return {
        "sentence": SENTENCE,
        "bytes": len(html.encode()),
        "visits": visits,
        "milliseconds": shares,
        "load": os.getloadavg()[0],
    }


def measured(name: str, make: Callable[[int], str], wanted: argparse.Namespace) -> Iterator[dict[str, object]]:
    """Page after page, up to the first that does not open."""
    for length in (each for each in LENGTHS if wanted.shortest <= each <= wanted.longest):
        html = make(length)
        took = first_picture(html, wanted.cdn, wanted.patience)
        shown = took["why"] if took["seconds"] is None else f"{took['seconds']:6.1f} s"
        print(f"{name:12} {length:6,} tokens {len(html) / 1e6:9.2f} MB   {shown}", flush=True)
        yield {"viewer": name, "length": length, "megabytes": round(len(html) / 1e6, 2), **took}
        if took["seconds"] is None:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivals", action="store_true", help="BertViz and CircuitsVis too")
    parser.add_argument("--cdn", default="", metavar="FOLDER", help="node_modules with requirejs, d3 and jquery")
    parser.add_argument("--shortest", type=int, default=LENGTHS[0], metavar="N")
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], metavar="N")
    parser.add_argument("--patience", type=float, default=PATIENCE, metavar="SECONDS")
    parser.add_argument("--out", metavar="FILE", help="by default benchmarks/results/viewer-DATE.json")
    parser.add_argument("--scale", type=int, metavar="N", help="explore one head of N tokens instead")
    parser.add_argument("--story", type=int, metavar="N", help="visit the shipped translator's page N times instead")
    arguments = parser.parse_args()
    if arguments.story:
        facts = story(arguments.story)
        print(json.dumps(facts, indent=1))
        print(f"Wrote {write('viewer-story', facts, arguments.out)}.")
        return
    if arguments.scale:
        facts = explored(arguments.scale)
        print(json.dumps(facts, indent=1))
        print(f"Wrote {write('viewer-scale', facts, arguments.out)}.")
        return
    makers = {"ours": ours, **({"BertViz": bertviz, "CircuitsVis": circuitsvis} if arguments.rivals else {})}
    rows: list[dict[str, object]] = []
    for name, make in makers.items():
        try:
            for row in measured(name, make, arguments):
                # A run that is cut leaves what it has measured.
                rows.append({**row, "load": round(os.getloadavg()[0], 2)})
                kept = write("viewer", {"heads": HEADS, "patience": arguments.patience, "rows": rows}, arguments.out)
        except ImportError as error:
            print(f"left out: {name} ({error})", flush=True)
    print(f"Wrote {kept}.")


def write(name: str, found: dict[str, Any], out: str | None) -> Path:
    path = Path(out or ROOT / "benchmarks" / "results" / f"{name}-{NOW}.json")
    facts = {"date": NOW, "machine": platform.machine(), "cpus": os.cpu_count(), "torch": torch.__version__, "dim": DIM}
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps({**facts, **found}, indent=1) + "\n", encoding="utf-8")
    return draft.replace(path)


if __name__ == "__main__":
    main()
