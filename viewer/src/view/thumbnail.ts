/** A whole map on 64 × 64 cells at most, as a picture. */

import { INK, css, pixels, type Scale, type Theme } from "../colour";
import { h } from "../dom";
import { overviewLevel } from "../engine/level";
import { THUMBNAIL, type Codes, type Site } from "../provider";

export function thumbnail({ queries, keys }: Site, codes: Codes, theme: Theme, scale: Scale): HTMLCanvasElement {
  const size = 2 ** overviewLevel(queries, keys);
  const [rows, columns] = [Math.max(1, Math.ceil(queries / size)), Math.max(1, Math.ceil(keys / size))];
  const painted = pixels(codes, { scale, theme, pool: "peak" }, null, THUMBNAIL);
  const whole = h("canvas", { width: THUMBNAIL, height: THUMBNAIL });
  whole.getContext("2d")!.putImageData(new ImageData(new Uint8ClampedArray(painted.buffer as ArrayBuffer), THUMBNAIL, THUMBNAIL), 0, 0);
  const canvas = h("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d")!;
  context.fillStyle = css(INK[theme].hidden);
  context.fillRect(0, 0, columns, rows);
  context.drawImage(whole, 0, 0);
  return canvas;
}
