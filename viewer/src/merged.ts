/** Maps of two traces between the units that their texts have in common, so that models with other pieces can be compared. */

import type { App } from "./app";
import { block } from "./block";
import type { Cached } from "./cached";
import { emptyCells, codesOf, halved, type Cells } from "./engine/pool";
import { joined } from "./label";
import type { Cell, Codes, Semantic, Sequence, Site, Span, Statistics, Step, Thumbnail, TileProvider, TileRequest, Trace } from "./provider";
import { LeastRecent } from "./recent";
import { spansOf } from "./span";
import { commonUnits, OUTSIDE, type Unit, type Units } from "./text-unit";

/** Weights beyond which a map is not merged. */
export const MOST = 4 << 20;
/** In place of a head: the mean of all. */
export const MEAN = -1;
/** Cells of merged maps that are kept. */
const KEPT = 16 << 20;

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

/** The units of queries and of keys; why there are none where the keys are not one text, or the queries differ from the first word on. */
export function axesOf(one: Trace, a: Site, other: Trace, b: Site, unit: Unit): Axes | "compare.shape" | "compare.answers" | "compare.large" {
  if (a.shows === "projected" || b.shows === "projected" || (a.query === a.key) !== (b.query === b.key)) return "compare.shape";
  const of = (side: "query" | "key"): [Sequence | undefined, Sequence | undefined] => [one.sequences[a[side]], other.sequences[b[side]]];
  const [keys, queries] = [commonUnits(...of("key"), unit), commonUnits(...of("query"), unit)];
  if (!keys?.whole || !keys.texts.length || !queries) return "compare.shape";
  if (!queries.texts.length) return "compare.answers";
  if (Math.max(a.queries * a.keys, b.queries * b.keys) > MOST) return "compare.large";
  const rows = queries.whole ? outside(queries, of("query"), true) : axis(queries);
  return { rows, columns: outside(keys, of("key"), false), whole: queries.whole };
}

/** Whether two maps have the same labels on both sides. */
export function identical(one: Trace, a: Site, other: Trace, b: Site): boolean {
  const labels = (trace: Trace, site: Site, side: "query" | "key"): string => trace.sequences[site[side]]?.labels?.join("\0") ?? "";
  return a.queries === b.queries && a.keys === b.keys && (["query", "key"] as const).every((side) => labels(one, a, side) === labels(other, b, side));
}

/** One map's tokens as units, or its words or sentences; null where there are too many weights to merge. */
export function ownAxes(app: App, site: Site, level: Semantic | null): Axes | null {
  if (site.queries * site.keys > MOST) return null;
  const of = (side: "query" | "key", length: number): Axis => {
    const sequence = app.sequence(side, site);
    const spans = level ? spansOf(sequence, level, length) : Array.from({ length }, (_, at) => [at, at + 1] as const);
    const units = new Array<number>(length).fill(OUTSIDE);
    spans.forEach(([begin, end], unit) => units.fill(unit, begin, end));
    const text = ([begin, end]: Span): string => (end - begin > 1 && sequence?.labels ? joined(sequence.labels.slice(begin, end)) : app.label(side, begin, site));
    return { texts: spans.map(text), units: [units, units] };
  };
  return { rows: of("query", site.queries), columns: of("key", site.keys), whole: true };
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

/** The mean over the queries of a unit, and over heads if all are meant, of the sum over the keys of another. */
export class Merged implements TileProvider {
  private readonly maps: LeastRecent<string, Promise<Cells>>;

  constructor(
    private readonly inner: Cached,
    private readonly axes: Axes,
    private readonly side: 0 | 1,
  ) {
    this.maps = new LeastRecent(Math.max(4, Math.floor(KEPT / (axes.rows.texts.length * axes.columns.texts.length))));
  }

  async meta(): Promise<Trace> {
    return mergedTrace(await this.inner.meta(), this.axes);
  }

  private map(site: number, head: number): Promise<Cells> {
    const name = `${site}/${head}`;
    return this.maps.getOr(name, () => {
      const made = this.made(site, head);
      made.catch(() => this.maps.delete(name));
      return made;
    });
  }

  private async made(site: number, head: number): Promise<Cells> {
    const { queries, keys, heads } = (await this.inner.meta()).sites[site]!;
    const [rows, columns] = [this.axes.rows.units[this.side], this.axes.columns.units[this.side]];
    const cells = emptyCells(this.axes.rows.texts.length, this.axes.columns.texts.length);
    for (const each of head === MEAN ? Array(heads).keys() : [head]) {
      const weights = await block(this.inner, site, each, [0, queries], [0, keys]);
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
    }
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
