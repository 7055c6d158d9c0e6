/** Whole words of a sequence, and the weights between them. */

import { isByte, joined, printable } from "../label";
import type { Sequence, Span } from "../provider";

export interface Word {
  span: Span;
  text: string;
  /** A begin, an end, a class or a gap instead of a word. */
  mark: "begin" | "end" | "gap" | "sign" | null;
  /** What else is known of it: its label, or what may fill it. */
  notes: readonly string[];
}

const SIGN = /^(<[^<>\x00-\x20]+>|\[[^[\]\x00-\x20]+\])$/;
/**
 * Scripts without spaces, in which many pieces together are more than a word: Thai, Lao, Myanmar, Khmer, Han and kana.
 * Python has the same ranges (inspect/caption.py), and tests/golden/words.json the cases of both.
 */
export const UNSPACED = /[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u3029\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ff\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\u{1b000}-\u{1b16f}\u{20000}-\u{323af}]/u;
const MARKS = new Map<string, Word["mark"]>([["<s>", "begin"], ["</s>", "end"], ["[MASK]", "gap"], ["<mask>", "gap"]]);
/** What marks a gap in a text that is to be filled, and is a letter in any other. */
const GAPS = ["___", "_"];
/** A begin, an end, a class, or what may be a gap. */
export const isMark = (label: string): boolean => (SIGN.test(label) && !isByte(label)) || MARKS.has(label) || GAPS.includes(label);
/** Whether the note of a label names candidates for a gap, with their shares. */
const isFilled = (note: string | undefined): boolean => note?.endsWith("%") === true;

/** The words of a sequence in order; every position for itself where words are unknown, or where no spaces divide them. */
export function wordsOf(sequence: Sequence | undefined, length: number, label: (at: number) => string): Word[] {
  const spans = sequence?.words ?? Array.from({ length }, (_, at): Span => [at, at + 1]);
  const labels = sequence?.labels;
  const isGap = (at: number): boolean => GAPS.includes(labels![at]!) && isFilled(sequence?.notes?.[at]);
  /** Whether a piece is a word by itself, whatever stands around it. */
  const alone = (at: number): boolean => Boolean(labels && (UNSPACED.test(labels[at]!) || (GAPS.includes(labels[at]!) ? isGap(at) : isMark(labels[at]!))));
  const divided = spans.flatMap(([begin, end]): Span[] => {
    const cuts = Array.from({ length: end - begin }, (_, at) => begin + at).filter((at) => at === begin || alone(at) || alone(at - 1));
    return cuts.map((cut, at) => [cut, cuts[at + 1] ?? end]);
  });
  return divided.map((span) => {
    const pieces = labels?.slice(...span);
    const whole = pieces ? joined(pieces) : label(span[0]);
    const mark = pieces?.length === 1 ? (MARKS.get(pieces[0]!) ?? (isGap(span[0]) ? "gap" : SIGN.test(whole) && !isByte(whole) ? "sign" : null)) : null;
    const notes = sequence?.notes?.slice(...span).find(Boolean)?.split("\n") ?? [];
    return { span, text: pieces ? printable(whole) : whole, mark, notes };
  });
}

/** The share of words in words: the sum over the keys of one, in the mean over the queries of the other. Null is hidden. */
export function pooled(weights: readonly (readonly (number | null)[])[], queries: readonly Word[], keys: readonly Word[]): (number | null)[][] {
  return queries.map(({ span: [top, bottom] }) => keys.map(({ span: [left, right] }) => {
    let [sum, visible] = [0, false];
    for (let i = top; i < bottom; i++) {
      for (let j = left; j < right; j++) {
        const weight = weights[i]![j]!;
        if (weight === null) continue;
        visible = true;
        sum += weight;
      }
    }
    return visible ? sum / (bottom - top) : null;
  }));
}

/** Whole percents; less than one has one digit. */
export const percent = (weight: number): string => (Number.isNaN(weight) ? "NaN" : weight >= 0.01 ? `${Math.round(100 * weight)}%` : weight > 0 ? `${(100 * weight).toFixed(1)}%` : "0%");
