/** How heads fill a page: as large as they can be with all of them in view, else as wide as the page. */

export interface Room {
  width: number;
  height: number;
  /** The least and the largest side of a tile's picture. */
  least: number;
  most: number;
}
export interface Packing {
  /** Groups beside each other. */
  groups: number;
  /** Tiles beside each other in a group. */
  columns: number;
  side: number;
}

/** Pixels between tiles and between groups, around a picture, below it, and of a group's title with its margin. */
export const [GAP, APART, FRAME, BELOW, TITLE] = [8, 24, 14, 36, 42];
/** A tile that is wide enough says in words what its head does. */
export const NAMED = 96;
const NAME = 18;

const heightOf = (sizes: readonly number[], { groups, columns, side }: Packing): number => {
  const tile = side + BELOW + GAP + (side >= NAMED ? NAME : 0);
  const lines = Array.from({ length: Math.ceil(sizes.length / groups) }, (_, line) => Math.max(...sizes.slice(line * groups, (line + 1) * groups)));
  return lines.reduce((sum, most) => sum + TITLE + Math.ceil(most / columns) * tile, 0);
};

export function packed(sizes: readonly number[], { width, height, least, most }: Room): Packing {
  const largest = Math.max(1, ...sizes);
  const wide = (groups: number, columns: number): number => Math.min(most, Math.floor(((width - (groups - 1) * APART) / groups - (columns - 1) * GAP) / columns - FRAME));
  let best: Packing | null = null;
  let unfit: Packing | null = null;
  // A group's rows are of one length, but for the last: 12 heads stand in rows of 12, 6, 4, 3 …
  for (let rows = 1; rows <= largest; rows++) {
    const columns = Math.ceil(largest / rows);
    for (let groups = 1; groups <= Math.max(1, sizes.length); groups++) {
      const packing = { groups, columns, side: wide(groups, columns) };
      if (packing.side < least) break;
      const fits = heightOf(sizes, packing) <= height;
      if (fits && packing.side > (best?.side ?? 0)) best = packing;
      if (!best && (!unfit || (Math.ceil(largest / unfit.columns) === rows && heightOf(sizes, packing) < heightOf(sizes, unfit)))) unfit = packing;
    }
  }
  return best ?? unfit ?? { groups: 1, columns: 1, side: Math.max(1, wide(1, 1)) };
}
