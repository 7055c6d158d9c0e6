/** Random small traces with their whole maps, computed the plain way: no statistic, no tile, n × m numbers. */

import { halves, toHalf } from "../src/codec";
import type { Payload, Tensor } from "../src/engine/payload";
import type { Native, Normaliser, Reweight, Score, Site, Trace } from "../src/provider";

export class Random {
  constructor(private state: number) {}
  /** Uniform in [0, 1): mulberry32, the same on every machine. */
  next(): number {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  normal(scale = 1): number {
    return scale * Math.sqrt(-2 * Math.log(1 - this.next())) * Math.cos(2 * Math.PI * this.next());
  }
  array(length: number, scale = 1): number[] {
    return Array.from({ length }, () => this.normal(scale));
  }
}

export interface Choice {
  queries: number;
  keys: number;
  heads: number;
  kv_heads: number;
  feature: number;
  score: Score;
  native: Native | null;
  normaliser: Normaliser;
  bias: Site["bias"];
  reweight: Reweight | null;
  /** Keys from here on are padding. */
  real: number;
  /** The position of the first query, as in decoding with a cache. */
  offset: number;
}

export const PLAIN: Choice = {
  queries: 9,
  keys: 9,
  heads: 2,
  kv_heads: 2,
  feature: 6,
  score: { kind: "product", factor: 0.5 },
  native: { left: null, right: null },
  normaliser: { kind: "softmax" },
  bias: null,
  reweight: null,
  real: Infinity,
  offset: 0,
};

export interface Made {
  payload: Payload;
  /** Per head, per query, per key. Hidden keys weigh 0. */
  weights: number[][][];
  visible: boolean[][][];
  scores: number[][][];
}

const half = (shape: number[], values: number[]): Tensor => ({ dtype: "F16", shape, data: Uint16Array.from(values, toHalf) });
const float = (shape: number[], values: number[]): Tensor => ({ dtype: "F32", shape, data: Float32Array.from(values) });
const whole = (values: number[]): Tensor => ({ dtype: "I32", shape: [values.length], data: Int32Array.from(values) });

export function made(choice: Partial<Choice>, seed = 1): Made {
  const of = { ...PLAIN, ...choice };
  const { queries, keys, heads, kv_heads, feature, score, native, normaliser, bias, reweight } = of;
  const random = new Random(seed);
  const size = score.kind === "dense" ? 0 : feature;
  // Linear attention's features are positive, so that its scores are.
  const positive = normaliser.kind === "proportional";
  const numbers = (count: number): number[] => random.array(count).map((x) => (positive ? Math.abs(x) : x));
  const tensors = new Map<string, Tensor>();
  tensors.set("query", half([heads, queries, size], numbers(heads * queries * size)));
  tensors.set("key", half([kv_heads, keys, size], numbers(kv_heads * keys * size)));
  if (score.kind === "dense") tensors.set("scores", half([heads, queries, keys], numbers(heads * queries * keys)));
  if (score.kind === "additive" || score.kind === "leaky") tensors.set("vector", float([1, feature], random.array(feature)));
  tensors.set("query_position", whole(Array.from({ length: queries }, (_, i) => i + of.offset)));
  tensors.set("key_position", whole(Array.from({ length: keys }, (_, j) => j)));
  const real = Array.from({ length: keys }, (_, j) => (j < of.real ? 1 : 0));
  tensors.set("real", { dtype: "BOOL", shape: [keys], data: Uint8Array.from(real) });
  if (bias) {
    const shape = bias.kind === "dense" ? [1, queries, keys] : [heads, queries + keys - 1];
    tensors.set("bias", float(shape, random.array(shape.reduce((a, b) => a * b, 1))));
  }
  if (reweight?.kind === "gaussian") tensors.set("centre", float([heads, queries], Array.from({ length: heads * queries }, () => random.next() * keys)));
  if (reweight?.kind === "dense") tensors.set("reweight", float([1, queries, keys], random.array(queries * keys).map((x) => -Math.abs(x))));
  const visible = Array.from({ length: heads }, () =>
    Array.from({ length: queries }, (_, i) =>
      Array.from({ length: keys }, (_, j) => {
        const away = j - i - of.offset;
        if (!native) return random.next() < 0.4;
        return real[j] === 1 && (native.left === null || away >= -native.left) && (native.right === null || away <= native.right);
      }),
    ),
  );
  if (!native) tensors.set("visible", packed(visible));
  const site: Site = {
    ...{ name: "site", kind: queries === keys ? "self" : "cross", layer: 0, heads, kv_heads, queries, keys, query: "target", key: queries === keys ? "target" : "source" },
    ...{ score, visibility: { code: "test", native }, bias, normaliser, reweight, shows: "exact", formula: "" },
  } as Site;
  const labels = (length: number): string[] => Array.from({ length }, () => "abc"[Math.floor(random.next() * 3)]!);
  const words = [[0, 2], [2, 3], [3, Math.min(7, keys, queries)]] as const;
  const sequences = { target: { kind: "tokens" as const, labels: labels(queries), words: [...words] }, source: { kind: "tokens" as const, labels: labels(keys), words: [...words] } };
  const trace: Trace = { format: "foveate-trace", version: 1, pedigree: {}, sequences, gold: null, sites: [site] };
  const scores = plainScores(of, tensors);
  const rows = scores.map((head, h) => head.map((row, i) => normalised(normaliser, row, visible[h]![i]!)));
  tensors.set("statistic", float([heads, queries], rows.flat().map(({ statistic }) => statistic)));
  const factor = factors(of, tensors);
  const weights = rows.map((head, h) => head.map((row, i) => row.weights.map((weight, j) => weight * factor(h, i, j))));
  return { payload: { trace, tensors: [tensors] }, weights, visible, scores };
}

function packed(visible: boolean[][][]): Tensor {
  const keys = visible[0]![0]!.length;
  const stride = Math.ceil(keys / 8);
  const data = new Uint8Array(visible.length * visible[0]!.length * stride);
  visible.flat().forEach((row, r) => row.forEach((seen, j) => { if (seen) data[r * stride + (j >> 3)]! |= 128 >> (j & 7); }));
  return { dtype: "U8", shape: [visible.length, visible[0]!.length, stride], data };
}

function plainScores({ queries, keys, heads, kv_heads, feature, score, bias, offset }: Choice, tensors: Map<string, Tensor>): number[][][] {
  const read = (name: string): Float32Array => {
    const data = tensors.get(name)?.data;
    return data instanceof Uint16Array ? halves(data) : ((data ?? new Float32Array(0)) as Float32Array);
  };
  const [q, k, v, s, b] = ["query", "key", "vector", "scores", "bias"].map(read);
  return range(heads).map((h) => range(queries).map((i) => range(keys).map((j) => {
    const share = Math.floor(h / (heads / kv_heads));
    const pairs = range(score.kind === "dense" ? 0 : feature).map((f) => [q![(h * queries + i) * feature + f]!, k![(share * keys + j) * feature + f]!] as const);
    let value = 0;
    if (score.kind === "dense") value = s![(h * queries + i) * keys + j]!;
    else if (score.kind === "additive") value = pairs.reduce((sum, [x, y], f) => sum + v![f]! * Math.tanh(x + y), 0);
    else if (score.kind === "leaky") value = pairs.reduce((sum, [x, y], f) => sum + v![f]! * (x + y < 0 ? score.slope * (x + y) : x + y), 0);
    else value = score.factor * pairs.reduce((sum, [x, y]) => sum + x * y, 0);
    if (bias?.kind === "dense") value += b![i * keys + j]!;
    if (bias?.kind === "distance") value += b![h * (queries + keys - 1) + Math.min(Math.max(j - i - offset + queries - 1, 0), queries + keys - 2)]!;
    return value;
  })));
}

function factors({ queries, keys, reweight }: Choice, tensors: Map<string, Tensor>): (h: number, i: number, j: number) => number {
  if (reweight?.kind === "gaussian") {
    const centre = tensors.get("centre")!.data;
    return (h, i, j) => Math.exp(-((j - centre[h * queries + i]!) ** 2) / (2 * reweight.sigma ** 2));
  }
  const log = tensors.get("reweight")?.data;
  return log ? (_h, i, j) => Math.exp(log[i * keys + j]!) : () => 1;
}

function normalised(normaliser: Normaliser, scores: number[], visible: boolean[]): { weights: number[]; statistic: number } {
  const seen = scores.filter((_, j) => visible[j]);
  const spread = (weight: (score: number, key: number) => number): number[] => scores.map((score, j) => (visible[j] ? weight(score, j) : 0));
  const total = (of: (score: number) => number): number => seen.reduce((sum, score) => sum + of(score), 0);
  switch (normaliser.kind) {
    case "softmax": {
      const t = normaliser.temperature ?? 1;
      const sum = total((score) => Math.exp(score / t));
      return { weights: spread((score) => Math.exp(score / t) / sum), statistic: Math.log(sum) };
    }
    case "relu": {
      if (normaliser.normalised === false) return { weights: spread((score) => Math.max(0, score)), statistic: 0 };
      const sum = total((score) => Math.max(0, score));
      return { weights: spread((score) => (sum > 0 ? Math.max(0, score) / sum : 0)), statistic: sum };
    }
    case "sigmoid":
      return { weights: spread((score) => 1 / (1 + Math.exp(-score - (normaliser.bias ?? 0)))), statistic: 0 };
    case "sparsemax":
      return thresholded(scores, visible, 2);
    case "entmax":
      return thresholded(scores, visible, normaliser.alpha ?? 1.5);
    case "hard": {
      const best = scores.reduce((top, score, j) => (visible[j] && (top < 0 || score > scores[top]!) ? j : top), -1);
      return { weights: spread((_, j) => (j === best ? 1 : 0)), statistic: best };
    }
    case "proportional": {
      const sum = total((score) => score);
      return { weights: spread((score) => score / (sum + (normaliser.eps ?? 0))), statistic: sum };
    }
  }
}

function thresholded(scores: number[], visible: boolean[], alpha: number): { weights: number[]; statistic: number } {
  const seen = scores.filter((_, j) => visible[j]);
  if (!seen.length) return { weights: scores.map(() => 0), statistic: Infinity };
  const power = (score: number, tau: number): number => Math.max(0, (alpha - 1) * score - tau) ** (1 / (alpha - 1));
  let high = (alpha - 1) * Math.max(...seen);
  let low = high - 1;
  for (let n = 0; n < 100; n++) {
    const middle = (low + high) / 2;
    if (seen.reduce((sum, score) => sum + power(score, middle), 0) >= 1) low = middle;
    else high = middle;
  }
  return { weights: scores.map((score, j) => (visible[j] ? power(score, low) : 0)), statistic: low };
}

export const range = (length: number): number[] => Array.from({ length }, (_, i) => i);
