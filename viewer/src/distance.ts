/** How far two heads are apart: what Python's `inspect.nearest_heads` and `AlignedMaps.mean` give. */

import type { Cached } from "./cached";
import { decode } from "./codec";
import { TILE } from "./provider";

export interface Head {
  provider: Cached;
  site: number;
  head: number;
}

/** The mean over rows of ½ Σ_j |α_ij − β_ij|: 0 for equal rows, 1 for rows without common keys. What is hidden weighs nothing. */
export async function distance(one: Head, other: Head, rows: number, columns: number, signal: AbortSignal): Promise<number> {
  let sum = 0;
  for (let row = 0; row * TILE < rows; row++)
    for (let column = 0; column * TILE < columns; column++) {
      const [first, second] = await Promise.all([one, other].map(({ provider, site, head }) => provider.tile({ site, head, level: 0, row, column, pool: "mass" }, signal)));
      signal.throwIfAborted();
      for (let i = 0; i < Math.min(TILE, rows - row * TILE); i++)
        for (let j = i * TILE; j < i * TILE + Math.min(TILE, columns - column * TILE); j++) sum += Math.abs((decode(first![j]!) ?? 0) - (decode(second![j]!) ?? 0));
    }
  return sum / 2 / rows;
}
