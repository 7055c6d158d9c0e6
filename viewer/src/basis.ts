/** The cells that the heads of two traces have in common: as they are, or between the units of their texts. */

import type { App, Other } from "./app";
import { Cached } from "./cached";
import { axesOf, identical, Merged, mergedTrace, MOST, ownAxes, type Axes } from "./merged";
import type { Site, Trace } from "./provider";
import type { Word } from "./strings/strings";

export interface Basis {
  providers: readonly [Cached, Cached];
  /** What is drawn of the first; null where that is its own trace. */
  trace: Trace | null;
  rows: number;
  columns: number;
  /** What has to be said of the cells; null where nothing had to be merged. */
  note: Word | null;
}
export type Refusal = "compare.answers" | "compare.shape" | "compare.large";

/** Two maps as they are where both have the same pieces, else merged; the mean of heads is always made of whole maps. */
export function basisOf(app: App, against: Other, mine: Site, theirs: Site, mean: boolean): Basis | Refusal {
  const same = identical(app.trace, mine, against.trace, theirs);
  if (same && !mean) return direct(app, against, mine);
  const semantic = app.cells.value === "token" ? null : app.cells.value;
  if (same) {
    const axes = ownAxes(app, mine, semantic);
    return axes ? merged(app, against, axes, semantic && "compare.mean") : "compare.large";
  }
  const axes = axesOf(app.trace, mine, against.trace, theirs, semantic ? "word" : "piece");
  if (typeof axes !== "string") return merged(app, against, axes, axes.whole ? "compare.units" : "compare.beginning");
  // The same number of other pieces is chance in two models: a position says nothing then.
  const sized = mine.queries === theirs.queries && mine.keys === theirs.keys;
  return sized && !mean && against.provider !== app.companion?.provider ? direct(app, against, mine) : axes;
}

/** As Python's `inspect.nearest_heads` compares heads: between units wherever there is a text. */
export function unitBasisOf(app: App, against: Other, mine: Site, theirs: Site): Basis | Refusal {
  const axes = axesOf(app.trace, mine, against.trace, theirs, app.cells.value === "token" ? "piece" : "word");
  if (typeof axes !== "string") return merged(app, against, axes, null);
  return axes === "compare.shape" ? basisOf(app, against, mine, theirs, false) : axes;
}

/** What the words of a refusal name. */
export function sizesOf(app: App, mine: Site, theirs: Site): Record<string, string> {
  const size = ({ queries, keys }: Site): string => `${queries} × ${keys}`;
  return { a: size(mine), b: size(theirs), most: MOST.toLocaleString(app.language.value) };
}

const direct = (app: App, against: Other, { queries, keys }: Site): Basis => ({ providers: [app.provider, against.provider], trace: null, rows: queries, columns: keys, note: null });

function merged(app: App, against: Other, axes: Axes, note: Word | null): Basis {
  const of = (provider: Cached, side: 0 | 1): Cached => new Cached(new Merged(provider, axes, side));
  return { providers: [of(app.provider, 0), of(against.provider, 1)], trace: mergedTrace(app.trace, axes), rows: axes.rows.texts.length, columns: axes.columns.texts.length, note };
}
