/** Units along a map: tokens, or the words or sentences that they belong to. */

import type { App } from "../app";
import type { Semantic, Span } from "../provider";

export type Side = "query" | "key";

export function unitOf(app: App, side: Side, token: number): number {
  const cells = app.cells.peek();
  if (cells === "token") return token;
  const spans = app.spans(side, cells);
  let [low, high] = [0, spans.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (spans[middle]![0] <= token) low = middle;
    else high = middle - 1;
  }
  return low;
}

export const unitSpan = (app: App, side: Side, [begin, end]: Span): Span => [unitOf(app, side, begin), unitOf(app, side, end - 1) + 1];

/** The first token of a unit. */
export function tokenOf(app: App, side: Side, unit: number): number {
  const cells = app.cells.peek();
  return cells === "token" ? unit : (app.spans(side, cells as Semantic)[unit]?.[0] ?? 0);
}

/** From the beginning of one token's unit to the end of another's. */
export function unitsFrom(app: App, side: Side, first: number, last: number): Span {
  const cells = app.cells.peek();
  if (cells === "token") return [first, last + 1];
  const spans = app.spans(side, cells);
  return [spans[unitOf(app, side, first)]![0], spans[unitOf(app, side, last)]![1]];
}
