/** Where the nodes of a graph are drawn, when nobody said: springs along edges, the same places every time. */

export type Place = readonly [number, number];

const ROUNDS = 220;

/** From a circle, by forces (Fruchterman and Reingold 1991), into the unit square. */
export function arranged(count: number, edges: readonly (readonly [number, number])[]): Place[] {
  const places = Array.from({ length: count }, (_, i): [number, number] => {
    const angle = (2 * Math.PI * i) / Math.max(count, 1);
    // A hint of a spiral: of a perfect circle, mirrored halves would never leave their line.
    return [(1 + i / 97) * Math.cos(angle), (1 + i / 97) * Math.sin(angle)];
  });
  const ideal = 1.6 / Math.sqrt(Math.max(count, 1));
  const links = edges.filter(([a, b]) => a !== b);
  for (let round = 0; round < ROUNDS; round++) {
    const moves = places.map((): [number, number] => [0, 0]);
    for (let a = 0; a < count; a++) for (let b = 0; b < a; b++) push(places, moves, a, b, (far) => (ideal * ideal) / far);
    for (const [a, b] of links) push(places, moves, a, b, (far) => -(far * far) / ideal / 2);
    // What has no edge stays near all the same.
    places.forEach(([x, y], i) => {
      moves[i]![0] -= 1.2 * x;
      moves[i]![1] -= 1.2 * y;
    });
    const heat = 0.12 * (1 - round / ROUNDS);
    moves.forEach(([dx, dy], i) => {
      const size = Math.hypot(dx, dy) || 1;
      const way = Math.min(size, heat) / size;
      places[i]![0] += dx * way;
      places[i]![1] += dy * way;
    });
  }
  return fitted(places);
}

/** Moved apart as far as it takes for no two to be nearer than `least`, inside of a frame, where there is room for all. */
export function spread(places: readonly Place[], least: number, [left, top, right, bottom]: readonly [number, number, number, number]): Place[] {
  const found = places.map(([x, y]): [number, number] => [x, y]);
  for (let round = 0; round < ROUNDS; round++) {
    let touched = false;
    for (let a = 0; a < found.length; a++)
      for (let b = 0; b < a; b++) {
        const [dx, dy] = [found[a]![0] - found[b]![0], found[a]![1] - found[b]![1]];
        const far = Math.hypot(dx, dy);
        if (far >= least) continue;
        touched = true;
        // Two in one place part in a direction of their own.
        const [x, y] = far > 1e-6 ? [dx / far, dy / far] : [Math.cos(a), Math.sin(a)];
        const by = (least - far) / 2 + 0.01;
        found[a] = [found[a]![0] + x * by, found[a]![1] + y * by];
        found[b] = [found[b]![0] - x * by, found[b]![1] - y * by];
      }
    for (const place of found) {
      place[0] = Math.min(Math.max(place[0], left), right);
      place[1] = Math.min(Math.max(place[1], top), bottom);
    }
    if (!touched) break;
  }
  return found;
}

function push(places: [number, number][], moves: [number, number][], a: number, b: number, force: (far: number) => number): void {
  const [dx, dy] = [places[a]![0] - places[b]![0], places[a]![1] - places[b]![1]];
  const far = Math.max(Math.hypot(dx, dy), 1e-3);
  const size = force(far) / far;
  moves[a]![0] += dx * size;
  moves[a]![1] += dy * size;
  moves[b]![0] -= dx * size;
  moves[b]![1] -= dy * size;
}

function fitted(places: [number, number][]): Place[] {
  const ends = [0, 1].map((axis) => {
    const values = places.map((place) => place[axis]!);
    return [Math.min(...values), Math.max(...values)] as const;
  });
  return places.map((place) => {
    const [x, y] = ends.map(([low, high], axis) => (high > low ? (place[axis]! - low) / (high - low) : 0.5)) as [number, number];
    return [x, y];
  });
}
