/** The picture, sound or graph that positions were made from, with what one query looks at drawn over it. */

import { calledOff, Latest, shown, type App } from "../app";
import { rowShown } from "../row";
import { choice, h, refill, replace } from "../dom";
import type { Sequence, Site, Span } from "../provider";
import { frames, type FramesScene } from "../scene/frames";
import { journey, layersBefore, ways, weightsOf, type Journey } from "../scene/hop";
import { nodes } from "../scene/nodes";
import { patches } from "../scene/patches";
import type { Listener, Scene, Style } from "../scene/scene";
import { drawnBy } from "../save/recorder";
import { effect, signal, untracked } from "../signal";
import { drawable, MOST_NODES } from "../story/tellable";
import { settled } from "../story/telling";
import { percent, wordsOf } from "../story/word";
import { joined, printable } from "../label";
import { legend } from "./legend";
import { Listening } from "./listening";
import { Play } from "./play";
import { nothing, Reading } from "./reading";
import { endName } from "./transcript";

/** Query tokens that are shown as buttons, around the chosen one. */
const AROUND = 100;
const PAUSE = 700;

/** `plain`: the story, with nothing but what is seen or heard, and the words. */
export function scenes(app: App, plain = false): { element: HTMLElement; close: () => void } {
  const style = signal<Style>("light");
  const playing = signal(false);
  const hovered = signal<number | null>(null);
  /** The edges of a graph that are drawn: the query's own, all, or those of so many layers. */
  const drawing = signal<"own" | "all" | number>("own");
  const [controls, stage, facts] = [h("div", { className: "controls" }), h("div", { className: "scenes" }), h("p", { className: "note" })];
  const reading = new Reading(app, (query, key) => ({ query, key, code: undefined, level: 0 }), () => "token");
  const section = h("section", { className: "sceneview", "aria-label": app.say("view.scene") }, controls, stage, facts, legend(app, { row: true, style: () => (app.sequence("key")?.kind !== "nodes" && app.sequence("key")?.picture ? style.value : "heat") }));
  const play = plain ? new Play(app) : null;
  const element = play ? h("section", { className: "storyview", "aria-label": app.say("view.story") }, h("div", { className: "stagecard" }, stage, facts, play.element, controls)) : h("div", { className: "withreading" }, section, reading.element);
  const latest = new Latest();
  const chosen = (): { query: number; key: number } => app.cursor.peek() ?? { query: 0, key: 0 };
  const ask = (query: number): void => {
    const at = wrapped(query, app.current.queries);
    app.cursor.value = { query: at, key: (made.listening?.transcript && made.listening.peak([at, at + 1])) ?? chosen().key };
  };
  const look = (index: number, side: "query" | "key"): void => void (app.cursor.value = { ...chosen(), [side]: index });
  let made: Made = { scenes: [], tokens: null, listening: null };
  /** Told once there is another recording to listen to. */
  const rebuilt = signal(0);
  let weights: (number | null)[] | null = null;
  let trip: Partial<Journey> = {};
  let shares: readonly number[] = [];
  /** Fulfilled once the present query is drawn. */
  let painted: Promise<unknown> = Promise.resolve();
  const tell = async (words: number | null, spans: readonly Span[]): Promise<void> => {
    const span = words === null ? null : (spans[words - 1] ?? [0, 0]);
    app.written.value = span && span[1];
    if (made.listening?.transcript && words) made.listening.choose(span!);
    else if (words) ask(span![0]);
    await settled();
    await painted;
  };
  const paint = (): void => {
    const { query, key } = chosen();
    const own = app.current.query === app.current.key;
    for (const { scene, side } of made.scenes) {
      // Where a stretch is drawn, its highest frame needs no mark of its own.
      const here = made.listening?.transcript && made.listening.peak(made.listening.unit) === key ? null : key;
      const marks = { query: own ? query : null, key: app.cursor.peek() && !plain ? (hovered.peek() ?? here) : hovered.peek() };
      const row = made.listening?.heard(weights) ?? { weights };
      scene.draw(side === "query" ? { weights: null, shares, query, key: null } : { ...row, shares, ...marks, carried: trip.carried ?? null });
    }
  };
  const watch = new ResizeObserver(paint);
  watch.observe(stage);
  const timer = setInterval(() => playing.peek() && ask(chosen().query + 1), PAUSE);
  let began = false;
  /** Whether nobody chose a cell yet. */
  let fresh = false;
  const stops = [
    effect(() => {
      const site = app.current;
      void app.language.value;
      untracked(() => {
        fresh ||= !app.cursor.value;
        app.cursor.value ??= beginning(app);
        [weights, trip] = [null, {}];
        const graph = app.sequence("key")?.kind === "nodes" && site.query === site.key;
        if (!graph || (typeof drawing.value === "number" && drawing.value > layersBefore(app, app.site.value).length)) drawing.value = "own";
        made.listening?.close();
        made = build(app, site, style, (index, side) => side === "hover" ? (hovered.value = index) : index !== null && look(index, side), plain);
        for (const { scene } of made.scenes) drawnBy(scene.element.querySelector("canvas")!, () => paint());
        stage.dataset["kind"] = app.sequence("key")?.kind ?? "";
        replace(stage, ...made.scenes.map(({ scene }) => scene.element), made.tokens?.element ?? made.listening?.transcript?.element ?? null);
        rebuilt.value++;
        if (play) {
          const spans = made.tokens || made.listening?.transcript ? wordsOf(app.sequence("query"), site.queries, (at) => app.label("query", at)).map(({ span }) => span) : [];
          app.telling.value = spans.length > 1 ? { count: spans.length, show: (words) => tell(words, spans) } : null;
        }
        if (!made.scenes.length) replace(stage, h("p", {}, app.say("scene.none")));
      });
    }),
    effect(() => {
      const key = hovered.value;
      if (began) void reading.read(key === null ? null : { query: chosen().query, key, code: undefined, level: 0 });
      began = true;
      paint();
    }),
    effect(() => {
      const query = app.cursor.value?.query ?? 0;
      void [app.scale.value, app.theme.value, style.value, app.cursor.value, rebuilt.value];
      const edges = drawing.value;
      made.tokens?.draw(query);
      paint();
      made.listening?.transcript?.write(app.written.value);
      const signal = latest.next();
      painted = Promise.all([rowShown(app, plain && app.heads.value === "mean", query, signal), travelled(app, edges, query, signal), made.listening?.read(signal)]).then(([own, along]) => {
        if (signal.aborted) return;
        const row = along.reached ?? own.weights;
        [weights, trip, shares] = [row, along, own.shares];
        if (fresh && made.listening?.transcript) ask(query);
        fresh = false;
        app.unknown.value ||= row.some(Number.isNaN);
        paint();
        facts.textContent = [plain ? read(app, query, row) : told(app, row), noted(app, query), typeof edges === "number" ? app.say("scene.product", { count: edges }) : "", made.listening?.told(row)].filter(Boolean).join(" ");
      }).catch((error: unknown) => !calledOff(error) && (facts.textContent = app.failure(error)));
    }),
    effect(() => {
      void [rebuilt.value, app.printing.value];
      void made.listening?.pointed.value;
      paint();
    }),
    effect(() => {
      void rebuilt.value;
      const query = app.cursor.value?.query ?? 0;
      const plays = playing.value;
      const told = app.telling.value !== null;
      const pictured = Boolean(app.sequence("key")?.picture);
      const button = (name: "scene.before" | "scene.after", sign: string, to: () => void): HTMLElement => h("button", { onclick: to, "aria-label": app.say(name), title: app.say(name) }, sign);
      refill(controls,
        told ? null : button("scene.before", "‹", () => ask(chosen().query - 1)),
        plain ? null : h("span", { className: "which" }, `${app.say("query")} ${query}: `, h("bdi", {}, app.label("query", query))),
        told ? null : button("scene.after", "›", () => ask(chosen().query + 1)),
        ...(made.listening?.player ? made.listening.buttons() : told ? [] : [h("button", { onclick: () => (playing.value = !plays), "aria-pressed": String(plays) }, app.say(plays ? "scene.stop" : "scene.play"))]),
        plain ? null : edgesChoice(app, drawing.value, (chosen) => (drawing.value = chosen)),
        pictured && !plain ? choice(app.say("scene.style"), (["light", "heat"] as const).map((name) => [name, app.say(`scene.${name}`)] as const), style.value, (name) => (style.value = name)) : null,
        plain && !made.listening?.transcript ? null : h("span", { className: "note" }, app.say(made.listening?.transcript ? (made.listening.player ? "sound.choose" : "sound.point") : "scene.marks")));
    }),
  ];
  return {
    element,
    close: () => {
      latest.next();
      clearInterval(timer);
      play?.close();
      if (play) app.telling.value = null;
      made.listening?.close();
      watch.disconnect();
      reading.close();
      for (const stop of stops) stop();
    },
  };
}

interface Made {
  scenes: { scene: Scene; side: "query" | "key" }[];
  tokens: { element: HTMLElement; draw(query: number): void } | null;
  listening: Listening | null;
}

type Told = (index: number | null, what: "query" | "key" | "hover") => void;

/** One scene where a sequence looks at itself; otherwise one of each side that can be drawn, and tokens to choose from. */
function build(app: App, site: Site, style: { readonly value: Style }, tell: Told, plain: boolean): Made {
  const own = site.query === site.key;
  const found: Made["scenes"] = [];
  let listening: Listening | null = null;
  const make = (side: "query" | "key", sequence: Sequence | undefined, length: number): void => {
    if (!sequence || !drawable(sequence) || (sequence.kind === "nodes" && length > MOST_NODES)) return;
    const listener: Listener = {
      hover: (index) => side === "key" && tell(index, "hover"),
      pick: (index, shift) => tell(index, side === "query" || (own && !shift) ? "query" : "key"),
    };
    const scene = drawn(app, sequence, length, () => style.value, listener);
    arrows(app, scene, own ? "query" : side, tell);
    found.push({ scene, side });
    if (side === "key" && sequence.kind === "frames") listening = new Listening(app, sequence, scene as FramesScene, plain);
  };
  if (site.shows !== "projected") make("key", app.sequence("key"), site.keys);
  if (!own) make("query", app.sequence("query"), site.queries);
  const buttons = found.length > 0 && !own && !drawable(app.sequence("query")) && !(listening as Listening | null)?.transcript;
  return { scenes: found, listening, tokens: buttons ? tokens(app, site, (query) => tell(query, "query"), plain) : null };
}

function drawn(app: App, sequence: Sequence, length: number, style: () => Style, listener: Listener): Scene {
  if (sequence.kind === "patches") return patches(app, sequence, length, style, listener);
  if (sequence.kind === "frames") return frames(app, sequence, length, style, listener);
  return nodes(app, sequence, length, listener);
}

/** Arrows move the query where the scene is the query's own, otherwise the key; with Shift always the key. */
function arrows(app: App, scene: Scene, side: "query" | "key", tell: Told): void {
  const ways: Record<string, [number, number]> = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  scene.element.querySelector("canvas")!.addEventListener("keydown", (event) => {
    const way = ways[event.key];
    if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const which = event.shiftKey ? "key" : side;
    tell(scene.step(app.cursor.peek()?.[which] ?? 0, ...way), which);
  });
}

/** A token as a word of a story. */
function written(app: App, at: number): string {
  const label = app.sequence("query")?.labels?.[at] ?? app.label("query", at);
  return endName(app, label) ?? printable(joined([label]));
}

function tokens(app: App, site: Site, choose: (query: number) => void, plain: boolean): { element: HTMLElement; draw(query: number): void } {
  const element = h("p", { className: "running tokens", role: "group", "aria-label": app.say("query"), dir: "auto" });
  const draw = (query: number): void => {
    const from = Math.max(0, Math.min(query - AROUND / 2, site.queries - AROUND));
    const count = Math.min(AROUND, site.queries - from);
    refill(element, ...Array.from({ length: count }, (_, at) => h("button", { className: from + at < (app.written.peek() ?? Infinity) ? "token" : "token unwritten", dir: "auto", "aria-pressed": String(from + at === query), onclick: () => choose(from + at), ...(plain && { onpointerenter: () => choose(from + at) }) }, plain ? written(app, from + at) : app.label("query", from + at))));
  };
  return { element, draw };
}

/** Where a reader begins: at the position that a sequence was made for. */
function beginning(app: App): { query: number; key: number } {
  return { query: app.sequence("query")?.focus ?? 0, key: app.sequence("key")?.focus ?? 0 };
}

function edgesChoice(app: App, chosen: "own" | "all" | number, choose: (which: "own" | "all" | number) => void): HTMLElement | null {
  const { query, key, keys } = app.current;
  if (app.sequence("key")?.kind !== "nodes" || query !== key || keys > MOST_NODES) return null;
  const deeper = layersBefore(app, app.site.value).slice(1).map((_, at) => [String(at + 2), app.say("scene.layers", { count: at + 2 })] as const);
  const options = [["own", app.say("scene.own")] as const, ["all", app.say("scene.all")] as const, ...deeper];
  return choice(app.say("scene.edges"), options, String(chosen), (name) => choose(name === "own" || name === "all" ? name : Number(name)));
}

/** What the edges carry, where more than the query's own are drawn. */
async function travelled(app: App, edges: "own" | "all" | number, query: number, signal: AbortSignal): Promise<Partial<Journey>> {
  const { site, head } = app;
  if (edges === "own") return {};
  if (edges === "all") return { carried: ways(await weightsOf(app, site.value, head.value, signal)) };
  const layers = layersBefore(app, site.value).slice(-edges);
  return journey(await Promise.all(layers.map((layer) => weightsOf(app, layer, null, signal))), query);
}

/** What else is known of the query. */
function noted(app: App, query: number): string {
  const note = app.sequence("query")?.notes?.[query];
  return note ? `${app.label("query", query)}: ${printable(note)}.` : "";
}

/** The same in the words of a story. */
function read(app: App, query: number, row: readonly (number | null)[]): string {
  const site = app.current;
  const spoken = app.sequence("key")?.kind;
  const word = written(app, query);
  if (spoken === "frames" || drawable(app.sequence("query")) && spoken === "patches") return "";
  if (spoken === "patches") return app.say("story.lit", { word });
  const strong = row.map((share, at) => [share, at] as const).filter((each): each is readonly [number, number] => each[0] !== null && each[0] >= 0.01).sort((a, b) => b[0] - a[0]);
  const list = strong.slice(0, 3).map(([share, at]) => `\u2068${app.label("key", at, site)}\u2069 \u2066${percent(share)}\u2069`).join(app.say("story.and"));
  return list ? app.say("story.looked", { word, list }) : nothing(app, row);
}

function told(app: App, row: readonly (number | null)[]): string {
  const seen = row.filter((weight): weight is number => weight !== null && !Number.isNaN(weight));
  const top = Math.max(0, ...seen);
  if (top === 0) return nothing(app, row);
  return app.say("scene.strongest", { key: app.label("key", row.indexOf(top)), weight: shown(top) });
}

const wrapped = (at: number, length: number): number => (at + length) % length;
