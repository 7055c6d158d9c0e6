/** Where a label was listened to, and how a lane of such places is drawn: pure functions. */

import type { Span } from "../provider";

/** The share of a row's weight that lies within its stretch: as in Python's `inspect.time_alignment`. */
export const SHARE = 0.8;
const LEEWAY = 1e-6;

export type Row = readonly (number | null)[];

/** The shortest range of frames, half-open, with a share of the weights; the first of equally short ones. */
export function stretch(weights: Row, share = SHARE): Span | null {
  const sums = new Float64Array(weights.length + 1);
  weights.forEach((weight, at) => (sums[at + 1] = sums[at]! + (weight ?? 0)));
  const total = sums[weights.length]!;
  if (!(total > 0) || !Number.isFinite(total)) return null;
  const need = share * total * (1 - LEEWAY);
  let best: Span | null = null;
  for (let begin = 0, end = 1; end <= weights.length; end++) {
    while (begin + 1 < end && sums[end]! - sums[begin + 1]! >= need) begin++;
    if (sums[end]! - sums[begin]! >= need && (!best || end - begin < best[1] - best[0])) best = [begin, end];
  }
  return best;
}

/** The mean of the rows of a word's letters; hidden where it is hidden for all of them. */
export function meanRow(rows: readonly Row[]): (number | null)[] {
  const [first] = rows;
  if (!first || rows.length === 1) return [...(first ?? [])];
  return first.map((_, at) => {
    const seen = rows.map((row) => row[at]).filter((weight): weight is number => weight !== null && weight !== undefined);
    return seen.length ? seen.reduce((sum, weight) => sum + weight, 0) / rows.length : null;
  });
}

/** The first and the last frame that a query may look at, half-open; null where it sees nothing. */
export function reachOf(weights: Row): Span | null {
  const first = weights.findIndex((weight) => weight !== null);
  return first < 0 ? null : [first, weights.findLastIndex((weight) => weight !== null) + 1];
}

export interface Hill {
  /** Frames with more than a hundredth of the lane's largest weight, and these weights. */
  frames: number[];
  weights: number[];
  peak: number;
}

/** What is drawn of each row: long silence is left out. Null where nothing is looked at. */
export function hills(rows: readonly Row[]): { hills: (Hill | null)[]; top: number } {
  let top = 0;
  for (const row of rows) for (const weight of row) if (weight !== null && weight > top) top = weight;
  const least = top / 100;
  const found = rows.map((row): Hill | null => {
    const hill: Hill = { frames: [], weights: [], peak: -1 };
    row.forEach((weight, frame) => {
      if (weight === null || !(weight > least)) return;
      if (hill.peak < 0 || weight > row[hill.peak]!) hill.peak = frame;
      hill.frames.push(frame);
      hill.weights.push(weight);
    });
    return hill.peak < 0 ? null : hill;
  });
  return { hills: found, top };
}

/** Which of several labels have room side by side: those of `first` before all others, then from left to right. */
export function roomy(labels: readonly { x: number; width: number }[], first: readonly number[]): boolean[] {
  const taken: [number, number][] = [];
  const shown = labels.map(() => false);
  const place = (at: number): void => {
    const { x, width } = labels[at]!;
    const [left, right] = [x - width / 2 - 1, x + width / 2 + 1];
    if (shown[at] || taken.some(([from, to]) => left < to && right > from)) return;
    shown[at] = true;
    taken.push([left, right]);
  };
  for (const at of first) place(at);
  labels.forEach((_, at) => place(at));
  return shown;
}
