/** What a viewer asks and what answers: the same words as in Python's `foveate.inspect.tile`. */

export type Pool = "peak" | "mass";
/** Words and sentences also tell the mass they would have if every query looked at all it sees alike: see lift.ts. */
export type Pooling = Pool | "equal";
export type Span = readonly [number, number];
export type Semantic = "word" | "sentence";
/** A cell pools 2^level × 2^level weights, or the tokens of a word or of a sentence. */
export type Level = number | Semantic;

export interface Sequence {
  kind: "tokens" | "patches" | "frames" | "nodes";
  labels?: string[] | null;
  text?: string | null;
  offsets?: (readonly [number, number])[] | null;
  words?: Span[] | null;
  sentences?: Span[] | null;
  grid?: readonly [number, number] | null;
  hop?: number | null;
  /** Sources and targets. */
  edges?: readonly [readonly number[], readonly number[]] | null;
  /** Version 2. What patches were cut from, or the spectrogram whose columns are frames: base64 of a PNG or JPEG. */
  picture?: { media: string; width: number; height: number; data: string } | null;
  /** Of each of equal pieces of a waveform the lowest and the highest sample, in 127ths of full scale; and all samples, as base64 of FLAC or WAV. */
  sound?: { low: readonly number[]; high: readonly number[]; seconds: number; audio?: { media: string; data: string } | null } | null;
  /** Where nodes are drawn: from the left and from above, 0 to 1. */
  places?: (readonly [number, number])[] | null;
  /** The kind of each edge of a molecule. */
  bonds?: Bond[] | null;
  /** What else is known of each position, such as a node's predicted label. */
  notes?: string[] | null;
  /** The position that the sequence was made for. */
  focus?: number | null;
}
export type Bond = "single" | "double" | "triple" | "aromatic";

export type Score = { kind: "product"; factor: number } | { kind: "additive" } | { kind: "leaky"; slope: number } | { kind: "dense" };
export interface Native {
  left: number | null;
  right: number | null;
}
export type Normaliser =
  | { kind: "softmax"; temperature?: number }
  | { kind: "relu"; normalised?: boolean }
  | { kind: "sigmoid"; bias?: number }
  | { kind: "sparsemax" }
  | { kind: "entmax"; alpha?: number }
  | { kind: "hard"; mode?: string; temperature?: number }
  | { kind: "proportional"; eps?: number };
export type Reweight = { kind: "dense" } | { kind: "gaussian"; sigma: number };

export interface Site {
  name: string;
  kind: "self" | "cross" | "graph" | "recurrent";
  layer: number;
  heads: number;
  kv_heads: number;
  queries: number;
  keys: number;
  query: string;
  key: string;
  score: Score;
  visibility: { code: string; native: Native | null };
  bias: { kind: "distance"; first?: number } | { kind: "dense" } | null;
  normaliser: Normaliser;
  reweight: Reweight | null;
  shows: "exact" | "implied" | "projected";
  formula: string;
  /** Hard attention shown as the distribution that its one key is drawn from. */
  drawn?: boolean;
  /** Probabilities of an alignment, such as CTC's, instead of an attention. */
  posterior?: boolean;
}

/** Version 2 adds pictures, sounds, places, bonds, notes and a focus to sequences. */
export const VERSIONS: readonly number[] = [1, 2];

export interface Trace {
  format: "foveate-trace";
  version: number;
  pedigree: { model?: string; dtype?: string; foveate?: string; created?: string; difference?: number | string | null; [key: string]: unknown };
  sequences: Record<string, Sequence>;
  gold?: (readonly [number, number])[] | null;
  /** What the model aligns with: a site by its name, and a head or null for the mean of all. */
  opens?: readonly [string, number | null] | null;
  sites: Site[];
  /** What a page of the trace shows first, as in an address: "view=steps&query=1". */
  view?: string;
  /** Whether a model is at hand to run again. */
  attached?: boolean;
  /** The sequence whose words can be switched off. */
  ablates?: string;
  /** The name of the trace of another model for the same text. */
  beside?: string;
  /** In a page without a model: the answers without each word in turn. */
  ablations?: Ablation[];
}

/** 256 × 256 codes, row after row: see codec.ts. */
export type Codes = Uint16Array;
export const TILE = 256;
export const THUMBNAIL = 64;

export interface Cell {
  weight: number;
  rank: number;
  /** How many keys the query sees: ranks and lift are among these. */
  count: number;
  lift: number;
  visible: boolean;
  score: number;
}

/** See Python's `inspect/tile/head_measure.py`, which defines them, and the behaviours too. */
export const MEASURES = ["entropy", "distance", "sink", "diagonality", "previous", "induction", "itself", "next", "delimiter", "same", "near", "evenness", "position"] as const;
export type Measure = (typeof MEASURES)[number];
export type Measures = Record<Measure, number>;
/** In the order of the overview. */
export const BEHAVIOURS = ["previous", "itself", "next", "first", "delimiter", "same", "induction", "near", "position", "content", "flat"] as const;
export type Behaviour = (typeof BEHAVIOURS)[number];
export interface Statistics {
  heads: Measures[];
  behaviours: Behaviour[];
  estimate: boolean;
}

export type Figure = number | string;
/** What a reader may change of a head. */
export type Part = "query" | "key" | "value" | "vector" | "scores";
export interface Step {
  symbol: string;
  mathml: string;
  /** What no JSON number is comes as a word: "−∞", "NaN". */
  numbers: Figure | Figure[] | Figure[][];
  about: string;
  /** Which keys the numbers, or their rows, belong to. */
  keys?: number[] | null;
  /** The formula with its numbers: of one key, or of all together. Only steps that the page itself computes have these. */
  worked?: { mathml: string; key: number | null };
  /** What the numbers are a part of, if they are given and not computed. */
  part?: Part;
}

export interface Thumbnail {
  codes: Codes;
  estimate: boolean;
}

export interface TileRequest {
  site: number;
  head: number;
  level: Level;
  row: number;
  column: number;
  pool: Pooling;
}

export interface Rerun {
  source: string;
  target: string | null;
  heads_off: [number, number][];
  tokens_off: number[];
}
export interface RerunAnswer {
  trace: string;
  output: string[];
  before: string[];
  /** Of the output before, now and then. */
  log_probability?: number | null;
  log_probability_before?: number | null;
}

export interface Ablate {
  heads_off: [number, number][];
  tokens_off: number[];
  /** Whose weights are wanted; null is the mean of the heads. */
  site: number;
  head: number | null;
}
/** The answer with some tokens and heads switched off. */
export interface Ablation {
  tokens_off: number[];
  /** Those that differ. */
  sequences: Record<string, Sequence>;
  /** Null is hidden. */
  weights: (number | null)[][];
  /** Of the answer before, with the switches and without. */
  log_probability: number | null;
  log_probability_before: number | null;
}

export interface TileProvider {
  meta(): Promise<Trace>;
  /** `estimate` hears a first guess from sampled rows where the exact tile takes long. */
  tile(request: TileRequest, signal?: AbortSignal, estimate?: (codes: Codes) => void): Promise<Codes>;
  row(site: number, head: number, query: number, signal?: AbortSignal): Promise<Float32Array>;
  value(site: number, head: number, query: number, key: number, signal?: AbortSignal): Promise<Cell>;
  /** How many keys each query of a head sees. */
  counts(site: number, head: number, signal?: AbortSignal): Promise<Uint32Array>;
  statistics(site: number, signal?: AbortSignal): Promise<Statistics>;
  overview(site: number, head: number, signal?: AbortSignal): Promise<Thumbnail>;
  steps(site: number, head: number, query: number, signal?: AbortSignal): Promise<Step[]>;
  /** All numbers of one site, as a page carries a trace: see payload.ts. */
  numbers(site: number, signal?: AbortSignal): Promise<Uint8Array>;
  /** Only where a model is attached. */
  rerun?(request: Rerun): Promise<RerunAnswer>;
  ablate?(request: Ablate): Promise<Ablation>;
  /** The provider of a trace that `rerun` made. */
  other?(trace: string): TileProvider;
  close(): void;
}
