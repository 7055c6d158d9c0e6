/** What the page and its worker say to each other. */

import type { TileProvider } from "./provider";

export type Method = Exclude<keyof TileProvider, "close" | "rerun" | "ablate" | "other">;
export type Question = { id: number; method: Method; args: unknown[] } | { start: string } | { stop: number };
export type Answer = { id: number; value: unknown } | { id: number; estimate: Uint16Array } | { id: number; error: string; aborted: boolean };

/** Where a reader looks, as a notebook's Python knows it: the cursor is a query and a key. */
export interface Place {
  site: number;
  head: number;
  cursor: readonly [number, number] | null;
}
/** From the page to whoever frames it, and back, beside questions and answers. */
export type Looking = { looking: Place };
export type Look = { look: Place };
