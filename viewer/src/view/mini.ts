/** The whole map in a corner, with what is looked at framed. A click goes there. */

import type { App } from "../app";
import { css, INK, pixels } from "../colour";
import { h } from "../dom";
import { overviewLevel } from "../engine/level";
import { THUMBNAIL } from "../provider";
import { effect } from "../signal";

const SIDE = 128;

export function mini(app: App, move: (x: number, y: number) => void): { element: HTMLElement; close: () => void } {
  const canvas = h("canvas", { width: SIDE, height: SIDE, className: "mini", "aria-hidden": "true" });
  canvas.addEventListener("pointerdown", (event) => {
    const { queries, keys } = app.current;
    const box = canvas.getBoundingClientRect();
    const scale = Math.max(queries, keys) / SIDE;
    move((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
  });
  const stop = effect(() => {
    const [site, head, theme] = [app.site.value, app.head.value, app.theme.value];
    const camera = app.camera.value;
    canvas.hidden = app.cells.value !== "token" || camera === null;
    if (canvas.hidden) return;
    void app.provider.overview(site, head).then(({ codes }) => {
      const { queries, keys } = app.current;
      const context = canvas.getContext("2d")!;
      const whole = h("canvas", { width: THUMBNAIL, height: THUMBNAIL });
      const painted = pixels(codes, { scale: "log", theme, pool: "peak" }, null, THUMBNAIL);
      whole.getContext("2d")!.putImageData(new ImageData(new Uint8ClampedArray(painted.buffer as ArrayBuffer), THUMBNAIL, THUMBNAIL), 0, 0);
      const unit = SIDE / Math.max(queries, keys);
      const size = 2 ** overviewLevel(queries, keys);
      const [columns, rows] = [Math.ceil(keys / size), Math.ceil(queries / size)];
      context.clearRect(0, 0, SIDE, SIDE);
      context.fillStyle = css(INK[theme].hidden);
      context.fillRect(0, 0, keys * unit, queries * unit);
      context.imageSmoothingEnabled = false;
      context.drawImage(whole, 0, 0, columns, rows, 0, 0, keys * unit, queries * unit);
      const half = (pixelsWide: number): number => (pixelsWide / camera!.zoom / 2) * unit;
      const box = document.querySelector(".mapbox")?.getBoundingClientRect();
      const [w, t] = [half((box?.width ?? 600) - 112), half((box?.height ?? 600) - 96)];
      context.strokeStyle = css(INK[theme].cursor);
      context.lineWidth = 2;
      context.strokeRect(camera!.x * unit - Math.max(w, 3), camera!.y * unit - Math.max(t, 3), 2 * Math.max(w, 3), 2 * Math.max(t, 3));
    }).catch(() => undefined);
  });
  return { element: canvas, close: stop };
}
