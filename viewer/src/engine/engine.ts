/** The provider of a standalone page: every number is computed here, from the trace that the page carries. */

import {
  THUMBNAIL,
  type Cell,
  type Codes,
  type Pooling,
  type Site,
  type Span,
  type Statistics,
  type Step,
  type Thumbnail,
  type TileProvider,
  type TileRequest,
  type Trace,
} from "../provider";
import { lift } from "../lift";
import { LeastRecent } from "../recent";
import { spansOf } from "../span";
import { Head, UNSEEN } from "./head";
import { overviewLevel } from "./level";
import { Gauge, labelsOf, type Reading } from "./measure";
import { assemble, type Payload } from "./payload";
import { codesOf, levelAxis, pooled, sampled, spanAxis, type Axis } from "./pool";
import { baseLevel, Pyramid } from "./pyramid";
import { stepsOf } from "./step";
import { Turns, URGENCY } from "./turns";

/** What is computed while one waits, in multiplications; more than that is guessed from some rows first. */
const QUICK = 1.5e8;
const SAMPLED_ROWS = 256;

export class Engine implements TileProvider {
  private readonly turns = new Turns();
  private readonly heads = new LeastRecent<string, Head>(8);
  private readonly pyramids = new LeastRecent<string, Promise<Pyramid>>(6);
  private readonly ready = new LeastRecent<string, Pyramid>(6);
  /** Kept for good: a dozen numbers a head. */
  private readonly measured = new Map<string, Reading>();

  constructor(private readonly payload: Payload) {}

  meta(): Promise<Trace> {
    return Promise.resolve(this.payload.trace);
  }

  async tile(request: TileRequest, signal?: AbortSignal, estimate?: (codes: Codes) => void): Promise<Codes> {
    const { site, head: index, level, row, column, pool } = request;
    const head = this.head(site, index);
    if (typeof level === "string") {
      const [rows, columns] = this.spans(site, level);
      return this.pool(head, spanAxis(rows, row), spanAxis(columns, column), pool === "equal" ? pool : "mass", signal);
    }
    if (pool === "equal") throw new Error("Equal shares are pooled for words and sentences only.");
    const rows = levelAxis(level, row, head.queries);
    const columns = levelAxis(level, column, head.keys);
    const direct = level < baseLevel(head.queries, head.keys) || head.cost(rows.first, rows.last) <= QUICK;
    const known = this.ready.get(`${site}/${index}`);
    if (known && level >= known.base) return known.codes(level, row, column, pool);
    if (direct) return this.pool(head, rows, columns, pool, signal);
    if (estimate) {
      const guess = await this.turns.run(URGENCY.tile, () => sampled(head, level, row, columns), signal);
      estimate(codesOf(guess, pool));
    }
    const pyramid = await this.pyramid(site, index);
    signal?.throwIfAborted();
    return pyramid.codes(level, row, column, pool);
  }

  private async pool(head: Head, rows: Axis, columns: Axis, pool: Pooling, signal?: AbortSignal): Promise<Codes> {
    const equal = pool === "equal";
    return codesOf(await this.turns.run(URGENCY.tile, () => pooled(head, rows, columns, equal), signal), equal ? "mass" : pool);
  }

  row(site: number, head: number, query: number): Promise<Float32Array> {
    const { weights } = this.whole(site, head, query);
    return Promise.resolve(Float32Array.from(weights, (weight) => Math.max(0, weight)));
  }

  value(site: number, head: number, query: number, key: number): Promise<Cell> {
    const { weights, scores } = this.whole(site, head, query);
    const weight = Math.max(0, weights[key]!);
    const count = this.head(site, head).count(query);
    const visible = weights[key]! !== UNSEEN;
    const rank = 1 + weights.reduce((above, each) => above + (each > weight ? 1 : 0), 0);
    return Promise.resolve({ weight, rank, count, lift: lift(weight, 1 / count), visible, score: scores[key]! });
  }

  private whole(site: number, index: number, query: number): { weights: Float64Array; scores: Float64Array } {
    const head = this.head(site, index);
    const weights = new Float64Array(head.keys);
    const scores = new Float64Array(head.keys);
    head.row(query, 0, head.keys, weights);
    head.scores(query, 0, head.keys, scores);
    return { weights, scores };
  }

  counts(site: number, index: number): Promise<Uint32Array> {
    const head = this.head(site, index);
    return Promise.resolve(
      Uint32Array.from({ length: head.queries }, (_, i) => head.count(i)),
    );
  }

  async statistics(site: number, signal?: AbortSignal): Promise<Statistics> {
    const read: Reading[] = [];
    let estimate = false;
    for (let index = 0; index < this.site(site).heads; index++) {
      const head = this.head(site, index);
      const known = this.measured.get(`${site}/${index}`) ?? (head.cost() <= QUICK ? (await this.pyramid(site, index)).reading : null);
      estimate ||= known === null;
      read.push(known ?? await this.turns.run(URGENCY.statistics, () => this.guess(head), signal));
    }
    return { heads: read.map(({ measures }) => measures), behaviours: read.map(({ behaviour }) => behaviour), estimate };
  }

  private *guess(head: Head): Generator<void, Reading> {
    const gauge = new Gauge(head, this.labels(head.site), this.keyLabels(head.site));
    const weights = new Float64Array(head.keys);
    for (let n = 0; n < SAMPLED_ROWS; n++) {
      const i = Math.floor(((n + 0.5) * head.queries) / SAMPLED_ROWS);
      const [from, to] = head.reach(i);
      head.row(i, from, to, weights);
      gauge.add(i, weights, from, to);
      yield;
    }
    return gauge.read();
  }

  async overview(site: number, index: number, signal?: AbortSignal): Promise<Thumbnail> {
    const head = this.head(site, index);
    const level = overviewLevel(head.queries, head.keys);
    const known = this.ready.get(`${site}/${index}`) ?? (head.cost() <= QUICK ? await this.pyramid(site, index) : null);
    if (known && level >= known.base) return { codes: known.codes(level, 0, 0, "peak", THUMBNAIL), estimate: false };
    const columns = levelAxis(level, 0, head.keys);
    const exact = known !== null;
    const job = exact ? () => pooled(head, levelAxis(level, 0, head.queries), columns) : () => sampled(head, level, 0, columns);
    return { codes: codesOf(await this.turns.run(URGENCY.overview, job, signal), "peak", 0, 0, THUMBNAIL), estimate: !exact };
  }

  steps(site: number, head: number, query: number): Promise<Step[]> {
    return Promise.resolve(stepsOf(this.head(site, head), query));
  }

  async numbers(site: number): Promise<Uint8Array> {
    return assemble({ ...this.payload.trace, sequences: {}, sites: [this.site(site)] }, [Object.fromEntries(this.payload.tensors[site]!)]);
  }

  close(): void {}

  private site(index: number): Site {
    const site = this.payload.trace.sites[index];
    if (!site) throw new Error(`The trace has no site ${index}.`);
    return site;
  }

  private head(site: number, index: number): Head {
    return this.heads.getOr(`${site}/${index}`, () => new Head(this.site(site), index, this.payload.tensors[site]!));
  }

  private labels(site: Site): readonly string[] | null {
    return labelsOf(this.payload.trace.sequences[site.query]);
  }

  private keyLabels(site: Site): readonly string[] | null {
    const sequence = this.payload.trace.sequences[site.key];
    return sequence?.kind === "tokens" && site.shows !== "projected" ? labelsOf(sequence) : null;
  }

  private spans(index: number, level: "word" | "sentence"): [readonly Span[], readonly Span[]] {
    const site = this.site(index);
    const of = (name: string, length: number): readonly Span[] => spansOf(this.payload.trace.sequences[name], level, length);
    return [of(site.query, site.queries), of(site.key, site.keys)];
  }

  /** Built once, in the background; tiles and hovering come first. */
  private pyramid(site: number, index: number): Promise<Pyramid> {
    const name = `${site}/${index}`;
    return this.pyramids.getOr(name, () => {
      const head = this.head(site, index);
      const urgency = head.cost() <= QUICK ? URGENCY.overview : URGENCY.pyramid;
      const made = this.turns.run(urgency, () => Pyramid.of(head, this.labels(head.site), this.keyLabels(head.site)));
      void made.then((pyramid) => {
        this.ready.set(name, pyramid);
        this.measured.set(name, pyramid.reading);
      });
      return made;
    });
  }
}
