/** What the translator that comes with the package answers to the sentence of its pages, computed by Python when the tests begin: another model needs no other tests. */

import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { printed } from "./command";

const FILE = fileURLToPath(new URL("./pages/expected.json", import.meta.url));

export const SENTENCE = "This program provides a simple graphical interface for the command line .";
/** A word of the sentence that tests switch off, and another before it. */
export const [SWITCHED, OTHER] = ["program", "This"] as const;

export interface Switched {
  answer: string;
  /** ln p of the answer before: as it was, and with the switch. */
  log_probabilities: [number, number];
}
interface Expected {
  source: string[];
  target: string[];
  /** One row for each word of the answer, and one for its end; one column for each word of the sentence, and one for its end. */
  weights: number[][];
  off: number[];
  without_word: Switched;
  /** The head of the last layer without which the answer changes most. */
  head: number;
  /** The number of the last layer's attention, in which that head is. */
  site: number;
  /** All heads of the model. */
  heads: number;
  without_head: Switched;
}

export function compute(): void {
  writeFileSync(FILE, printed(readFileSync(new URL("./expected.py", import.meta.url), "utf8"), SENTENCE, SWITCHED));
}

let known: Expected | undefined;
export const expected = (): Expected => (known ??= JSON.parse(readFileSync(FILE, "utf8")) as Expected);

/** The answer as one text. */
export const answered = (): string => expected().target.join(" ");
/** The words that one text has and another has not. */
export const lost = (from: string, to: string): string[] => from.split(" ").filter((word) => !to.split(" ").includes(word));
/** A number as the viewer writes it. */
export const number = (value: number, digits: number): string => String(Number(value.toPrecision(digits))).replace("-", "−");
/** How much less probable a switch makes the answer before, in nats. */
export const cost = ({ log_probabilities: [before, now] }: Switched): number => before - now;

/** The word of the answer that looks at one word of the sentence most of all, that word, its share, and a word that it hardly looks at. */
export function strongest(): { query: number; from: string; to: string; share: number; least: string } {
  const { source, target, weights } = expected();
  const inner = weights.slice(0, target.length).map((row) => row.slice(0, source.length));
  const best = inner.map((row) => Math.max(...row));
  const query = best.indexOf(Math.max(...best));
  const row = inner[query]!;
  return { query, from: target[query]!, to: source[row.indexOf(best[query]!)]!, share: best[query]!, least: source[row.indexOf(Math.min(...row))]! };
}
/** A share as the viewer writes it. */
export const percent = (share: number): string => `${Math.round(100 * share)}%`;
