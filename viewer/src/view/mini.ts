/** The whole map in a corner, with what is looked at framed. A click goes there. */

import { Latest, type App } from "../app";
import { css, INK } from "../colour";
import { h } from "../dom";
import type { Thumbnail } from "../provider";
import { effect, signal } from "../signal";
import { LEFT, TOP } from "./ruler";
import { shiftsOf, thumbnail } from "./thumbnail";

const SIDE = 128;

export function mini(app: App, begun: Promise<void>, move: (x: number, y: number) => void): { element: HTMLElement; close: () => void } {
  const canvas = h("canvas", { width: SIDE, height: SIDE, className: "mini", "aria-hidden": "true" });
  canvas.addEventListener("pointerdown", (event) => {
    const { queries, keys } = app.current;
    const box = canvas.getBoundingClientRect();
    const scale = Math.max(queries, keys) / SIDE;
    move((event.clientX - box.left) * scale, (event.clientY - box.top) * scale);
  });
  const whole = signal<Thumbnail | null>(null);
  const shifts = signal<Float64Array | null>(null);
  const latest = new Latest();
  const stops = [
    effect(() => {
      const [site, head, calledOff] = [app.site.value, app.head.value, latest.next()];
      whole.value = null;
      const keep = (found: Thumbnail): void => void (calledOff.aborted || (whole.value = found));
      begun.then(() => app.provider.overview(site, head)).then(async (first) => {
        keep(first);
        if (first.estimate && !calledOff.aborted) keep(await app.provider.exactOverview(site, head, calledOff));
      }).catch(() => undefined);
    }),
    effect(() => {
      const [site, head, scale, of] = [app.site.value, app.head.value, app.scale.value, whole.value];
      shifts.value = null;
      if (of) shiftsOf(app.provider, site, head, app.trace.sites[site]!, scale).then((found) => (shifts.value = found)).catch(() => undefined);
    }),
    effect(() => {
      canvas.hidden = app.cells.value !== "token";
      canvas.toggleAttribute("data-estimate", whole.value?.estimate === true);
      canvas.toggleAttribute("data-exact", whole.value?.estimate === false);
      canvas.title = whole.value?.estimate ? app.say("estimate") : "";
      if (!canvas.hidden) draw(app, canvas, whole.value, shifts.value);
    }),
  ];
  return {
    element: canvas,
    close: () => {
      latest.next();
      for (const stop of stops) stop();
    },
  };
}

function draw(app: App, canvas: HTMLCanvasElement, whole: Thumbnail | null, shifts: Float64Array | null): void {
  const [camera, theme] = [app.camera.value, app.theme.value];
  const { queries, keys } = app.current;
  const context = canvas.getContext("2d")!;
  const unit = SIDE / Math.max(queries, keys);
  context.clearRect(0, 0, SIDE, SIDE);
  context.fillStyle = css(INK[theme].hidden);
  context.fillRect(0, 0, keys * unit, queries * unit);
  context.imageSmoothingEnabled = false;
  const scale = app.scale.value;
  if (whole && (scale !== "lift" || shifts)) context.drawImage(thumbnail(app.current, whole.codes, theme, scale, shifts), 0, 0, keys * unit, queries * unit);
  if (!camera) return;
  const box = document.querySelector(".mapbox")?.getBoundingClientRect();
  const half = (pixelsWide: number): number => Math.max(3, (Math.max(0, pixelsWide) / camera.zoom / 2) * unit);
  const [across, down] = [half((box?.width ?? 600) - LEFT), half((box?.height ?? 600) - TOP)];
  context.strokeStyle = css(INK[theme].cursor);
  context.lineWidth = 2;
  context.strokeRect(camera.x * unit - across, camera.y * unit - down, 2 * across, 2 * down);
}
