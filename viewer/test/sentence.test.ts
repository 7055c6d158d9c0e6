/** What is said of a step is said in every language. */

import { expect, test } from "vitest";
import { Engine } from "../src/engine/engine";
import { positionSteps } from "../src/engine/position";
import type { Native, Normaliser } from "../src/provider";
import catalogue from "../src/strings/step.json";
import { parsed, told } from "../src/strings/step";
import { made } from "./case";

const NORMALISERS: Normaliser[] = [
  ...([{ kind: "softmax" }, { kind: "softmax", temperature: 0.01 }, { kind: "relu" }, { kind: "relu", normalised: false }, { kind: "sigmoid" }] as const),
  ...([{ kind: "sparsemax" }, { kind: "entmax" }, { kind: "hard" }, { kind: "hard", mode: "sample" }, { kind: "proportional" }] as const),
];

test("every sentence of the engine is known in every language", async () => {
  const unknown = new Set<string>();
  const hear = (about: string): void => {
    const { sentences, rest } = parsed(about);
    if (rest || !sentences.length) unknown.add(about);
    if (sentences.some(({ others }) => !others.fa || !others.ru || !others.zh)) unknown.add(about);
  };
  for (const normaliser of NORMALISERS)
    for (const score of [{ kind: "product", factor: 0.354 }, { kind: "additive" }, { kind: "leaky", slope: 0.2 }, { kind: "dense" }] as const)
      for (const native of [{ left: null, right: null }, { left: 3, right: 0 }] as Native[])
        for (const kind of [null, "dense", "distance"] as const) {
          const reweight = kind === "distance" ? ({ kind: "gaussian", sigma: 2 } as const) : kind && { kind };
          const it = made({ normaliser, score, native, bias: kind && { kind }, reweight, feature: 10, queries: 14, keys: 14, heads: 1, kv_heads: 1 });
          for (const { about } of await new Engine(it.payload).steps(0, 0, 5)) hear(about);
        }
  for (const { about } of positionSteps(3, 4, 100)) hear(about);
  expect([...unknown]).toEqual([]);
});

test("every language keeps the values of a sentence", () => {
  const places = (text: string): string[] => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).sort();
  for (const [english, others] of Object.entries(catalogue)) for (const text of Object.values(others)) expect(places(text)).toEqual(places(english));
});

test("values stand in their own direction, and what nobody knows stays English", () => {
  expect(told("fa", "causal() hides 1 of 3 keys: they weigh exactly 0.")).toBe("\u2068causal()\u2069 از \u20663\u2069 کلید \u20661\u2069 تا را پنهان می‌کند: وزن آن‌ها دقیقاً صفر است.");
  expect(told("ru", "Scaled by 0.354. Number by number.")).toBe("Умножено на 0.354. Число за числом.");
  expect(told("zh", "Something new. The weights.")).toBe("Something new. The weights.");
  expect(told("en", "The weights.")).toBe("The weights.");
});
