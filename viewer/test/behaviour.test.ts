/** Measures and behaviours of heads are Python's: the numbers that its test holds, too. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { Engine } from "../src/engine/engine";
import { isDelimiter } from "../src/engine/measure";
import { assemble, parse } from "../src/engine/payload";
import { BEHAVIOURS, MEASURES, type Behaviour, type Measures } from "../src/provider";
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

test("punctuation and special tokens are delimiters, with the marks of any vocabulary", () => {
  const labels = [".", "▁,", "Ġ;", "</s>", "[SEP]", "。", "؟", "«", "\n", "the", "▁", "", "n't", "[1]", "<", "Ġ", "##s", "3.5"];
  expect(labels.filter(isDelimiter)).toEqual([".", "▁,", "Ġ;", "</s>", "[SEP]", "。", "؟", "«", "\n", "<"]);
});
