/** A rectangle of single weights, out of the tiles that hold it. */

import type { Cached } from "./cached";
import { decode } from "./codec";
import { TILE, type Level, type Pooling, type Span } from "./provider";

/** Weights of rows × columns; null where hidden, NaN where the weight is not a number. */
export async function block(provider: Cached, site: number, head: number, rows: Span, columns: Span, level: Level = 0, signal?: AbortSignal, pool: Pooling = "mass"): Promise<(number | null)[][]> {
  const found = Array.from({ length: rows[1] - rows[0] }, () => new Array<number | null>(columns[1] - columns[0]).fill(null));
  const jobs: Promise<void>[] = [];
  for (let row = Math.floor(rows[0] / TILE); row * TILE < rows[1]; row++) {
    for (let column = Math.floor(columns[0] / TILE); column * TILE < columns[1]; column++) {
      const request = { site, head, level, row, column, pool } as const;
      jobs.push(provider.tile(request, signal).then((codes) => {
        for (let i = Math.max(rows[0], row * TILE); i < Math.min(rows[1], (row + 1) * TILE); i++) {
          for (let j = Math.max(columns[0], column * TILE); j < Math.min(columns[1], (column + 1) * TILE); j++) {
            found[i - rows[0]]![j - columns[0]] = decode(codes[(i % TILE) * TILE + (j % TILE)]!);
          }
        }
      }));
    }
  }
  await Promise.all(jobs);
  return found;
}
