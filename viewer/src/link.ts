/** Hard links of an alignment, and how far they are from a gold one. */

export type Link = readonly [target: number, source: number];

/** null is hidden. */
export type Weights = readonly (readonly (number | null)[])[];

/** Each row's largest weight, the first of equals; or all from a threshold on. A row that sees nothing has none. */
export function links(weights: Weights, threshold: number | null): Link[] {
  return weights.flatMap((row, target): Link[] => {
    if (threshold !== null) return row.flatMap((weight, source): Link[] => (weight !== null && weight >= threshold ? [[target, source]] : []));
    let best = -1;
    row.forEach((weight, source) => {
      if (weight !== null && weight > 0 && (best < 0 || weight > row[best]!)) best = source;
    });
    return best < 0 ? [] : [[target, best]];
  });
}

/** As word aligners exchange them: source-target pairs from 0, in order. */
export function pharaoh(found: readonly Link[]): string {
  return [...found].sort((a, b) => a[1] - b[1] || a[0] - b[0]).map(([target, source]) => `${source}-${target}`).join(" ");
}

/** 1 − 2 |A ∩ G| / (|A| + |G|): the alignment error rate where all gold links are sure (Och and Ney 2003). */
export function errorRate(found: readonly Link[], gold: readonly Link[]): number {
  const name = ([target, source]: Link): string => `${target}-${source}`;
  const sure = new Set(gold.map(name));
  const same = new Set(found.map(name).filter((each) => sure.has(each))).size;
  const all = found.length + sure.size;
  return all === 0 ? 0 : 1 - (2 * same) / all;
}

/** The mean over heads; hidden in all is hidden. */
export function meanOf(heads: readonly Weights[]): (number | null)[][] {
  return heads[0]!.map((row, i) => row.map((_, j) => {
    const all = heads.map((head) => head[i]![j]!);
    return all.every((weight) => weight === null) ? null : all.reduce<number>((sum, weight) => sum + (weight ?? 0), 0) / heads.length;
  }));
}
