/** Units that two tokenisations have in common, and maps between them: what Python's `foveate.inspect.aligned` gives. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { Cached } from "../src/cached";
import { decode, encode } from "../src/codec";
import { distance } from "../src/distance";
import { axesOf, MEAN, Merged, mergedTrace, type Axes } from "../src/merged";
import type { Codes, Sequence, Site, TileProvider, TileRequest, Trace } from "../src/provider";
import { commonUnits, type Unit } from "../src/text-unit";

type Offsets = [number, number][];
interface Stored {
  text: string;
  labels: string[];
  offsets: Offsets;
}
const of = ({ text, labels, offsets }: Stored): Sequence => tokens(text, labels, offsets);
const tokens = (text: string, labels: string[], offsets: Offsets): Sequence => ({ kind: "tokens", labels, text, offsets });

test("units are those of Python", () => {
  const cases = JSON.parse(readFileSync(fileURLToPath(new URL("../../tests/golden/units.json", import.meta.url)), "utf8")) as { one: Stored; other: Stored; unit: Unit; texts: string[]; first: number[]; second: number[]; whole: boolean }[];
  expect(cases.length).toBeGreaterThan(10);
  for (const { one, other, unit, texts, first, second, whole } of cases) expect(commonUnits(of(one), of(other), unit)).toEqual({ texts, one: first, other: second, whole });
  expect(commonUnits({ ...of(cases[0]!.one), offsets: null }, of(cases[0]!.other), "word")).toBeNull();
});

const given = (weights: (number | null)[][]): TileProvider => {
  const codes: Codes = new Uint16Array(65536).fill(65534);
  weights.forEach((row, i) => row.forEach((weight, j) => weight !== null && (codes[i * 256 + j] = encode(weight))));
  return { tile: async () => codes, meta: async () => trace(weights.length, weights[0]!.length) } as unknown as TileProvider;
};
const site = (queries: number, keys: number): Site => ({ name: "a", kind: "self", queries, keys, query: "text", key: "text", heads: 1, shows: "exact", visibility: { code: "", native: { left: null, right: 0 } } }) as Site;
const texts: Record<number, Sequence> = { 2: tokens("a cat", ["a", "cat"], [[0, 1], [2, 5]]), 3: tokens("a cat", ["a", "c", "at"], [[0, 1], [2, 3], [3, 5]]) };
const trace = (queries: number, keys: number): Trace => ({ format: "foveate-trace", version: 1, pedigree: {}, sequences: { text: texts[keys]! }, sites: [site(queries, keys)] });

test("a merged map sums keys, averages queries, keeps what is hidden hidden, and has the size of the other's", async () => {
  const [one, other] = [trace(2, 2), trace(3, 3)];
  const axes = axesOf(one, one.sites[0]!, other, other.sites[0]!, "word") as Axes;
  expect([axes.rows.texts, axes.columns.texts, axes.whole]).toEqual([["a", "cat"], ["a", "cat"], true]);
  const merged = new Merged(new Cached(given([[1, null, null], [0.5, 0.5, null], [0.25, 0.25, 0.5]])), axes, 1);
  const value = (query: number, key: number) => merged.value(0, 0, query, key);
  expect((await value(1, 1)).weight).toBeCloseTo(0.625, 3);
  expect((await value(1, 0)).weight).toBeCloseTo(0.375, 3);
  expect((await value(0, 1)).visible).toBe(false);
  expect([...(await merged.counts(0, 0))]).toEqual([1, 2]);
  const { sites, sequences } = mergedTrace(other, axes);
  expect([sites[0]!.queries, sites[0]!.keys, sequences["columns"]!.labels]).toEqual([2, 2, ["a", "cat"]]);
  const tile = await merged.tile({ site: 0, head: 0, level: 1, row: 0, column: 0, pool: "mass" });
  expect(decode(tile[0]!)).toBeCloseTo(1, 2);
  expect(tile[1]).toBe(65534);
});

test("distances of heads are those of Python, and a mean of heads is the mean of their maps", async () => {
  type Maps = (number | null)[][][];
  const cases = JSON.parse(readFileSync(fileURLToPath(new URL("../../tests/golden/heads.json", import.meta.url)), "utf8")) as { one: Stored; other: Stored; unit: Unit; first: Maps; second: Maps; distances: number[][] }[];
  expect(cases.length).toBeGreaterThan(3);
  for (const { one, other, unit, first, second, distances } of cases) {
    const traces = ([[one, first], [other, second]] as const).map(([stored, maps]): Trace => ({ ...trace(2, 2), sequences: { text: of(stored) }, sites: [{ ...site(maps[0]!.length, maps[0]!.length), heads: maps.length }] }));
    const axes = axesOf(traces[0]!, traces[0]!.sites[0]!, traces[1]!, traces[1]!.sites[0]!, unit) as Axes;
    const size = axes.rows.texts.length;
    const sides = [first, second].map((maps, at) => new Cached(new Merged(new Cached({ tile: ({ head, ...rest }: TileRequest) => given(maps[head]!).tile({ head, ...rest }), meta: async () => traces[at] } as unknown as TileProvider), axes, at as 0 | 1)));
    const apart = (head: number, counterpart: number) => distance({ provider: sides[0]!, site: 0, head }, { provider: sides[1]!, site: 0, head: counterpart }, size, size, new AbortController().signal);
    for (const [head, row] of distances.entries()) for (const [at, stored] of row.entries()) expect(Math.abs((await apart(head, at)) - stored)).toBeLessThan(3e-4);
    const cells = await Promise.all([MEAN, ...first.keys()].map(async (head) => (await sides[0]!.value(0, head, size - 1, 0)).weight));
    expect(cells[0]).toBeCloseTo(cells.slice(1).reduce((sum, weight) => sum + weight) / first.length, 3);
    const gone = new AbortController();
    gone.abort();
    await expect(distance({ provider: sides[0]!, site: 0, head: 0 }, { provider: sides[1]!, site: 0, head: 0 }, size, size, gone.signal)).rejects.toThrow();
  }
});
