/** The traces that the browser tests look at: small, exact, and made here. */

import { toHalf } from "../src/codec";
import { Head } from "../src/engine/head";
import type { Tensor } from "../src/engine/payload";
import type { Sequence, Site, Trace } from "../src/provider";
import { Random } from "../test/case";

export interface Example {
  trace: Trace;
  tensors: Record<string, Tensor>[];
}

export const half = (shape: number[], values: ArrayLike<number>): Tensor => ({ dtype: "F16", shape, data: Uint16Array.from(values, toHalf) });
export const float = (shape: number[], values: ArrayLike<number>): Tensor => ({ dtype: "F32", shape, data: Float32Array.from(values) });
const whole = (length: number): Tensor => ({ dtype: "I32", shape: [length], data: Int32Array.from({ length }, (_, i) => i) });
const all = (length: number): Tensor => ({ dtype: "BOOL", shape: [length], data: new Uint8Array(length).fill(1) });

const SITE: Site = {
  ...{ name: "encoder.0.self_attention.attention", kind: "self", layer: 0, heads: 1, kv_heads: 1, queries: 3, keys: 3, query: "source", key: "source" },
  ...{ score: { kind: "product", factor: 1 }, visibility: { code: "everything()", native: { left: null, right: null } }, bias: null },
  ...{ normaliser: { kind: "softmax" }, reweight: null, shows: "exact", formula: "softmax(q·k)" },
} as Site;

export const traceOf = (sequences: Record<string, Sequence>, sites: Site[], gold: Trace["gold"] = null): Trace => ({
  format: "foveate-trace",
  version: 1,
  pedigree: { model: "example", dtype: "float32", foveate: "0.1.0", created: "2026-11-21T00:00:00Z", difference: 1.2e-7 },
  sequences,
  gold,
  sites,
});

/** Adds what every site has, and the statistic of softmax or ReLU rows. */
function finished(site: Site, given: Record<string, Tensor>): Record<string, Tensor> {
  const tensors: Record<string, Tensor> = { ...given, query_position: whole(site.queries), key_position: whole(site.keys), real: all(site.keys) };
  const statistic = new Float32Array(site.heads * site.queries);
  const scores = new Float64Array(site.keys);
  for (let h = 0; h < site.heads; h++) {
    const head = new Head(site, h, new Map(Object.entries(tensors)));
    for (let i = 0; i < site.queries; i++) {
      const [from, to] = head.reach(i);
      head.scores(i, from, to, scores);
      const seen = scores.subarray(0, to - from);
      statistic[h * site.queries + i] = site.normaliser.kind === "relu" ? seen.reduce((sum, e) => sum + Math.max(0, e), 0) : logSum(seen);
    }
  }
  return { ...tensors, statistic: float([site.heads, site.queries], statistic) };
}

function logSum(scores: Float64Array): number {
  const top = Math.max(...scores);
  return top + Math.log(scores.reduce((sum, e) => sum + Math.exp(e - top), 0));
}

/** The lectures' four-dimensional self-attention (E3): plain, scaled, causal, with ReLU. */
export function lecture(): Example {
  const labels = ["x₁", "x₂", "x₃"];
  const [query, key, value] = [[1, 0, 2, 2, 2, 2, 2, 1, 3], [0, 1, 1, 4, 4, 0, 2, 3, 1], [1, 2, 3, 2, 8, 0, 2, 6, 3]];
  const given = { query: half([1, 3, 3], query!), key: half([1, 3, 3], key!), value: half([1, 3, 3], value!) };
  const sites: Site[] = [
    SITE,
    { ...SITE, name: "scaled", layer: 1, score: { kind: "product", factor: 1 / Math.sqrt(3) }, formula: "softmax(q·k / √3)" },
    { ...SITE, name: "causal", layer: 2, visibility: { code: "causal()", native: { left: null, right: 0 } } },
    { ...SITE, name: "relu", layer: 3, normaliser: { kind: "relu" }, formula: "relu(q·k) / Σ" },
  ];
  const sequences = { source: { kind: "tokens" as const, labels, text: "x₁ x₂ x₃" } };
  return { trace: traceOf(sequences, sites), tensors: sites.map((site) => finished(site, given)) };
}

export const NEEDLE = { length: 32768, query: 30100, key: 29973, feature: 8, window: 255 };

/** Long, windowed, and in one row of it one key that the query looks for. */
export function needle(): Example {
  const { length, query: at, key: place, feature, window } = NEEDLE;
  const random = new Random(7);
  const numbers = (): number[] => random.array(2 * length * feature, 0.6);
  const [query, key] = [numbers(), numbers()];
  for (let f = 0; f < feature; f++) query[at * feature + f] = key[place * feature + f] = 2;
  const labels = Array.from({ length }, (_, i) => (i === place ? "▁needle" : i === at ? "▁seeker" : `▁w${i % 977}`));
  const site: Site = { ...SITE, name: "decoder.0.self_attention.attention", heads: 2, kv_heads: 2, queries: length, keys: length, score: { kind: "product", factor: 1 / Math.sqrt(feature) }, visibility: { code: `window(left=${window}, right=0)`, native: { left: window, right: 0 } }, formula: "softmax(q·k / √8)" };
  const tensors = finished(site, { query: half([2, length, feature], query), key: half([2, length, feature], key) });
  return { trace: traceOf({ source: { kind: "tokens", labels } }, [site]), tensors: [tensors] };
}

/** The true weight, from the stored numbers, by the formula alone. */
export function needleWeight({ tensors }: Example, head: number): number {
  const { length, query: at, key: place, feature, window } = NEEDLE;
  const read = (name: string, index: number): number[] => Array.from({ length: feature }, (_, f) => fromHalf((tensors[0]![name]!.data as Uint16Array)[(head * length + index) * feature + f]!));
  const q = read("query", at);
  const score = (j: number): number => read("key", j).reduce((sum, k, f) => sum + k * q[f]!, 0) / Math.sqrt(feature);
  const seen = Array.from({ length: window + 1 }, (_, n) => score(at - n));
  return Math.exp(score(place)) / seen.reduce((sum, e) => sum + Math.exp(e), 0);
}

const fromHalf = (bits: number): number => {
  const [sign, exponent, fraction] = [bits >> 15 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : (sign * fraction) / 2 ** 24;
};

/** A sentence pair with its cross-attention: the links weigh most, all others a little. */
export function pair(source: string[], target: string[], gold: [number, number][], wrong: [number, number][] = []): Example {
  const random = new Random(3);
  const scores = Array.from({ length: target.length * source.length }, () => random.next());
  for (const [i, j] of [...gold.filter(([i]) => !wrong.some(([other]) => other === i)), ...wrong]) scores[i * source.length + j] = 4 + random.next();
  const site: Site = { ...SITE, name: "decoder.0.cross_attention.attention", kind: "cross", queries: target.length, keys: source.length, query: "target", key: "source", score: { kind: "dense" }, formula: "softmax(e)" };
  const sequences = { source: { kind: "tokens" as const, labels: source }, target: { kind: "tokens" as const, labels: target } };
  return { trace: traceOf(sequences, [site], gold), tensors: [finished(site, { scores: half([1, target.length, source.length], scores) })] };
}

/** Pieces of words, with the words and the sentence that they make. */
export function pieces(): Example {
  const made = pair(["▁un", "believ", "able", "▁cat", "."], ["▁in", "croyable", "▁chat", "."], [[0, 0], [1, 1], [2, 3], [3, 4]]);
  const spans = { source: [[0, 3], [3, 5]], target: [[0, 2], [2, 4]] } as const;
  const sequences = Object.fromEntries(Object.entries(made.trace.sequences).map(([name, sequence]) => [name, { ...sequence, words: [...spans[name as "source"]], sentences: [[0, sequence.labels!.length] as const] }]));
  const self: Site = { ...made.trace.sites[0]!, name: "encoder.0.self_attention.attention", kind: "self", queries: 5, keys: 5, query: "source" };
  const random = new Random(5);
  const tensors = finished(self, { scores: half([1, 5, 5], random.array(25, 2)) });
  return { trace: { ...made.trace, gold: [[0, 0], [1, 1]], sequences: sequences as Trace["sequences"], sites: [self, ...made.trace.sites] }, tensors: [tensors, ...made.tensors] };
}

/** A causal self-attention of 128 tokens, four heads. */
export function causal(): Example {
  const [length, feature] = [128, 4];
  const random = new Random(11);
  const site: Site = { ...SITE, name: "layers.0.attention", heads: 4, kv_heads: 4, queries: length, keys: length, visibility: { code: "causal()", native: { left: null, right: 0 } }, formula: "softmax(q·k) over causal()" };
  const tensors = finished(site, { query: half([4, length, feature], random.array(4 * length * feature)), key: half([4, length, feature], random.array(4 * length * feature)) });
  return { trace: traceOf({ source: { kind: "tokens", labels: Array.from({ length }, (_, i) => `▁w${i}`) } }, [site]), tensors: [tensors] };
}

/** A causal self-attention of so many tokens that its map is estimated before it is computed. */
export function large(): Example {
  const [length, feature] = [8192, 4];
  const random = new Random(3);
  const site: Site = { ...SITE, queries: length, keys: length, visibility: { code: "causal()", native: { left: null, right: 0 } }, normaliser: { kind: "relu", normalised: false }, formula: "relu(q·k)" };
  const numbers = (): Tensor => half([1, length, feature], random.array(length * feature, 0.05));
  return { trace: traceOf({ source: { kind: "tokens", labels: Array.from({ length }, (_, i) => `▁w${i}`) } }, [site]), tensors: [{ query: numbers(), key: numbers() }] };
}

/** A text without spaces, whose letters have two UTF-16 units each. */
export function emoji(): Example {
  const text = `a${"😀".repeat(150)}`;
  const made = pair([`▁${text}`, "."], ["x", "y"], [[0, 0]]);
  return { ...made, trace: { ...made.trace, gold: null, sequences: { ...made.trace.sequences, source: { ...made.trace.sequences["source"]!, text } } } };
}

/** Twelve layers of twelve heads. */
export function many(): Example {
  const [length, heads, feature] = [24, 12, 4];
  const random = new Random(23);
  const numbers = (): Tensor => half([heads, length, feature], random.array(heads * length * feature));
  const sites = Array.from({ length: 12 }, (_, layer): Site => ({ ...SITE, name: `layer.${layer}.attention`, layer, heads, kv_heads: heads, queries: length, keys: length }));
  const labels = Array.from({ length }, (_, i) => `▁w${i}`);
  return { trace: traceOf({ source: { kind: "tokens", labels } }, sites), tensors: sites.map((site) => finished(site, { query: numbers(), key: numbers() })) };
}

/** What models do wrong, and texts that nobody writes: a row of NaN, hidden pairs, a label of 5,000 letters. */
export function odd(): Example {
  const labels = ["a".repeat(5000), "b", "سلام", "我们昨天", "e"];
  const weights = Array.from({ length: 25 }, (_, at) => (Math.floor(at / 5) === 1 ? NaN : 0.2));
  const site: Site = { ...SITE, name: "layers.0.attention", queries: 5, keys: 5, score: { kind: "dense" }, normaliser: { kind: "relu", normalised: false }, visibility: { code: "causal()", native: { left: null, right: 0 } }, formula: "given weights" };
  const given = { scores: float([1, 5, 5], weights), statistic: float([1, 5], new Float32Array(5)), query_position: whole(5), key_position: whole(5), real: all(5) };
  const trace = traceOf({ source: { kind: "tokens", labels } }, [site]);
  return { trace: { ...trace, pedigree: { ...trace.pedigree, difference: "NaN" } }, tensors: [given] };
}

/** Three layers across, of which the model aligns with one that nobody would guess. */
export function layers(): Example {
  const made = pair(["the", "black", "cat", "."], ["le", "chat", "noir", "."], []);
  const random = new Random(17);
  const sites = [0, 1, 2].map((layer): Site => ({ ...made.trace.sites[0]!, name: `decoder.${layer}.cross_attention.attention`, layer, heads: 2, kv_heads: 2 }));
  const tensors = sites.map((site) => finished(site, { scores: half([2, 4, 4], random.array(32, 2)) }));
  return { trace: { ...made.trace, gold: null, sites, opens: ["decoder.0.cross_attention.attention", 1] }, tensors };
}

export const empty = (): Example => ({ trace: traceOf({}, []), tensors: [] });

export const persian = (): Example =>
  pair(["من", "کتاب", "را", "خواندم", "."], ["I", "read", "the", "book", "."], [[0, 0], [1, 3], [2, 2], [3, 1], [4, 4]], [[2, 1]]);
export const chinese = (): Example =>
  pair(["我", "昨天", "读", "了", "这", "本", "书", "。"], ["I", "read", "this", "book", "yesterday", "."], [[0, 0], [1, 2], [2, 4], [3, 6], [4, 1], [5, 7]]);

export const SPEECH = { rate: 8000, hop: 0.04, frames: 50, letters: ["o", "n", "e", " ", "t", "w", "o"], words: [[0, 3], [3, 7]] as const, peaks: [6, 10, 14, 22, 30, 34, 38] };

/** Two seconds of tones, one for each letter: an attention with two heads, CTC's probabilities, and an encoder that may look a little ahead. */
export function speech(audio = true): Example {
  const { rate, hop, frames, letters, words, peaks } = SPEECH;
  const random = new Random(9);
  const samples = Int16Array.from({ length: rate * hop * frames }, (_, at) => {
    const near = peaks.findIndex((peak, letter) => letters[letter] !== " " && Math.abs(at / rate / hop - peak - 0.5) < 1.5);
    return near < 0 ? 0 : Math.round(12000 * Math.sin((2 * Math.PI * (200 + 90 * near) * at) / rate));
  });
  const outline = Array.from({ length: 200 }, (_, piece) => samples.subarray((piece * samples.length) / 200, ((piece + 1) * samples.length) / 200));
  const scaled = (value: number): number => Math.round((value * 127) / 32767);
  const sound = { low: outline.map((piece) => scaled(Math.min(...piece))), high: outline.map((piece) => scaled(Math.max(...piece))), seconds: hop * frames, ...(audio ? { audio: { media: "audio/wav", data: waveFile(samples, rate).toString("base64") } } : {}) };
  const hill = (query: number, width: number): number[] => Array.from({ length: frames }, (_, frame) => (-((frame - peaks[query]!) ** 2)) / width + 0.01 * random.next());
  const scores = [3, 9].flatMap((width) => letters.flatMap((_, query) => hill(query, width)));
  const cross: Site = { ...SITE, name: "decoder.0.cross_attention.attention", kind: "cross", heads: 2, kv_heads: 2, queries: letters.length, keys: frames, query: "target", key: "source", score: { kind: "dense" }, formula: "softmax(e)" };
  const ctc: Site = { ...cross, name: "ctc", heads: 1, kv_heads: 1, normaliser: { kind: "relu", normalised: false }, formula: "p(frame belongs to token)", posterior: true };
  const occupation = letters.flatMap((_, query) => Array.from({ length: frames }, (__, frame) => (frame === peaks[query] ? 0.9 : frame === peaks[query]! + 1 ? 0.3 : 0)));
  const given = { scores: float([1, letters.length, frames], occupation), statistic: float([1, letters.length], new Float32Array(letters.length)), query_position: whole(letters.length), key_position: whole(frames), real: all(frames) };
  const encoder: Site = { ...SITE, queries: frames, keys: frames, visibility: { code: "window(left=8, right=2)", native: { left: 8, right: 2 } }, formula: "softmax(q·k)" };
  const made = finished(encoder, { query: half([1, frames, 4], random.array(4 * frames)), key: half([1, frames, 4], random.array(4 * frames)) });
  const sequences: Record<string, Sequence> = { source: { kind: "frames", hop, labels: Array.from({ length: frames }, (_, frame) => `${(frame * hop).toFixed(2)} s`), sound }, target: { kind: "tokens", labels: letters, words: words.map(([from, to]) => [from, to] as const) } };
  return { trace: { ...traceOf(sequences, [encoder, cross, ctc]), version: 2 }, tensors: [made, finished(cross, { scores: half([2, letters.length, frames], scores) }), given] };
}

function waveFile(samples: Int16Array, rate: number): Buffer {
  const head = Buffer.alloc(44);
  head.write("RIFF", 0);
  head.writeUInt32LE(36 + samples.byteLength, 4);
  head.write("WAVEfmt ", 8);
  [[16, 4], [1, 2], [1, 2], [rate, 4], [2 * rate, 4], [2, 2], [16, 2]].reduce((at, [value, size]) => head.writeUIntLE(value!, at, size!), 16);
  head.write("data", 36);
  head.writeUInt32LE(samples.byteLength, 40);
  return Buffer.concat([head, Buffer.from(samples.buffer)]);
}

/** A picture of two by three patches, and its caption. */
export function captioned(): Example {
  const made = pair(["a", "b", "c", "d", "e", "f"], ["▁a", "▁dog", "▁sle", "eps", "</s>"], [[0, 0], [1, 1], [2, 4], [3, 5], [4, 3]]);
  const sequences: Record<string, Sequence> = { source: { kind: "patches", grid: [2, 3] }, target: { ...made.trace.sequences["target"]!, text: "a dog sleeps", words: [[0, 1], [1, 2], [2, 4], [4, 5]] } };
  return { ...made, trace: { ...traceOf(sequences, made.trace.sites), version: 2 } };
}

export const MEMBERS = 34;

/** A club: whoever joins knows two of those who are there. */
export function club(): Example {
  const random = new Random(34);
  const known = Array.from({ length: MEMBERS - 1 }, (_, at) => at + 1).flatMap((member) => [0, 1].map(() => [member, Math.floor(member * random.next() ** 2)] as const));
  const edges = [[...known.map(([a]) => a), ...known.map(([, b]) => b)], [...known.map(([, b]) => b), ...known.map(([a]) => a)]] as const;
  const site: Site = { ...SITE, name: "layer.0", kind: "graph", queries: MEMBERS, keys: MEMBERS, query: "members", key: "members" };
  const given = { query: half([1, MEMBERS, 4], random.array(4 * MEMBERS)), key: half([1, MEMBERS, 4], random.array(4 * MEMBERS)) };
  const members = { kind: "nodes" as const, labels: Array.from({ length: MEMBERS }, (_, at) => String(at + 1)), edges };
  return { trace: traceOf({ members }, [site]), tensors: [finished(site, given)] };
}

/** A sentence that looks at itself, with notes at its places. */
export function noted(labels: string[], notes: string[]): Example {
  const made = pair(labels, labels, labels.map((_, at) => [at, (at + 1) % labels.length]));
  const site: Site = { ...made.trace.sites[0]!, name: "encoder.0.attention.attention", kind: "self", query: "source" };
  const sequences = { source: { kind: "tokens" as const, labels, notes } };
  return { trace: { ...traceOf(sequences, [site]), version: 2 }, tensors: made.tensors };
}
export const labelled = (): Example => noted(["The", "cat", "sleeps"], ["DET", "NOUN", "VERB"]);
export const gap = (): Example => noted(["▁The", "___", "▁sleeps"], ["", "cat 61%\ndog 20%", ""]);
