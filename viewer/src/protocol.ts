/** What the page and its worker say to each other. */

import type { TileProvider } from "./provider";

export type Method = Exclude<keyof TileProvider, "close" | "rerun" | "other">;
export type Question = { id: number; method: Method; args: unknown[] } | { start: string } | { stop: number };
export type Answer = { id: number; value: unknown } | { id: number; estimate: Uint16Array } | { id: number; error: string; aborted: boolean };
