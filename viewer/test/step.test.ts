import { describe, expect, test } from "vitest";
import { Engine } from "../src/engine/engine";
import { positionSteps } from "../src/engine/position";
import type { Step } from "../src/provider";
import { lecture, persian, type Example } from "../e2e/trace";
import { made } from "./case";

const engineOf = ({ trace, tensors }: Example): Engine => new Engine({ trace, tensors: tensors.map((named) => new Map(Object.entries(named))) });
const numbers = (steps: Step[], symbol: string): Step["numbers"] => steps.find((step) => step.symbol === symbol)!.numbers;

describe("steps of the lectures' four-dimensional self-attention", () => {
  const engine = engineOf(lecture());
  const close = (found: Step["numbers"], wanted: number[]): void => (found as number[]).forEach((value, at) => expect(value).toBeCloseTo(wanted[at]!, 5));

  test("plain: scores, weights and contexts of all three rows", async () => {
    const rows = await Promise.all([0, 1, 2].map((query) => engine.steps(0, 0, query)));
    expect(rows.map((steps, i) => numbers(steps, `q${"₀₁₂"[i]}·kⱼ`))).toEqual([[2, 4, 4], [4, 16, 12], [4, 12, 10]]);
    close(numbers(rows[0]!, "α₀ⱼ"), [0.063379, 0.468311, 0.468311]);
    close(numbers(rows[0]!, "c₀"), [1.936621, 6.683105, 1.595068]);
    close(numbers(rows[1]!, "c₁"), [1.999994, 7.963992, 0.053976]);
    close(numbers(rows[2]!, "c₂"), [1.999705, 7.759892, 0.358389]);
  });
  test("scaled by the square root of three", async () => {
    const steps = await engine.steps(1, 0, 0);
    close(numbers(steps, "α₀ⱼ"), [0.136126, 0.431937, 0.431937]);
    close(numbers(steps, "c₀"), [1.863874, 6.319371, 1.704189]);
  });
  test("causal: the first row sees itself alone", async () => {
    const steps = await engine.steps(2, 0, 0);
    expect(numbers(steps, "visible₀ⱼ")).toEqual([1, 0, 0]);
    expect(numbers(steps, "c₀")).toEqual([1, 2, 3]);
    close(numbers(await engine.steps(2, 0, 1), "c₁"), [1.999994, 7.999963, 0.000018]);
  });
  test("with ReLU: quotients of positive scores", async () => {
    const steps = await engine.steps(3, 0, 2);
    close(numbers(steps, "α₂ⱼ"), [0.153846, 0.461538, 0.384615]);
    close(numbers(steps, "c₂"), [1.846154, 6.307692, 1.615385]);
  });
});

test("the lectures' table of positions: d = 4, base 100", () => {
  const table = [[0, 1, 0, 1], [0.841471, 0.540302, 0.099833, 0.995004], [0.909297, -0.416147, 0.198669, 0.980067], [0.14112, -0.989992, 0.29552, 0.955336]];
  table.forEach((wanted, place) => (numbers(positionSteps(place, 4, 100), "p") as number[]).forEach((value, at) => expect(value).toBeCloseTo(wanted[at]!, 6)));
});

test("every mechanism can be told step by step, and ends at its weights", async () => {
  for (const normaliser of [{ kind: "sigmoid" }, { kind: "sparsemax" }, { kind: "entmax" }, { kind: "hard" }, { kind: "softmax", temperature: 2 }] as const)
    for (const score of [{ kind: "product", factor: 1 }, { kind: "additive" }, { kind: "leaky", slope: 0.2 }, { kind: "dense" }] as const) {
      const it = made({ normaliser, score, bias: { kind: "distance" }, reweight: { kind: "gaussian", sigma: 2 }, native: { left: 3, right: 0 } });
      const steps = await new Engine(it.payload).steps(0, 0, 5);
      (numbers(steps, "α₅ⱼ") as number[]).forEach((value, j) => expect(value).toBeCloseTo(it.weights[0]![5]![j]!, 5));
      for (const { mathml } of steps) expect(mathml).toMatch(/^<math display="block">.*<\/math>$/);
    }
});

test("long rows show the keys that weigh most, in their order", async () => {
  const it = made({ queries: 4, keys: 40 });
  const shown = numbers(await new Engine(it.payload).steps(0, 0, 0), "α₀ⱼ") as number[];
  expect(shown).toHaveLength(12);
  const largest = [...it.weights[0]![0]!].sort((a, b) => b - a).slice(0, 12);
  [...shown].sort((a, b) => b - a).forEach((value, at) => expect(value).toBeCloseTo(largest[at]!, 5));
});

test("dense scores of a sentence pair begin their steps at the scores", async () => {
  expect((await engineOf(persian()).steps(0, 0, 0))[0]!.symbol).toBe("e₀ⱼ");
});
