/** Two rows or columns of tokens and lines between them, as the weights say. Tokens are elements: any script is set right. */

import type { App } from "../app";
import { css, INK } from "../colour";
import { h } from "../dom";
import { reading } from "../label";

export interface Words {
  /** Rows: queries (targets). */
  targets: string[];
  /** Columns: keys (sources). */
  sources: string[];
  weight(target: number, source: number): number;
  least: number;
  chosen: number | null;
  onchosen(target: number): void;
  links?: readonly (readonly [number, number])[];
  gold?: readonly (readonly [number, number])[];
}

/** `columns`: side by side, one token a line. `rows`: two running lines, sources above. */
export function words(app: App, shape: "columns" | "rows", given: Words): { element: HTMLElement; draw: () => void } {
  const canvas = h("canvas", { className: "lines", "aria-hidden": "true" });
  const token = (text: string): HTMLElement => h("bdi", { className: "token" }, text);
  const sources = given.sources.map(token);
  const targets = given.targets.map((text, i) => h("button", { className: "token", dir: "auto", "aria-pressed": String(i === given.chosen), onclick: () => given.onchosen(i) }, text));
  const line = (side: string, tokens: HTMLElement[], texts: string[]): HTMLElement => h("div", { className: `line ${side}`, dir: reading(texts) }, ...tokens);
  const [target, source] = [line("targets", targets, given.targets), line("sources", sources, given.sources)];
  const element = h("div", { className: `words ${shape}` }, canvas, ...(shape === "rows" ? [source, target] : [target, source]));
  const draw = (): void => {
    const box = element.getBoundingClientRect();
    const ratio = devicePixelRatio || 1;
    canvas.width = Math.round(box.width * ratio);
    canvas.height = Math.round(box.height * ratio);
    canvas.style.width = `${box.width}px`;
    canvas.style.height = `${box.height}px`;
    const context = canvas.getContext("2d")!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const ink = INK[app.theme.peek()];
    const place = (of: HTMLElement, upper: boolean): [number, number] => {
      const { left, right, top, bottom } = of.getBoundingClientRect();
      if (shape === "rows") return [(left + right) / 2 - box.left, (upper ? bottom : top) - box.top];
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
      if (shape === "rows") context.bezierCurveTo(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2, x1, y1);
      else context.bezierCurveTo((x0 + x1) / 2, y0, (x0 + x1) / 2, y1, x1, y1);
      context.stroke();
    };
    const blue = app.theme.peek() === "light" ? "#215a97" : "#8cc4f2";
    targets.forEach((_, i) => {
      if (given.chosen !== null && given.chosen !== i) return;
      sources.forEach((__, j) => {
        const weight = given.weight(i, j);
        if (weight >= given.least && weight > 0) joins(i, j, 1 + 3 * Math.min(1, weight), blue, Math.min(1, 0.08 + weight));
      });
    });
    for (const [i, j] of given.gold ?? []) if (targets[i] && sources[j]) joins(i, j, 5, css(ink.gold), 0.45);
    for (const [i, j] of given.links ?? []) joins(i, j, 1.5, css(ink.link), 1);
    context.globalAlpha = 1;
  };
  return { element, draw };
}
