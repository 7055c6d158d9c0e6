/** How far each frame may look ahead, drawn over the map of a recording that looks at itself. */

import type { App } from "../app";
import { HIDDEN } from "../codec";
import { TILE, type Codes } from "../provider";

/** Whether rows and columns are the same frames, some of them hidden from each other. */
export function streams(app: App): boolean {
  const { query, key, visibility, shows } = app.current;
  const { left = null, right = null } = visibility.native ?? { left: 0 };
  return query === key && shows !== "projected" && app.sequence("key")?.kind === "frames" && app.cells.value === "token" && (left !== null || right !== null);
}

/** For each row of cells the column after its last visible one, from tiles; −1 where nothing is visible. */
export class Edge {
  private readonly ends = new Map<number, number>();

  add(codes: Codes, tileRow: number, tileColumn: number): void {
    for (let r = 0; r < TILE; r++) {
      let c = TILE - 1;
      while (c >= 0 && codes[r * TILE + c] === HIDDEN) c--;
      if (c < 0) continue;
      const row = tileRow * TILE + r;
      this.ends.set(row, Math.max(this.ends.get(row) ?? -1, tileColumn * TILE + c + 1));
    }
  }

  /** Runs of rows with one end: first row, row after the last, and the column that they may look up to. */
  runs(): { from: number; to: number; end: number }[] {
    const found: { from: number; to: number; end: number }[] = [];
    for (const [row, end] of [...this.ends].sort(([a], [b]) => a - b)) {
      const last = found.at(-1);
      if (last && last.to === row && last.end === end) last.to = row + 1;
      else found.push({ from: row, to: row + 1, end });
    }
    return found;
  }
}
