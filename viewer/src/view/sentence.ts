/** A sentence and its answer in large words, with lines between them; or one sentence that looks at itself. */

import type { App } from "../app";
import { css, INK } from "../colour";
import { h, replace, svgOf } from "../dom";
import { reading } from "../label";
import type { Span } from "../provider";
import { effect, signal, type Signal } from "../signal";
import { numberAt, thread, type Box, type Shape } from "../story/thread";
import { isOff } from "../story/switching";
import { percent, type Word } from "../story/word";

export type Side = "query" | "key";
export interface Place {
  side: Side;
  at: number;
}
export interface Given {
  keys: readonly Word[];
  /** None where the keys look at each other. */
  queries: readonly Word[] | null;
  /** The words of the answer that are new. */
  fresh?: readonly boolean[];
  /** Switches a key off or on, where that is possible. */
  press?: (at: number) => void;
  /** The same words in another sentence. */
  link?: Link;
  /** Which words can be pressed. */
  can?: (at: number) => boolean;
}
/** Words that two models read or wrote alike: pointing at one lights the other. */
export interface Link {
  /** What is pointed at in one of the two. */
  pointed: Signal<{ by: Link; side: Side; unit: number } | null>;
  /** Which of the common words of both a word is; null where the other has none. */
  unit(side: Side, span: Span): number | null;
}
export type Shares = readonly (readonly (number | null)[])[];

/** Below it a line is not drawn and a number not written. */
export const LEAST = 0.01;
const [LARGEST, SMALLEST, ON_PHONES] = [36, 20, 17];
/** On paper, where words are seen from near, and a page ends. */
const PAPER = { largest: 26, smallest: 11, height: 520 };
/** The height of a number, in pixels. */
const HIGH = 12;
/** Pixels below which words stand in columns. */
const NARROW = 600;

export class Sentence {
  readonly element = h("div", { className: "sentence" });
  private readonly threads = svgOf("svg", { class: "threads", "aria-hidden": "true" });
  private readonly hovered = signal<Place | null>(null);
  private readonly shares = signal<Shares | null>(null);
  private readonly resized = signal(0);
  private readonly words: Record<Side, HTMLElement[]>;
  private readonly lines: Record<Side, HTMLElement>;
  private readonly rtl: boolean;
  private shape: Shape = "rows";
  private readonly watch = new ResizeObserver(() => this.fit());
  private readonly stops: (() => void)[];
  private width = 0;

  constructor(
    private readonly app: App,
    private readonly given: Given,
  ) {
    const { keys, queries } = given;
    const directed = reading(keys.filter(({ mark }) => !mark).map(({ text }) => text));
    this.rtl = directed === "rtl";
    const line = (side: Side, words: readonly Word[]): [HTMLElement, HTMLElement[]] => {
      const buttons = words.map((word, at) => this.button(side, word, at));
      return [h("div", { className: `line ${side}`, role: "group", dir: reading(words.filter(({ mark }) => !mark).map(({ text }) => text)) }, ...buttons), buttons];
    };
    const [upper, above] = line("key", keys);
    const [lower, below] = queries ? line("query", queries) : [upper, above];
    this.words = { key: above, query: below };
    this.lines = { key: upper, query: lower };
    this.element.classList.add(queries ? "across" : "within");
    replace(this.element, upper, queries ? lower : null);
    this.element.append(this.threads);
    this.element.dir = directed;
    this.element.addEventListener("keydown", (event) => this.key(event));
    this.element.addEventListener("pointerleave", () => (this.hovered.value = null));
    (below[0] ?? above[0])!.tabIndex = 0;
    this.watch.observe(this.element);
    this.stops = [
      effect(() => {
        this.lines.key.setAttribute("aria-label", app.say(queries ? "story.read" : "story.text"));
        if (queries) this.lines.query.setAttribute("aria-label", app.say("story.wrote"));
        for (const side of ["key", "query"] as const) (side === "key" ? keys : (queries ?? [])).forEach((word, at) => name(app, this.words[side][at]!, word));
        (queries ?? keys).forEach((_, at) => this.words.query[at]!.classList.toggle("fresh", given.fresh?.[at] === true));
        keys.forEach(({ span }, at) => {
          const off = isOff(app.off.value, span);
          above[at]!.classList.toggle("off", off);
          above[at]!.title = off ? app.say("switch.off") : "";
        });
        this.resized.value = this.resized.peek() + 1;
      }),
      effect(() => {
        void app.printing.value;
        this.width = 0;
        this.fit();
      }),
      effect(() => this.paint()),
      effect(() => given.link && this.tell(given.link)),
    ];
  }

  /** The word whose lines are drawn alone. One of the text that is off has none: the lines of the others stay. */
  get active(): Place | null {
    const kept = this.app.word.value;
    const count = kept && (kept.side === "key" && this.given.queries ? this.given.keys : (this.given.queries ?? this.given.keys)).length;
    const place = this.hovered.value ?? this.shared ?? (kept && count && kept.at < count && (kept.side === "query" || this.given.queries) ? kept : null);
    return place?.side === "key" && isOff(this.app.off.value, this.given.keys[place.at]!.span) ? null : place;
  }

  /** The word that is pointed at in the other sentence. */
  private get shared(): Place | null {
    const { link } = this.given;
    const pointed = link?.pointed.value;
    if (!link || !pointed || pointed.by === link) return null;
    const side = pointed.side === "key" && !this.given.queries ? "query" : pointed.side;
    const at = this.wordsAt(side).findIndex(({ span }) => link.unit(side, span) === pointed.unit);
    return at < 0 ? null : { side, at };
  }
  private wordsAt(side: Side): readonly Word[] {
    return side === "key" ? this.given.keys : (this.given.queries ?? this.given.keys);
  }
  /** Tells the other sentence what is pointed at, or kept, in this one. */
  private tell(link: Link): void {
    const place = this.hovered.value ?? this.app.word.value;
    const word = place && this.wordsAt(place.side)[place.at];
    const unit = word ? link.unit(place.side, word.span) : null;
    if (unit !== null) link.pointed.value = { by: link, side: place!.side, unit };
    else if (link.pointed.peek()?.by === link) link.pointed.value = null;
  }

  /** Where the focus and the pointer are, for the sentence that follows. */
  get place(): { focus: Place | null; pointer: Place | null } {
    const sides: readonly Side[] = ["key", "query"];
    const focused = sides.map((side): Place => ({ side, at: this.words[side].indexOf(document.activeElement as HTMLElement) })).find(({ at }) => at >= 0);
    return { focus: focused ?? null, pointer: this.hovered.peek() };
  }

  /** The focus and the pointer stay where they were in the sentence before. */
  take({ focus, pointer }: { focus: Place | null; pointer: Place | null }): void {
    const word = focus && this.words[focus.side][Math.min(focus.at, this.words[focus.side].length - 1)];
    if (word) {
      for (const each of [...this.words.key, ...this.words.query]) each.tabIndex = -1;
      word.tabIndex = 0;
      this.taking = true;
      word.focus();
      this.taking = false;
    }
    if (pointer && (pointer.side === "key" || !this.given.queries)) this.hovered.value = pointer;
  }

  weigh(shares: Shares): void {
    this.shares.value = shares;
  }

  close(): void {
    this.watch.disconnect();
    for (const stop of this.stops) stop();
  }

  private button(side: Side, word: Word, at: number): HTMLElement {
    const place: Place = { side: this.given.queries ? side : "query", at };
    const button = h("button", { className: word.mark ? `word ${word.mark}` : "word", tabIndex: -1 });
    button.addEventListener("pointerenter", () => (this.hovered.value = place));
    button.addEventListener("focus", () => !this.taking && button.matches(":focus-visible") && (this.app.word.value = place));
    // A finger that touches a word sees its lines first, as a pointer does that comes over it.
    let first = false;
    button.addEventListener("pointerdown", ({ pointerType }) => (first = pointerType === "touch" && !this.keeps(place)));
    button.addEventListener("click", () => {
      const lines = first;
      first = false;
      if (!lines && (side === "key" || !this.given.queries) && this.given.can?.(at)) return this.given.press?.(at);
      const again = this.keeps(place);
      this.app.word.value = again && this.pressed ? null : place;
      this.pressed = !again || !this.pressed;
    });
    return button;
  }
  private taking = false;
  private keeps({ side, at }: Place): boolean {
    const kept = this.app.word.peek();
    return kept?.side === side && kept.at === at;
  }
  /** Whether the kept word was kept by a press, which a second press takes back. */
  private pressed = false;

  /** Arrows go along a line, and to the strongest word of the other. */
  private key(event: KeyboardEvent): void {
    if (event.key === "Escape") {
      this.app.word.value = null;
      this.hovered.value = null;
      return;
    }
    const target = event.target as HTMLElement;
    const side = (["query", "key"] as const).find((each) => this.words[each].includes(target));
    if (!side || event.ctrlKey || event.metaKey || event.altKey) return;
    const [at, line] = [this.words[side].indexOf(target), this.words[side]];
    const upright = this.shape === "columns" || this.shape === "brackets";
    const [along, back] = upright ? ["ArrowDown", "ArrowUp"] : this.lines[side].dir === "rtl" ? ["ArrowLeft", "ArrowRight"] : ["ArrowRight", "ArrowLeft"];
    const across = (upright ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"]).includes(event.key);
    const other: Side = side === "query" ? "key" : "query";
    const to = event.key === along ? line[at + 1] : event.key === back ? line[at - 1] : event.key === "Home" ? line[0] : event.key === "End" ? line.at(-1) : across && this.given.queries ? this.words[other][this.strongest({ side, at })] : null;
    if (to === null) return;
    event.preventDefault();
    event.stopPropagation();
    if (!to) return;
    for (const each of [...this.words.key, ...this.words.query]) each.tabIndex = -1;
    to.tabIndex = 0;
    to.focus();
  }

  /** The shares of one word's lines by the word at their other end. */
  sharesOf({ side, at }: Place): readonly (number | null)[] {
    const shares = this.shares.value;
    return shares ? (side === "query" ? shares[at]! : shares.map((row) => row[at]!)) : [];
  }

  private strongest(place: Place): number {
    const shares = this.sharesOf(place).map((share) => share ?? -1);
    return Math.max(0, shares.indexOf(Math.max(...shares)));
  }

  /** Type as large as there is room for; columns on a phone. */
  private fit(): void {
    const width = this.element.clientWidth;
    if (!width || width === this.width) return;
    this.width = width;
    const paper = this.app.printing.peek() > 0;
    const [largest, smallest] = paper ? [PAPER.largest, PAPER.smallest] : [LARGEST, SMALLEST];
    const sized = (size: number): void => this.element.style.setProperty("--size", `${size}px`);
    const upright = (): void => {
      this.shape = this.given.queries ? "columns" : "brackets";
      this.element.dataset["shape"] = this.shape;
      const rows = Math.max(this.words.key.length, this.words.query.length);
      sized(paper ? Math.min(ON_PHONES, PAPER.height / rows) : ON_PHONES);
    };
    delete this.element.dataset["wrapped"];
    if (width < NARROW) upright();
    else {
      this.shape = this.given.queries ? "rows" : "arcs";
      this.element.dataset["shape"] = this.shape;
      const room = this.lines.key.clientWidth;
      // What overflows at its beginning does not scroll, so the words themselves are measured.
      const needed = (): number => Math.max(1, ...Object.values(this.words).map((words) => {
        const boxes = words.map((word) => word.getBoundingClientRect());
        return Math.max(...boxes.map(({ right }) => right)) - Math.min(...boxes.map(({ left }) => left));
      }));
      let size = largest;
      sized(size);
      // Not every width shrinks with the type: that of an end has a least size.
      for (let wide = needed(); wide > room && size >= smallest; wide = needed()) {
        size = Math.min(size - 1, Math.floor((size * room) / wide));
        sized(Math.max(smallest, size));
      }
      if (size < smallest && paper) upright();
      else if (size < smallest) this.element.dataset["wrapped"] = "";
    }
    this.resized.value = this.resized.peek() + 1;
  }

  private paint(): void {
    const { app, given } = this;
    void this.resized.value;
    const [active, shares, ink] = [this.active, this.shares.value, INK[app.theme.value]];
    const written = app.written.value ?? Infinity;
    const frame = this.element.getBoundingClientRect();
    this.element.classList.toggle("alone", active !== null);
    const boxes = (side: Side): Box[] => this.words[side].map((word) => {
      const [{ top, bottom }, { left, right }] = [word.getBoundingClientRect(), (word.querySelector(".written") ?? word).getBoundingClientRect()];
      return { left: left - frame.left, right: right - frame.left, top: top - frame.top, bottom: bottom - frame.top };
    });
    const keys = boxes("key");
    const queries = given.queries ? boxes("query") : keys;
    const drawn: { share: number; line: SVGPathElement }[] = [];
    const numbers: SVGTextElement[] = [];
    const wrapped = this.element.dataset["wrapped"] !== undefined;
    const met = { key: new Map<number, number>(), query: new Map<number, number>() };
    shares?.forEach((row, query) => row.forEach((share, key) => {
      if (share === null || !(share >= LEAST) || query >= written || (active && (active.side === "query" ? query : key) !== active.at)) return;
      if (active) met[active.side === "query" ? "key" : "query"].set(active.side === "query" ? key : query, share);
      const faint = wrapped && !active ? 0.45 : 1;
      const line = svgOf("path", {
        d: thread(this.shape, queries[query]!, keys[key]!, this.rtl), "data-weight": share.toFixed(4),
        stroke: css(ink.line), fill: "none", "stroke-linecap": "round",
        "stroke-width": (active ? 1.5 + 10 * share : 0.8 + 8 * share).toFixed(2),
        "stroke-opacity": (active ? 0.3 + 0.6 * share : faint * Math.min(0.9, 0.05 + share)).toFixed(3),
      });
      drawn.push({ share, line });
      if (!active) return;
      const far: Side = active.side === "query" ? "key" : "query";
      const at = numberAt(this.shape, (far === "key" ? keys[key] : queries[query])!, far, this.rtl);
      const strong = share >= 0.1;
      numbers.push(svgOf("text", { x: at.x, y: at.y, "text-anchor": at.anchor, fill: css(strong ? ink.line : ink.quiet), "font-size": strong ? 15 : 12.5, "font-weight": strong ? 700 : 400, direction: "ltr" }, percent(share)));
    }));
    drawn.sort((a, b) => a.share - b.share);
    this.threads.replaceChildren(...drawn.map(({ line }) => line), ...numbers);
    this.threads.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
    apart(numbers);
    const mark = (side: Side): void => this.words[side].forEach((word, at) => {
      const own = active !== null && active.at === at && active.side === (given.queries ? side : "query");
      const share = met[side].get(at);
      word.classList.toggle("unwritten", (side === "query" || !given.queries) && at >= written);
      word.classList.toggle("own", own);
      word.classList.toggle("met", share !== undefined);
      word.style.setProperty("--share", String(Math.round(100 * Math.min(1, share ?? 0))));
      word.setAttribute("aria-pressed", String(own && app.word.peek()?.at === at));
    });
    mark("key");
    if (given.queries) mark("query");
  }
}

/** A word as it is written, with what is known of it above. */
function name(app: App, button: HTMLElement, { text, mark, notes }: Word): void {
  const shown = mark === "end" || mark === "begin" ? app.say(`story.${mark}`) : mark === "gap" ? "\u00a0\u00a0\u00a0\u00a0\u00a0" : text;
  const written = h("bdi", { className: "written" }, shown);
  if (mark === "gap") written.setAttribute("aria-label", app.say("story.gap"));
  replace(button, notes.length ? h("span", { className: "notes" }, ...notes.map((note) => h("bdi", {}, note))) : null, written);
}

/** Numbers that stand over one another make room, as those of neighbours like "." and the end do. */
function apart(numbers: readonly SVGTextElement[]): void {
  const places = numbers.filter((number) => number.getAttribute("text-anchor") === "middle").map((number) => {
    const [x, y] = [Number(number.getAttribute("x")), Number(number.getAttribute("y"))];
    return { number, x, y, half: number.getBBox().width / 2 + 2 };
  });
  places.sort((a, b) => a.x - b.x);
  for (let at = 1; at < places.length; at++) {
    const here = places[at]!;
    const line = places.slice(0, at).filter(({ y }) => Math.abs(y - here.y) < HIGH);
    const [before, first] = [line.at(-1), line.at(-2)];
    const overlap = before ? before.x + before.half - (here.x - here.half) : 0;
    if (!before || overlap <= 0) continue;
    // Half of it each; where the one before has no room for that, this one goes further.
    const room = first ? Math.max(before.x - before.half - (first.x + first.half), 0) : overlap;
    before.x -= Math.min(overlap / 2, room);
    here.x = before.x + before.half + here.half;
  }
  for (const { number, x } of places) number.setAttribute("x", x.toFixed(1));
}
