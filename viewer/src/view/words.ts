/** Two rows or columns of tokens and lines between them, as the weights say. Tokens are elements: any script is set right. */

import type { App } from "../app";
import { css, INK } from "../colour";
import { h } from "../dom";
import { reading } from "../label";
import { contextOf, drawnBy } from "../save/recorder";
import { effect } from "../signal";

export interface Words {
  /** Rows: queries (targets). */
  targets: string[];
  /** Columns: keys (sources). */
  sources: string[];
  weight(target: number, source: number): number;
  least: number;
  chosen: number | null;
  /** A target was chosen, or let go. */
  onchosen(target: number | null): void;
  /** The pointer or the focus is at a target, or at none. */
  onhover?(target: number | null): void;
  links?: readonly (readonly [number, number])[];
  gold?: readonly (readonly [number, number])[];
}

/** Pixels for all rows on a page of A4 or US letter, and for a row at most. */
const [PAPER, ROW] = [780, 24];

/** `columns`: side by side, one token a line. `rows`: two running lines, sources above; columns where they would wrap. */
export function words(app: App, shape: "columns" | "rows", given: Words): { element: HTMLElement; draw: () => void; close: () => void } {
  const canvas = h("canvas", { className: "lines", "aria-hidden": "true" });
  /** Whose lines are drawn alone while the pointer is there. */
  let only: { side: "targets" | "sources"; at: number } | null = null;
  const point = (next: typeof only): void => {
    if (only?.side === next?.side && only?.at === next?.at) return;
    only = next;
    paint();
    given.onhover?.(next?.side === "targets" ? next.at : null);
  };
  const heard = <T extends HTMLElement>(element: T, side: "targets" | "sources", at: number): T => {
    element.addEventListener("pointerenter", () => point({ side, at }));
    element.addEventListener("pointerleave", () => point(null));
    return element;
  };
  const sources = given.sources.map((text, j) => heard(h("bdi", { className: "token" }, text), "sources", j));
  const targets = given.targets.map((text, i) => {
    const press = (): void => given.onchosen(i === given.chosen ? null : i);
    return heard(h("button", { className: "token", dir: "auto", "aria-pressed": String(i === given.chosen), onclick: press }, text), "targets", i);
  });
  const line = (side: string, tokens: HTMLElement[], texts: string[]): HTMLElement => h("div", { className: `line ${side}`, dir: reading(texts) }, ...tokens);
  const [target, source] = [line("targets", targets, given.targets), line("sources", sources, given.sources)];
  const element = h("div", { className: `words ${shape}` }, canvas, ...(shape === "rows" ? [source, target] : [target, source]));
  const wraps = (tokens: HTMLElement[]): boolean => tokens.length > 0 && tokens.some(({ offsetTop }) => Math.abs(offsetTop - tokens[0]!.offsetTop) > 8);
  const draw = (): void => {
    element.style.setProperty("--row", `${Math.min(ROW, PAPER / Math.max(sources.length, targets.length, 1)).toFixed(2)}px`);
    if (shape === "rows") {
      element.className = "words rows";
      // Lines would run through the words of a second line.
      if (wraps(sources) || wraps(targets)) element.className = "words columns";
    }
    paint();
  };
  const paint = (): void => {
    const across = element.classList.contains("columns");
    const box = element.getBoundingClientRect();
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
    canvas.style.width = `${box.width}px`;
    canvas.style.height = `${box.height}px`;
    const context = contextOf(canvas);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const ink = INK[app.theme.peek()];
    const place = (of: HTMLElement, upper: boolean): [number, number] => {
      const { left, right, top, bottom } = of.getBoundingClientRect();
      if (!across) return [(left + right) / 2 - box.left, (upper ? bottom : top) - box.top];
      return [(upper ? left : right) - box.left, (top + bottom) / 2 - box.top];
    };
    const joins = (i: number, j: number, width: number, colour: string, alpha: number): void => {
      const [x0, y0] = place(targets[i]!, false);
      const [x1, y1] = place(sources[j]!, true);
      context.globalAlpha = alpha;
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(x0, y0);
      if (!across) context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
      else context.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
      context.stroke();
    };
    const alone = only ?? (given.chosen === null ? null : { side: "targets" as const, at: given.chosen });
    const shown = (i: number, j: number): boolean => alone === null || (alone.side === "targets" ? i : j) === alone.at;
    targets.forEach((_, i) => {
      sources.forEach((__, j) => {
        const weight = given.weight(i, j);
        if (shown(i, j) && weight >= given.least && weight > 0) joins(i, j, 1 + 3 * Math.min(1, weight), css(ink.line), Math.min(1, 0.08 + weight));
      });
    });
    const faint = (i: number, j: number): number => (shown(i, j) ? 1 : 0.12);
    for (const [i, j] of given.gold ?? []) if (targets[i] && sources[j]) joins(i, j, 5, css(ink.gold), 0.45 * faint(i, j));
    for (const [i, j] of given.links ?? []) joins(i, j, 1.5, css(ink.link), faint(i, j));
    context.globalAlpha = 1;
    sources.forEach((each, j) => each.classList.toggle("met", alone !== null && targets.some((_, i) => shown(i, j) && given.weight(i, j) >= Math.max(given.least, 1e-9))));
    targets.forEach((each, i) => each.classList.toggle("met", alone?.side === "sources" && given.weight(i, alone.at) >= Math.max(given.least, 1e-9)));
  };
  drawnBy(canvas, paint);
  const stop = effect(() => {
    void app.printing.value;
    if (element.isConnected) draw();
  });
  return { element, draw, close: stop };
}
