/** The traces that Python stored, and the tiles that it makes of them. */

import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { HIDDEN } from "../src/codec";
import { Engine } from "../src/engine/engine";
import { assemble, parse, type Payload } from "../src/engine/payload";
import { TILE, type Level, type Pool } from "../src/provider";
import { FOLDER, golden } from "./stored";

/** As the exporter would put it into a page. */
function stored(name: string): Payload {
  const { trace, tensors } = golden(name);
  return parse(assemble(trace, tensors));
}

interface Stored {
  site: number;
  head: number;
  level: Level;
  row: number;
  column: number;
  pool: Pool;
  rows: number;
  columns: number;
  codes: number[][];
}

test("stored traces give the stored tiles, to one step of rounding", async () => {
  expect(existsSync(`${FOLDER}tiles.json`)).toBe(true);
  const all = JSON.parse(readFileSync(`${FOLDER}tiles.json`, "utf8")) as Record<string, Stored[]>;
  for (const [name, tiles] of Object.entries(all)) {
    const engine = new Engine(stored(name));
    for (const { rows, columns, codes, ...request } of tiles) {
      const mine = await engine.tile(request);
      const far = Array.from(mine, (code, at) => Math.abs(code - (codes[Math.floor(at / TILE)]?.[at % TILE] ?? HIDDEN)));
      expect(Math.max(...far.slice(0, TILE)), `${name} ${JSON.stringify(request)} ${rows} × ${columns}`).toBeLessThanOrEqual(1);
      expect(far.filter((step) => step > 1)).toHaveLength(0);
    }
  }
});
