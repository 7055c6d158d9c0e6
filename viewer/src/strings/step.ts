/**
 * What is said of a step, in the reader's language. Python and the engine tell it in English, sentence after sentence,
 * numbers and rules among the words; each sentence is known here by its English form.
 */

import catalogue from "./step.json";
import { isolated, type Language } from "./strings";

const SENTENCES = Object.entries(catalogue).map(([english, others]) => ({ others: others as Partial<Record<Language, string>>, names: names(english), pattern: pattern(english) }));

const PLACE = /\{(\w+)\}/g;

function names(sentence: string): string[] {
  return [...sentence.matchAll(/\{(\w+)\}/g)].map(([, name]) => name!);
}

function pattern(sentence: string): RegExp {
  const literal = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${sentence.split(/\{\w+\}/).map(literal).join("(.+?)")}(?: |$)`, "s");
}

/** The sentences that are known, each with its values, and what follows that is not. */
export function parsed(about: string): { sentences: { others: Partial<Record<Language, string>>; values: Record<string, string> }[]; rest: string } {
  const sentences = [];
  let rest = about;
  while (rest) {
    const known = SENTENCES.map((each) => ({ ...each, found: each.pattern.exec(rest) })).find(({ found }) => found);
    if (!known) break;
    sentences.push({ others: known.others, values: Object.fromEntries(known.names.map((name, at) => [name, known.found![at + 1]!])) });
    rest = rest.slice(known.found![0].length);
  }
  return { sentences, rest };
}

export function told(language: Language, about: string): string {
  const { sentences, rest } = parsed(about);
  if (language === "en" || rest) return about;
  const between = language === "zh" ? "" : " ";
  return sentences.map(({ others, values }) => others[language]!.replace(PLACE, (_, name: string) => isolated(language, values[name]!))).join(between);
}
