/** A whole map on 64 × 64 cells at most, as a picture; and larger ones for whoever looks closer. */

import { contrastTable, css, INK, pixels, type Theme, type Tint } from "../colour";
import type { Cached } from "../cached";
import { h } from "../dom";
import { overviewLevel } from "../engine/level";
import { rowShifts } from "../lift";
import { THUMBNAIL, type Codes, type Site } from "../provider";

/** What makes lifts of a thumbnail's codes, where lifts are drawn. */
export async function shiftsOf(provider: Cached, site: number, head: number, { queries, keys }: Site, tint: Tint, side = THUMBNAIL): Promise<Float64Array | null> {
  return tint === "lift" || tint === "contrast" ? rowShifts(await provider.counts(site, head), levelOf(queries, keys, side), 0, "peak", side) : null;
}

/** The least level at which the whole map has so many cells a side. */
export const levelOf = (queries: number, keys: number, side: number): number => Math.max(0, overviewLevel(queries, keys) - Math.log2(side / THUMBNAIL));

export function thumbnail({ queries, keys }: Site, codes: Codes, theme: Theme, tint: Tint, shifts: Float64Array | null, side = THUMBNAIL): HTMLCanvasElement {
  const size = 2 ** levelOf(queries, keys, side);
  const [rows, columns] = [Math.max(1, Math.ceil(queries / size)), Math.max(1, Math.ceil(keys / size))];
  const colours = tint === "contrast" ? contrastTable(codes, theme, shifts!, side) : undefined;
  const painted = pixels(codes, { scale: tint === "contrast" ? "log" : tint, theme, pool: "peak" }, shifts, side, colours);
  const whole = h("canvas", { width: side, height: side });
  whole.getContext("2d")!.putImageData(new ImageData(new Uint8ClampedArray(painted.buffer as ArrayBuffer), side, side), 0, 0);
  const canvas = h("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d")!;
  context.fillStyle = css(INK[theme].hidden);
  context.fillRect(0, 0, columns, rows);
  context.drawImage(whole, 0, 0);
  return canvas;
}
