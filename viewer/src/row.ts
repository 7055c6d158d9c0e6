/** One query's weights over keys. */

import type { App } from "./app";
import { block } from "./block";
import { meanOf } from "./link";
import type { Span } from "./provider";

export interface Row {
  /** Null where the query may not look. */
  weights: (number | null)[];
  /** The equal share of each key, for lift; 1 on other scales. */
  shares: number[];
}

/** The mean row of some heads. A head that does not see a key counts with a share of 0; a key that no head sees has the share of others. */
export async function rowOf(app: App, site: number, heads: readonly number[], query: number, columns: Span, signal: AbortSignal): Promise<Row> {
  const [rows, counts] = await Promise.all([
    Promise.all(heads.map((head) => block(app.provider, site, head, [query, query + 1], columns, 0, signal))),
    Promise.all(heads.map((head) => seenBy(app, site, head, query))),
  ]);
  signal.throwIfAborted();
  const weights = meanOf(rows)[0]!;
  const share = (at: number): number => counts.reduce((sum, count, head) => sum + (weights[at] === null || rows[head]![0]![at] !== null ? 1 / count : 0), 0) / heads.length;
  return { weights, shares: weights.map((_, at) => share(at)) };
}

/** The row of the head that is looked at, or the mean of all. */
export function rowShown(app: App, mean: boolean, query: number, signal: AbortSignal): Promise<Row> {
  const { heads, keys } = app.current;
  return rowOf(app, app.site.value, mean ? Array.from({ length: heads }, (_, each) => each) : [app.head.value], query, [0, keys], signal);
}

/** How many keys a query sees: what lift needs, and nothing else does. */
export async function seenBy(app: App, site: number, head: number, query: number): Promise<number> {
  return app.scale.peek() === "lift" ? (await app.provider.counts(site, head))[query]! : 1;
}
