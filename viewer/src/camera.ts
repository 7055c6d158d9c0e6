/** Where the map is looked at: the units at the middle of the picture and how many pixels a unit takes. */

import { TILE } from "./provider";

export interface Camera {
  x: number;
  y: number;
  zoom: number;
}
export interface Frame {
  width: number;
  height: number;
}
export interface Extent {
  rows: number;
  columns: number;
}

export const CLOSEST = 64;
/** Pixels left free around a whole map, so that its edge is seen. */
const EDGE = 6;

export function fitted({ rows, columns }: Extent, { width, height }: Frame): Camera {
  const zoom = Math.min((width - 2 * EDGE) / Math.max(columns, 1), (height - 2 * EDGE) / Math.max(rows, 1), CLOSEST);
  return { x: columns / 2, y: rows / 2, zoom };
}

/** Inside the map, neither too near nor too far. */
export function clamped(camera: Camera, extent: Extent, frame: Frame): Camera {
  const least = fitted(extent, frame).zoom;
  const zoom = Math.min(Math.max(camera.zoom, least), CLOSEST);
  const along = (at: number, length: number, pixels: number): number => {
    const half = pixels / zoom / 2;
    return half * 2 >= length ? length / 2 : Math.min(Math.max(at, half), length - half);
  };
  return { x: along(camera.x, extent.columns, frame.width), y: along(camera.y, extent.rows, frame.height), zoom };
}

/** Zoomed by a factor while the unit under pixel (px, py) stays there. */
export function zoomed(camera: Camera, factor: number, px: number, py: number, frame: Frame): Camera {
  const zoom = Math.min(camera.zoom * factor, CLOSEST);
  const [dx, dy] = [px - frame.width / 2, py - frame.height / 2];
  return { x: camera.x + dx / camera.zoom - dx / zoom, y: camera.y + dy / camera.zoom - dy / zoom, zoom };
}

export const toUnit = (camera: Camera, frame: Frame, px: number, py: number): [number, number] => [
  camera.x + (px - frame.width / 2) / camera.zoom,
  camera.y + (py - frame.height / 2) / camera.zoom,
];
export const toPixel = (camera: Camera, frame: Frame, x: number, y: number): [number, number] => [
  (x - camera.x) * camera.zoom + frame.width / 2,
  (y - camera.y) * camera.zoom + frame.height / 2,
];

/** The least level whose cells take a pixel at least. */
export function levelFor(zoom: number, { rows, columns }: Extent): number {
  const top = Math.max(0, Math.ceil(Math.log2(Math.max(rows, columns, 1) / TILE)));
  return Math.min(top, Math.max(0, Math.ceil(-Math.log2(zoom) - 1e-6)));
}

export interface Place {
  level: number;
  row: number;
  column: number;
}

/** The tiles of a level that a frame shows, from the middle outwards. */
export function tilesIn(camera: Camera, extent: Extent, frame: Frame, level: number): Place[] {
  const size = TILE * 2 ** level;
  const [left, top] = toUnit(camera, frame, 0, 0);
  const [right, bottom] = toUnit(camera, frame, frame.width, frame.height);
  const places: Place[] = [];
  for (let row = Math.max(0, Math.floor(top / size)); row * size < Math.min(bottom, extent.rows); row++) {
    for (let column = Math.max(0, Math.floor(left / size)); column * size < Math.min(right, extent.columns); column++) {
      places.push({ level, row, column });
    }
  }
  const away = ({ row, column }: Place): number => Math.hypot((row + 0.5) * size - camera.y, (column + 0.5) * size - camera.x);
  return places.sort((a, b) => away(a) - away(b));
}

/** Steps of 1, 2 or 5 times a power of ten that are at least `pixels` apart. */
export function tickStep(zoom: number, pixels: number): number {
  const least = pixels / zoom;
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= least)!;
  return Math.max(1, Math.round(step));
}
