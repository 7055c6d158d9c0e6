/** Switching words and heads off, and what it cost: the row below a story. */

import { openingOf, shown, type App } from "../app";
import { h, refill } from "../dom";
import type { Ablation, Sequence, Span } from "../provider";
import { effect, signal } from "../signal";
import { addressOf, costOf, differing, headSwitched, isEmpty, isHeadOff, known, NOTHING, wordSwitched, type Off } from "../story/switching";
import { wordsOf, type Word } from "../story/word";

/** Nats at the end of the bar, unless something cost more. */
const WIDEST = 10;

export interface Switched {
  off: Off;
  site: number;
  /** Null is the mean. */
  head: number | null;
  ablation: Ablation;
  /** Whether the weights are those of the site and the head. */
  weighed: boolean;
}

export class Switches {
  readonly element = h("div", { className: "switches" });
  /** What came of the switches; null where nothing is off. */
  readonly result = signal<Switched | null>(null);
  /** Whether an answer is on its way. */
  readonly waiting = signal(false);
  private readonly failure = signal<unknown>(null);
  private readonly past = signal<readonly Off[]>([]);
  private top = WIDEST;
  private asked = 0;
  private readonly stops: (() => void)[];

  constructor(private readonly app: App) {
    this.stops = [effect(() => void this.ask()), effect(() => this.draw())];
  }

  /** Whether the words that the current site looks at can be switched off: by a model, or one by one as the page knows them. */
  get way(): "model" | "page" | null {
    const { trace, provider, current } = this.app;
    if (trace.ablates === undefined || current.key !== trace.ablates) return null;
    return trace.ablations ? "page" : provider.ablates ? "model" : null;
  }

  /** Whether a click on a word has an effect. */
  has(span: Span): boolean {
    if (this.way !== "page") return this.way === "model";
    return known(this.app.trace.ablations!, wordSwitched(NOTHING, span)) !== null;
  }

  toggle(span: Span): void {
    if (this.has(span)) this.change(wordSwitched(this.app.off.peek(), span, this.way === "page"));
  }

  close(): void {
    this.asked++;
    for (const stop of this.stops) stop();
  }

  private change(next: Off): void {
    this.past.value = [...this.past.peek(), this.app.off.peek()];
    this.app.off.value = next;
  }

  private undo(): void {
    const before = this.past.peek();
    this.past.value = before.slice(0, -1);
    this.app.off.value = before.at(-1) ?? NOTHING;
  }

  private async ask(): Promise<void> {
    const { app } = this;
    const [off, site, head] = [app.off.value, app.site.value, app.heads.value === "mean" ? null : app.head.value];
    const turn = ++this.asked;
    this.failure.value = null;
    this.waiting.value = false;
    if (isEmpty(off) || app.trace.ablates === undefined) return void (this.result.value = null);
    const { ablations } = app.trace;
    if (ablations) {
      const ablation = known(ablations, off);
      const opening = openingOf(app.trace);
      this.result.value = ablation && { off, site, head, ablation, weighed: site === opening.site && head === opening.head };
      if (ablation) app.said.value = this.told(ablation);
      return;
    }
    this.waiting.value = true;
    try {
      const ablation = await app.provider.ablate({ tokens_off: [...off.tokens], heads_off: off.heads.map(([s, n]) => [s, n]), site, head });
      if (turn !== this.asked) return;
      this.result.value = { off, site, head, ablation, weighed: true };
      app.said.value = this.told(ablation);
    } catch (error) {
      if (turn === this.asked) [this.failure.value, this.result.value] = [error, null];
    } finally {
      if (turn === this.asked) this.waiting.value = false;
    }
  }

  /** What the model wrote, before or now: the queries that a page opens with. */
  private answer(sequences: Record<string, Sequence>): { name: string; words: Word[] } {
    const { trace } = this.app;
    const site = trace.sites[openingOf(trace).site]!;
    const sequence = sequences[site.query] ?? trace.sequences[site.query];
    return { name: site.query, words: wordsOf(sequence, sequence?.labels?.length ?? 0, () => "").filter(({ mark }) => mark !== "begin" && mark !== "end") };
  }

  private told(ablation: Ablation): string {
    const { app } = this;
    const cost = costOf(ablation);
    const [before, now] = [this.answer(app.trace.sequences), this.answer(ablation.sequences)];
    const same = says(before.words) === says(now.words);
    const numbers = cost === null ? null : { cost: shown(Math.abs(cost), 3), before: shown(ablation.log_probability_before!), now: shown(ablation.log_probability!) };
    return [same ? app.say("switch.same") : "", numbers && app.say(cost! >= 0 ? "switch.cost" : "switch.gain", numbers)].filter(Boolean).join(" ");
  }

  private draw(): void {
    const { app } = this;
    const [off, result, failure, past] = [app.off.value, this.result.value, this.failure.value, this.past.value];
    void [app.site.value, app.head.value, app.heads.value, app.language.value];
    const { way } = this;
    this.element.setAttribute("aria-busy", String(this.waiting.value));
    const pinned = app.word.value;
    const cannot = way === null && app.trace.ablates === undefined && pinned !== null && (pinned.side === "key" || app.current.query === app.current.key);
    const note = (text: string): HTMLElement => h("p", { className: "note" }, text);
    const head = way === "model" && app.heads.value === "one" && app.current.heads > 1 && !isHeadOff(off, app.site.value, app.head.value)
      ? h("button", { onclick: () => this.change(headSwitched(off, app.site.peek(), app.head.peek())) }, app.say("switch.head", { head: app.head.value }))
      : null;
    const buttons = h("div", { className: "controls" }, ...(isEmpty(off) ? [] : this.chips(off)), head,
      past.length ? h("button", { onclick: () => this.undo() }, app.say("switch.undo")) : null,
      isEmpty(off) ? null : h("button", { onclick: () => this.change(NOTHING) }, app.say("switch.all")));
    const used = this.element.contains(document.activeElement);
    refill(this.element,
      cannot ? note(app.say("switch.cannot")) : null,
      way !== null && isEmpty(off) ? note(app.say("switch.hint")) : null,
      result ? this.outcome(result) : null,
      failure === null ? null : h("p", { className: "warning" }, app.failure(failure)),
      buttons.childElementCount ? buttons : null,
      way === "page" && !isEmpty(off) ? h("p", { className: "note hint" }, app.say("switch.single")) : null,
      result && !result.weighed ? note(app.say("switch.lines")) : null,
      result && this.leaks(off) ? note(app.say("switch.recurrent")) : null);
    // The pressed button may be gone: readers with a keyboard go on from the words.
    if (used && !this.element.contains(document.activeElement)) this.element.parentElement?.querySelector<HTMLElement>(".sentence .word[tabindex='0']")?.focus();
  }

  /** Words and heads that are off; a press switches one on. */
  private chips(off: Off): HTMLElement[] {
    const { app } = this;
    const sequence = app.trace.sequences[app.trace.ablates!];
    const words = wordsOf(sequence, sequence?.labels?.length ?? 0, String).filter(({ span: [begin, end] }) => off.tokens.some((at) => at >= begin && at < end));
    const chip = (name: string, next: Off): HTMLElement => h("button", { className: "chip", title: app.say("switch.on", { word: name }), "aria-label": app.say("switch.on", { word: name }), onclick: () => this.change(next) }, h("bdi", {}, name), " ×");
    return [
      ...words.map(({ span, text, mark }) => chip(mark === "begin" || mark === "end" ? app.say(`story.${mark}`) : text, { ...off, tokens: off.tokens.filter((at) => at < span[0] || at >= span[1]) })),
      ...off.heads.map(([site, head]) => chip(`${app.siteName(app.trace.sites[site]!)} · ${app.say("head")} ${head}`, headSwitched(off, site, head))),
    ];
  }

  /** The answer before, with the words that are gone, and the cost as a bar. */
  private outcome({ ablation, off }: Switched): HTMLElement {
    const { app } = this;
    const [before, now] = [this.answer(app.trace.sequences), this.answer(ablation.sequences)];
    const [old, fresh] = [before.words.map(({ text }) => text), now.words.map(({ text }) => text)];
    const line = (label: "switch.before" | "switch.now", words: readonly string[], others: readonly string[], tag: "s" | "mark"): HTMLElement => {
      const gone = differing(words, others);
      return h("p", { className: "former" }, h("span", { className: "note" }, `${app.say(label)} `), h("span", { dir: "auto" }, ...words.flatMap((word, at) => [at ? " " : "", gone[at] ? h(tag, {}, h("bdi", {}, word)) : h("bdi", {}, word)])));
    };
    const rewritten = says(before.words) !== says(now.words);
    const cost = costOf(ablation);
    if (cost !== null) this.top = Math.max(this.top, Math.ceil(Math.abs(cost)));
    const bar = cost === null ? null : h("div", { className: cost < 0 ? "costbar gain" : "costbar", dir: "ltr", "aria-hidden": "true" },
      h("span", { className: "track" }, h("span", { className: "fill", style: `width:${((100 * Math.abs(cost)) / this.top).toFixed(1)}%` })), h("b", {}, shown(-cost, 3)));
    return h("div", { className: "outcome", "data-off": addressOf(off) },
      h("p", { className: "cost" }, this.told(ablation)), bar,
      rewritten ? line("switch.before", old, fresh, "s") : null,
      rewritten && app.current.query !== now.name ? line("switch.now", fresh, old, "mark") : null);
  }

  /** A word that is off was still read by something else than attention. */
  private leaks({ tokens }: Off): boolean {
    const { trace } = this.app;
    return tokens.length > 0 && !trace.sites.some(({ query, key }) => query === trace.ablates && key === query);
  }
}

const says = (words: readonly Word[]): string => words.map(({ text, notes }) => [text, ...notes].join("\n")).join("\n\n");
