/** The lines between nodes: each two that an edge joins once, with its direction, its bond, and where strokes run. */

import type { Bond, Sequence } from "../provider";
import type { Place } from "./layout";

export interface Road {
  source: number;
  target: number;
  /** Whether there is an edge back. */
  both: boolean;
  bond: Bond | null;
}

/** Every pair of different nodes that an edge joins, in the order of the edges. */
export function roads({ edges, bonds }: Pick<Sequence, "edges" | "bonds">): Road[] {
  const found = new Map<string, Road>();
  edges?.[0].forEach((source, at) => {
    const target = edges[1][at]!;
    if (source === target) return;
    const name = `${Math.min(source, target)},${Math.max(source, target)}`;
    const known = found.get(name);
    if (!known) found.set(name, { source, target, both: false, bond: bonds?.[at] ?? null });
    else if (known.source === target) known.both = true;
  });
  return [...found.values()];
}

export interface Stroke {
  from: Place;
  to: Place;
  dashed: boolean;
}

/** The strokes of a bond: one, two or three beside each other; an aromatic one has a dashed second. */
export function strokes(from: Place, to: Place, bond: Bond | null, apart: number): Stroke[] {
  const far = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
  const [x, y] = [(from[1] - to[1]) / far, (to[0] - from[0]) / far];
  const aside = { single: [0], double: [-0.5, 0.5], triple: [-1, 0, 1], aromatic: [-0.5, 0.5] }[bond ?? "single"];
  return aside.map((by, at) => ({
    from: [from[0] + x * by * apart, from[1] + y * by * apart],
    to: [to[0] + x * by * apart, to[1] + y * by * apart],
    dashed: bond === "aromatic" && at === 1,
  }));
}

/** The corners of an arrow's head whose tip touches the circle around `to`. */
export function arrowhead(from: Place, to: Place, radius: number, size: number): [Place, Place, Place] {
  const far = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
  const [x, y] = [(to[0] - from[0]) / far, (to[1] - from[1]) / far];
  const tip: Place = [to[0] - x * radius, to[1] - y * radius];
  const back: Place = [tip[0] - x * size, tip[1] - y * size];
  return [tip, [back[0] - (y * size) / 2, back[1] + (x * size) / 2], [back[0] + (y * size) / 2, back[1] - (x * size) / 2]];
}

/** Places of the unit square in pixels, the same way in both directions: an edge of middle length has at most `longest`. */
export function toScale(unit: readonly Place[], joined: readonly Road[], width: number, highest: number, edge: number, longest: number): { places: Place[]; height: number } {
  const [left, right, top, bottom] = [Math.min(...unit.map(([x]) => x)), Math.max(...unit.map(([x]) => x)), Math.min(...unit.map(([, y]) => y)), Math.max(...unit.map(([, y]) => y))];
  const lengths = joined.map(({ source, target }) => Math.hypot(unit[source]![0] - unit[target]![0], unit[source]![1] - unit[target]![1])).sort((a, b) => a - b);
  const middle = lengths[lengths.length >> 1] || 1;
  const scale = Math.min((width - 2 * edge) / (right - left || 1e-9), (highest - 2 * edge) / (bottom - top || 1e-9), longest / middle);
  const height = Math.round((bottom - top) * scale + 2 * edge);
  const aside = (width - (right - left) * scale) / 2;
  return { places: unit.map(([x, y]) => [aside + (x - left) * scale, edge + (y - top) * scale]), height };
}
