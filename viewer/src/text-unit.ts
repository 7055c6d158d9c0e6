/** The units that two tokenisations of one text have in common, as in Python's `foveate.inspect.text_unit`. */

import type { Sequence } from "./provider";
import { isMark, UNSPACED } from "./story/word";

/** A word, or the shortest stretch at whose ends both have a boundary. */
export type Unit = "word" | "piece";
export interface Units {
  texts: string[];
  /** For each label of the first sequence its unit, or OUTSIDE. */
  one: number[];
  other: number[];
  /** Whether the texts are the same; otherwise the units end where they begin to differ. */
  whole: boolean;
}
export const OUTSIDE = -1;

const blank = (letter: string): boolean => /^[\p{White_Space}▁]$/u.test(letter);

/** A text without its spaces, and the stretch of each label in it. Offsets count characters, and not halves of them. */
class Reading {
  readonly letters: string[];
  readonly spans: (readonly [number, number])[];
  private readonly text: string[];
  private readonly places: number[];
  private readonly marks: boolean[];

  constructor(text: string, offsets: NonNullable<Sequence["offsets"]>, labels: readonly string[]) {
    const own = [...text];
    const normal = text.normalize("NFC");
    this.text = [...normal];
    let count = 0;
    const passed = [0, ...this.text.map((letter) => (count += blank(letter) ? 0 : 1))];
    const at = (end: number): number => passed[normal === text ? end : [...own.slice(0, end).join("").normalize("NFC")].length]!;
    this.spans = offsets.map(([begin, end]) => [at(begin), at(end)] as const);
    this.places = [...this.text.keys()].filter((place) => !blank(this.text[place]!));
    this.letters = this.places.map((place) => this.text[place]!);
    this.marks = labels.map(isMark);
  }

  /** Whether no label goes over each of the places between two letters. */
  cuts(): boolean[] {
    const cuts = new Array<boolean>(this.letters.length + 1).fill(true);
    for (const [begin, end] of this.spans) cuts.fill(false, begin + 1, Math.max(end, begin + 1));
    return cuts;
  }

  /** Where a word begins or ends, and around letters of scripts without spaces. */
  edges(): boolean[] {
    const alone = this.letters.map((letter) => UNSPACED.test(letter));
    const inner = (at: number): boolean => this.places[at]! > this.places[at - 1]! + 1 || alone[at]! || alone[at - 1]!;
    return Array.from({ length: this.letters.length + 1 }, (_, at) => at === 0 || at === this.letters.length || inner(at));
  }

  reaches(begin: number, end: number): boolean {
    return this.spans.some(([first, last]) => begin <= first && first < last && last <= end);
  }
  written(begin: number, end: number): string {
    return this.text.slice(this.places[begin], this.places[end - 1]! + 1).join("");
  }

  /** A label without letters, as the first byte of one, belongs to the stretch of the next, unless it is a begin or an end. */
  units(spans: readonly (readonly [number, number])[]): number[] {
    const last = spans.at(-1)?.[1] ?? 0;
    const found = this.spans.map(() => OUTSIDE);
    let after = OUTSIDE;
    for (let label = this.spans.length - 1; label >= 0; label--) {
      const [begin, end] = this.spans[label]!;
      if (begin < end) after = end <= last ? spans.findIndex(([, stop]) => begin < stop) : OUTSIDE;
      if (begin < end || !this.marks[label]) found[label] = after;
    }
    return found;
  }
}

function readingOf(sequence: Sequence | undefined): Reading | null {
  const { kind, text, offsets, labels } = sequence ?? {};
  return kind === "tokens" && text != null && offsets && labels ? new Reading(text, offsets, labels) : null;
}

/** The units of two sequences, whatever their pieces; null where a text or its characters are not known. */
export function commonUnits(one: Sequence | undefined, other: Sequence | undefined, unit: Unit): Units | null {
  const [first, second] = [readingOf(one), readingOf(other)];
  if (!first || !second) return null;
  const apart = first.letters.findIndex((letter, at) => letter !== second.letters[at]);
  const shared = apart < 0 ? first.letters.length : apart;
  const whole = apart < 0 && second.letters.length === shared;
  const bounds = [first.cuts(), second.cuts(), ...(unit === "word" || !whole ? [first.edges(), second.edges()] : [])];
  const spans: [number, number][] = [];
  let begin = 0;
  for (let cut = 1; cut <= shared; cut++) {
    if (!bounds.every((each) => each[cut]) || !first.reaches(begin, cut) || !second.reaches(begin, cut)) continue;
    spans.push([begin, cut]);
    begin = cut;
  }
  if (spans.length && whole) spans.at(-1)![1] = shared;
  return { texts: spans.map((span) => first.written(...span)), one: first.units(spans), other: second.units(spans), whole };
}
