/** Any provider, asked once for what does not change: tiles are kept up to 32 MB, small answers for good. */

import { overviewLevel } from "./engine/level";
import { THUMBNAIL, TILE, type Ablate, type Ablation, type Cell, type Codes, type Rerun, type RerunAnswer, type Statistics, type Step, type Thumbnail, type TileProvider, type TileRequest, type Trace } from "./provider";
import { GoneError } from "./http";
import { LeastRecent } from "./recent";
import { signal } from "./signal";

const TILES = 256;

export class Cached implements TileProvider {
  private readonly tiles = new LeastRecent<string, Codes>(TILES);
  private readonly answers = new LeastRecent<string, Promise<unknown>>(1024);
  private trace: Promise<Trace> | null = null;
  /** Whether the last question was not even heard: the server has ended. */
  readonly gone = signal(false);

  constructor(private readonly inner: TileProvider) {}

  meta(): Promise<Trace> {
    return (this.trace ??= this.heard(this.inner.meta()));
  }
  known(request: TileRequest): Codes | undefined {
    return this.tiles.get(nameOf(request));
  }
  async tile(request: TileRequest, signal?: AbortSignal, estimate?: (codes: Codes) => void): Promise<Codes> {
    const known = this.known(request);
    if (known) return known;
    const codes = await this.heard(this.inner.tile(request, signal, estimate));
    this.tiles.set(nameOf(request), codes);
    return codes;
  }
  row(site: number, head: number, query: number, signal?: AbortSignal): Promise<Float32Array> {
    return this.heard(this.inner.row(site, head, query, signal));
  }
  value(site: number, head: number, query: number, key: number, signal?: AbortSignal): Promise<Cell> {
    return this.heard(this.inner.value(site, head, query, key, signal)).then(whole);
  }
  counts(site: number, head: number): Promise<Uint32Array> {
    return this.once(`counts/${site}/${head}`, () => this.inner.counts(site, head));
  }
  statistics(site: number): Promise<Statistics> {
    return this.once(`statistics/${site}`, () => this.inner.statistics(site), ({ estimate }) => !estimate);
  }
  overview(site: number, head: number): Promise<Thumbnail> {
    return this.once(`overview/${site}/${head}`, () => this.inner.overview(site, head), ({ estimate }) => !estimate);
  }
  /** The overview when it is certain: the corner of the tile of its level, which waits for the whole map. */
  async exactOverview(site: number, head: number, signal?: AbortSignal): Promise<Thumbnail> {
    const { queries, keys } = (await this.meta()).sites[site]!;
    const codes = await this.tile({ site, head, level: overviewLevel(queries, keys), row: 0, column: 0, pool: "peak" }, signal);
    const corner = new Uint16Array(THUMBNAIL * THUMBNAIL);
    for (let row = 0; row < THUMBNAIL; row++) corner.set(codes.subarray(row * TILE, row * TILE + THUMBNAIL), row * THUMBNAIL);
    const found = { codes: corner, estimate: false };
    this.answers.set(`overview/${site}/${head}`, Promise.resolve(found));
    return found;
  }
  steps(site: number, head: number, query: number, signal?: AbortSignal): Promise<Step[]> {
    return this.heard(this.inner.steps(site, head, query, signal));
  }
  numbers(site: number): Promise<Uint8Array> {
    return this.once(`numbers/${site}`, () => this.inner.numbers(site));
  }
  get attached(): boolean {
    return this.inner.rerun !== undefined;
  }
  rerun(request: Rerun): Promise<RerunAnswer> {
    if (!this.inner.rerun) return Promise.reject(new Error("No model is attached."));
    return this.heard(this.inner.rerun(request));
  }
  get ablates(): boolean {
    return this.inner.ablate !== undefined;
  }
  ablate(request: Ablate): Promise<Ablation> {
    const ask = this.inner.ablate?.bind(this.inner);
    if (!ask) return Promise.reject(new Error("No model is attached."));
    return this.once(`ablate/${JSON.stringify(request)}`, () => ask(request));
  }
  other(trace: string): Cached {
    if (!this.inner.other) throw new Error("No model is attached.");
    return new Cached(this.inner.other(trace));
  }
  close(): void {
    this.inner.close();
  }

  private heard<T>(answer: Promise<T>): Promise<T> {
    answer.then(
      () => (this.gone.value = false),
      (error: unknown) => (this.gone.value ||= error instanceof GoneError),
    );
    return answer;
  }

  /** Asks whether somebody is there again. */
  async ping(): Promise<boolean> {
    await this.heard(this.inner.meta()).catch(() => null);
    return !this.gone.value;
  }

  /** Asked once; again after a failure, or after an answer that is not for good. */
  private once<T>(name: string, ask: () => Promise<T>, final: (answer: T) => boolean = () => true): Promise<T> {
    return this.answers.getOr(name, () => {
      const answer = this.heard(ask());
      const forget = (): void => void (this.answers.get(name) === answer && this.answers.delete(name));
      answer.then((told) => final(told) || forget(), forget);
      return answer;
    }) as Promise<T>;
  }
}

/** JSON has no NaN: a weight that is not a number comes as null. */
const whole = (cell: Cell): Cell => ({ ...cell, weight: cell.weight ?? NaN, lift: cell.lift ?? NaN, score: cell.score ?? NaN });

const nameOf = ({ site, head, level, row, column, pool }: TileRequest): string => `${site}/${head}/${level}/${row}/${column}/${pool}`;
