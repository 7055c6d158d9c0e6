/** The whole map in a corner, with what is looked at framed. A click goes there. */

import type { App } from "../app";
import type { Camera } from "../camera";
import { css, INK, pixels, type Theme } from "../colour";
import { h } from "../dom";
import { overviewLevel } from "../engine/level";
import { THUMBNAIL, type Codes } from "../provider";
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
    canvas.hidden = app.cells.value !== "token";
    if (canvas.hidden) return;
    draw(app, canvas, camera, theme, null);
    const same = (): boolean => app.camera.peek() === camera && app.site.peek() === site && app.head.peek() === head;
    void app.provider.overview(site, head).then(({ codes }) => same() && draw(app, canvas, camera, theme, codes)).catch(() => undefined);
  });
  return { element: canvas, close: stop };
}

function draw(app: App, canvas: HTMLCanvasElement, camera: Camera | null, theme: Theme, codes: Codes | null): void {
  const { queries, keys } = app.current;
  const context = canvas.getContext("2d")!;
  const unit = SIDE / Math.max(queries, keys);
  context.clearRect(0, 0, SIDE, SIDE);
  context.fillStyle = css(INK[theme].hidden);
  context.fillRect(0, 0, keys * unit, queries * unit);
  if (codes) {
    const whole = h("canvas", { width: THUMBNAIL, height: THUMBNAIL });
    const painted = pixels(codes, { scale: "log", theme, pool: "peak" }, null, THUMBNAIL);
    whole.getContext("2d")!.putImageData(new ImageData(new Uint8ClampedArray(painted.buffer as ArrayBuffer), THUMBNAIL, THUMBNAIL), 0, 0);
    const size = 2 ** overviewLevel(queries, keys);
    context.imageSmoothingEnabled = false;
    context.drawImage(whole, 0, 0, Math.ceil(keys / size), Math.ceil(queries / size), 0, 0, keys * unit, queries * unit);
  }
  if (!camera) return;
  const box = document.querySelector(".mapbox")?.getBoundingClientRect();
  const half = (pixelsWide: number): number => Math.max(3, (Math.max(0, pixelsWide) / camera.zoom / 2) * unit);
  const [across, down] = [half((box?.width ?? 600) - 112), half((box?.height ?? 600) - 96)];
  context.strokeStyle = css(INK[theme].cursor);
  context.lineWidth = 2;
  context.strokeRect(camera.x * unit - across, camera.y * unit - down, 2 * across, 2 * down);
}
