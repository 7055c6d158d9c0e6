import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { Draft, editable } from "../src/engine/draft";
import { Engine } from "../src/engine/engine";
import { parse, type Tensor } from "../src/engine/payload";
import { stepsOf } from "../src/engine/step";
import { aligned, read, three, together } from "../src/number";
import type { Part, Site, Step } from "../src/provider";
import { lecture } from "../e2e/trace";
import { made } from "./case";

interface Case {
  site: Site;
  tensors: Record<string, { dtype: string; shape: number[]; data: unknown[] }>;
  changes: [Part, number, number, number][];
  weights: number[][];
  context: number[][];
}
const golden = JSON.parse(readFileSync(fileURLToPath(new URL("../../tests/golden/steps.json", import.meta.url)), "utf8")) as Record<string, Case>;

const flat = (data: unknown[]): number[] => data.flat(9).map((value) => (value === "-Infinity" ? -Infinity : Number(value)));
const tensorsOf = (stored: Case["tensors"]): Map<string, Tensor> =>
  new Map(Object.entries(stored).map(([name, { dtype, shape, data }]) => [name, { dtype, shape, data: dtype === "float32" ? Float32Array.from(flat(data)) : dtype === "int32" ? Int32Array.from(flat(data)) : Uint8Array.from(flat(data)) }]));
const numbers = (steps: Step[], symbol: RegExp): number[] => steps.find((step) => symbol.test(step.symbol))!.numbers as number[];

describe("changed numbers give what Python's explain gives", () => {
  for (const [name, { site, tensors, changes, weights, context }] of Object.entries(golden)) {
    test(name, () => {
      const draft = new Draft(site, 0, tensorsOf(tensors));
      const before = stepsOf(draft.head, 1);
      for (const change of changes) draft.set(...change);
      for (let query = 0; query < site.queries; query++) {
        const steps = stepsOf(draft.head, query);
        numbers(steps, /^α[₀-₉]+ⱼ$/).forEach((weight, key) => expect(weight).toBeCloseTo(weights[query]![key]!, 9));
        numbers(steps, /^c[₀-₉]$/).forEach((value, at) => expect(value).toBeCloseTo(context[query]![at]!, 9));
      }
      expect(stepsOf(draft.head, 1)).not.toEqual(before);
      draft.reset();
      expect(stepsOf(draft.head, 1)).toEqual(before);
    });
  }
});

test("a number that is written back gives the recorded weights, for every mechanism", () => {
  const scores = [{ kind: "product", factor: 0.5 }, { kind: "additive" }, { kind: "leaky", slope: 0.2 }, { kind: "dense" }] as const;
  const normalisers = [{ kind: "softmax", temperature: 2 }, { kind: "relu" }, { kind: "sigmoid", bias: -1 }, { kind: "sparsemax" }, { kind: "entmax", alpha: 1.5 }, { kind: "hard" }] as const;
  for (const score of scores)
    for (const normaliser of normalisers)
      for (const native of [{ left: 3, right: 0 }, null]) {
        const it = made({ score, normaliser, native, bias: { kind: "distance" }, heads: 2, kv_heads: score.kind === "dense" ? 2 : 1 });
        const draft = new Draft(it.payload.trace.sites[0]!, 1, it.payload.tensors[0]!);
        const part = score.kind === "dense" ? "scores" : "key";
        draft.set(part, 2, 1, draft.at(part, 2, 1));
        expect(draft.changed).toBe(true);
        const row = new Float64Array(it.payload.trace.sites[0]!.keys);
        for (let query = 0; query < it.payload.trace.sites[0]!.queries; query++) {
          draft.head.row(query, 0, row.length, row);
          row.forEach((weight, key) => it.visible[1]![query]![key] && expect(weight).toBeCloseTo(it.weights[1]![query]![key]!, 5));
        }
      }
});

test("a site's numbers travel to the page whole, without the texts and pictures of the trace", async () => {
  const { trace, tensors } = lecture();
  const bytes = await new Engine({ trace, tensors: tensors.map((named) => new Map(Object.entries(named))) }).numbers(2);
  const { trace: told, tensors: [found] } = parse(bytes);
  expect([told.sites.map(({ name }) => name), told.sequences]).toEqual([["causal"], {}]);
  expect(numbers(stepsOf(new Draft(trace.sites[2]!, 0, found!).head, 0), /^c/)).toEqual([1, 2, 3]);
  expect(editable(trace.sites[2]!)).toBe(true);
  expect(editable({ ...trace.sites[2]!, keys: 65 })).toBe(false);
});

test("formulas have the numbers of the key in focus", () => {
  const { trace, tensors } = lecture();
  const head = new Draft(trace.sites[1]!, 0, new Map(Object.entries(tensors[1]!))).head;
  const text = (symbol: RegExp): string => stepsOf(head, 0, undefined, 1).find((step) => symbol.test(step.symbol))!.worked!.mathml.replace(/<mfrac>(.*?)<\/mn>/g, "$1/").replace(/<[^>]+>/g, "");
  expect(text(/^q₀·kⱼ/)).toBe("1·4+0·4+2·0=4");
  expect(text(/^e₀ⱼ/)).toBe("0.577·4=2.31");
  expect(text(/^exp/)).toBe("e2.31=10.1");
  expect(text(/^Σ/)).toBe("3.17+10.1+10.1=23.3");
  expect(text(/^α₀ⱼ/)).toBe("10.1/23.3=0.432");
  expect(text(/^c₀/)).toBe("c0,1=0.136·1+0.432·2+0.432·2=1.86");
});

test("numbers are written as Python writes them, ties too", () => {
  const cases = JSON.parse(readFileSync(fileURLToPath(new URL("../../tests/golden/numbers.json", import.meta.url)), "utf8")) as { values: number[]; written: string[] }[];
  expect(cases.length).toBeGreaterThan(10);
  for (const { values, written } of cases) expect(aligned(values)).toEqual(written);
});

test("three digits, aligned at the decimal point, as Python writes them", () => {
  expect([aligned([0.4683105, 0.06338, 0, 1]), aligned([54.598, -7.389]), aligned([0.46, 2e-6]), aligned([4, 0])]).toEqual([["0.47", "0.06", "0.00", "1.00"], ["54.6", "−7.4"], ["0.460", "2e−6"], ["4", "0"]]);
  expect([aligned(["−∞", 1.5]), aligned([1.5e7, -2]), aligned([NaN, Infinity]), three(0.577350269), together([[1.26], [0.5, 10.5]])]).toEqual([["−∞", "1.50"], ["1.50e7", "−2.00e0"], ["NaN", "∞"], "0.577", [["1.3"], ["0.5", "10.5"]]]);
});

test("numbers are read as people write them", () => {
  expect(["−0,5", "1e-3", " 2.5 ", "۱٫۵", "٣", ".5", "-2"].map(read)).toEqual([-0.5, 0.001, 2.5, 1.5, 3, 0.5, -2]);
  expect(["", "a", "1 2", "--1", "1e", "Infinity"].map(read)).toEqual([NaN, NaN, NaN, NaN, NaN, NaN]);
});
