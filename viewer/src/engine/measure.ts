/** What a row's weights say about its head, gathered in one pass over rows. */

import { MEASURES, type Measures, type Sequence } from "../provider";
import type { Head } from "./head";

export class Gauge {
  private readonly sums: Measures;
  private readonly counts: Measures;
  private readonly followers: Map<string, number[]> | null;

  constructor(
    private readonly head: Head,
    private readonly labels: readonly string[] | null,
  ) {
    this.sums = Object.fromEntries(MEASURES.map((name) => [name, 0])) as Measures;
    this.counts = { ...this.sums };
    this.followers = labels && head.site.kind === "self" ? followersOf(labels) : null;
  }

  /** One query's weights over keys [from, to); all others are hidden. */
  add(query: number, weights: Float64Array, from: number, to: number): void {
    let total = 0;
    for (let j = from; j < to; j++) if (weights[j - from]! > 0) total += weights[j - from]!;
    if (total === 0) return;
    const at = this.head.queryPosition[query]!;
    const along = this.head.queries > 1 ? query / (this.head.queries - 1) : 0;
    const across = this.head.keys > 1 ? 1 / (this.head.keys - 1) : 0;
    let entropy = 0;
    let distance = 0;
    let diagonality = 0;
    let previous = -1;
    for (let j = from; j < to; j++) {
      const weight = weights[j - from]!;
      if (weight < 0) continue;
      const p = weight / total;
      const offset = this.head.keyPosition[j]! - at;
      if (offset === -1) previous = Math.max(previous, 0) + p;
      if (p === 0) continue;
      entropy -= p * Math.log(p);
      distance += p * Math.abs(offset);
      diagonality += p * (1 - Math.abs(along - j * across));
    }
    const sink = from === 0 ? Math.max(0, weights[0]!) / total : 0;
    this.note("entropy", entropy);
    this.note("distance", distance);
    this.note("sink", sink);
    this.note("diagonality", diagonality);
    if (previous >= 0) this.note("previous", previous);
    this.addInduction(query, weights, from, to, total);
  }

  private addInduction(query: number, weights: Float64Array, from: number, to: number, total: number): void {
    let mass = -1;
    for (const j of this.followers?.get(this.labels![query]!) ?? []) {
      if (j - 1 >= query || j < from || j >= to || weights[j - from]! < 0) continue;
      mass = Math.max(mass, 0) + weights[j - from]! / total;
    }
    if (mass >= 0) this.note("induction", mass);
  }

  private note(name: keyof Measures, value: number): void {
    this.sums[name] += value;
    this.counts[name] += 1;
  }

  means(): Measures {
    return Object.fromEntries(MEASURES.map((name) => [name, this.counts[name] ? this.sums[name] / this.counts[name] : 0])) as Measures;
  }
}

/** For each label, the places right after it. */
function followersOf(labels: readonly string[]): Map<string, number[]> {
  const places = new Map<string, number[]>();
  for (let j = 1; j < labels.length; j++) {
    const found = places.get(labels[j - 1]!);
    if (found) found.push(j);
    else places.set(labels[j - 1]!, [j]);
  }
  return places;
}

export function labelsOf(sequence: Sequence | undefined): readonly string[] | null {
  return sequence?.labels ?? null;
}
