/** What the reader looks at: one value for each choice, told to all panels, and kept in the address. */

import { Cached } from "./cached";
import { FAINTEST, numberOf } from "./codec";
import type { Theme, Tint, Scale } from "./colour";
import { HEADS as COLOURS, SCALES } from "./colour";
import type { Camera } from "./camera";
import { brief, joined, printable } from "./label";
import { GoneError } from "./http";
import { modelOf } from "./name";
import type { Place } from "./protocol";
import { MEASURES, type Level, type Pool, type Semantic, type Sequence, type Site, type Span, type TileProvider, type Trace } from "./provider";
import { spansOf } from "./span";
import { addressOf, isEmpty, NOTHING, offOf, type Off } from "./story/switching";
import { tellable } from "./story/tellable";
import type { Telling } from "./story/telling";
import { effect, signal, type Signal } from "./signal";
import { LANGUAGES, preferred, spoken, type Language, type Word } from "./strings/strings";

export const VIEWS = ["story", "overview", "map", "text", "alignment", "scene", "steps", "compare", "run"] as const;
const SHORT = 64;
/** One head, or the mean of all: what an alignment shows. */
export const HEADS = ["one", "mean"] as const;
/** What the overview is ordered or grouped by. */
export const ORDERS = ["place", "behaviour", ...MEASURES] as const;
export type Order = (typeof ORDERS)[number];
export type View = (typeof VIEWS)[number];
export type Cells = "token" | Semantic;
export interface Brush {
  rows: Span;
  columns: Span;
}
export interface Cursor {
  query: number;
  key: number;
}
/** The second map of a comparison. */
export interface Other {
  site: number;
  head: number;
  provider: Cached;
  trace: Trace;
  name: string;
  /** Whether the mean of all heads is compared with the mean of all heads. */
  mean?: boolean;
}
/** Heads that are compared all at once: each with its counterpart, all with all, or none. */
export const PAIRS = ["own", "all", "none"] as const;

export class App {
  readonly provider: Cached;
  readonly view = signal<View>("map");
  readonly site = signal(0);
  readonly head = signal(0);
  readonly heads = signal<(typeof HEADS)[number]>("one");
  /** The heads that the text view draws together; none of them means the one head alone. */
  readonly together = signal<readonly number[]>([]);
  /** Whether the address names more heads than there are colours. */
  readonly crowded = signal(false);
  readonly pool = signal<Pool>("peak");
  readonly scale = signal<Scale>("log");
  /** Whether the overview draws each head in colours of its own, whatever the scale elsewhere. */
  readonly contrast = signal(false);
  readonly order = signal<Order>("place");
  readonly cells = signal<Cells>("token");
  readonly camera = signal<Camera | null>(null);
  readonly cursor = signal<Cursor | null>(null);
  readonly brush = signal<Brush | null>(null);
  /** The word of the story whose lines are drawn alone. */
  readonly word = signal<{ side: "query" | "key"; at: number } | null>(null);
  /** An answer that can be played, and how much of it is written, in units of its own; null is all. */
  readonly telling = signal<Telling | null>(null);
  readonly written = signal<number | null>(null);
  /** Whether what is out of view is drawn, too. */
  readonly whole = signal(false);
  /** What the reader switched off. */
  readonly off = signal<Off>(NOTHING);
  /** Whether something that is drawn is not a number. */
  readonly unknown = signal(false);
  /** The step that the steps show; null for all of them. */
  readonly step = signal<number | null>(0);
  readonly found = signal<{ queries: readonly number[]; keys: readonly number[] }>({ queries: [], keys: [] });
  readonly choice = signal<"auto" | Theme>("auto");
  readonly theme = signal<Theme>("light");
  /** Counts layouts for paper; 0 on a screen. */
  readonly printing = signal(0);
  readonly language = signal<Language>("en");
  /** Whether the view stands alone, without tabs and choices, as in a frame of another page. */
  readonly embedded = signal(false);
  readonly others = signal<Other[]>([]);
  readonly against = signal<Other | null>(null);
  /** The map of heads that the reader chose; null is the one that says most. */
  readonly pairs = signal<(typeof PAIRS)[number] | null>(null);
  /** The latest words for those who listen rather than look. */
  readonly said = signal("");

  /** Another model that read the same text. */
  readonly companion: Other | null;

  constructor(
    provider: TileProvider,
    readonly trace: Trace,
    beside: { provider: Cached; trace: Trace } | null = null,
  ) {
    this.provider = provider instanceof Cached ? provider : new Cached(provider);
    this.companion = beside && { ...beside, ...firstOf(beside.trace), name: modelOf(beside.trace) };
    const mean = [trace, beside?.trace].every((each) => each && openingOf(each).head === null);
    if (this.companion) [this.others.value, this.against.value] = [[this.companion], { ...this.companion, mean }];
    // Words are what two models have in common.
    if (this.companion && Object.values(trace.sequences).some(({ words }) => words)) this.cells.value = "word";
    this.language.value = preferred(navigator.languages);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const settle = (): void => void (this.theme.value = this.printing.value ? "light" : this.choice.value === "auto" ? (dark.matches ? "dark" : "light") : this.choice.value);
    dark.addEventListener("change", settle);
    effect(settle);
    const { site, head } = openingOf(trace);
    this.view.value = tellable(trace, trace.sites[site]) ? "story" : trace.sites.length * (trace.sites[0]?.heads ?? 1) > 1 ? "overview" : "map";
    [this.site.value, this.head.value, this.heads.value] = [site, head ?? 0, head === null ? "mean" : "one"];
    this.scale.value = scaleOf(trace);
    this.contrast.value = this.scale.value === "lift";
    if (trace.view) this.restore(trace.view);
    this.restore(location.hash);
    effect(() => this.keep());
    addEventListener("hashchange", () => this.go(location.hash));
  }

  /** To an address that was put into the open page: what an address leaves out is as in a new page. */
  private go(hash: string): void {
    [this.camera.value, this.cursor.value, this.brush.value, this.word.value] = [null, null, null, null];
    [this.order.value, this.pairs.value] = ["place", null];
    if (this.trace.view) this.restore(this.trace.view);
    this.restore(hash);
  }

  say(word: Word, values?: Record<string, string | number>): string {
    return spoken(this.language.value, word, values);
  }

  /** What went wrong, for whoever reads the page. */
  failure(error: unknown): string {
    if (error instanceof GoneError) return this.say("gone");
    return this.say("failed", { message: error instanceof Error ? error.message : String(error) });
  }

  /** Another trace with choices of its own beside this one's. */
  beside({ provider, trace, site, head }: Other, others: Partial<App> = {}): App {
    const own = { provider, trace, site: signal(site), head: signal(head), camera: signal(null), cursor: signal(null), brush: signal(null), found: signal({ queries: [], keys: [] }), ...others };
    return Object.create(this, Object.getOwnPropertyDescriptors(own)) as App;
  }

  get current(): Site {
    return this.trace.sites[this.site.value]!;
  }
  /** What a site is called where there is little room: the module around the attention says it all. */
  siteName(site: Site): string {
    return titled(site.name);
  }
  sequence(side: "query" | "key", site: Site = this.current, trace: Trace = this.trace): Sequence | undefined {
    return trace.sequences[site[side]];
  }

  /** The name of one token, or of what a token is when it has none. */
  label(side: "query" | "key", index: number, site: Site = this.current): string {
    const sequence = this.sequence(side, site);
    const label = site.shows === "projected" && side === "key" ? undefined : sequence?.labels?.[index];
    if (label !== undefined) return brief(printable(label));
    if (sequence?.hop) return `${(index * sequence.hop).toFixed(2)} s`;
    if (sequence?.grid) return `${Math.floor(index / sequence.grid[1])},${index % sequence.grid[1]}`;
    return String(index);
  }

  /** The names along one side of the map, whatever a cell is. */
  unitLabel(side: "query" | "key", unit: number, cells: Cells = this.cells.value): string {
    if (cells === "token") return this.label(side, unit);
    const [begin, end] = this.spans(side, cells)[unit] ?? [0, 0];
    const labels = this.sequence(side)?.labels;
    if (cells === "word") return labels ? brief(printable(joined(labels.slice(begin, end)))) : this.label(side, begin);
    return `${unit}: ${this.label(side, begin)} …`;
  }

  spans(side: "query" | "key", level: Semantic): readonly Span[] {
    const site = this.current;
    return spansOf(this.sequence(side), level, side === "query" ? site.queries : site.keys);
  }

  get extent(): { rows: number; columns: number } {
    const cells = this.cells.value;
    if (cells === "token") return { rows: this.current.queries, columns: this.current.keys };
    return { rows: this.spans("query", cells).length, columns: this.spans("key", cells).length };
  }

  levelName(level: Level): string {
    if (typeof level === "string") return this.say("level.span", { level: this.say(`cells.${level}`) });
    if (level === 0) return this.say("level.exact");
    return this.say("level.pooled", { level, size: 2 ** level, pool: this.say(`pool.${this.pool.value}`).split(/[:：]/)[0]! });
  }

  choose(site: number, head: number): void {
    const sites = this.trace.sites.length;
    const before = this.extent;
    this.site.value = (site + sites) % sites;
    const { heads, queries, keys } = this.current;
    const former = this.head.value;
    this.head.value = (head + heads) % heads;
    if (this.head.value !== former && this.against.value?.mean) this.against.value = { ...this.against.value, mean: false };
    if (this.head.value !== former || this.together.value.some((each) => each >= heads)) [this.together.value, this.crowded.value] = [[], false];
    const after = this.extent;
    if (before.rows !== after.rows || before.columns !== after.columns) {
      this.camera.value = null;
      this.brush.value = null;
    }
    const at = this.cursor.value;
    if (at && (at.query >= queries || at.key >= keys)) this.cursor.value = null;
    this.said.value = this.say("read.head", { site: this.siteName(this.current), head: this.head.value });
  }

  /** The heads that the text view draws. */
  get drawn(): readonly number[] {
    return this.together.value.length ? this.together.value : [this.head.value];
  }
  /** The colour of a head among those drawn together: its own in a layer that has no more heads than there are colours. */
  headColour(head: number): string {
    const colours = COLOURS[this.theme.value];
    return `#${colours[this.current.heads <= colours.length ? head : this.drawn.indexOf(head)] ?? colours[0]}`;
  }
  /** Draws one head more, or less. There are only so many colours, and at least one head. */
  toggle(head: number): void {
    const drawn = this.drawn;
    this.crowded.value = false;
    const next = drawn.includes(head) ? drawn.filter((each) => each !== head) : [...drawn, head].sort((a, b) => a - b);
    if (next.length === 0 || next.length > COLOURS.light.length) return;
    if (next.length === 1) this.choose(this.site.value, next[0]!);
    this.together.value = next.length === 1 ? [] : next;
  }

  /** Where somebody else looks, as far as that is there; an overview opens the map for it. */
  look({ site, head, cursor }: Place): void {
    const heads = this.trace.sites[site]?.heads ?? 0;
    if (head < 0 || head >= heads) return;
    const at = this.cursor.peek();
    const moved = site !== this.site.peek() || head !== this.head.peek();
    if (moved) this.choose(site, head);
    const [query, key] = cursor ?? [-1, -1];
    const turned = query !== (at?.query ?? -1) || key !== (at?.key ?? -1);
    if (turned) this.cursor.value = query >= 0 && query < this.current.queries && key >= 0 && key < this.current.keys ? { query, key } : null;
    if ((moved || turned) && ["overview", "story"].includes(this.view.peek())) this.view.value = "map";
  }

  /** The colours of the present view. */
  get tint(): Tint {
    return this.view.value === "overview" && this.contrast.value ? "contrast" : this.scale.value;
  }
  get tints(): readonly Tint[] {
    return this.view.value === "overview" ? [...SCALES, "contrast"] : SCALES;
  }
  colour(tint: Tint): void {
    if (this.view.value === "overview") this.contrast.value = tint === "contrast";
    if (tint !== "contrast") this.scale.value = tint;
  }
  nextScale(): void {
    this.colour(this.tints[(this.tints.indexOf(this.tint) + 1) % this.tints.length]!);
  }

  /** The present view as the part of an address after its page. */
  get hash(): string {
    const camera = this.camera.value;
    const cursor = this.cursor.value;
    const brush = this.brush.value;
    const word = this.word.value;
    const kept: Record<string, string | number | undefined> = {
      view: this.view.value,
      site: this.site.value,
      head: this.head.value,
      heads: this.heads.value,
      scale: this.scale.value,
      ...(this.contrast.value && { contrast: 1 }),
      ...(this.order.value !== "place" && { order: this.order.value }),
      pool: this.pool.value,
      cells: this.cells.value,
      ...(camera && { x: round(camera.x), y: round(camera.y), zoom: round(camera.zoom) }),
      ...(cursor && { query: cursor.query, key: cursor.key }),
      ...(word && { word: `${word.side}-${word.at}` }),
      ...(this.view.value === "steps" && { step: this.step.value ?? "all" }),
      ...(this.together.value.length && { together: this.together.value.join("-") }),
      ...(!isEmpty(this.off.value) && { off: addressOf(this.off.value) }),
      ...(brush && { brush: [...brush.rows, ...brush.columns].join("-") }),
      ...this.compared(),
      ...(this.choice.value !== "auto" && { theme: this.choice.value }),
      language: this.language.value,
      ...(this.embedded.value && { embed: 1 }),
    };
    return `#${Object.entries(kept).map(([name, value]) => `${name}=${value}`).join("&")}`;
  }

  /** What the present map is compared with, if whoever opens the address has it, too. */
  private compared(): Record<string, string> {
    const [against, pairs] = [this.against.value, this.pairs.value];
    const at = against ? [this.provider, this.companion?.provider].indexOf(against.provider) : -1;
    if (this.view.value !== "compare") return {};
    return { ...(at >= 0 && { against: [at, against!.site, against!.mean ? "mean" : against!.head].join("-") }), ...(pairs && { pairs }) };
  }

  private restoreCompared(told: string | null): void {
    const [, at, site, head] = /^([01])-(\d{1,4})-(\d{1,4}|mean)$/.exec(told ?? "") ?? [];
    const other: Other | null = at === "1" ? this.companion : { provider: this.provider, trace: this.trace, name: this.say("compare.this"), site: 0, head: 0 };
    const heads = other?.trace.sites[Number(site)]?.heads ?? 0;
    if (heads && (head === "mean" || Number(head) < heads)) this.against.value = { ...other!, site: Number(site), head: Number(head) || 0, mean: head === "mean" };
  }

  private keep(): void {
    const { hash } = this;
    try {
      if (hash !== location.hash) history.replaceState(null, "", hash);
    } catch {
      // In a sandboxed frame there is no address to keep.
    }
  }

  private restore(hash: string): void {
    const told = new URLSearchParams(hash.replace(/^#/, ""));
    const number = (name: string, below: number): number | null => {
      const value = Number(told.get(name) ?? NaN);
      return Number.isFinite(value) && value >= 0 && value < below ? value : null;
    };
    const among = <T extends string>(name: string, all: readonly T[], into: Signal<T>): void => {
      const value = told.get(name) as T;
      if (all.includes(value)) into.value = value;
    };
    among("view", VIEWS, this.view);
    among("scale", SCALES, this.scale);
    if (told.has("scale")) this.contrast.value = told.get("contrast") === "1";
    among("order", ORDERS, this.order);
    among("pool", ["peak", "mass"], this.pool);
    among("heads", HEADS, this.heads);
    among("cells", ["token", "word", "sentence"], this.cells);
    among("theme", ["auto", "light", "dark"], this.choice);
    among("language", Object.keys(LANGUAGES) as Language[], this.language);
    this.restoreCompared(told.get("against"));
    const pairs = told.get("pairs") as (typeof PAIRS)[number];
    if (PAIRS.includes(pairs)) this.pairs.value = pairs;
    this.embedded.value = told.get("embed") === "1";
    this.site.value = Math.floor(number("site", this.trace.sites.length) ?? this.site.value);
    this.head.value = Math.floor(number("head", this.current.heads) ?? Math.min(this.head.value, this.current.heads - 1));
    const [x, y, zoom] = [number("x", Infinity), number("y", Infinity), number("zoom", 1000)];
    if (x !== null && y !== null && zoom) this.camera.value = { x, y, zoom };
    const [query, key] = [number("query", this.current.queries), number("key", this.current.keys)];
    if (query !== null || key !== null) this.cursor.value = { query: Math.floor(query ?? 0), key: Math.floor(key ?? 0) };
    const step = told.get("step");
    if (step === "all") this.step.value = null;
    else if (step !== null) this.step.value = Math.floor(number("step", 100) ?? 0);
    const [, side, at] = /^(query|key)-(\d{1,6})$/.exec(told.get("word") ?? "") ?? [];
    if (side) this.word.value = { side: side as "query" | "key", at: Number(at) };
    const together = [...new Set(told.get("together")?.split("-").map(Number))].filter((head) => Number.isInteger(head) && head >= 0 && head < this.current.heads).sort((a, b) => a - b);
    this.together.value = together.length > 1 ? together.slice(0, COLOURS.light.length) : [];
    this.crowded.value = together.length > COLOURS.light.length;
    this.off.value = offOf(told.get("off"), this.trace);
    const ends = told.get("brush")?.split("-").map(Number);
    if (ends?.length === 4 && ends.every((end) => Number.isInteger(end))) {
      const [top, bottom, left, right] = ends as [number, number, number, number];
      if (top < bottom && left < right && bottom <= this.current.queries && right <= this.current.keys) this.brush.value = { rows: [top, bottom], columns: [left, right] };
    }
  }
}

/** The one name of a site, as Python's `Site.title`: the module around the attention says it all. */
export const titled = (name: string): string => name.replace(/\.attention$/, "") || "attention";

/**
 * Where every door opens, as Python's `Trace.opening`: what the model aligns with, else the cross-attention of the layer
 * before the last, else an alignment that is not an attention, else the first site; a head, or null for the mean of all.
 */
export function openingOf({ sites, opens }: Trace): { site: number; head: number | null } {
  const named = opens ? sites.map(({ name }) => name).lastIndexOf(opens[0]) : -1;
  const head = opens?.[1] ?? null;
  if (named >= 0) return { site: named, head: head !== null && head < sites[named]!.heads ? head : null };
  const crossing = [...sites.keys()].filter((site) => sites[site]!.kind === "cross");
  const attending = crossing.filter((site) => !sites[site]!.posterior);
  const across = attending.length ? attending : crossing;
  return { site: across.at(-2) ?? across[0] ?? 0, head: null };
}

/** Where a trace opens, as one head. */
export function firstOf(trace: Trace): { site: number; head: number } {
  const { site, head } = openingOf(trace);
  return { site, head: head ?? 0 };
}

/** A short map and one over a picture are read by their shares; a long one by where it looks more than anywhere. */
function scaleOf({ sites, sequences }: Trace): Scale {
  const longest = Math.max(...sites.map(({ queries, keys }) => Math.max(queries, keys)), 0);
  const drawn = sites.some(({ query, key }) => [query, key].some((name) => (sequences[name]?.kind ?? "tokens") !== "tokens"));
  return longest <= SHORT || drawn ? "linear" : "lift";
}

const round = (value: number): number => Number(value.toPrecision(7));

/** A number for readers, with a minus sign that is one. Set it in an element with `dir="ltr"`, or by `App.say`. */
export const shown = (value: number, digits = 4): string => {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size < 1e-4 || size >= 1e6 ? value.toExponential(digits - 2) : String(Number(value.toPrecision(digits)));
  return text.replace(/-/g, "−");
};

/** A weight out of a tile, or a value that belongs to it: all weights below 6e−8 have the code of that one. */
export const coded = (weight: number, digits = 4, value = weight): string => (weight === numberOf(FAINTEST) ? `< ${shown(value, 2)}` : shown(value, digits));

/** Calls off what went before. */
export class Latest {
  private control = new AbortController();
  next(): AbortSignal {
    this.control.abort();
    this.control = new AbortController();
    return this.control.signal;
  }
}

/** Whether an error only says that nobody waits any more. */
export const calledOff = (error: unknown): boolean => error instanceof DOMException && error.name === "AbortError";
