/** The rulers of a map: numbers from afar, names when near, marks of the cursor and of what was found. */

import type { App } from "../app";
import { tickStep, toPixel, type Camera, type Extent, type Frame } from "../camera";
import { css, INK } from "../colour";
import { direction } from "../label";
import { unitOf, type Side } from "./units";

export const LEFT = 112;
export const TOP = 96;
const FAMILY = 'system-ui, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "DejaVu Sans", sans-serif';
const [LARGEST, SMALLEST] = [12, 8];
/** Every so many units a name at most; farther away, numbers tell more. */
const SPARSE = 4;
/** Scripts that are written downwards, one letter under the other, rather than laid on their side. */
const DOWNWARDS = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\u3000-\u303f\uff01-\uff60\p{N}\p{P}]+$/u;

/** How units of so many pixels are named: each, every second …, or not at all (0), and in which size. */
export function naming(zoom: number): { every: number; size: number } {
  const every = Math.max(1, Math.ceil(SMALLEST / zoom));
  return { every: every > SPARSE ? 0 : every, size: Math.max(SMALLEST, Math.min(LARGEST, Math.floor(zoom * every) - 1)) };
}

export interface Ruled {
  camera: Camera;
  frame: Frame;
  extent: Extent;
  /** Where rulers end: the frame, or the map where it is smaller. */
  edge: readonly [number, number];
}

export function drawRulers(context: CanvasRenderingContext2D, app: App, ruled: Ruled): void {
  context.font = `${naming(ruled.camera.zoom).size}px ${FAMILY}`;
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
  const { every, size } = naming(camera.zoom);
  const named = every > 0;
  const step = every || tickStep(camera.zoom, 48);
  const cursor = app.cursor.value;
  const chosen = cursor ? unitOf(app, side, cursor[side]) : -1;
  const found = new Set((across ? app.found.value.keys : app.found.value.queries).map((index) => unitOf(app, side, index)));
  for (const unit of found) mark(context, side, unit, ruled, ink.cursor);
  const place = (unit: number): number => (unit + 0.5 - centre) * camera.zoom + pixels / 2;
  const shown: number[] = [];
  for (let unit = Math.max(0, Math.ceil(first / step - 1) * step); unit < Math.min(length, last + 1); unit += step) {
    const middle = place(unit);
    // A name that is looked for goes before those that would lie under it.
    const hidden = every > 1 && unit !== chosen && Math.abs(place(chosen) - middle) < size + 1;
    if (middle >= 0 && middle <= pixels && !hidden) shown.push(unit);
  }
  if (every > 1 && chosen >= 0 && !shown.includes(chosen) && place(chosen) >= 0 && place(chosen) <= pixels) shown.push(chosen);
  const names = shown.map((unit) => (named ? app.unitLabel(side, unit) : String(unit)));
  // One axis has one direction: upright where every name is short enough.
  const upright = !named || (every === 1 && names.every((name) => context.measureText(name).width <= camera.zoom - 2));
  shown.forEach((unit, at) => {
    context.fillStyle = css(unit === chosen || found.has(unit) ? ink.cursor : named ? ink.text : ink.quiet);
    write(context, names[at]!, across, place(unit), ruled, { upright, size });
  });
  if (chosen >= 0 && every !== 1) mark(context, side, chosen, ruled, ink.cursor);
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
function write(context: CanvasRenderingContext2D, text: string, across: boolean, middle: number, { edge }: Ruled, { upright, size }: { upright: boolean; size: number }): void {
  const room = (across ? TOP : LEFT) - 12;
  context.save();
  context.direction = direction(text);
  context.textAlign = across ? "left" : "right";
  context.translate(across ? LEFT + middle : edge[0] - 8, across ? edge[1] - 8 : TOP + middle);
  if (across && (upright || DOWNWARDS.test(text))) {
    context.textAlign = "center";
    if (upright) context.fillText(text, 0, -4);
    else downwards(context, text, size, room);
    return context.restore();
  }
  // Columns are read upwards, so that joined scripts stay joined.
  if (across) context.rotate(-Math.PI / 2);
  context.fillText(cut(context, text, room), 0, 0);
  context.restore();
}

/** Letter under letter, the last one at the map. */
export function downwards(context: CanvasRenderingContext2D, text: string, size: number, room: number): void {
  const letters = [...text];
  const most = Math.max(1, Math.floor(room / (size + 1)));
  const shown = letters.length > most ? [...letters.slice(0, most - 1), "⋮"] : letters;
  shown.forEach((letter, at) => context.fillText(letter, 0, -(shown.length - at - 0.5) * (size + 1) + 2));
}

/** As much of a text as there is room for. */
export function cut(context: CanvasRenderingContext2D, text: string, room: number): string {
  if (context.measureText(text).width <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return `${letters.join("")}…`;
}

export const isDownwards = (text: string): boolean => DOWNWARDS.test(text) && [...text].length > 0;
