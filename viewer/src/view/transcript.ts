/** The letters and words of a recording: each can be pointed at, to see where it was listened to, and pressed, to hear it. */

import type { App } from "../app";
import { h, replace } from "../dom";
import { brief, joined, printable, reading } from "../label";
import type { Sequence, Span } from "../provider";

export interface Pointing {
  /** The pointer or the focus is at these queries, or at none. */
  point(unit: Span | null): void;
  press(unit: Span): void;
  /** Where a unit is listened to, in words; empty while that is unknown. */
  when(unit: Span): string;
  /** Whether a unit is heard at a second. */
  sounds(unit: Span, second: number): boolean;
}

export interface Transcript {
  element: HTMLElement;
  draw(window: Span, chosen: Span): void;
  nameOf(unit: Span): string;
  /** Marks what is heard now. */
  at(second: number | null): void;
  /** Hides what is not written yet. */
  write(letters: number | null): void;
}

export function transcript(app: App, sequence: Sequence | undefined, pointing: Pointing): Transcript {
  const element = h("div", { className: "transcript" });
  let written = Infinity;
  const hide = (): void => units.forEach(({ unit, button }) => button.classList.toggle("unwritten", unit[0] >= written));
  let units: { unit: Span; button: HTMLButtonElement }[] = [];
  const draw = (window: Span, chosen: Span): void => {
    const focused = units.find(({ button }) => button === document.activeElement)?.unit;
    const spans = wordsOf(sequence, window);
    const letters = Array.from({ length: window[1] - window[0] }, (_, at): Span => [window[0] + at, window[0] + at + 1]);
    units = [];
    const line = (name: "word" | "token", all: readonly Span[]): HTMLElement => {
      const texts = all.map((unit) => nameOf(app, sequence, unit));
      const buttons = all.map((unit, at) => {
        const button = h("button", { className: "token", dir: "auto", title: pointing.when(unit) || null, "aria-pressed": String(unit[0] === chosen[0] && unit[1] === chosen[1]), onclick: () => pointing.press(unit) }, texts[at]!);
        button.addEventListener("pointerenter", () => pointing.point(unit));
        button.addEventListener("pointerleave", () => pointing.point(null));
        button.addEventListener("focus", () => button.matches(":focus-visible") && pointing.point(unit));
        button.addEventListener("blur", () => pointing.point(null));
        units.push({ unit, button });
        return button;
      });
      return h("p", { className: `running tokens of${name}s`, role: "group", "aria-label": app.say(`cells.${name}`), dir: reading(texts), onkeydown: (event: KeyboardEvent) => walk(event, buttons) }, ...buttons);
    };
    replace(element, spans ? line("word", spans) : null, line("token", letters));
    hide();
    units.find(({ unit }) => unit[0] === focused?.[0] && unit[1] === focused[1])?.button.focus();
  };
  return {
    element,
    draw,
    write: (letters) => {
      written = letters ?? Infinity;
      hide();
    },
    nameOf: (unit) => nameOf(app, sequence, unit),
    at: (second) => units.forEach(({ unit, button }) => button.classList.toggle("met", second !== null && pointing.sounds(unit, second))),
  };
}

/** Arrows lead along a line, as it is read. */
function walk(event: KeyboardEvent, buttons: HTMLButtonElement[]): void {
  const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const at = buttons.indexOf(event.target as HTMLButtonElement);
  if (!way || at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const line = event.currentTarget as HTMLElement;
  buttons[at + (line.dir === "rtl" ? -way : way)]?.focus();
}

/** The words within a window, where they are more than single letters. */
function wordsOf(sequence: Sequence | undefined, [from, to]: Span): Span[] | null {
  const words = sequence?.words?.filter(([begin, end]) => begin >= from && end <= to);
  return words?.some(([begin, end]) => end - begin > 1) ? words : null;
}

/** A begin or an end in words; null for any other label. */
export function endName(app: App, label: string | undefined): string | null {
  return label === "<s>" ? app.say("story.begin") : label === "</s>" ? app.say("story.end") : null;
}

export function nameOf(app: App, sequence: Sequence | undefined, [begin, end]: Span): string {
  const labels = sequence?.labels;
  const name = end - begin === 1 ? endName(app, labels?.[begin]) : null;
  if (name) return name;
  const text = end - begin > 1 && labels ? brief(printable(joined(labels.slice(begin, end)))) : app.label("query", begin);
  return text.trim() || "␣";
}
