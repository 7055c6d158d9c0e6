/** Lines between words, as paths: from the edge of one to the edge of another. */

export interface Box {
  left: number;
  right: number;
  top: number;
  bottom: number;
}
/** `rows`: one running line above the other. `columns`: side by side. `arcs`: one line that looks at itself. `brackets`: one column that does. */
export type Shape = "rows" | "columns" | "arcs" | "brackets";
/** Room between a word and its line, for the number at its end. */
export const ROOM = 20;
const DEEPEST = 250;

const middle = ({ left, right }: Box): number => (left + right) / 2;
const height = ({ top, bottom }: Box): number => (top + bottom) / 2;
const round = (value: number): number => Math.round(value * 10) / 10;
const curve = (x0: number, y0: number, x1: number, y1: number, x2: number, y2: number, x3: number, y3: number): string =>
  `M${round(x0)} ${round(y0)}C${round(x1)} ${round(y1)} ${round(x2)} ${round(y2)} ${round(x3)} ${round(y3)}`;

/** The line from a query to a key. In `columns` and `brackets`, `rtl` tells that keys stand at the right. */
export function thread(shape: Shape, query: Box, key: Box, rtl = false): string {
  if (shape === "rows") {
    const [x0, y0, x1, y1] = [middle(query), query.top - ROOM, middle(key), key.bottom + ROOM];
    const bend = Math.max(24, (y0 - y1) / 2);
    return curve(x0, y0, x0, y0 - bend, x1, y1 + bend, x1, y1);
  }
  if (shape === "columns") {
    const [x0, x1] = rtl ? [query.right + 2 * ROOM, key.left - 2 * ROOM] : [query.left - 2 * ROOM, key.right + 2 * ROOM];
    const half = (x0 + x1) / 2;
    return curve(x0, height(query), half, height(query), half, height(key), x1, height(key));
  }
  const same = query === key;
  if (shape === "arcs") {
    const [x0, y0, x1, y1] = [middle(query), query.bottom + ROOM, middle(key), key.bottom + ROOM];
    if (same) return curve(x0 - 4, y0, x0 - 16, y0 + 26, x0 + 16, y0 + 26, x0 + 4, y0);
    const deep = Math.min(DEEPEST, 22 + 0.3 * Math.abs(x1 - x0));
    return curve(x0, y0, x0, y0 + deep, x1, y1 + deep, x1, y1);
  }
  const sign = rtl ? -1 : 1;
  const [x0, x1] = rtl ? [query.left - 2 * ROOM, key.left - 2 * ROOM] : [query.right + 2 * ROOM, key.right + 2 * ROOM];
  if (same) return curve(x0, height(query) - 3, x0 + sign * 18, height(query) - 12, x0 + sign * 18, height(query) + 12, x0, height(query) + 3);
  const out = sign * Math.min(DEEPEST, 18 + 0.3 * Math.abs(height(key) - height(query)));
  return curve(x0, height(query), x0 + out, height(query), x1 + out, height(key), x1, height(key));
}

/** Where the number of a line's end is written, and how it is anchored. */
export function numberAt(shape: Shape, word: Box, side: "query" | "key", rtl = false): { x: number; y: number; anchor: "start" | "middle" | "end" } {
  if (shape === "rows") return { x: middle(word), y: side === "key" ? word.bottom + ROOM - 6 : word.top - 8, anchor: "middle" };
  if (shape === "arcs") return { x: middle(word), y: word.bottom + ROOM - 6, anchor: "middle" };
  const right = shape === "brackets" ? !rtl : (side === "key") !== rtl;
  return { x: right ? word.right + 6 : word.left - 6, y: height(word) + 4, anchor: right ? "start" : "end" };
}
