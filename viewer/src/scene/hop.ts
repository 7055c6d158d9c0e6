/** What reaches a node over several layers, and along which edges. */

import type { App } from "../app";
import { block } from "../block";

export type Weights = readonly (readonly (number | null)[])[];
/** How much of a target's sight goes to a source. */
export type Carried = readonly [target: number, source: number, amount: number];
export interface Journey {
  /** The share of each node; null where no path leads. */
  reached: (number | null)[];
  carried: Carried[];
}

/** The sites of the same sequence, layer after layer, that end with this one: the nearest to the input first. */
export function layersBefore(app: App, site: number): number[] {
  const { query, key, layer } = app.trace.sites[site]!;
  const own = [...app.trace.sites.keys()].filter((at) => {
    const one = app.trace.sites[at]!;
    return query === key && one.query === query && one.key === key && one.layer <= layer && one.shows !== "projected";
  });
  return own.sort((a, b) => app.trace.sites[a]!.layer - app.trace.sites[b]!.layer || a - b);
}

/** The product of the layers' weights with 1 at the query, from the last layer to the first. */
export function journey(layers: readonly Weights[], query: number): Journey {
  const count = layers[0]?.length ?? 0;
  let flow = Array.from({ length: count }, (_, at): number => (at === query ? 1 : 0));
  const amounts = new Map<number, number>();
  for (const weights of [...layers].reverse()) {
    const next = new Array<number>(count).fill(0);
    flow.forEach((share, target) => share > 0 && weights[target]!.forEach((weight, source) => {
      if (!weight) return;
      next[source]! += share * weight;
      const way = target * count + source;
      amounts.set(way, Math.max(amounts.get(way) ?? 0, share * weight));
    }));
    flow = next;
  }
  const carried = [...amounts].map(([way, amount]): Carried => [Math.floor(way / count), way % count, amount]);
  return { reached: flow.map((share) => (share === 0 ? null : share)), carried };
}

/** The weights of all nodes in a head; without a head the mean of all heads. */
export async function weightsOf(app: App, site: number, head: number | null, signal: AbortSignal): Promise<Weights> {
  const { heads, queries, keys } = app.trace.sites[site]!;
  const chosen = head === null ? Array.from({ length: heads }, (_, at) => at) : [head];
  const maps = await Promise.all(chosen.map((one) => block(app.provider, site, one, [0, queries], [0, keys], 0, signal)));
  signal.throwIfAborted();
  return maps[0]!.map((row, query) => row.map((_, key) => {
    const seen = maps.map((map) => map[query]![key]).filter((weight): weight is number => weight !== null);
    return seen.length ? seen.reduce((sum, weight) => sum + weight, 0) / maps.length : null;
  }));
}

export const ways = (weights: Weights): Carried[] => weights.flatMap((row, target) => row.flatMap((weight, source): Carried[] => (weight ? [[target, source, weight]] : [])));
