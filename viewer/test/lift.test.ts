/** Lift has one meaning: the numbers that Python's test holds, too. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { App } from "../src/app";
import { Cached } from "../src/cached";
import { decode, HIDDEN, STEPS, UNKNOWN, ZERO } from "../src/codec";
import { colourAt, pixels, strength } from "../src/colour";
import { Engine } from "../src/engine/engine";
import type { Payload, Tensor } from "../src/engine/payload";
import { cellShifts, lift, rowShifts, shares } from "../src/lift";
import { TILE, type Level, type Site, type Span } from "../src/provider";
import { rowOf } from "../src/row";
import { signal } from "../src/signal";
import { made } from "./case";

interface Golden {
  weights: number[][];
  visible: number[][];
  rows: Span[];
  columns: Span[];
  tokens: (number | null)[][];
  words: (number | null)[][];
}
const golden = JSON.parse(readFileSync(fileURLToPath(new URL("../../tests/golden/lift.json", import.meta.url)), "utf8")) as Golden;

/** Given weights, kept as Python's `given` keeps them. */
function given(weights: number[][], visible: number[][] | null, rows: Span[], columns: Span[]): Payload {
  const [queries, keys] = [weights.length, weights[0]!.length];
  const site = {
    ...{ name: "weights", kind: "cross", layer: 0, heads: 1, kv_heads: 1, queries, keys, query: "queries", key: "keys", score: { kind: "dense" }, bias: null },
    ...{ visibility: { code: "everything()", native: visible ? null : { left: null, right: null } }, normaliser: { kind: "relu", normalised: false }, reweight: null, shows: "exact", formula: "" },
  } as Site;
  const bits = visible?.map((row) => row.reduce((byte, seen, j) => byte | (seen ? 128 >> j : 0), 0));
  const tensors = new Map<string, Tensor>([
    ["scores", { dtype: "F32", shape: [1, queries, keys], data: Float32Array.from(weights.flat()) }],
    ["statistic", { dtype: "F32", shape: [1, queries], data: new Float32Array(queries) }],
    ...(bits ? [["visible", { dtype: "U8", shape: [1, queries, 1], data: Uint8Array.from(bits) }] as [string, Tensor]] : []),
  ]);
  const trace = { format: "foveate-trace", version: 1, pedigree: {}, sequences: { queries: { kind: "tokens", words: rows }, keys: { kind: "tokens", words: columns } }, sites: [site] } as const;
  return { trace: trace as unknown as Payload["trace"], tensors: [tensors] };
}
const engine = (): Engine => new Engine(given(golden.weights, golden.visible, golden.rows, golden.columns));
const lifted = async (level: Level, rows: number, columns: number): Promise<(number | null)[][]> => {
  const provider = new Cached(engine());
  const equal = await shares(provider, 0, 0, [0, rows], [0, columns], level);
  const codes = await provider.tile({ site: 0, head: 0, level, row: 0, column: 0, pool: "mass" });
  return equal.map((row, i) => row.map((share, j) => (share === null ? null : lift(decode(codes[i * TILE + j]!)!, share))));
};
const close = (found: (number | null)[][], wanted: (number | null)[][]): void =>
  wanted.forEach((row, i) => row.forEach((value, j) => (value === null ? expect(found[i]![j]).toBeNull() : expect(found[i]![j]! / (value || 1)).toBeCloseTo(value ? 1 : 0, 3))));

test("of a weight: it counts the keys that its row sees, and ranks are among them", async () => {
  for (const [query, row] of golden.tokens.entries())
    for (const [key, wanted] of row.entries()) {
      const cell = await engine().value(0, 0, query, key);
      expect(cell.count).toBe(golden.visible[query]!.filter(Boolean).length);
      expect(cell.visible).toBe(wanted !== null);
      if (wanted !== null) expect([cell.lift, cell.rank <= cell.count]).toEqual([wanted, true]);
    }
  close(await lifted(0, 5, 6), golden.tokens);
});

test("of a word: its share over its share of the visible keys", async () => close(await lifted("word", 3, 3), golden.words));

test("what is painted is the lift, of weights and of words: above 1 where it is looked at more", async () => {
  const provider = new Cached(engine());
  for (const [level, wanted] of [[0, golden.tokens], ["word", golden.words]] as const) {
    const request = { site: 0, head: 0, level, row: 0, column: 0 } as const;
    const codes = await provider.tile({ ...request, pool: "mass" });
    const shifts = level === 0 ? rowShifts(await provider.counts(0, 0), 0, 0, "peak") : cellShifts(await provider.tile({ ...request, pool: "equal" }));
    const painted = pixels(codes, { scale: "lift", theme: "light", pool: "peak" }, shifts);
    wanted.forEach((row, i) => row.forEach((value, j) => {
      if (!value) return;
      // Sixteen neighbouring codes share a colour.
      const near = [-32, -16, 0, 16, 32].map((step) => colourAt("lift", "light", strength("lift", value * 2 ** (step / STEPS))));
      const parts = (colour: number): number[] => [0, 8, 16].map((shift) => (colour >> shift) & 255);
      const far = Math.min(...near.map((colour) => Math.max(...parts(colour).map((part, c) => Math.abs(part - parts(painted[i * TILE + j]!)[c]!)))));
      expect(far, `${level} ${i} ${j}`).toBeLessThanOrEqual(1);
    }));
  }
});

test("equal shares of random visibilities are those of the plain map", async () => {
  for (const native of [{ left: null, right: 0 }, { left: 2, right: 1 }, null])
    for (const real of [Infinity, 7]) {
      const it = made({ native, real }, 4);
      const provider = new Engine(it.payload);
      const codes = await provider.tile({ site: 0, head: 1, level: "word", row: 0, column: 0, pool: "equal" });
      const spans = it.payload.trace.sequences["target"]!.words!;
      spans.forEach(([top, bottom], i) => spans.forEach(([left, right], j) => {
        const rows = it.visible[1]!.slice(top, bottom);
        const any = rows.some((row) => row.slice(left, right).some(Boolean));
        const share = rows.reduce((sum, row) => sum + row.slice(left, right).filter(Boolean).length / (row.filter(Boolean).length || 1), 0) / rows.length;
        const code = codes[i * TILE + j]!;
        if (!any) expect(code).toBe(HIDDEN);
        else expect(decode(code)! / share).toBeCloseTo(1, 3);
      }));
    }
  await expect(engine().tile({ site: 0, head: 0, level: 0, row: 0, column: 0, pool: "equal" })).rejects.toThrow(/words and sentences/);
});

const looking = (payload: Payload): App => ({ provider: new Cached(new Engine(payload)), scale: signal("lift") }) as unknown as App;

test("of a mean of heads: it is held against the mean of their equal shares, each over the keys that it sees", async () => {
  const it = made({ native: null, heads: 3, kv_heads: 3 }, 6);
  const visible = it.visible.map((head) => head[2]!);
  const { weights, shares } = await rowOf(looking(it.payload), 0, [0, 1, 2], 2, [3, 9], new AbortController().signal);
  const mean = (of: (head: number) => number): number => (of(0) + of(1) + of(2)) / 3;
  weights.forEach((weight, at) => {
    const sees = visible.map((row) => row[3 + at]!);
    if (!sees.some(Boolean)) return expect(weight).toBeNull();
    expect(weight! / mean((head) => it.weights[head]![2]![3 + at]!)).toBeCloseTo(1, 3);
    expect(shares[at]).toBeCloseTo(mean((head) => (sees[head] ? 1 / visible[head]!.filter(Boolean).length : 0)), 9);
  });
  expect(new Set(shares).size).toBeGreaterThan(1);
});

test("hidden keys of a long row are hidden, and not of weight 0", async () => {
  const it = made({ queries: 2, keys: 8300, heads: 1, kv_heads: 1, native: { left: null, right: 0 } });
  expect((await rowOf(looking(it.payload), 0, [0], 1, [0, 3], new AbortController().signal)).weights).toEqual([expect.any(Number), expect.any(Number), null]);
});

test("a score of −∞ weighs nothing, a row of them sees nothing, and +∞ is not a number", async () => {
  const it = given([[-Infinity, 0], [-Infinity, -Infinity], [Infinity, 0]], null, [], []);
  const tensors = new Map(it.tensors[0]!);
  for (const [kind, statistics] of [["softmax", [0, -Infinity, Infinity]], ["sparsemax", [-1, Infinity, NaN]], ["entmax", [-1, Infinity, NaN]]] as const) {
    it.trace.sites[0]!.normaliser = { kind };
    tensors.set("statistic", { dtype: "F32", shape: [1, 3], data: Float32Array.from(statistics) });
    const provider = new Engine({ ...it, tensors: [tensors] });
    expect([...(await provider.row(0, 0, 0))].map((weight) => weight > 0), kind).toEqual([false, true]);
    expect([...(await provider.row(0, 0, 1))], kind).toEqual([0, 0]);
    expect([...(await provider.row(0, 0, 2))].some(Number.isNaN), kind).toBe(true);
  }
});

test("what is not a number is neither hidden nor nothing, at every level and pooling", async () => {
  for (const [y, x] of [[0, 0], [3, 2], [39, 39]] as const) {
    const weights = Array.from({ length: 40 }, (_, i) => Array.from({ length: 40 }, (_, j) => (i === y && j === x ? NaN : 1 / 40)));
    const provider = new Engine(given(weights, null, [[0, 20], [20, 40]], [[0, 20], [20, 40]]));
    expect((await provider.value(0, 0, y, x)).weight).toBeNaN();
    expect((await provider.value(0, 0, y, x)).visible).toBe(true);
    expect((await provider.row(0, 0, y))[x]).toBeNaN();
    await provider.overview(0, 0);
    for (const level of [0, 1, 2, 5, 6, "word"] as const)
      for (const pool of ["peak", "mass"] as const) {
        const codes = await provider.tile({ site: 0, head: 0, level, row: 0, column: 0, pool });
        const size = level === "word" ? 20 : 2 ** level;
        expect([...codes.keys()].filter((at) => codes[at] === UNKNOWN)).toEqual([Math.floor(y / size) * TILE + Math.floor(x / size)]);
        expect(codes.includes(ZERO)).toBe(false);
      }
  }
});
