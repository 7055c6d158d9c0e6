/** A story's words, its lines, and what is switched off in it. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import type { App } from "../src/app";
import type { Ablation, Sequence, Trace } from "../src/provider";
import type { Word } from "../src/strings/strings";
import { nameOf } from "../src/view/transcript";
import { addressOf, costOf, differing, headSwitched, isEmpty, isHeadOff, isOff, known, NOTHING, offOf, wordSwitched } from "../src/story/switching";
import { tellable } from "../src/story/tellable";
import { numberAt, thread, type Box, type Shape } from "../src/story/thread";
import { percent, pooled, wordsOf } from "../src/story/word";

const tokens = (labels: string[], words: [number, number][] | null = null, notes?: string[]): Sequence => ({ kind: "tokens", labels, words, ...(notes && { notes }) });
const name = String;

test("pieces are joined to words, marks and letters without spaces between them stand alone", () => {
  const read = wordsOf(tokens(["<s>", "a", "sh", "irt", "昨天", "我", "</s>"], [[0, 1], [1, 2], [2, 6], [6, 7]]), 7, name);
  expect(read.map(({ text }) => text)).toEqual(["<s>", "a", "shirt", "昨天", "我", "</s>"]);
  expect(read.map(({ mark }) => mark)).toEqual(["begin", null, null, null, null, "end"]);
  expect(read.map(({ span }) => span)).toEqual([[0, 1], [1, 2], [2, 4], [4, 5], [5, 6], [6, 7]]);
  expect(wordsOf(undefined, 2, (at) => `#${at}`).map(({ text }) => text)).toEqual(["#0", "#1"]);
});

test("bytes of a character are the character, also where it begins or ends a word, and stay as they are where they are none", () => {
  const text = (labels: string[]): string[] => wordsOf(tokens(labels, [[0, labels.length]]), labels.length, name).map(({ text }) => text);
  expect(text(["▁s", "<0xC5>", "<0x93>", "ur"])).toEqual(["sœur"]);
  expect(text(["▁", "<0xC5>", "<0x93>", "uf"])).toEqual(["œuf"]);
  expect(text(["<0xF0>", "<0x9F>", "<0x98>", "<0x80>"])).toEqual(["😀"]);
  expect(text(["▁s", "<0xC5>", "ur"])).toEqual(["s<0xC5>ur"]);
  expect(wordsOf(tokens(["<0x93>"]), 1, name)[0]).toMatchObject({ text: "<0x93>", mark: null });
});

test("words are those of Python", () => {
  const cases = JSON.parse(readFileSync(fileURLToPath(new URL("../../tests/golden/words.json", import.meta.url)), "utf8")) as { labels: string[]; spans: [number, number][] | null; notes?: string[]; words: [number, number][] }[];
  expect(cases.length).toBeGreaterThan(10);
  for (const { labels, spans, notes, words } of cases) expect(wordsOf(tokens(labels, spans, notes), labels.length, name).filter(({ mark }) => mark === null).map(({ span }) => span)).toEqual(words);
});

test("a gap and a tag bring their notes", () => {
  const [gap, cat] = wordsOf(tokens(["___", "cat"], [[0, 1], [1, 2]], ["dog 40%\nfox 9%", "NOUN"]), 2, name);
  expect([gap!.mark, gap!.notes]).toEqual(["gap", ["dog 40%", "fox 9%"]]);
  expect(cat!.notes).toEqual(["NOUN"]);
});

test("weights are added over a word's keys and averaged over its queries; only what nobody sees is hidden", () => {
  const [both, one] = wordsOf(tokens(["a", "b", "c"], [[0, 2], [2, 3]]), 3, name);
  const weights = [[0.1, 0.2, null], [0.3, 0.4, null], [0.5, null, 0.5]];
  const shares = pooled(weights, [both!, one!], [both!, one!]);
  expect(shares[0]![0]).toBeCloseTo(0.5);
  expect(shares[0]![1]).toBeNull();
  expect(shares[1]).toEqual([0.5, 0.5]);
  expect([percent(0.484), percent(0.004), percent(0), percent(NaN)]).toEqual(["48%", "0.4%", "0%", "NaN"]);
});

test("begin and end of a transcript are named, alone and as words", () => {
  const app = { say: (word: Word) => word, label: (_: string, at: number) => labels[at] } as unknown as App;
  const labels = ["<s>", "▁on", "e", "</s>"];
  const units = [[0, 1], [1, 2], [1, 3], [3, 4]] as const;
  expect(units.map((unit) => nameOf(app, tokens(labels), unit))).toEqual(["story.begin", "▁on", "one", "story.end"]);
});

test("a line leads from one word's edge to the other's, mirrored where keys stand at the right", () => {
  const [low, high]: Box[] = [{ left: 0, right: 20, top: 100, bottom: 120 }, { left: 40, right: 80, top: 0, bottom: 20 }];
  expect(thread("rows", low!, high!)).toMatch(/^M10 80C.* 60 40$/);
  expect(thread("columns", { ...low!, left: 300, right: 340 }, high!)).toMatch(/^M260 110C.* 120 10$/);
  expect(thread("columns", low!, { ...high!, left: 300, right: 340 }, true)).toMatch(/^M60 110C.* 260 10$/);
  for (const shape of ["arcs", "brackets"] as Shape[]) expect(thread(shape, low!, low!)).not.toBe(thread(shape, low!, high!));
  expect(numberAt("rows", high!, "key")).toEqual({ x: 60, y: 34, anchor: "middle" });
  expect([numberAt("columns", high!, "key").anchor, numberAt("columns", high!, "key", true).anchor]).toEqual(["start", "end"]);
});

test("a word is switched off whole and on again; alone, nothing else stays off", () => {
  const one = wordSwitched(NOTHING, [5, 7]);
  expect([one.tokens, isOff(one, [5, 7]), isOff(one, [5, 8]), isOff(one, [4, 4])]).toEqual([[5, 6], true, false, false]);
  const two = wordSwitched(one, [1, 2]);
  expect(two.tokens).toEqual([1, 5, 6]);
  expect(wordSwitched(two, [5, 7]).tokens).toEqual([1]);
  expect(wordSwitched(headSwitched(two, 3, 0), [2, 3], true)).toEqual({ tokens: [2], heads: [] });
  const head = headSwitched(one, 7, 3);
  expect([isHeadOff(head, 7, 3), isHeadOff(head, 3, 7), isEmpty(head)]).toEqual([true, false, false]);
  expect(isEmpty(headSwitched(wordSwitched(head, [5, 7]), 7, 3))).toBe(true);
});

const switchable = (more: Partial<Trace> = {}): Trace => ({ ablates: "source", sequences: { source: tokens(["a", "b", "c"]) }, sites: [{ heads: 2 }, { heads: 4 }], ...more }) as unknown as Trace;

test("the address keeps what is off, and nothing that is not there is switched off", () => {
  const off = { tokens: [0, 2], heads: [[1, 3]] } as const;
  expect(offOf(addressOf(off), switchable())).toEqual(off);
  expect(offOf("2.0.9.1-3.1-4.2-0.x.-1.2", switchable())).toEqual(off);
  expect(offOf("0.1.2", switchable())).toEqual(NOTHING);
  expect(offOf("0", { ...switchable(), ablates: undefined } as unknown as Trace)).toEqual(NOTHING);
  expect(offOf("0.1-3", switchable({ ablations: [] }))).toEqual({ tokens: [0], heads: [] });
  expect(offOf(null, switchable())).toEqual(NOTHING);
});

test("a page knows the switches that it was written with and no others", () => {
  const made = (tokens_off: number[]): Ablation => ({ tokens_off, sequences: {}, weights: [], log_probability: -3, log_probability_before: -1 });
  const pages = [made([0]), made([1, 2])];
  expect(known(pages, { tokens: [1, 2], heads: [] })).toBe(pages[1]);
  for (const off of [{ tokens: [1], heads: [] }, { tokens: [0, 1, 2], heads: [] }, { tokens: [0], heads: [[0, 0]] as const }]) expect(known(pages, off)).toBeNull();
  expect([costOf(made([0])), costOf({ ...made([0]), log_probability: null })]).toEqual([2, null]);
});

test("words that differ are those outside the longest common subsequence", () => {
  const marked = (words: string, others: string): string => differing(words.split(" "), others.split(" ")).map((each) => (each ? "x" : ".")).join("");
  expect(marked("une chemise rouge est un vélo", "un homme dans une chemise est un vélo")).toBe("..x...");
  expect(marked("un homme dans une chemise est un vélo", "une chemise rouge est un vélo")).toBe("xxx.....");
  expect(marked("a a b", "a b")).toBe(".x.");
  expect(differing(["a"], [])).toEqual([true]);
  expect(differing([], ["a"])).toEqual([]);
});

test("what is too long or has no words is no story", () => {
  const site = (length: number) => ({ shows: "exact", query: "target", key: "source", queries: length, keys: 3 }) as never;
  const trace = { sequences: { source: tokens(["a", "b", "c"]), target: tokens(["x"]) } } as unknown as Trace;
  expect([tellable(trace, site(300)), tellable(trace, site(301)), tellable(trace, undefined)]).toEqual([true, false, false]);
  expect(tellable({ sequences: { source: { kind: "tokens" } } } as unknown as Trace, site(1))).toBe(false);
});
