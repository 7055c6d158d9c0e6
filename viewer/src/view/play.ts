/** Play: the answer grows word by word, each with its weights. */

import type { App } from "../app";
import { h, refill } from "../dom";
import { effect, signal, untracked } from "../signal";

/** Milliseconds of a word at speed 1. */
export const PAUSE = 900;
const SPEEDS = [0.5, 1, 2, 4] as const;
/** What has a use of its own for the keys of Play. */
const OWN_KEYS = "button,input,select,textarea,canvas,summary,a,dialog,[tabindex='0']";

export class Play {
  readonly element = h("div", { className: "play controls", role: "group" });
  /** How many words are written; null before and after. */
  private readonly at = signal<number | null>(null);
  private readonly running = signal(false);
  private readonly speed = signal<number>(1);
  private readonly still = matchMedia("(prefers-reduced-motion: reduce)");
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly alive = new AbortController();
  private readonly stops: (() => void)[];

  constructor(private readonly app: App) {
    document.addEventListener("keydown", (event) => this.key(event), { signal: this.alive.signal });
    const motion = signal(this.still.matches);
    this.still.addEventListener("change", () => (motion.value = this.still.matches), { signal: this.alive.signal });
    this.stops = [
      effect(() => {
        void app.telling.value;
        untracked(() => this.end());
      }),
      effect(() => {
        const [telling, running, at, speed] = [app.telling.value, this.running.value, this.at.value, this.speed.value];
        this.element.hidden = !telling;
        if (!telling) return;
        this.element.setAttribute("aria-label", app.say("play"));
        const small = (word: "play.before" | "play.after", sign: string, to: () => void): HTMLElement => h("button", { onclick: to, "aria-label": app.say(word), title: app.say(word) }, sign);
        refill(this.element,
          small("play.before", "‹", () => this.step(-1)),
          h("button", { className: "primary", onclick: () => this.toggle() }, app.say(motion.value ? "play.after" : running ? "play.pause" : "play")),
          small("play.after", "›", () => this.step(1)),
          motion.value ? null : h("button", { onclick: () => this.faster(1, true), "aria-label": app.say("play.speed", { speed }), title: app.say("play.speed", { speed }) }, h("span", { dir: "ltr" }, `${speed}×`)),
          h("span", { className: "note", dir: "ltr" }, `${at ?? telling.count} / ${telling.count}`));
      }),
    ];
  }

  /** Under reduced motion nothing moves by itself. */
  toggle(): void {
    if (this.still.matches) return this.step(1);
    if (this.running.peek()) return this.pause();
    this.running.value = true;
    this.forward();
  }

  step(by: 1 | -1): void {
    this.pause();
    const count = this.app.telling.peek()?.count ?? 0;
    const at = this.at.peek();
    this.go(at === null ? (by > 0 ? 1 : count) : Math.max(0, at + by));
  }

  close(): void {
    this.alive.abort();
    for (const stop of this.stops) stop();
    this.end();
  }

  private pause(): void {
    clearTimeout(this.timer);
    this.running.value = false;
  }

  private end(): void {
    this.pause();
    if (this.at.peek() !== null) this.go(null);
  }

  private go(to: number | null): void {
    const telling = this.app.telling.peek();
    const beyond = !telling || to === null || to > telling.count;
    if (beyond) this.pause();
    this.at.value = beyond ? null : to;
    void telling?.show(this.at.peek());
  }

  private forward(): void {
    const at = this.at.peek();
    this.go(at === null ? 0 : at + 1);
    if (this.running.peek()) this.timer = setTimeout(() => this.forward(), (at === null ? PAUSE / 2 : PAUSE) / this.speed.peek());
  }

  private faster(by: 1 | -1, round = false): void {
    const at = SPEEDS.indexOf(this.speed.peek() as 1) + by;
    this.speed.value = SPEEDS[round ? at % SPEEDS.length : Math.min(Math.max(at, 0), SPEEDS.length - 1)]!;
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const inside = this.element.contains(target);
    const root = this.element.closest(".foveate");
    // As for all keys: a viewer among others hears its own ones only, and nothing while it is saved.
    const own = root !== null && (root.contains(target) || (target === document.body && root.parentElement === document.body));
    // Of two stories, the one that has the focus.
    const story = this.element.closest(".pairview article");
    const elsewhere = !own || (story && !story.contains(target)) || root.matches(".saving") || document.querySelector("dialog[open]") !== null;
    if (this.element.hidden || elsewhere || event.ctrlKey || event.metaKey || event.altKey || (!inside && target.closest(OWN_KEYS))) return;
    const back = getComputedStyle(this.element).direction === "rtl" ? "ArrowRight" : "ArrowLeft";
    const actions: Record<string, () => void> = {
      ...(!inside && { " ": () => this.toggle() }),
      ArrowLeft: () => this.step(back === "ArrowLeft" ? -1 : 1),
      ArrowRight: () => this.step(back === "ArrowLeft" ? 1 : -1),
      ArrowUp: () => this.faster(1),
      ArrowDown: () => this.faster(-1),
      Escape: () => this.end(),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}
