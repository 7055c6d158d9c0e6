/** How far the heads of two traces are apart, as one map: each head and its counterpart, or all heads with all. */

import { calledOff, Latest, PAIRS, shown, type App, type Other } from "../app";
import { basisOf, sizesOf, unitBasisOf, type Basis, type Refusal } from "../basis";
import { css, cssAt, INK } from "../colour";
import { distance } from "../distance";
import { choice, h, refill, replace } from "../dom";
import type { Site, Trace } from "../provider";
import { contextOf, drawnBy } from "../save/recorder";
import { effect, signal, untracked } from "../signal";
import { scaleOf } from "./legend";

/** Pixels of a cell: at least, at most, and at most where fingers press. */
const [LEAST, MOST, TOUCH] = [8, 24, 40] as const;
const [PHONE, TALLEST] = [600, 320] as const;
/** Pixels beside and above the cells, for the names of layers and heads. */
const [LEFT, TOP] = [28, 18] as const;
/** Milliseconds after which the page may do something else. */
const TURN = 25;

type Head = readonly [site: number, head: number];
type Mode = (typeof PAIRS)[number];
interface Plan {
  against: Other;
  basis: Basis;
  mode: Mode;
  rows: number;
  columns: number;
  pair: (row: number, column: number) => readonly [Head, Head] | null;
  /** Where names stand: the first row or column, how many have it, and the name. */
  left: readonly (readonly [at: number, count: number, name: string])[];
  above: readonly (readonly [at: number, count: number, name: string])[];
}

/** The sites whose maps have the same axes. */
const alike = ({ sites }: Trace, like: Site): number[] => [...sites.keys()].filter((at) => (["kind", "query", "key", "queries", "keys"] as const).every((name) => sites[at]![name] === like[name]) && (sites[at]!.shows === "projected") === (like.shows === "projected"));

/** The sites whose heads are compared, and which maps of them there are, the one that says most first. */
function offered(app: App, against: Other): { mine: number[]; theirs: number[]; modes: Mode[]; mode: Mode } {
  const here = app.current;
  const [site, others] = [against.trace.sites[against.site]!, against.trace.sites];
  const counterpart = [site, ...others].find(({ kind, query, key }) => kind === here.kind && query === here.query && key === here.key);
  if (!counterpart) return { mine: [], theirs: [], modes: [], mode: "none" };
  const [mine, theirs] = [alike(app.trace, here), alike(against.trace, counterpart)];
  const built = (sites: number[], { sites: all }: Trace): string => sites.map((at) => `${all[at]!.name} ${all[at]!.heads}`).join("\n");
  const same = against.provider === app.provider;
  const own = !same && built(mine, app.trace) === built(theirs, against.trace);
  const modes: Mode[] = same ? ["none", "all"] : own ? ["own", "all", "none"] : ["all", "none"];
  const chosen = app.pairs.value;
  return { mine, theirs, modes, mode: chosen && modes.includes(chosen) ? chosen : modes[0]! };
}

function planOf(app: App, against: Other): Plan | Refusal | null {
  const { mine, theirs, mode } = offered(app, against);
  if (mode === "none" || !mine.length) return null;
  const basis = unitBasisOf(app, against, app.current, against.trace.sites[theirs[0]!]!);
  if (typeof basis === "string") return basis;
  const all = (sites: number[], trace: Trace): Head[] => sites.flatMap((site) => Array.from({ length: trace.sites[site]!.heads }, (_, head) => [site, head] as const));
  const bands = (heads: Head[], { sites }: Trace): (readonly [number, number, string])[] => {
    const firsts = heads.flatMap(([, head], at) => (head === 0 ? [at] : []));
    return firsts.map((at, n) => [at, (firsts[n + 1] ?? heads.length) - at, String(sites[heads[at]![0]]!.layer)]);
  };
  if (mode === "all") {
    const [first, second] = [all(mine, app.trace), all(theirs, against.trace)];
    return { against, basis, mode, rows: first.length, columns: second.length, pair: (row, column) => [first[row]!, second[column]!], left: bands(first, app.trace), above: bands(second, against.trace) };
  }
  const most = Math.max(...mine.map((site) => app.trace.sites[site]!.heads));
  const pair = (row: number, head: number): readonly [Head, Head] | null => (head < app.trace.sites[mine[row]!]!.heads ? [[mine[row]!, head], [theirs[row]!, head]] : null);
  return { against, basis, mode, rows: mine.length, columns: most, pair, left: mine.map((site, row) => [row, 1, String(app.trace.sites[site]!.layer)]), above: Array.from({ length: most }, (_, head) => [head, 1, String(head)]) };
}

export function headPairs(app: App): { element: HTMLElement; close: () => void } {
  const modes = h("div");
  const progress = h("span", { className: "note" });
  // It stays while the numbers before it change: a press takes its time.
  const halt = h("button", { onclick: () => (running.peek() ? latest.next() : void run()) });
  const controls = h("div", { className: "controls" }, modes, progress, halt);
  const caption = h("p", { className: "note" });
  const canvas = h("canvas", { className: "pairs", tabIndex: 0, role: "application" });
  const box = h("div", { className: "pairsbox" }, canvas);
  const line = h("p", { className: "pairsline" });
  const scale = h("div", { className: "legend" });
  const element = h("div", { className: "headpairs" }, controls, h("div", { className: "pairsrow" }, box, h("div", {}, caption, line, scale)));
  const plan = signal<Plan | null>(null);
  /** Why there is no map although the two heads are drawn. */
  const refusal = signal("");
  const done = signal(0);
  const running = signal(false);
  const pointed = signal<readonly [number, number] | null>(null);
  let distances: number[] = [];
  let last = "";
  let side: number = LEAST;
  const latest = new Latest();

  const run = async (): Promise<void> => {
    const [here, stop] = [plan.peek(), latest.next()];
    if (!here) return;
    running.value = true;
    try {
      const [first, second] = here.basis.providers;
      for (let turn = performance.now(); distances.length < here.rows * here.columns; ) {
        const at = distances.length;
        const pair = here.pair(Math.floor(at / here.columns), at % here.columns);
        const [one, two] = pair ?? [];
        const apart = one && two ? await distance({ provider: first, site: one[0], head: one[1] }, { provider: second, site: two[0], head: two[1] }, here.basis.rows, here.basis.columns, stop) : NaN;
        stop.throwIfAborted();
        distances.push(apart);
        if (performance.now() - turn < TURN) continue;
        done.value = distances.length;
        await new Promise((resolve) => setTimeout(resolve));
        stop.throwIfAborted();
        turn = performance.now();
      }
    } catch (error) {
      if (!calledOff(error)) app.said.value = line.textContent = app.failure(error);
      if (plan.peek() !== here) return;
    }
    done.value = distances.length;
    running.value = false;
  };
  const present = (): readonly [number, number] | null => {
    const here = plan.value;
    const against = app.against.value;
    if (!here || !against || against.mean) return null;
    for (let at = 0; at < here.rows * here.columns; at++) {
      const place = [Math.floor(at / here.columns), at % here.columns] as const;
      const [one, two] = here.pair(...place) ?? [];
      if (one && two && one[0] === app.site.value && one[1] === app.head.value && two[0] === against.site && two[1] === against.head) return place;
    }
    return null;
  };
  const draw = (): void => {
    const here = plan.peek();
    if (!here) return;
    const width = (element.clientWidth || 320) - LEFT;
    const most = width < PHONE ? TOUCH : MOST;
    side = Math.max(LEAST, Math.floor(Math.min(most, width / here.columns, Math.max(TALLEST / here.rows, width < PHONE ? TOUCH : 0))));
    const [ratio, theme] = [devicePixelRatio || 1, app.theme.peek()];
    const [wide, high] = [LEFT + here.columns * side + 2, TOP + here.rows * side + 2];
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(high * ratio);
    canvas.style.cssText = `width:${wide}px;height:${high}px`;
    const context = contextOf(canvas);
    const ink = INK[theme];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = css(ink.paper);
    context.fillRect(0, 0, wide, high);
    const inset = side > 12 ? 1 : 0;
    for (let at = 0; at < here.rows * here.columns; at++) {
      const [row, column] = [Math.floor(at / here.columns), at % here.columns];
      if (!here.pair(row, column)) continue;
      const apart = distances[at];
      context.fillStyle = apart === undefined ? css(ink.waiting) : Number.isNaN(apart) ? css(ink.unknown) : cssAt("linear", theme, apart);
      context.fillRect(LEFT + column * side, TOP + row * side, side - inset, side - inset);
    }
    context.fillStyle = css(ink.quiet);
    context.font = "11px system-ui,sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const [at, count, name] of here.left) if (count * side >= 12) context.fillText(name, LEFT - 5, TOP + (at + count / 2) * side);
    context.textAlign = "center";
    for (const [at, count, name] of here.above) if (count * side >= 14) context.fillText(name, LEFT + (at + count / 2) * side, TOP / 2);
    context.fillStyle = css(ink.grid);
    if (here.mode === "all") {
      for (const [at] of here.left) context.fillRect(LEFT, TOP + at * side - 1, here.columns * side, 1);
      for (const [at] of here.above) context.fillRect(LEFT + at * side - 1, TOP, 1, here.rows * side);
    }
    const frame = (place: readonly [number, number] | null, colour: string): void => {
      if (!place) return;
      context.strokeStyle = css(colour);
      context.lineWidth = 2;
      context.strokeRect(LEFT + place[1] * side, TOP + place[0] * side, side - inset, side - inset);
    };
    frame(untracked(present), ink.text);
    frame(pointed.peek(), ink.cursor);
  };
  const nameOf = ({ sites }: Trace, [site, head]: Head): string => `${app.siteName(sites[site]!)} · ${head}`;
  const told = (here: Plan, [row, column]: readonly [number, number]): string => {
    const pair = here.pair(row, column);
    const apart = distances[row * here.columns + column];
    return pair ? app.say("pairs.read", { first: nameOf(app.trace, pair[0]), second: nameOf(here.against.trace, pair[1]), distance: apart === undefined ? "…" : shown(apart, 3) }) : "";
  };
  const open = (place: readonly [number, number]): void => {
    const here = plan.peek();
    const [one, two] = here?.pair(...place) ?? [];
    if (!here || !one || !two) return;
    app.choose(...one);
    app.against.value = { ...here.against, site: two[0], head: two[1], mean: false };
  };
  const placeAt = ({ offsetX, offsetY }: MouseEvent): readonly [number, number] | null => {
    const here = plan.peek();
    const [row, column] = [Math.floor((offsetY - TOP) / side), Math.floor((offsetX - LEFT) / side)];
    return here && row >= 0 && column >= 0 && row < here.rows && column < here.columns && here.pair(row, column) ? [row, column] : null;
  };
  canvas.addEventListener("pointermove", (event) => (pointed.value = placeAt(event)));
  canvas.addEventListener("pointerleave", () => (pointed.value = null));
  canvas.addEventListener("click", (event) => {
    const place = placeAt(event);
    if (place) open(pointed.value = place);
  });
  canvas.addEventListener("blur", () => (pointed.value = null));
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && (pointed.value ??= untracked(present) ?? [0, 0]));
  canvas.addEventListener("keydown", (event) => {
    const here = plan.peek();
    const [down, right] = { ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key] ?? [];
    const enters = event.key === "Enter" || event.key === " ";
    if (!here || event.ctrlKey || event.metaKey || event.altKey || (down === undefined && !enters)) return;
    event.preventDefault();
    event.stopPropagation();
    const at = pointed.peek() ?? untracked(present) ?? [0, 0];
    if (enters) return open(at);
    const next = [Math.min(Math.max(at[0] + down!, 0), here.rows - 1), Math.min(Math.max(at[1] + right!, 0), here.columns - 1)] as const;
    if (!here.pair(...next)) return;
    pointed.value = next;
    app.said.value = told(here, next);
    box.scrollTo({ left: LEFT + next[1] * side - box.clientWidth / 2, top: TOP + next[0] * side - box.clientHeight / 2 });
  });
  drawnBy(canvas, draw);
  const watch = new ResizeObserver(draw);
  watch.observe(element);

  const stops = [
    effect(() => {
      const against = app.against.value;
      if (!against) return;
      const { modes: some, mode } = offered(app, against);
      element.hidden = !some.length;
      const theirs = against.trace.sites[against.site]!;
      const { kind, query, key, queries, keys } = app.current;
      const name = JSON.stringify([mode, app.cells.value, kind, query, key, queries, keys, theirs.kind, theirs.query, theirs.key, theirs.queries, theirs.keys]);
      if (name === last && plan.peek()?.against.provider === against.provider) return;
      last = name;
      untracked(() => {
        latest.next();
        distances = [];
        const made = planOf(app, against);
        const drawn = typeof made === "string" && typeof basisOf(app, against, app.current, theirs, false) === "object";
        refusal.value = drawn ? app.say(made, sizesOf(app, app.current, theirs)) : "";
        plan.value = typeof made === "string" ? null : made;
        [done.value, running.value, pointed.value] = [0, false, null];
        if (plan.value) void run();
      });
    }),
    effect(() => {
      if (!app.against.value) return;
      const { modes: some, mode } = offered(app, app.against.value);
      refill(modes, choice(app.say("pairs.label"), some.map((each) => [each, app.say(`pairs.${each}`)] as const), mode, (each) => (app.pairs.value = each)));
    }),
    effect(() => {
      const here = plan.value;
      const all = here ? here.rows * here.columns : 0;
      progress.textContent = app.say("pairs.progress", { done: done.value, all });
      halt.textContent = app.say(running.value ? "pairs.stop" : "pairs.on");
      progress.hidden = halt.hidden = done.value >= all;
    }),
    effect(() => {
      const here = plan.value;
      canvas.setAttribute("aria-label", app.say("pairs.label"));
      caption.textContent = here ? app.say(here.mode === "own" ? "pairs.rows" : "pairs.both") : refusal.value;
      for (const each of [box, line, scale]) each.hidden = !here;
      replace(scale, scaleOf((t) => cssAt("linear", app.theme.value, t), [["0", 0], ["½", 0.5], ["1", 1]]), h("span", { className: "said" }, app.say("pairs.scale")));
    }),
    effect(() => {
      const [here, place] = [plan.value, pointed.value ?? present()];
      void done.value;
      line.textContent = here && place ? told(here, place) : "";
    }),
    effect(() => {
      void [plan.value, done.value, pointed.value, present(), app.theme.value, app.printing.value];
      draw();
    }),
  ];
  return {
    element,
    close: () => {
      latest.next();
      watch.disconnect();
      for (const stop of stops) stop();
    },
  };
}
