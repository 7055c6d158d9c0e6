/** A whole map on 64 × 64 cells at most, as a picture. */

import { INK, css, pixels, type Scale, type Theme } from "../colour";
import type { Cached } from "../cached";
import { h } from "../dom";
import { overviewLevel } from "../engine/level";
import { rowShifts } from "../lift";
import { THUMBNAIL, type Codes, type Site } from "../provider";

/** What makes lifts of a thumbnail's codes, where lifts are drawn. */
export async function shiftsOf(provider: Cached, site: number, head: number, { queries, keys }: Site, scale: Scale): Promise<Float64Array | null> {
  return scale === "lift" ? rowShifts(await provider.counts(site, head), overviewLevel(queries, keys), 0, "peak", THUMBNAIL) : null;
}

export function thumbnail({ queries, keys }: Site, codes: Codes, theme: Theme, scale: Scale, shifts: Float64Array | null): HTMLCanvasElement {
  const size = 2 ** overviewLevel(queries, keys);
  const [rows, columns] = [Math.max(1, Math.ceil(queries / size)), Math.max(1, Math.ceil(keys / size))];
  const painted = pixels(codes, { scale, theme, pool: "peak" }, shifts, THUMBNAIL);
  const whole = h("canvas", { width: THUMBNAIL, height: THUMBNAIL });
  whole.getContext("2d")!.putImageData(new ImageData(new Uint8ClampedArray(painted.buffer as ArrayBuffer), THUMBNAIL, THUMBNAIL), 0, 0);
  const canvas = h("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d")!;
  context.fillStyle = css(INK[theme].hidden);
  context.fillRect(0, 0, columns, rows);
  context.drawImage(whole, 0, 0);
  return canvas;
}
