/** One query's weights over all keys. */

import type { App } from "./app";
import { block } from "./block";

/** Keys up to which hidden ones are told apart from those of weight 0. */
const TOLD_APART = 8192;

/** Null where the query may not look; beyond a length hidden keys count as 0. */
export async function rowOf(app: App, site: number, head: number, query: number, signal: AbortSignal): Promise<(number | null)[]> {
  const { keys } = app.trace.sites[site]!;
  const row = keys <= TOLD_APART ? (await block(app.provider, site, head, [query, query + 1], [0, keys], 0, signal))[0]! : Array.from(await app.provider.row(site, head, query, signal));
  signal.throwIfAborted();
  return row;
}

/** How many keys a query sees: what lift needs, and nothing else does. */
export async function seenBy(app: App, site: number, head: number, query: number): Promise<number> {
  return app.scale.peek() === "lift" ? (await app.provider.counts(site, head))[query]! : 1;
}
