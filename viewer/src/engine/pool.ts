/** Many weights in one cell: by peak (the largest) and by mass (mean over queries of the sum over keys). */

import { encode, HIDDEN } from "../codec";
import { TILE, type Codes, type Pool, type Span } from "../provider";
import { UNSEEN, type Head } from "./head";

/** Peaks and sums of rows × columns cells. A peak of UNSEEN says that nothing in the cell is visible. */
export interface Cells {
  rows: number;
  columns: number;
  peak: Float32Array;
  sum: Float64Array | Float32Array;
  /** How many queries each row of cells pools. */
  queries: Float64Array;
}

export function emptyCells(rows: number, columns: number, wide = true): Cells {
  const peak = new Float32Array(rows * columns).fill(UNSEEN);
  const sum = wide ? new Float64Array(rows * columns) : new Float32Array(rows * columns);
  return { rows, columns, peak, sum, queries: new Float64Array(rows) };
}

/** Which cells the tokens [first, last) of one axis fall into; −1 for none. */
export interface Axis {
  first: number;
  last: number;
  cell: Int32Array;
}

export function levelAxis(level: number, tile: number, length: number, cells = TILE): Axis {
  const first = Math.min(tile * cells * 2 ** level, length);
  const last = Math.min((tile + 1) * cells * 2 ** level, length);
  return { first, last, cell: Int32Array.from({ length: last - first }, (_, i) => Math.floor(i / 2 ** level)) };
}

export function spanAxis(spans: readonly Span[], tile: number): Axis {
  const here = spans.slice(tile * TILE, (tile + 1) * TILE);
  const first = Math.min(...here.map(([begin]) => begin), Infinity);
  if (first === Infinity) return { first: 0, last: 0, cell: new Int32Array(0) };
  const last = Math.max(...here.map(([, end]) => end));
  const cell = new Int32Array(last - first).fill(-1);
  here.forEach(([begin, end], index) => cell.fill(index, begin - first, end - first));
  return { first, last, cell };
}

/** Adds one query's weights over keys [from, to) to the cells of row `row`. */
export function addRow(cells: Cells, row: number, weights: Float64Array, from: number, to: number, axis: Axis): void {
  const base = row * cells.columns;
  const { peak, sum } = cells;
  for (let j = from; j < to; j++) {
    const weight = weights[j - from]!;
    const cell = axis.cell[j - axis.first]!;
    if (weight < 0 || cell < 0) continue;
    // What is not a number stays so, whatever else is in the cell.
    if (weight > peak[base + cell]! || Number.isNaN(weight)) peak[base + cell] = weight;
    sum[base + cell]! += weight;
  }
}

/** All rows of a tile, a few at a time, so that whoever runs it can do other things between; as equal shares, if wanted. */
export function* pooled(head: Head, rows: Axis, columns: Axis, equal = false): Generator<void, Cells> {
  const cells = emptyCells(TILE, TILE);
  const weights = new Float64Array(columns.last - columns.first);
  for (let i = rows.first; i < rows.last; i++) {
    const row = rows.cell[i - rows.first]!;
    if (row < 0) continue;
    cells.queries[row]! += 1;
    const [low, high] = head.reach(i);
    const from = Math.max(low, columns.first);
    const to = Math.min(high, columns.last);
    if (from < to) {
      if (equal) head.shares(i, from, to, weights);
      else head.row(i, from, to, weights);
      addRow(cells, row, weights, from, to, columns);
    }
    yield;
  }
  return cells;
}

/** A guess at a tile from one query of each of its rows of cells. */
export function* sampled(head: Head, level: number, row: number, columns: Axis): Generator<void, Cells> {
  const rows = levelAxis(level, row, head.queries);
  const cell = new Int32Array(rows.cell.length).fill(-1);
  const size = 2 ** level;
  for (let at = 0; at < cell.length; at += size) cell[Math.min(at + (size >> 1), cell.length - 1)] = at / size;
  return yield* pooled(head, { ...rows, cell }, columns);
}

/** The codes of up to 256 × 256 cells, from cell (row, column) on. */
export function codesOf(cells: Cells, pool: Pool, row = 0, column = 0, side = TILE): Codes {
  const codes = new Uint16Array(side * side).fill(HIDDEN);
  for (let r = row; r < Math.min(row + side, cells.rows); r++) {
    const queries = cells.queries[r]! || 1;
    for (let c = column; c < Math.min(column + side, cells.columns); c++) {
      const at = r * cells.columns + c;
      const peak = cells.peak[at]!;
      if (peak === UNSEEN) continue;
      codes[(r - row) * side + (c - column)] = encode(pool === "peak" ? peak : cells.sum[at]! / queries);
    }
  }
  return codes;
}

/** The next level: 2 × 2 cells in one. */
export function halved(cells: Cells): Cells {
  const next = emptyCells(Math.ceil(cells.rows / 2), Math.ceil(cells.columns / 2), false);
  for (let r = 0; r < cells.rows; r++) {
    next.queries[r >> 1]! += cells.queries[r]!;
    for (let c = 0; c < cells.columns; c++) {
      const from = r * cells.columns + c;
      const to = (r >> 1) * next.columns + (c >> 1);
      if (cells.peak[from]! > next.peak[to]! || Number.isNaN(cells.peak[from]!)) next.peak[to] = cells.peak[from]!;
      next.sum[to]! += cells.sum[from]!;
    }
  }
  return next;
}
