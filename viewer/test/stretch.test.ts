/** Where a label was listened to: the same ranges as Python's, and what is drawn and played of them. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { HIDDEN } from "../src/codec";
import { audible, SHORTEST } from "../src/scene/player";
import { hills, meanRow, reachOf, roomy, stretch } from "../src/scene/stretch";
import { choices } from "../src/view/lanes";
import { Edge } from "../src/view/reach";
import type { Site, Trace } from "../src/provider";
import { openingOf } from "../src/app";

const golden = JSON.parse(readFileSync(fileURLToPath(new URL("../../tests/golden/stretch.json", import.meta.url)), "utf8")) as { weights: number[]; share: number; stretch: [number, number] | null }[];

describe("a stretch", () => {
  test("is the range that Python finds", () => {
    expect(golden.length).toBeGreaterThan(20);
    for (const { weights, share, stretch: wanted } of golden) expect(stretch(weights, share)).toEqual(wanted);
  });
  test("counts what is hidden as nothing, and has no place in what is not a number", () => {
    expect(stretch([null, null, 0.2, 0.8, null])).toEqual([3, 4]);
    expect(stretch([NaN, 1])).toBeNull();
    expect(stretch([])).toBeNull();
  });
  test("that is too short to be heard is played with a little around it, within the sound", () => {
    expect(audible(0.5, 0.9, 2)).toEqual({ start: 0.5, end: 0.9 });
    const { start, end } = audible(1, 1.04, 2);
    expect([start, end, end - start]).toEqual([expect.closeTo(1.02 - SHORTEST / 2), expect.closeTo(1.02 + SHORTEST / 2), expect.closeTo(SHORTEST)]);
    expect(audible(0, 0.04, 2)).toEqual({ start: 0, end: SHORTEST });
    expect(audible(1.96, 2, 2)).toEqual({ start: expect.closeTo(2 - SHORTEST) as number, end: 2 });
    expect(audible(0, 0.05, 0.05)).toEqual({ start: 0, end: 0.05 });
  });
});

describe("a lane", () => {
  test("weighs a word as the mean of its letters", () => {
    expect(meanRow([[0.5, 0.5, null], [0, 1, null]])).toEqual([0.25, 0.75, null]);
    expect(meanRow([[1, null], [0, 0.5]])).toEqual([0.5, 0.25]);
    expect(meanRow([])).toEqual([]);
  });
  test("draws what is more than a hundredth of its largest weight, with the peak of each row", () => {
    const { hills: found, top } = hills([[0.001, 0.9, 0.05, 0], [0, 0, 0, 0], [null, 0.1, 0.2, NaN]]);
    expect(top).toBe(0.9);
    expect(found).toEqual([{ frames: [1, 2], weights: [0.9, 0.05], peak: 1 }, null, { frames: [1, 2], weights: [0.1, 0.2], peak: 2 }]);
  });
  test("writes the names that have room, the chosen one first", () => {
    const labels = [{ x: 10, width: 10 }, { x: 18, width: 10 }, { x: 40, width: 10 }];
    expect(roomy(labels, [])).toEqual([true, false, true]);
    expect(roomy(labels, [1])).toEqual([false, true, true]);
  });
  test("shows what a frame may see", () => {
    expect(reachOf([null, 0, 0.5, null])).toEqual([1, 3]);
    expect(reachOf([null])).toBeNull();
  });
});

const site = (name: string, more: Partial<Site> = {}): Site => ({ name, kind: "cross", layer: 0, heads: 2, kv_heads: 2, queries: 3, keys: 9, query: "target", key: "source", score: { kind: "dense" }, visibility: { code: "", native: null }, bias: null, normaliser: { kind: "softmax" }, reweight: null, shows: "exact", formula: "", ...more });
const traceOf = (sites: Site[], kind: "frames" | "tokens" = "frames", opens: Trace["opens"] = null): Trace => ({ format: "foveate-trace", version: 2, pedigree: {}, sequences: { source: { kind }, target: { kind: "tokens" } }, sites, opens });

describe("side by side", () => {
  const self = site("encoder", { kind: "self", query: "source", queries: 9 });
  const ctc = site("ctc", { posterior: true, heads: 1 });
  test("are the present attention and all alignments that are no attention", () => {
    const trace = traceOf([self, site("decoder.0"), site("decoder.1"), ctc]);
    expect(choices(trace, 1, 1)).toEqual([{ site: 1, head: 1 }, { site: 3, head: null }]);
    expect(choices(trace, 2, 0)).toEqual([{ site: 2, head: 0 }, { site: 3, head: null }]);
    expect(choices(trace, 3, 0)).toEqual([{ site: 1, head: null }, { site: 3, head: 0 }]);
    expect(choices(traceOf(trace.sites, "frames", ["decoder.1", 1]), 3, 0)[0]).toEqual({ site: 2, head: 1 });
    expect(choices(trace, 0, 0)).toEqual([]);
  });
  test("is one lane where there is one alignment, and none where text looks at text", () => {
    expect(choices(traceOf([self, ctc]), 1, 0)).toEqual([{ site: 1, head: 0 }]);
    expect(choices(traceOf([site("decoder.0"), ctc], "tokens"), 0, 0)).toEqual([]);
  });
  test("a page opens with attention, and with another alignment where there is no attention across", () => {
    expect(openingOf(traceOf([self, site("decoder.0"), ctc]))).toEqual({ site: 1, head: null });
    expect(openingOf(traceOf([self, ctc]))).toEqual({ site: 1, head: null });
  });
});

describe("the edge of what a frame may see", () => {
  const tile = (ends: number[]): Uint16Array => {
    const codes = new Uint16Array(65536).fill(HIDDEN);
    ends.forEach((end, row) => codes.fill(7, row * 256, row * 256 + end));
    return codes;
  };
  test("is a line of steps, across tiles", () => {
    const edge = new Edge();
    edge.add(tile([4, 4, 8, 8, 0]), 0, 0);
    edge.add(tile([0, 0, 0, 2, 0]), 0, 1);
    expect(edge.runs()).toEqual([{ from: 0, to: 2, end: 4 }, { from: 2, to: 3, end: 8 }, { from: 3, to: 4, end: 258 }]);
  });
});
