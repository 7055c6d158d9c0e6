/** Standalone pages of the example traces, put together as the exporter does it. */

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { deflateRawSync } from "node:zlib";
import { assemble } from "../src/engine/payload";
import { golden } from "../test/stored";
import { compute, SENTENCE } from "./answer";
import { foveate } from "./command";
import { captioned, causal, chinese, club, emoji, empty, gap, labelled, large, layers, lecture, many, needle, odd, persian, pieces, speech, type Example } from "./trace";

const STATIC = fileURLToPath(new URL("../../src/foveate/serve/static/", import.meta.url));
const PAGES = fileURLToPath(new URL("./pages/", import.meta.url));
export const POLICY = "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:; worker-src blob:";

export function page({ trace, tensors }: Example): string {
  const read = (name: string): string => readFileSync(STATIC + name, "utf8");
  const payload = deflateRawSync(assemble(trace, tensors)).toString("base64");
  return read("index.html")
    .replace("<meta charset", () => `<meta http-equiv="Content-Security-Policy" content="${POLICY}">\n<meta charset`)
    .replace('<link rel="stylesheet" href="viewer.css">', () => `<style>${read("viewer.css")}</style>`)
    .replace('<script defer src="viewer.js"></script>', () => `<script type="application/octet-stream" id="trace">${payload}</script><script type="text/plain" id="worker">${read("worker.js")}</script><script>${read("viewer.js")}</script>`);
}

/** The page that a notebook frames: without numbers, which come through a port. */
export function framed(): string {
  const read = (name: string): string => readFileSync(STATIC + name, "utf8");
  return read("index.html")
    .replace("<meta charset", () => `<meta http-equiv="Content-Security-Policy" content="${POLICY}">\n<meta charset`)
    .replace('data-api="api/"', 'data-port=""')
    .replace('<link rel="stylesheet" href="viewer.css">', () => `<style>${read("viewer.css")}</style>`)
    .replace('<script defer src="viewer.js"></script>', () => `<script>${read("viewer.js")}</script>`);
}
export const widgetModule = (): string => readFileSync(`${STATIC}widget.js`, "utf8");

/** The page of the translator that comes with the package, and those of the lectures' examples, as Python writes them. */
function written(name: string, ...what: string[]): void {
  foveate("look", ...what, "--html", `${PAGES}${name}.html`);
}

export const address = (name: string): string => `file://${PAGES}${name}.html`;

export default function setup(): void {
  mkdirSync(PAGES, { recursive: true });
  const examples = { captioned, emoji, large, lecture, needle, persian, chinese, club, pieces, causal, odd, layers, empty, gap, labelled, speech, silent: () => speech(false), patches: () => golden("patches"), frames: () => golden("frames"), nodes: () => golden("nodes"), heads: () => golden("heads"), many, molecule: () => golden("molecule") };
  for (const [name, example] of Object.entries(examples)) writeFileSync(`${PAGES}${name}.html`, page(example()));
  compute();
  written("translation", "en-fr", "--text", SENTENCE);
  written("ablations", "en-fr", "--text", "The black cat sleeps .", "--ablations");
  for (const example of ["self-attention", "one-hot", "action-gets-results"]) written(example, "--example", example);
}
