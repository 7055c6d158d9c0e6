/** What a row's weights say about its head, gathered in one pass over rows: as Python's `head_measure.py` defines it. */

import { BEHAVIOURS, MEASURES, type Behaviour, type Measure, type Measures, type Sequence } from "../provider";
import type { Head } from "./head";

/** From what number on a head has the name of a measure, and of how many of its rows that measure has to be known. */
const [EVEN, MOST, EXPLAINED, COVERED] = [0.9, 0.5, 0.25, 0.25];
/** The limit on the sum of a row without visible keys. */
const NOTHING = 1e-12;
/** The largest range of offsets for which R² is computed. */
const OFFSETS = 1 << 22;

export interface Reading {
  measures: Measures;
  behaviour: Behaviour;
}

export class Gauge {
  private readonly sums: Measures;
  private readonly counts: Measures;
  private readonly followers: Map<string, number[]> | null;
  private readonly alike: Map<string, number[]> | null;
  private readonly delimiters: readonly number[];
  private readonly byOffset: OffsetSums;

  constructor(
    private readonly head: Head,
    private readonly labels: readonly string[] | null,
    keyLabels: readonly string[] | null,
  ) {
    this.sums = Object.fromEntries(MEASURES.map((name) => [name, 0])) as Measures;
    this.counts = { ...this.sums };
    const { kind, query, key, queries, keys } = head.site;
    const own = labels && kind === "self" && query === key && queries === keys && labels.length === keys ? labels : null;
    this.followers = own && placesOf(own, 1);
    this.alike = own && placesOf(own, 0);
    this.delimiters = (keyLabels ?? []).flatMap((label, j) => (isDelimiter(label) ? [j] : []));
    this.byOffset = new OffsetSums(head);
  }

  /** One query's weights over keys [from, to); all others are hidden. */
  add(query: number, weights: Float64Array, from: number, to: number): void {
    const at = this.head.queryPosition[query]!;
    let total = 0;
    let seen = 0;
    for (let j = from; j < to; j++) {
      const weight = weights[j - from]!;
      if (weight < 0) continue;
      seen += 1;
      total += weight;
      this.byOffset.add(this.head.keyPosition[j]! - at, weight);
    }
    if (!(total > NOTHING) || !Number.isFinite(total)) return;
    const along = this.head.queries > 1 ? query / (this.head.queries - 1) : 0;
    const across = this.head.keys > 1 ? 1 / (this.head.keys - 1) : 0;
    let entropy = 0;
    let distance = 0;
    let diagonality = 0;
    const beside = [-1, -1, -1];
    for (let j = from; j < to; j++) {
      const weight = weights[j - from]!;
      if (weight < 0) continue;
      const p = weight / total;
      const offset = this.head.keyPosition[j]! - at;
      if (offset >= -1 && offset <= 1) beside[offset + 1] = Math.max(beside[offset + 1]!, 0) + p;
      if (p === 0) continue;
      entropy -= p * Math.log(p);
      distance += p * Math.abs(offset);
      diagonality += p * (1 - Math.abs(along - j * across));
    }
    this.note("entropy", entropy);
    this.note("distance", distance);
    this.note("sink", from === 0 ? Math.max(0, weights[0]!) / total : 0);
    this.note("diagonality", diagonality);
    if (seen > 1) this.note("evenness", entropy / Math.log(seen));
    (["previous", "itself", "next"] as const).forEach((name, place) => beside[place]! >= 0 && this.note(name, beside[place]!));
    if (Math.max(...beside) >= 0) this.note("near", beside.reduce((sum, p) => sum + Math.max(p, 0), 0));
    const share = (name: Measure, keys: readonly number[] | undefined, counts: (key: number) => boolean): void => {
      let mass = -1;
      for (const j of keys ?? []) if (j >= from && j < to && weights[j - from]! >= 0 && counts(j)) mass = Math.max(mass, 0) + weights[j - from]! / total;
      if (mass >= 0) this.note(name, mass);
    };
    share("delimiter", this.delimiters, () => true);
    share("same", this.alike?.get(this.labels![query]!), (j) => j !== query);
    share("induction", this.followers?.get(this.labels![query]!), (j) => j - 1 < query);
  }

  private note(name: Measure, value: number): void {
    this.sums[name] += value;
    this.counts[name] += 1;
  }

  read(): Reading {
    const means = Object.fromEntries(MEASURES.map((name) => [name, this.counts[name] ? this.sums[name] / this.counts[name] : 0])) as Measures;
    const measures = { ...means, position: this.byOffset.share() };
    return { measures, behaviour: this.behaviour(measures) };
  }

  /** The first behaviour that holds. */
  private behaviour(measures: Measures): Behaviour {
    const known = (name: Measure): number => (this.counts[name] >= COVERED * this.counts.entropy ? measures[name] : 0);
    if (known("evenness") >= EVEN) return "flat";
    const named = BEHAVIOURS.slice(0, 8).find((name) => known(name === "first" ? "sink" : (name as Measure)) >= MOST);
    return named ?? (measures.position >= EXPLAINED ? "position" : "content");
  }
}

/** Sums by offset, from which follows how much of the weights the offset explains. */
class OffsetSums {
  private readonly total: Float64Array;
  private readonly count: Float64Array;
  private readonly first: number;
  private squares = 0;

  constructor({ queryPosition, keyPosition }: Head) {
    const [[low, high], [least, most]] = [rangeOf(keyPosition), rangeOf(queryPosition)];
    const size = high - least - (low - most) + 1;
    this.first = low - most;
    this.total = new Float64Array(size <= OFFSETS ? Math.max(0, size) : 0);
    this.count = new Float64Array(this.total.length);
  }

  add(offset: number, weight: number): void {
    const place = offset - this.first;
    if (place >= this.total.length) return;
    this.total[place]! += weight;
    this.count[place]! += 1;
    this.squares += weight * weight;
  }

  /** R², adjusted for the number of offsets, at least 0. */
  share(): number {
    let [pairs, offsets, sum, between] = [0, 0, 0, 0];
    this.count.forEach((count, place) => {
      if (count === 0) return;
      const total = this.total[place]!;
      pairs += count;
      offsets += 1;
      sum += total;
      between += (total * total) / count;
    });
    const everything = this.squares - (sum * sum) / pairs;
    if (pairs <= offsets || !(everything > 1e-6 * this.squares)) return 0;
    return Math.max(0, 1 - (this.squares - between) / (pairs - offsets) / (everything / (pairs - 1)));
  }
}

const rangeOf = (positions: Int32Array): [number, number] => positions.reduce<[number, number]>(([low, high], at) => [Math.min(low, at), Math.max(high, at)], [Infinity, -Infinity]);

/** For each label, its places, or those so many after them. */
function placesOf(labels: readonly string[], after: number): Map<string, number[]> {
  const places = new Map<string, number[]>();
  for (let j = after; j < labels.length; j++) {
    const label = labels[j - after]!;
    const known = places.get(label);
    if (known) known.push(j);
    else places.set(label, [j]);
  }
  return places;
}

/** Whether a piece is punctuation or a special token. */
export function isDelimiter(label: string): boolean {
  const piece = label.replace(/^(▁|Ġ|##)|@@$/gu, "");
  return /^(<.+>|\[[A-Za-z]+\]|[\p{P}\p{S}\p{Z}\p{Cc}]+)$/u.test(piece);
}

export function labelsOf(sequence: Sequence | undefined): readonly string[] | null {
  return sequence?.labels ?? null;
}
