/** One pass over all weights of a head: all levels from a base on, and what its rows say. Memory stays O(cells). */

import { TILE, type Codes, type Pool } from "../provider";
import type { Head } from "./head";
import { Gauge, type Reading } from "./measure";
import { addRow, codesOf, emptyCells, halved, levelAxis, type Cells } from "./pool";

/** At most so many cells a side at the base: 2 × 4 MB. */
const SIDE = 1024;

export function baseLevel(queries: number, keys: number): number {
  return Math.max(0, Math.ceil(Math.log2(Math.max(queries, keys, 1) / SIDE)));
}

export class Pyramid {
  readonly base: number;
  readonly reading: Reading;
  private readonly levels: Cells[];

  private constructor(base: number, cells: Cells, gauge: Gauge) {
    this.base = base;
    this.reading = gauge.read();
    this.levels = [cells];
    for (let top = cells; top.rows > 1 || top.columns > 1; ) this.levels.push((top = halved(top)));
  }

  static *of(head: Head, labels: readonly string[] | null, keys: readonly string[] | null): Generator<void, Pyramid> {
    const base = baseLevel(head.queries, head.keys);
    const size = 2 ** base;
    const cells = emptyCells(Math.ceil(head.queries / size), Math.ceil(head.keys / size), base === 0);
    const axis = levelAxis(base, 0, head.keys, cells.columns);
    const gauge = new Gauge(head, labels, keys);
    const weights = new Float64Array(head.keys);
    for (let i = 0; i < head.queries; i++) {
      const [from, to] = head.reach(i);
      head.row(i, from, to, weights);
      addRow(cells, Math.floor(i / size), weights, from, to, axis);
      gauge.add(i, weights, from, to);
      cells.queries[Math.floor(i / size)]! += 1;
      yield;
    }
    return new Pyramid(base, cells, gauge);
  }

  /** The codes of a tile, or of its corner of `side` cells; levels above the top are the top. */
  codes(level: number, row: number, column: number, pool: Pool, side = TILE): Codes {
    const cells = this.levels[Math.min(level - this.base, this.levels.length - 1)]!;
    return codesOf(cells, pool, row * TILE, column * TILE, side);
  }
}
