/** Two heads, or the heads of two traces: both maps and their difference, under one camera. */

import { calledOff, coded, firstOf, Latest, shown, type App, type Cursor, type Other } from "../app";
import { basisOf, sizesOf, type Refusal } from "../basis";
import { block } from "../block";
import { Cached } from "../cached";
import { choice, h, refill, replace } from "../dom";
import { MEAN, Merged, mergedTrace, ownAxes } from "../merged";
import { open } from "../open";
import { effect, signal, untracked } from "../signal";
import type { Word } from "../strings/strings";
import { headPairs } from "./head-pairs";
import { differenceLayer, headLayer, type One } from "./layer";
import { legend } from "./legend";
import { MapView } from "./map";
import { unitOf } from "./units";

export function compare(app: App): { element: HTMLElement; close: () => void } {
  const controls = h("div", { className: "controls" });
  const warning = h("p", { className: "warning" });
  const maps = h("div", { className: "triple" });
  const element = h("section", { className: "compareview", "aria-label": app.say("view.compare") }, controls, warning, maps, legend(app, { difference: true }));
  const file = h("input", { type: "file", accept: ".html,text/html" });
  file.addEventListener("change", () => {
    const chosen = file.files?.[0];
    if (chosen) load(app, chosen).catch((error: unknown) => (warning.textContent = app.failure(error)));
  });
  app.against.value ??= { provider: app.provider, trace: app.trace, name: app.say("compare.this"), ...beside(app) };
  const line = h("p", { className: "pairline" });
  element.insertBefore(line, element.lastChild);
  const distances = headPairs(app);
  element.insertBefore(distances.element, warning);
  const latest = new Latest();
  /** Both weights of what is under the pointer; aloud when it was chosen. */
  const read = async ({ of, one: first, two: second }: Pair, at: Cursor, aloud: boolean): Promise<void> => {
    const signal = latest.next();
    const [one, two] = await Promise.all([first, second].map(async (each) => (await weightAt(of, each, at, signal)) ?? 0)) as [number, number];
    if (signal.aborted) return;
    line.textContent = app.say("read.two", { ...namesAt(of, at), first: shown(one), second: shown(two), difference: shown(one - two) });
    if (aloud) app.said.value = line.textContent;
  };
  /** What is under the pointer of one map alone. */
  const readOne = async (of: App, at: Cursor, aloud: boolean): Promise<void> => {
    const signal = latest.next();
    const [names, one] = [namesAt(of, at), { provider: of.provider, site: of.site.peek(), head: of.head.peek() }];
    const cell = async (): Promise<string> => {
      const { visible, weight, rank, lift } = await one.provider.value(one.site, one.head, at.query, at.key, signal);
      return visible ? app.say("read.cell", { ...names, weight: shown(weight), rank, lift: shown(lift, 3) }) : app.say("read.hidden", names);
    };
    const words = async (): Promise<string> => {
      const weight = await weightAt(of, one, at, signal);
      return weight === null ? app.say("read.hidden", names) : app.say("read.pool", { rows: names.query, columns: names.key, pool: app.say("pool.mass").split(/[:：]/)[0]!, weight: coded(weight) });
    };
    const text = await (of.cells.peek() === "token" ? cell() : words());
    if (signal.aborted) return;
    line.textContent = text;
    if (aloud) app.said.value = text;
  };
  const listenAlone = (view: MapView, of: App): void => {
    const failed = (error: unknown): void => void (calledOff(error) || (line.textContent = app.failure(error)));
    view.onhover = (hover) => hover && readOne(of, hover, false).catch(failed);
    view.onchosen = () => of.cursor.peek() && readOne(of, of.cursor.peek()!, true).catch(failed);
  };
  const listen = (view: MapView, pair: Pair): MapView => {
    const failed = (error: unknown): void => void (calledOff(error) || (line.textContent = app.failure(error)));
    view.onhover = (hover) => hover && read(pair, hover, false).catch(failed);
    view.onchosen = () => pair.of.cursor.peek() && read(pair, pair.of.cursor.peek()!, true).catch(failed);
    return view;
  };
  let views: MapView[] = [];
  const stops = [
    effect(() => {
      const against = app.against.value!;
      const all = untracked(() => traces(app));
      void app.others.value;
      const at = all.findIndex(({ provider }) => provider === against.provider);
      const site = against.trace.sites[against.site]!;
      refill(controls,
        choice(app.say("compare.with"), all.map(({ name }, index) => [String(index), name] as const), String(at), (index) => (app.against.value = begun(all[Number(index)]!))),
        choice(app.say("site"), against.trace.sites.map((each, index) => [String(index), app.siteName(each)] as const), String(against.site), (index) => (app.against.value = { ...against, site: Number(index), head: 0 })),
        choice(app.say("head"), [...(site.heads > 1 ? [["mean", app.say("alignment.mean")] as const] : []), ...Array.from({ length: site.heads }, (_, head) => [String(head), String(head)] as const)], against.mean && site.heads > 1 ? "mean" : String(against.head), (head) => (app.against.value = { ...against, mean: head === "mean", head: Number(head) || 0 })),
        h("label", { className: "field" }, h("span", {}, app.say("compare.file")), file),
      );
    }),
    effect(() => {
      const against = app.against.value!;
      const [mine, theirs] = [app.current, against.trace.sites[against.site]!];
      const pair = paired(app, against);
      const drawn = typeof pair === "object" ? pair : null;
      const word = typeof pair === "object" ? pair.note : pair;
      warning.textContent = word ? app.say(word, sizesOf(app, mine, theirs)) : "";
      warning.className = drawn ? "note" : "warning";
      for (const view of views) view.close();
      const look = () => ({ scale: app.scale.value, theme: app.theme.value, pool: app.pool.value });
      const layerOf = ({ provider, site, head }: One, of: App, id = "") => () => headLayer(provider, site, head, of.cells.value, look(), id);
      const sides = drawn ? [] : [alone(app, against.mean === true), alone(app.beside(against), against.mean === true)];
      const heads = drawn ? [drawn.one.head, drawn.two.head] : sides.map(({ head }) => head.value);
      const named = (word: string, site: typeof mine, head: number, of = ""): string => `${word}: ${of}${app.siteName(site)} · ${head === MEAN ? app.say("alignment.mean") : head}`;
      const other = against.provider === app.provider ? "" : `${against.name} · `;
      const titles = [named(app.say("compare.first"), mine, heads[0]!), named(app.say("compare.second"), theirs, heads[1]!, other), app.say("compare.difference")];
      untracked(() => {
        if (drawn) {
          const { of, one, two } = drawn;
          const less = () => differenceLayer(one, two, of.cells.value, app.theme.value, app.pool.value, against.name);
          views = [layerOf(one, of), layerOf(two, of, against.name), less].map((layer, at) => listen(new MapView(of, layer, titles[at]!), drawn));
        } else {
          views = sides.map((of, at) => new MapView(of, layerOf({ provider: of.provider, site: of.site.peek(), head: of.head.peek() }, of, String(at)), titles[at]!));
          views.forEach((view, at) => listenAlone(view, sides[at]!));
        }
        replace(maps, ...views.map((view, at) => h("figure", {}, h("figcaption", {}, titles[at]!), view.element)));
      });
    }),
  ];
  return {
    element,
    close: () => {
      latest.next();
      distances.close();
      for (const view of views) view.close();
      for (const stop of stops) stop();
    },
  };
}

/** Two heads, or the means of all, on one map. */
interface Pair {
  /** Whose axes are drawn. */
  of: App;
  one: One;
  two: One;
  note: Word | null;
}

function paired(app: App, against: Other): Pair | Refusal {
  const mean = against.mean === true;
  const basis = basisOf(app, against, app.current, against.trace.sites[against.site]!, mean);
  if (typeof basis === "string") return basis;
  const [first, second] = basis.providers;
  const one: One = { provider: first, site: app.site.value, head: mean ? MEAN : app.head.value };
  const of = basis.trace ? app.beside({ ...one, trace: basis.trace, name: "" }, { cells: signal("token") }) : app;
  return { of, one, two: { ...against, provider: second, head: mean ? MEAN : against.head }, note: basis.note };
}

/** The names of a cell: of tokens, words or sentences. */
const namesAt = (of: App, { query, key }: Cursor): Record<"query" | "key", string> => ({ query: of.unitLabel("query", unitOf(of, "query", query)), key: of.unitLabel("key", unitOf(of, "key", key)) });

/** The weight of a cell: of a word or a sentence its share; null where it is hidden. */
async function weightAt(of: App, { provider, site, head }: One, { query, key }: Cursor, signal: AbortSignal): Promise<number | null> {
  const cells = of.cells.peek();
  if (cells === "token") return (await provider.value(site, head, query, key, signal)).weight;
  const [row, column] = [unitOf(of, "query", query), unitOf(of, "key", key)];
  return (await block(provider, site, head, [row, row + 1], [column, column + 1], cells, signal))[0]![0]!;
}

/** A map by itself. */
function alone(of: App, mean: boolean): App {
  const axes = mean ? ownAxes(of, of.current, of.cells.value === "token" ? null : of.cells.value) : null;
  return axes ? of.beside({ provider: new Cached(new Merged(of.provider, axes, 0)), trace: mergedTrace(of.trace, axes), site: of.site.value, head: MEAN, name: "" }, { cells: signal("token") }) : of;
}

/** The next head; where there is but one, the next site. */
function beside(app: App): { site: number; head: number } {
  const [site, head, { heads }] = [app.site.value, app.head.value, app.current];
  return heads > 1 ? { site, head: (head + 1) % heads } : { site: (site + 1) % app.trace.sites.length, head: 0 };
}

const traces = (app: App): Other[] => [{ provider: app.provider, trace: app.trace, name: app.say("compare.this"), site: 0, head: 0 }, ...app.others.value];

/** Another trace where its own door opens. */
const begun = (other: Other): Other => ({ ...other, ...firstOf(other.trace) });

async function load(app: App, file: File): Promise<void> {
  const page = new DOMParser().parseFromString(await file.text(), "text/html");
  const payload = page.getElementById("trace")?.textContent;
  if (!payload) throw new Error(`${file.name}: no trace inside`);
  const provider = new Cached(open(payload));
  const other = begun({ provider, trace: await provider.meta(), name: file.name, site: 0, head: 0 });
  app.others.value = [...app.others.value, other];
  app.against.value = other;
}
