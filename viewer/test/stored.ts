/** The traces that Python stored for everybody to be held against. */

import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import type { Tensor } from "../src/engine/payload";
import type { Site, Trace } from "../src/provider";

export const FOLDER = fileURLToPath(new URL("../../tests/golden/trace/", import.meta.url));

function tensorsOf(file: string): Record<string, Tensor> {
  const bytes = readFileSync(file);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString("utf8")) as Record<string, { dtype: string; shape: number[]; data_offsets: [number, number] }>;
  return Object.fromEntries(
    Object.entries(header).filter(([name]) => name !== "__metadata__").map(([name, { dtype, shape, data_offsets: [from, to] }]) => [name, { dtype, shape, data: Uint8Array.from(bytes.subarray(8 + length + from, 8 + length + to)) }]),
  );
}

export function golden(name: string): { trace: Trace; tensors: Record<string, Tensor>[] } {
  const trace = JSON.parse(readFileSync(`${FOLDER}${name}.trace/trace.json`, "utf8")) as Trace;
  const files = (trace.sites as (Site & { file: string })[]).map(({ file }) => file);
  return { trace, tensors: files.map((file) => tensorsOf(`${FOLDER}${name}.trace/${file}`)) };
}
