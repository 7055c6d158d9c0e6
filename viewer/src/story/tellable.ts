/** Whether a site can be told as a story: a text of so many positions, or a picture, a sound or a graph that can be drawn. */

import type { Sequence, Site, Trace } from "../provider";

/** Positions of a side beyond which a text is no story any more. */
const LONGEST = 300;
/** More nodes than so many are a cloud and no picture. */
export const MOST_NODES = 300;

export const drawable = (sequence: Sequence | undefined): boolean => sequence !== undefined && sequence.kind !== "tokens";
export const hasScenes = ({ sites, sequences }: Trace): boolean => sites.some((site) => drawable(sequences[site.query]) || drawable(sequences[site.key]));

export function tellable({ sequences }: Trace, site: Site | undefined): boolean {
  if (!site || site.shows === "projected") return false;
  const { queries, keys } = site;
  const sides = [[sequences[site.query], queries], [sequences[site.key], keys]] as const;
  return sides.every(([sequence, length]) => {
    if (!sequence || !drawable(sequence)) return Boolean(sequence?.labels) && length <= LONGEST;
    return sequence.kind !== "nodes" || length <= MOST_NODES;
  });
}
