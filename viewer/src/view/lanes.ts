/** The alignments of one recording that are drawn side by side: the path of attention, and the peaks of CTC. */

import { openingOf, type App } from "../app";
import { block } from "../block";
import { meanOf } from "../link";
import type { Span, Trace } from "../provider";
import type { Lane } from "../scene/frames";

export interface Choice {
  site: number;
  /** One head, or null for the mean of all. */
  head: number | null;
}

/**
 * What is drawn below a recording that text attends to: the present attention (or, where an alignment of another kind is
 * present, the one that a page opens with), and all alignments that are not attention.
 */
export function choices(trace: Trace, site: number, head: number | null): Choice[] {
  const here = trace.sites[site]!;
  if (here.query === here.key || trace.sequences[here.key]?.kind !== "frames" || here.shows === "projected") return [];
  const over = [...trace.sites.keys()].filter((at) => trace.sites[at]!.key === here.key && trace.sites[at]!.query !== here.key && trace.sites[at]!.shows !== "projected");
  const attention = over.filter((at) => !trace.sites[at]!.posterior);
  const opening = openingOf(trace);
  const first: Choice[] = !here.posterior ? [{ site, head }] : attention.includes(opening.site) ? [opening] : attention.slice(0, 1).map((at) => ({ site: at, head: null }));
  return [...first, ...over.filter((at) => trace.sites[at]!.posterior).map((at) => ({ site: at, head: at === site ? head : null }))];
}

/** The rows of queries in a window, with their names. */
export async function load(app: App, { site, head }: Choice, window: Span, signal: AbortSignal): Promise<Lane> {
  const { heads, queries, keys, query, posterior } = app.trace.sites[site]!;
  const own = query === app.current.query;
  const [from, to] = own ? window : [0, Math.min(queries, window[1] - window[0])];
  const which = head === null ? Array.from({ length: heads }, (_, at) => at) : [head];
  const rows = meanOf(await Promise.all(which.map((at) => block(app.provider, site, at, [from, to], [0, keys], 0, signal))));
  const name = app.siteName(app.trace.sites[site]!);
  const title = posterior ? app.say("lane.posterior", { site: name }) : heads === 1 ? name : head === null ? app.say("lane.mean", { site: name }) : `${name}, ${app.say("head").toLocaleLowerCase()} ${head}`;
  const names = Array.from({ length: to - from }, (_, at) => app.label("query", from + at, app.trace.sites[site]!));
  return { title, rows, from, names, own };
}
