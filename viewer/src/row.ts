/** One query's weights over all keys. */

import type { App } from "./app";
import { block } from "./block";
import { meanOf } from "./link";

/** Keys up to which hidden ones are told apart from those of weight 0. */
const TOLD_APART = 8192;

/** Null where the query may not look; beyond a length hidden keys count as 0. */
export async function rowOf(app: App, site: number, head: number, query: number, signal: AbortSignal): Promise<(number | null)[]> {
  const { keys } = app.trace.sites[site]!;
  const row = keys <= TOLD_APART ? (await block(app.provider, site, head, [query, query + 1], [0, keys], 0, signal))[0]! : Array.from(await app.provider.row(site, head, query, signal));
  signal.throwIfAborted();
  return row;
}

/** The row of the head that is looked at, or the mean of all. */
export async function rowShown(app: App, mean: boolean, query: number, signal: AbortSignal): Promise<(number | null)[]> {
  const [site, head] = [app.site.value, app.head.value];
  const heads = mean ? Array.from({ length: app.current.heads }, (_, each) => each) : [head];
  const rows = await Promise.all(heads.map((each) => rowOf(app, site, each, query, signal)));
  return meanOf(rows.map((row) => [row]))[0]!;
}

/** How many keys a query sees: what lift needs, and nothing else does. */
export async function seenBy(app: App, site: number, head: number, query: number): Promise<number> {
  return app.scale.peek() === "lift" ? (await app.provider.counts(site, head))[query]! : 1;
}
