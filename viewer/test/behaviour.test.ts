/** Measures and behaviours of heads are Python's: the numbers that its test holds, too. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { toHalf } from "../src/codec";
import { Engine } from "../src/engine/engine";
import { isDelimiter } from "../src/engine/measure";
import { assemble, parse } from "../src/engine/payload";
import { BEHAVIOURS, MEASURES, type Behaviour, type Measures } from "../src/provider";
import { made } from "./case";
import { FOLDER, golden } from "./stored";

type Told = Measures & { behaviour: Behaviour };
const all = JSON.parse(readFileSync(`${FOLDER}measures.json`, "utf8")) as Record<string, Told[][]>;

for (const [name, sites] of Object.entries(all))
  test(`the heads of ${name} measure what Python says`, async () => {
    const { trace, tensors } = golden(name);
    const engine = new Engine(parse(assemble(trace, tensors)));
    for (const [site, heads] of sites.entries()) {
      const mine = await engine.statistics(site);
      expect(mine.behaviours).toEqual(heads.map(({ behaviour }) => behaviour));
      expect(mine.estimate).toBe(false);
      heads.forEach((told, head) => MEASURES.forEach((measure) => expect(Math.abs(mine.heads[head]![measure] - told[measure]), `${site}.${head} ${measure}`).toBeLessThan(2e-5)));
    }
  });

test("made heads are called by what they were made to do", async () => {
  const { trace, tensors } = golden("heads");
  expect((await new Engine(parse(assemble(trace, tensors))).statistics(0)).behaviours).toEqual([...BEHAVIOURS]);
});

test("labels are compared only where queries and keys are the same positions", async () => {
  const { payload } = made({});
  const measured = async (): Promise<Measures> => (await new Engine(payload).statistics(0)).heads[0]!;
  expect((await measured()).same).toBeGreaterThan(0);
  payload.trace.sites[0]!.key = "source";
  expect(await measured()).toMatchObject({ same: 0, induction: 0 });
});

for (const value of [NaN, Infinity])
  test(`a row with a score of ${value} counts for no measure, and not for other heads`, async () => {
    const { payload, weights } = made({ score: { kind: "dense" } });
    const scores = payload.tensors[0]!.get("scores")!;
    (scores.data as Uint16Array)[3 * 9 + 4] = toHalf(value);
    const { heads } = await new Engine(payload).statistics(0);
    const others = weights[0]!.filter((_, query) => query !== 3);
    const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);
    expect(heads[0]!.sink).toBeCloseTo(sum(others.map((row) => row[0]!)) / 8, 5);
    expect(heads[0]!.entropy).toBeCloseTo(sum(others.flat().map((p) => -p * Math.log(p))) / 8, 5);
    expect(heads[1]!.sink).toBeCloseTo(sum(weights[1]!.map((row) => row[0]!)) / 9, 5);
  });

test("punctuation and special tokens are delimiters, with the marks of any vocabulary", () => {
  const labels = [".", "▁,", "Ġ;", "</s>", "[SEP]", "。", "؟", "«", "\n", "the", "▁", "", "n't", "[1]", "<", "Ġ", "##s", "3.5"];
  expect(labels.filter(isDelimiter)).toEqual([".", "▁,", "Ġ;", "</s>", "[SEP]", "。", "؟", "«", "\n", "<"]);
});
