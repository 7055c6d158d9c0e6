/**
 * Lift, in one place, as Python's `inspect/lift.py` has it: how many times as much as an equal share. A weight
 * is held against 1 / the number of keys that its query sees; a word against the share that it would have if every query
 * looked at all it sees alike. 1 is an equal share. Both are tested on the same numbers, tests/golden/lift.json.
 */

import { block } from "./block";
import type { Cached } from "./cached";
import { HIDDEN, ONE, STEPS, ZERO } from "./codec";
import { TILE, type Codes, type Level, type Pool, type Span } from "./provider";

export const lift = (weight: number, share: number): number => weight / share;

/** The equal share of each cell of a block; null where nothing is visible. */
export async function shares(provider: Cached, site: number, head: number, rows: Span, columns: Span, level: Level, signal?: AbortSignal): Promise<(number | null)[][]> {
  if (typeof level === "string") return block(provider, site, head, rows, columns, level, signal, "equal");
  const [cells, counts] = await Promise.all([block(provider, site, head, rows, columns, level, signal), provider.counts(site, head)]);
  return cells.map((row, i) => row.map((weight) => (weight === null ? null : 1 / counts[rows[0] + i]!)));
}

/** What to subtract from the codes of each row of a tile, so that they are codes of lift. */
export function rowShifts(counts: Uint32Array, level: number, row: number, pool: Pool, side = TILE): Float64Array {
  const size = 2 ** level;
  return Float64Array.from({ length: side }, (_, r) => {
    const from = (row * side + r) * size;
    const here = counts.subarray(from, from + size);
    const mean = here.reduce((sum, count) => sum + count, 0) / (here.length || 1);
    // A cell of mass holds up to `size` keys, which together would weigh `size` times the equal share.
    return mean > 0 ? STEPS * (Math.log2(mean) - (pool === "mass" ? level : 0)) : 0;
  });
}

/** The same for each cell of words or sentences, from the codes of their equal shares. */
export const cellShifts = (equal: Codes): Float64Array => Float64Array.from(equal, (code) => (code === HIDDEN || code === ZERO ? 0 : code - ONE));
