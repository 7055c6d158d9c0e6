/** Maps of two traces between the units that their texts have in common, so that models with other pieces can be compared. */

import { block } from "./block";
import type { Cached } from "./cached";
import { emptyCells, codesOf, halved, type Cells } from "./engine/pool";
import type { Cell, Codes, Sequence, Site, Statistics, Step, Thumbnail, TileProvider, TileRequest, Trace } from "./provider";
import { commonUnits, OUTSIDE, type Unit, type Units } from "./text-unit";

/** Weights beyond which a map is not merged. */
const MOST = 4 << 20;

export interface Axis {
  texts: readonly string[];
  /** For each label of the one and of the other trace its unit. */
  units: readonly [readonly number[], readonly number[]];
}
export interface Axes {
  rows: Axis;
  columns: Axis;
  /** Whether the queries of both are the same text. */
  whole: boolean;
}

/** The units of queries and of keys; null where the keys are not one text, "answers" where only the queries differ, from the first word on. */
export function axesOf(one: Trace, a: Site, other: Trace, b: Site, unit: Unit): Axes | "answers" | null {
  if (a.shows === "projected" || b.shows === "projected" || (a.query === a.key) !== (b.query === b.key)) return null;
  if (Math.max(a.queries * a.keys, b.queries * b.keys) > MOST) return null;
  const of = (side: "query" | "key"): [Sequence | undefined, Sequence | undefined] => [one.sequences[a[side]], other.sequences[b[side]]];
  const [keys, queries] = [commonUnits(...of("key"), unit), commonUnits(...of("query"), unit)];
  if (!keys?.whole || !keys.texts.length || !queries) return null;
  if (!queries.texts.length) return "answers";
  const rows = queries.whole ? outside(queries, of("query"), true) : axis(queries);
  return { rows, columns: outside(keys, of("key"), false), whole: queries.whole };
}

const axis = ({ texts, one, other }: Units): Axis => ({ texts, units: [one, other] });

/** One unit more for the symbols outside a text, such as its end, where all or any of the two have them. */
function outside(units: Units, sequences: readonly (Sequence | undefined)[], all: boolean): Axis {
  const sides = [units.one, units.other] as const;
  const has = sides.map((side) => side.includes(OUTSIDE));
  if (!(all ? has.every(Boolean) : has.some(Boolean))) return axis(units);
  const symbols = sides.flatMap((side, at) => side.flatMap((unit, label) => (unit === OUTSIDE ? [sequences[at]!.labels![label]!] : [])));
  const last = units.texts.length;
  const moved = (side: readonly number[]): number[] => side.map((unit) => (unit === OUTSIDE ? last : unit));
  return { texts: [...units.texts, [...new Set(symbols)].join(" ")], units: [moved(units.one), moved(units.other)] };
}

/** What a trace says of its maps between units. */
export function mergedTrace(trace: Trace, { rows, columns }: Axes): Trace {
  const sequences: Record<string, Sequence> = { rows: { kind: "tokens", labels: [...rows.texts] }, columns: { kind: "tokens", labels: [...columns.texts] } };
  const sites = trace.sites.map((site): Site => ({ ...site, query: "rows", key: "columns", queries: rows.texts.length, keys: columns.texts.length, visibility: { ...site.visibility, native: null } }));
  return { ...trace, sequences, sites };
}

/** The mean over the queries of a unit of the sum over the keys of another. */
export class Merged implements TileProvider {
  private readonly maps = new Map<string, Promise<Cells>>();

  constructor(
    private readonly inner: Cached,
    private readonly axes: Axes,
    private readonly side: 0 | 1,
  ) {}

  async meta(): Promise<Trace> {
    return mergedTrace(await this.inner.meta(), this.axes);
  }

  private map(site: number, head: number): Promise<Cells> {
    const name = `${site}/${head}`;
    const known = this.maps.get(name) ?? this.made(site, head);
    this.maps.set(name, known);
    known.catch(() => this.maps.delete(name));
    return known;
  }

  private async made(site: number, head: number): Promise<Cells> {
    const { queries, keys } = (await this.inner.meta()).sites[site]!;
    const weights = await block(this.inner, site, head, [0, queries], [0, keys]);
    const [rows, columns] = [this.axes.rows.units[this.side], this.axes.columns.units[this.side]];
    const cells = emptyCells(this.axes.rows.texts.length, this.axes.columns.texts.length);
    weights.forEach((row, i) => {
      const unit = rows[i]!;
      if (unit < 0) return;
      cells.queries[unit]! += 1;
      row.forEach((weight, j) => {
        const at = unit * cells.columns + columns[j]!;
        if (weight === null || columns[j]! < 0) return;
        cells.sum[at]! += weight;
        cells.peak[at] = 0;
      });
    });
    for (let at = 0; at < cells.peak.length; at++) {
      cells.sum[at]! /= cells.queries[Math.floor(at / cells.columns)]! || 1;
      if (cells.peak[at] === 0) cells.peak[at] = cells.sum[at]!;
    }
    cells.queries.fill(1);
    return cells;
  }

  async tile({ site, head, level, row, column, pool }: TileRequest): Promise<Codes> {
    let cells = await this.map(site, head);
    for (let each = 0; each < Number(level); each++) cells = halved(cells);
    return codesOf(cells, pool === "peak" ? "peak" : "mass", row * 256, column * 256);
  }
  async row(site: number, head: number, query: number): Promise<Float32Array> {
    const { peak, columns } = await this.map(site, head);
    return peak.slice(query * columns, (query + 1) * columns).map((weight) => Math.max(weight, 0));
  }
  async value(site: number, head: number, query: number, key: number): Promise<Cell> {
    const { peak, columns } = await this.map(site, head);
    const row = [...peak.subarray(query * columns, (query + 1) * columns)];
    const [weight, count] = [row[key]!, row.filter((each) => !(each < 0)).length];
    const visible = !(weight < 0);
    return { weight: visible ? weight : 0, rank: 1 + row.filter((each) => each > weight).length, count, lift: visible ? weight * count : 0, visible, score: NaN };
  }
  async counts(site: number, head: number): Promise<Uint32Array> {
    const { peak, rows, columns } = await this.map(site, head);
    return Uint32Array.from({ length: rows }, (_, row) => peak.subarray(row * columns, (row + 1) * columns).filter((each) => !(each < 0)).length);
  }
  statistics(): Promise<Statistics> {
    return Promise.reject(new Error(UNTOLD));
  }
  overview(): Promise<Thumbnail> {
    return Promise.reject(new Error(UNTOLD));
  }
  steps(): Promise<Step[]> {
    return Promise.reject(new Error(UNTOLD));
  }
  numbers(): Promise<Uint8Array> {
    return Promise.reject(new Error(UNTOLD));
  }
  close(): void {}
}

const UNTOLD = "A merged map has weights only.";
