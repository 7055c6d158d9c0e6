/** One head of one site: weights of any row over any keys, from query, key and one number per row. */

import { halves } from "../codec";
import type { Site } from "../provider";
import { finisher, type Finish } from "./normaliser";
import type { Tensor } from "./payload";

/** Recorded numbers have 32 bits, those of a draft 64. */
type Floats = Float32Array | Float64Array;

/** What `Head.row` writes where a query does not see a key. */
export const UNSEEN = -1;

export class Head {
  readonly queries: number;
  readonly keys: number;
  readonly queryPosition: Int32Array;
  readonly keyPosition: Int32Array;
  readonly statistic: Floats;
  readonly query: Floats;
  readonly key: Floats;
  readonly feature: number;
  readonly vector: Floats | null;
  readonly dense: Floats | null;
  readonly value: Floats | null;
  readonly valueFeature: number;
  private readonly real: Uint8Array | null;
  private readonly bias: Floats | null;
  private readonly reweight: Floats | null;
  private readonly centre: Floats | null;
  private readonly bits: Uint8Array | null;
  private readonly finish: Finish;
  private readonly sorted: boolean;
  /** Of the keys before each, those that are no padding. */
  private readonly realBefore: Int32Array;

  constructor(
    readonly site: Site,
    readonly index: number,
    tensors: Map<string, Tensor>,
  ) {
    const { queries, keys, heads, kv_heads } = site;
    const sharing = Math.floor(index / Math.max(1, heads / kv_heads));
    const part = (name: string, slice: number): Floats | null => sliceOf(tensors.get(name), slice);
    this.queries = queries;
    this.keys = keys;
    this.query = part("query", index) ?? new Float32Array(0);
    this.key = part("key", sharing) ?? new Float32Array(0);
    this.feature = queries ? this.query.length / queries : 0;
    this.vector = part("vector", index);
    this.dense = part("scores", index);
    this.value = part("value", sharing);
    this.valueFeature = this.value && keys ? this.value.length / keys : 0;
    this.statistic = part("statistic", index) ?? new Float32Array(queries);
    this.queryPosition = integers(tensors.get("query_position"), queries);
    this.keyPosition = integers(tensors.get("key_position"), keys);
    this.bias = site.bias ? part("bias", index) : null;
    this.reweight = site.reweight?.kind === "dense" ? part("reweight", index) : null;
    this.centre = site.reweight?.kind === "gaussian" ? (perHead(tensors.get("centre"), index, queries) ?? Float32Array.from(this.queryPosition)) : null;
    const real = tensors.get("real");
    this.real = real ? (real.data as Uint8Array) : null;
    this.bits = site.visibility.native ? null : bitsOf(tensors.get("visible"), index, queries, keys);
    if (!site.visibility.native && !this.bits) throw new Error(`${site.name} is too large for a page to hold which keys are visible by ${site.visibility.code}. Open its trace with a server: foveate look TRACE.`);
    this.finish = finisher(site.normaliser);
    this.realBefore = new Int32Array(keys + 1);
    for (let j = 0; j < keys; j++) this.realBefore[j + 1] = this.realBefore[j]! + (this.real && !this.real[j] ? 0 : 1);
    this.sorted = this.keyPosition.every((at, j) => j === 0 || at >= this.keyPosition[j - 1]!);
  }

  /** The keys [from, to) outside of which a query certainly sees nothing. */
  reach(query: number): [number, number] {
    const native = this.site.visibility.native;
    if (!native || !this.sorted) return [0, this.keys];
    const at = this.queryPosition[query]!;
    const from = native.left === null ? 0 : this.firstAt(at - native.left);
    const to = native.right === null ? this.keys : this.firstAt(at + native.right + 1);
    return [from, Math.max(from, to)];
  }

  private firstAt(position: number): number {
    let low = 0;
    let high = this.keys;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.keyPosition[middle]! < position) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  visible(query: number, key: number): boolean {
    const native = this.site.visibility.native;
    if (native) {
      if (this.real && !this.real[key]) return false;
      const offset = this.keyPosition[key]! - this.queryPosition[query]!;
      return (native.left === null || -offset <= native.left) && (native.right === null || offset <= native.right);
    }
    const stride = (this.keys + 7) >> 3;
    return ((this.bits![query * stride + (key >> 3)]! >> (7 - (key & 7))) & 1) === 1;
  }

  /** How many keys a query sees. */
  count(query: number): number {
    const [from, to] = this.reach(query);
    if (this.site.visibility.native && this.sorted) return this.realBefore[to]! - this.realBefore[from]!;
    let seen = 0;
    for (let j = from; j < to; j++) if (this.visible(query, j)) seen += 1;
    return seen;
  }

  /** The weights of keys [from, to) if the query looked at all it sees alike; UNSEEN where hidden. */
  shares(query: number, from: number, to: number, out: Float64Array): void {
    const share = 1 / this.count(query);
    for (let j = from; j < to; j++) out[j - from] = this.visible(query, j) ? share : UNSEEN;
  }

  /** Score plus bias of keys [from, to), into `out` from 0 on. */
  scores(query: number, from: number, to: number, out: Float64Array): void {
    if (this.dense) {
      for (let j = from; j < to; j++) out[j - from] = this.dense[query * this.keys + j]!;
    } else if (this.vector) {
      this.additive(query, from, to, out);
    } else {
      this.product(query, from, to, out);
    }
    if (this.bias) for (let j = from; j < to; j++) out[j - from]! += this.biasOf(query, j);
  }

  private product(query: number, from: number, to: number, out: Float64Array): void {
    const { key, feature } = this;
    const factor = this.site.score.kind === "product" ? this.site.score.factor : 1;
    const row = new Float64Array(this.query.subarray(query * feature, (query + 1) * feature));
    let j = from;
    // Four keys at once: the query's numbers are read once for all of them.
    for (; j + 4 <= to; j += 4) {
      let a = 0;
      let b = 0;
      let c = 0;
      let d = 0;
      let at = j * feature;
      const second = feature;
      const third = 2 * feature;
      const fourth = 3 * feature;
      for (let f = 0; f < feature; f++, at++) {
        const q = row[f]!;
        a += q * key[at]!;
        b += q * key[at + second]!;
        c += q * key[at + third]!;
        d += q * key[at + fourth]!;
      }
      const o = j - from;
      out[o] = a * factor;
      out[o + 1] = b * factor;
      out[o + 2] = c * factor;
      out[o + 3] = d * factor;
    }
    for (; j < to; j++) {
      let sum = 0;
      for (let f = 0, at = j * feature; f < feature; f++, at++) sum += row[f]! * key[at]!;
      out[j - from] = sum * factor;
    }
  }

  private additive(query: number, from: number, to: number, out: Float64Array): void {
    const { key, feature } = this;
    const vector = this.vector!;
    const base = query * feature;
    const activated = this.activation();
    for (let j = from; j < to; j++) {
      let sum = 0;
      for (let f = 0, at = j * feature; f < feature; f++, at++) sum += vector[f]! * activated(this.query[base + f]! + key[at]!);
      out[j - from] = sum;
    }
  }

  /** What a network over pairs applies to each hidden unit. */
  activation(): (x: number) => number {
    const { score } = this.site;
    return score.kind === "leaky" ? (x) => (x < 0 ? score.slope * x : x) : Math.tanh;
  }

  biasOf(query: number, key: number): number {
    if (!this.bias) return 0;
    const told = this.site.bias!;
    if (told.kind === "dense") return this.bias[query * this.keys + key]!;
    const index = this.keyPosition[key]! - this.queryPosition[query]! - (told.first ?? 1 - this.queries);
    return this.bias[Math.min(Math.max(index, 0), this.bias.length - 1)]!;
  }

  /** What a weight is multiplied with after the normaliser. */
  factorOf(query: number, key: number): number {
    if (this.reweight) return Math.exp(this.reweight[query * this.keys + key]!);
    if (!this.centre || this.site.reweight?.kind !== "gaussian") return 1;
    const away = this.keyPosition[key]! - this.centre[query]!;
    return Math.exp((-away * away) / (2 * this.site.reweight.sigma ** 2));
  }

  /** The weights of keys [from, to), into `out` from 0 on; UNSEEN where hidden. */
  row(query: number, from: number, to: number, out: Float64Array): void {
    this.scores(query, from, to, out);
    const statistic = this.statistic[query]!;
    const factored = this.reweight !== null || this.centre !== null;
    for (let j = from; j < to; j++) {
      const o = j - from;
      if (!this.visible(query, j)) out[o] = UNSEEN;
      else {
        const weight = this.finish(out[o]!, statistic, j);
        out[o] = factored ? weight * this.factorOf(query, j) : weight;
      }
    }
  }

  /** About how many multiplications the rows [from, to) take. */
  cost(from = 0, to = this.queries): number {
    const every = Math.max(1, Math.floor((to - from) / 64));
    let reached = 0;
    for (let i = from; i < to; i += every) {
      const [low, high] = this.reach(i);
      reached += (high - low) * every;
    }
    return reached * (this.dense ? 1 : this.vector ? 16 * this.feature : this.feature + 8);
  }
}

/** One head's part of [heads|1, …]; half precision becomes numbers. */
function sliceOf(tensor: Tensor | undefined, index: number): Floats | null {
  if (!tensor) return null;
  const [heads = 1, ...rest] = tensor.shape;
  const size = rest.reduce((product, side) => product * side, 1);
  const start = (heads === 1 ? 0 : index) * size;
  const part = tensor.data.subarray(start, start + size);
  return part instanceof Uint16Array ? halves(part) : part instanceof Float32Array || part instanceof Float64Array ? part : Float32Array.from(part);
}

function perHead(tensor: Tensor | undefined, index: number, length: number): Floats | null {
  if (!tensor) return null;
  return tensor.shape.length === 1 ? sliceOf({ ...tensor, shape: [1, length] }, 0) : sliceOf(tensor, index);
}

function integers(tensor: Tensor | undefined, length: number): Int32Array {
  return tensor ? Int32Array.from(tensor.data) : Int32Array.from({ length }, (_, i) => i);
}

function bitsOf(tensor: Tensor | undefined, index: number, queries: number, keys: number): Uint8Array | null {
  if (!tensor) return null;
  const size = queries * ((keys + 7) >> 3);
  const data = tensor.data as Uint8Array;
  return data.length <= size ? data : data.subarray(index * size, (index + 1) * size);
}
