"""How long an input a viewer opens: size of the page, time to its first picture. One layer, twelve heads, side by side.

cd viewer && npm ci && npm run build && cd ..
python benchmarks/viewer.py                                              # ours alone

The rivals are installed apart, because they bring much; BertViz loads scripts from a CDN, which are served from disk:

pip install --target rivals --no-deps bertviz circuitsvis ipython traitlets importlib-metadata zipp decorator pygments
npm install --prefix cdn requirejs@2.3 d3@5 jquery@2
PYTHONPATH=rivals python benchmarks/viewer.py --rivals --cdn cdn/node_modules
"""

import argparse
import json
import platform
import subprocess
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import torch

from foveate.attention import Attention, causal, record
from foveate.inspect import Trace, standalone

ROOT = Path(__file__).parents[1]
HEADS, DIM = 12, 64
LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096, 8192)
PATIENCE = 60
"""Seconds after which a page counts as one that does not open."""

# A page has its first picture when a canvas holds more than one colour, or an SVG as many lines as there are tokens.
BROWSER = """
const { chromium } = require(process.argv[2]);
const [page_, cdn, patience] = process.argv.slice(3);
const local = [
  [/require/, "/requirejs/require.js"], [/d3/, "/d3/dist/d3.min.js"], [/jquery/, "/jquery/dist/jquery.min.js"],
];
const drawn = () => {
  for (const canvas of document.querySelectorAll("canvas")) {
    const { width, height } = canvas;
    const pixels = width && height ? canvas.getContext("2d")?.getImageData(0, 0, width, height).data : null;
    if (!pixels) continue;
    const inked = new Uint32Array(pixels.buffer).filter((pixel) => pixel >>> 24);
    if (inked.length > (width * height) / 20 && new Set(inked).size > 8) return true;
  }
  return document.querySelectorAll("svg line").length >= 64;
};
(async () => {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
  await page.route(/^https?:/, (route) => {
    const found = local.find(([name]) => name.test(new URL(route.request().url()).pathname));
    return found && cdn ? route.fulfill({ path: cdn + found[1] }) : route.abort();
  });
  const begin = Date.now();
  page.goto("file://" + page_).catch(() => {});
  let took = null;
  while (Date.now() - begin < patience * 1000) {
    if (await page.evaluate(drawn).catch(() => false)) { took = (Date.now() - begin) / 1000; break; }
    await new Promise((done) => setTimeout(done, 50));
  }
  console.log(JSON.stringify(took));
  process.exit(0);
})();
"""


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


def first_picture(html: str, cdn: str) -> float | None:
    with tempfile.TemporaryDirectory() as folder:
        page, script = Path(folder) / "page.html", Path(folder) / "browser.cjs"
        page.write_text(html, encoding="utf-8")
        script.write_text(BROWSER, encoding="utf-8")
        browser = str(ROOT / "viewer" / "node_modules" / "playwright-core")
        words = ["node", str(script), browser, str(page), cdn, str(PATIENCE)]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=2 * PATIENCE, check=True)
        except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
            return None
        return json.loads(done.stdout)


def measured(name: str, make: Callable[[int], str], longest: int, cdn: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for length in (each for each in LENGTHS if each <= longest):
        html = make(length)
        took = first_picture(html, cdn)
        rows.append({"viewer": name, "length": length, "megabytes": round(len(html) / 1e6, 2), "seconds": took})
        shown = f"not within {PATIENCE} s" if took is None else f"{took:6.1f} s"
        print(f"{name:12} {length:6,} tokens {len(html) / 1e6:9.2f} MB   {shown}", flush=True)
        if took is None:
            break
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rivals", action="store_true", help="BertViz and CircuitsVis too")
    parser.add_argument("--cdn", default="", metavar="FOLDER", help="node_modules with requirejs, d3 and jquery")
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], metavar="N")
    parser.add_argument("--out", metavar="FILE", help="by default benchmarks/results/viewer-DATE.json")
    arguments = parser.parse_args()
    rows = measured("ours", ours, arguments.longest, arguments.cdn)
    if arguments.rivals:
        rows += measured("BertViz", bertviz, arguments.longest, arguments.cdn)
        rows += measured("CircuitsVis", circuitsvis, arguments.longest, arguments.cdn)
    now = datetime.now().strftime("%Y-%m-%d-%H%M")
    path = Path(arguments.out or ROOT / "benchmarks" / "results" / f"viewer-{now}.json")
    facts = {"date": now, "machine": platform.machine(), "torch": torch.__version__, "heads": HEADS, "dim": DIM}
    path.write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    print(f"Wrote {path}.")


if __name__ == "__main__":
    main()
