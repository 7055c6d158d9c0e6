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
  /** Several maps at once, each with its colour: lines of all of them, and a bar of each beside every source. */
  maps?: readonly { colour: string; weight(target: number, source: number): number }[];
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
/** Pixels of a bar beside a source, from one to the next, of the longest; and from one map's line to the next one's. */
const [BAR, PITCH, TALL, STRAND] = [7, 9, 18, 3.5];

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
  // One map has the colour of lines; several have bars, for which there is room beside the sources.
  const maps = given.maps ?? [];
  if (maps.length) source.style.paddingInlineEnd = `${maps.length * PITCH + 10}px`;
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
    const joins = (i: number, j: number, width: number, colour: string, alpha: number, aside = 0): void => {
      const [x0, y0] = place(targets[i]!, false).map((at, axis) => at + (axis === Number(across) ? aside : 0)) as [number, number];
      const [x1, y1] = place(sources[j]!, true).map((at, axis) => at + (axis === Number(across) ? aside : 0)) as [number, number];
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
        if (!shown(i, j)) return;
        (maps.length ? maps : [{ colour: css(ink.line), weight: given.weight }]).forEach(({ colour, weight }, map) => {
          const here = weight(i, j);
          // Lines of several maps lie beside each other, where one could hide another.
          const aside = maps.length && (map - (maps.length - 1) / 2) * Math.min(STRAND, TALL / maps.length);
          if (here >= given.least && here > 0) joins(i, j, 1 + (maps.length ? 2 : 3) * Math.min(1, here), colour, Math.min(1, (maps.length ? 0.2 : 0.08) + here), aside);
        });
      });
    });
    context.globalAlpha = 1;
    const mean = (j: number, weight: Words["weight"]): number => {
      const rows = targets.flatMap((_, i) => (shown(i, j) ? [weight(i, j) || 0] : []));
      return rows.reduce((sum, each) => sum + each, 0) / (rows.length || 1);
    };
    // Of all queries, no key has much; of one, a bar of full height is all of its attention.
    const most = alone?.side === "targets" ? 1 : Math.max(1e-9, ...maps.flatMap(({ weight }) => sources.map((_, j) => mean(j, weight))));
    if (maps.length) sources.forEach((token, j) => {
      const { top, bottom } = token.getBoundingClientRect();
      const room = Math.min(TALL, bottom - top);
      const foot = (top + bottom + room) / 2 - box.top;
      maps.forEach(({ colour, weight }, map) => {
        const x = source.getBoundingClientRect().right - box.left - (maps.length - map) * PITCH;
        const tall = room * Math.min(1, mean(j, weight) / most);
        context.fillStyle = css(ink.grid);
        context.fillRect(x, foot, BAR, 1);
        context.fillStyle = colour;
        context.fillRect(x, foot - tall, BAR, tall);
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
