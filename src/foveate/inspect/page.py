"""Self-contained HTML pages: one style sheet, no script, no font, no other host."""

from collections.abc import Iterable, Sequence
from html import escape

from foveate.inspect.caption import printable
from foveate.inspect.figure.paint import stylesheet

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

# The colours match those of the pictures (figure/scale.py): cards have the background of pictures.
_STYLE = """
:root{color-scheme:light dark;--page:#f4f6f9;--card:#fff;--text:#1a1d24;--quiet:#5a6270;--rule:#e2e6ec;--base:#aab2bf;
--accent:#215a97;--line-0:#2f77b8;--line-1:#d55e00;--line-2:#00806a;--line-3:#8a4fa3;--wrong:#fbe3d2;--code:#f0f3f7}
@media screen and (prefers-color-scheme:dark){:root{--page:#0d0f13;--card:#14161c;--text:#e8eaf0;--quiet:#a2a9b8;
--rule:#272c37;
--base:#596274;--accent:#8cc4f2;--line-0:#74b3e2;--line-1:#ff9d3c;--line-2:#3fc4a5;--line-3:#c99ae0;--wrong:#5a3413;--code:#1d212a}}
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--text);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
"DejaVu Sans",sans-serif}
header,main,footer{max-width:1120px;margin:0 auto;padding:0 clamp(16px,4vw,40px)}
header{padding-top:48px}
footer{padding-top:24px;padding-bottom:48px;color:var(--quiet);font-size:14px}
h1{font-size:clamp(26px,4.5vw,38px);line-height:1.15;letter-spacing:-.02em;margin:.1em 0 .6em;font-weight:700;
text-wrap:balance}
h2{font-size:21px;letter-spacing:-.01em;margin:52px 0 16px;font-weight:650}
h3{font-size:16px;margin:0 0 10px;font-weight:650}
p{margin:.4em 0 1em;max-width:72ch}
.kicker{margin:0;color:var(--accent);font-weight:600;font-size:14px}
.note{color:var(--quiet);font-size:14px}
.card{background:var(--card);border:1px solid var(--rule);border-radius:12px;padding:18px 20px;min-width:0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(158px,1fr));gap:12px;margin:0}
.tiles div{background:var(--card);border:1px solid var(--rule);border-radius:12px;padding:14px 16px;min-width:0}
.tiles dt{color:var(--quiet);font-size:13px}
.tiles dd{margin:2px 0 0;font-size:22px;font-weight:650;letter-spacing:-.01em;font-variant-numeric:tabular-nums;
overflow-wrap:anywhere}
.tiles .long dd{font-size:16px;letter-spacing:0;margin-top:6px}
.key{display:flex;flex-wrap:wrap;gap:6px 22px;list-style:none;margin:0 0 14px;padding:0;font-size:14px;
color:var(--quiet)}
.key svg{width:26px;height:10px;vertical-align:0;margin-right:8px}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,310px),1fr));gap:16px}
figure{margin:0}
figcaption{color:var(--quiet);font-size:13.5px;margin-top:10px}
.chart{width:100%;height:auto;display:block;overflow:visible}
.axis{fill:var(--quiet);font-size:12px;font-variant-numeric:tabular-nums}
.rule{stroke:var(--rule)}.base{stroke:var(--base)}
.line-0,.line-1,.line-2,.line-3{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.line-0{stroke:var(--line-0)}.line-1{stroke:var(--line-1)}.line-2{stroke:var(--line-2)}.line-3{stroke:var(--line-3)}
.dot-1{fill:var(--line-1)}
.hint{fill:transparent}.hint:hover{fill:var(--text);fill-opacity:.25}
.scroll{overflow-x:auto}
.scroll:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:start;padding:9px 20px 9px 0;border-bottom:1px solid var(--rule);vertical-align:top}
th{color:var(--quiet);font-size:13px;font-weight:600;white-space:nowrap}
tbody th{color:var(--text);font-size:inherit}
tr:last-child td,tr:last-child th{border-bottom:0}
td.number{text-align:end;white-space:nowrap}th.number{text-align:end}
code{font:14px/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
td code{font-size:12.5px;color:var(--quiet);overflow-wrap:anywhere}
.samples{display:flex;flex-wrap:wrap;gap:16px;align-items:stretch}
.sample{flex:1 1 auto;max-width:100%;width:min-content;min-width:min(100%,316px)}
.sample h3{font-size:18px;overflow-wrap:anywhere}
.sample dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:3px 14px;margin:0 0 14px}
.sample dt{color:var(--quiet);font-size:14px}
.sample dd{margin:0;overflow-wrap:anywhere}
.sample .scroll svg{display:block;margin:0 auto}
mark{background:var(--wrong);color:inherit;border-radius:4px;padding:0 4px;margin:0 -1px}
.tag{color:var(--quiet);font-size:14px}
.facts{display:grid;grid-template-columns:minmax(120px,max-content) minmax(0,72ch);gap:10px 28px;margin:0}
.facts dt{font-weight:600}
.facts dd{margin:0;overflow-wrap:anywhere}
.facts ul{margin:0;padding-inline-start:1.1em}
.commands{list-style:none;margin:0;padding:0;display:grid;gap:8px}
.commands li{background:var(--code);border-radius:8px;padding:9px 14px;overflow-x:auto;white-space:pre}
.commands li::before{content:"$ ";color:var(--quiet);
font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
user-select:none}
@media (max-width:560px){.facts{grid-template-columns:1fr;gap:2px}.facts dd{margin-bottom:12px}h2{margin-top:40px}
header{padding-top:28px}}
@media print{body{background:#fff}.card,.tiles div,.sample{break-inside:avoid}}
"""


def page(title: str, kicker: str, head: str, body: str, foot: str) -> str:
    """A complete HTML document; `head`, `body` and `foot` are HTML, the title and the line above it are text."""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{text(title)}</title>
<style>{_STYLE}{stylesheet()}</style>
</head>
<body>
<header>
<p class="kicker">{text(kicker)}</p>
<h1>{isolated(title)}</h1>
{head}
</header>
<main>
{body}
</main>
<footer>{foot}</footer>
</body>
</html>
"""


def sections(parts: Iterable[tuple[str, str, str]]) -> str:
    """The parts of a page, each with its name, its heading and its content in HTML; empty ones are left out."""
    return "\n".join(
        f'<section aria-labelledby="{name}">\n<h2 id="{name}">{heading}</h2>\n{content}\n</section>'
        for name, heading, content in parts
        if content
    )


def tiles(pairs: Iterable[tuple[str, object]]) -> str:
    """Names and values in large type; empty without any."""
    shown = "\n".join(
        f'<div class="{"long" if len(str(value)) > 14 else "short"}">'
        f"<dt>{text(name)}</dt><dd>{isolated(value)}</dd></div>"
        for name, value in pairs
    )
    return f'<dl class="tiles">\n{shown}\n</dl>' if shown else ""


def facts(pairs: Iterable[tuple[str, str | Sequence[str]]]) -> str:
    """Names with a value or a list of values each; empty without any."""
    shown = "\n".join(f"<dt>{text(name)}</dt><dd>{_fact(value)}</dd>" for name, value in pairs)
    return f'<div class="card"><dl class="facts">\n{shown}\n</dl></div>' if shown else ""


def _fact(value: str | Sequence[str]) -> str:
    if isinstance(value, str):
        return isolated(value)
    return f"<ul>{''.join(f'<li>{isolated(item)}</li>' for item in value)}</ul>"


def text(value: object) -> str:
    """Any value as text of a page, without markup and without reordering the text around it."""
    words = str(value)
    return escape("\n".join(printable(line) if line else "" for line in words.split("\n"))) if words else ""


def isolated(value: object) -> str:
    """Text in its own direction, isolated from the text around it."""
    return f'<bdi dir="auto">{text(value)}</bdi>'
