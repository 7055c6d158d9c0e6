/** Two heads, or the heads of two traces: both maps and their difference, under one camera. */

import { calledOff, firstOf, Latest, shown, type App, type Cursor, type Other } from "../app";
import { Cached } from "../cached";
import { choice, h, refill, replace } from "../dom";
import { axesOf, Merged, mergedTrace } from "../merged";
import { open } from "../open";
import type { Cell, Site } from "../provider";
import { effect, signal, untracked } from "../signal";
import { differenceLayer, headLayer, type One } from "./layer";
import { legend } from "./legend";
import { MapView } from "./map";

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
  const latest = new Latest();
  /** Both weights of what is under the pointer; aloud when it was chosen. */
  const read = async ({ of, one: first, two: second }: Pair, { query, key }: Cursor, aloud: boolean): Promise<void> => {
    const signal = latest.next();
    const [one, two] = await Promise.all([first, second].map(({ provider, site, head }) => provider.value(site, head, query, key, signal))) as [Cell, Cell];
    if (signal.aborted) return;
    const names = { query: of.label("query", query), key: of.label("key", key) };
    line.textContent = app.say("read.two", { ...names, first: shown(one.weight), second: shown(two.weight), difference: shown(one.weight - two.weight) });
    if (aloud) app.said.value = line.textContent;
  };
  /** What is under the pointer of one map alone. */
  const readOne = async (of: App, { query, key }: Cursor, aloud: boolean): Promise<void> => {
    const signal = latest.next();
    const cell = await of.provider.value(of.site.peek(), of.head.peek(), query, key, signal);
    if (signal.aborted) return;
    const names = { query: of.label("query", query), key: of.label("key", key) };
    line.textContent = cell.visible ? app.say("read.cell", { ...names, weight: shown(cell.weight), rank: cell.rank, lift: shown(cell.lift, 3) }) : app.say("read.hidden", names);
    if (aloud) app.said.value = line.textContent;
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
        choice(app.say("head"), Array.from({ length: site.heads }, (_, head) => [String(head), String(head)] as const), String(against.head), (head) => (app.against.value = { ...against, head: Number(head) })),
        h("label", { className: "field" }, h("span", {}, app.say("compare.file")), file),
      );
    }),
    effect(() => {
      const against = app.against.value!;
      const [mine, theirs] = [app.current, against.trace.sites[against.site]!];
      const pair = paired(app, against);
      const size = ({ queries, keys }: typeof mine): string => `${queries} × ${keys}`;
      const alone = (): string => (pair === "answers" ? app.say("compare.answers") : app.say("compare.shape", { a: size(mine), b: size(theirs) }));
      const drawn = typeof pair === "object" ? pair : null;
      warning.textContent = !drawn ? alone() : drawn.whole === null ? "" : app.say(drawn.whole ? "compare.units" : "compare.beginning");
      warning.className = drawn ? "note" : "warning";
      for (const view of views) view.close();
      const look = () => ({ scale: app.scale.value, theme: app.theme.value, pool: app.pool.value });
      const layerOf = ({ provider, site, head }: One, of: App, id = "") => () => headLayer(provider, site, head, of.cells.value, look(), id);
      const named = (word: string, site: typeof mine, head: number, of = ""): string => `${word}: ${of}${app.siteName(site)} · ${head}`;
      const other = against.provider === app.provider ? "" : `${against.name} · `;
      const titles = [named(app.say("compare.first"), mine, app.head.value), named(app.say("compare.second"), theirs, against.head, other), app.say("compare.difference")];
      untracked(() => {
        if (drawn) {
          const { of, one, two } = drawn;
          const less = () => differenceLayer(one, two, of.cells.value, app.theme.value, app.pool.value, against.name);
          views = [layerOf(one, of), layerOf(two, of, against.name), less].map((layer, at) => listen(new MapView(of, layer, titles[at]!), drawn));
        } else {
          const sides = [app, app.beside(against)];
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
      for (const view of views) view.close();
      for (const stop of stops) stop();
    },
  };
}

/** Two heads on one map: as they are where both have the same pieces, or between the units that their texts have in common. */
interface Pair {
  /** Whose axes are drawn. */
  of: App;
  one: One;
  two: One;
  /** Whether all queries are compared; null where nothing had to be aligned. */
  whole: boolean | null;
}

/** Null where the maps have neither a size nor a text in common, "answers" where two models wrote nothing alike. */
function paired(app: App, against: Other): Pair | "answers" | null {
  const [mine, theirs] = [app.current, against.trace.sites[against.site]!];
  const one: One = { provider: app.provider, site: app.site.value, head: app.head.value };
  const direct: Pair = { of: app, one, two: against, whole: null };
  const sized = mine.queries === theirs.queries && mine.keys === theirs.keys;
  const labels = (of: App | Other, site: Site, side: "query" | "key"): string => of.trace.sequences[site[side]]?.labels?.join("\0") ?? "";
  if (sized && (["query", "key"] as const).every((side) => labels(app, mine, side) === labels(against, theirs, side))) return direct;
  const axes = axesOf(app.trace, mine, against.trace, theirs, app.cells.value === "token" ? "piece" : "word");
  // The same number of other pieces is chance: a position says nothing then.
  if (axes === null || axes === "answers") return sized && against.provider !== app.companion?.provider ? direct : axes;
  const [first, second] = ([app.provider, against.provider] as const).map((provider, side) => new Cached(new Merged(provider, axes, side as 0 | 1))) as [Cached, Cached];
  const of = app.beside({ ...one, provider: first, trace: mergedTrace(app.trace, axes), name: "" }, { cells: signal("token") });
  return { of, one: { ...one, provider: first }, two: { ...against, provider: second }, whole: axes.whole };
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
