/** The rulers of a map: numbers from afar, names when near, marks of the cursor and of what was found. */

import type { App } from "../app";
import { tickStep, toPixel, type Camera, type Extent, type Frame } from "../camera";
import { css, INK } from "../colour";
import { direction } from "../label";
import { unitOf, type Side } from "./units";

export const LEFT = 112;
export const TOP = 96;
const FONT = '12px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
/** Pixels of a unit from which on names have room. */
const NAMED = 13;

export interface Ruled {
  camera: Camera;
  frame: Frame;
  extent: Extent;
  /** Where rulers end: the frame, or the map where it is smaller. */
  edge: readonly [number, number];
}

export function drawRulers(context: CanvasRenderingContext2D, app: App, ruled: Ruled): void {
  context.font = FONT;
  context.textBaseline = "middle";
  for (const side of ["key", "query"] as const) drawRuler(context, app, side, ruled);
}

function drawRuler(context: CanvasRenderingContext2D, app: App, side: Side, ruled: Ruled): void {
  const { camera, frame, extent } = ruled;
  const across = side === "key";
  const ink = INK[app.theme.value];
  const [length, pixels, centre] = across ? [extent.columns, frame.width, camera.x] : [extent.rows, frame.height, camera.y];
  const half = pixels / 2 / camera.zoom;
  const [first, last] = [centre - half, centre + half];
  const named = camera.zoom >= NAMED;
  const step = named ? 1 : tickStep(camera.zoom, 48);
  const cursor = app.cursor.value;
  const chosen = cursor ? unitOf(app, side, cursor[side]) : -1;
  const found = new Set((across ? app.found.value.keys : app.found.value.queries).map((index) => unitOf(app, side, index)));
  for (const unit of found) mark(context, side, unit, ruled, ink.cursor);
  for (let unit = Math.max(0, Math.ceil(first / step - 1) * step); unit < Math.min(length, last + 1); unit += step) {
    const middle = (unit + 0.5 - centre) * camera.zoom + pixels / 2;
    if (middle < 0 || middle > pixels) continue;
    context.fillStyle = css(unit === chosen || found.has(unit) ? ink.cursor : named ? ink.text : ink.quiet);
    write(context, named ? app.unitLabel(side, unit) : String(unit), across, middle, ruled);
  }
  if (chosen >= 0 && !named) mark(context, side, chosen, ruled, ink.cursor);
}

function mark(context: CanvasRenderingContext2D, side: Side, unit: number, { camera, frame, edge: [left, top] }: Ruled, colour: string): void {
  const across = side === "key";
  const [x, y] = toPixel(camera, frame, unit + 0.5, unit + 0.5);
  const at = across ? x : y;
  if (at < 0 || at > (across ? frame.width : frame.height)) return;
  context.fillStyle = css(colour);
  if (across) context.fillRect(LEFT + at - 1, top - 6, 2.5, 6);
  else context.fillRect(left - 6, TOP + at - 1, 6, 2.5);
}

/** One label, in its own direction, cut to the ruler. */
function write(context: CanvasRenderingContext2D, text: string, across: boolean, middle: number, { camera, edge }: Ruled): void {
  const room = (across ? TOP : LEFT) - 12;
  context.save();
  context.direction = direction(text);
  context.textAlign = across ? "left" : "right";
  context.translate(across ? LEFT + middle : edge[0] - 8, across ? edge[1] - 8 : TOP + middle);
  // Columns are read upwards, so that joined scripts stay joined; what is short enough stands upright.
  if (across && context.measureText(text).width > camera.zoom - 2) context.rotate(-Math.PI / 2);
  else if (across) {
    context.textAlign = "center";
    context.translate(0, -4);
  }
  let shown = text;
  if (context.measureText(shown).width > room) {
    const letters = [...shown];
    while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
    shown = `${letters.join("")}…`;
  }
  context.fillText(shown, 0, 0);
  context.restore();
}
