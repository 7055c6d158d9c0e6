/** The traces that Python stored, and the tiles that it makes of them. */

import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { HIDDEN } from "../src/codec";
import { Engine } from "../src/engine/engine";
import { assemble, parse, type Payload, type Tensor } from "../src/engine/payload";
import { TILE, type Level, type Pool, type Site, type Trace } from "../src/provider";

const FOLDER = fileURLToPath(new URL("../../tests/golden/trace/", import.meta.url));

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

function tensorsOf(file: string): Record<string, Tensor> {
  const bytes = readFileSync(file);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString("utf8")) as Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>;
  return Object.fromEntries(
    Object.entries(header).filter(([name]) => name !== "__metadata__").map(([name, { dtype, shape, data_offsets: [from, to] }]) => [name, { dtype, shape, data: Uint8Array.from(bytes.subarray(8 + length + from, 8 + length + to)) }]),
  );
}

/** As the exporter would put it into a page. */
function stored(name: string): Payload {
  const trace = JSON.parse(readFileSync(`${FOLDER}${name}.trace/trace.json`, "utf8")) as Trace;
  const files = (trace.sites as (Site & { file: string })[]).map(({ file }) => file);
  return parse(assemble(trace, files.map((file) => tensorsOf(`${FOLDER}${name}.trace/${file}`))));
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
