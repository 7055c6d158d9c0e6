/** A picture under its patches: light, or colour, where a query looks. Positions before the grid stand beside it. */

import type { App } from "../app";
import { css, INK } from "../colour";
import { h } from "../dom";
import type { Sequence } from "../provider";
import { cover, listen, pictureOf, sized, strengths, type Listener, type Scene, type Shown, type Style } from "./scene";

const LARGEST = 560;
const BESIDE = 30;

export function patches(app: App, sequence: Sequence, length: number, style: () => Style, listener: Listener): Scene {
  const [rows, columns] = sequence.grid ?? [1, length];
  const before = Math.max(0, length - rows * columns);
  const canvas = h("canvas", { className: "scene", tabIndex: 0, role: "application", "aria-label": app.say("scene.patches") });
  const element = h("div", { className: "scenebox" }, canvas);
  const picture = sequence.picture ?? null;
  const ratio = picture ? picture.height / picture.width : rows / columns;
  const [width, height] = ratio > 1 ? [LARGEST / ratio, LARGEST] : [LARGEST, LARGEST * ratio];
  const left = before ? BESIDE + 8 : 0;
  const [wide, high] = [width / columns, height / rows];
  const boxOf = (index: number): [number, number, number, number] => {
    if (index < before) return [0, index * (BESIDE + 4), BESIDE, BESIDE];
    const at = index - before;
    return [left + (at % columns) * wide, Math.floor(at / columns) * high, wide, high];
  };
  listen(canvas, listener, (x, y) => {
    if (x < left) {
      const at = Math.floor(y / (BESIDE + 4));
      return at < before && x < BESIDE ? at : null;
    }
    const [row, column] = [Math.floor(y / high), Math.floor((x - left) / wide)];
    return row >= 0 && row < rows && column < columns ? before + row * columns + column : null;
  });
  let image: HTMLImageElement | null = null;
  let last: Shown = { weights: null, shares: [], query: null, key: null };
  void pictureOf(sequence).then((found) => {
    image = found;
    draw(last);
  });
  const draw = (shown: Shown): void => {
    last = shown;
    const context = sized(canvas, left + width, Math.max(height, before * (BESIDE + 4)));
    const ink = INK[app.theme.value];
    context.clearRect(0, 0, left + width, LARGEST);
    context.fillStyle = css(ink.waiting);
    context.fillRect(left, 0, width, height);
    context.imageSmoothingEnabled = image !== null && image.naturalWidth > 4 * columns * 8;
    if (image) context.drawImage(image, left, 0, width, height);
    const bare = image ? style() : "heat";
    if (shown.weights) {
      strengths(app, shown.weights, shown.shares).forEach((t, index) => {
        context.fillStyle = cover(app, index < before ? "heat" : bare, t);
        context.fillRect(...grown(boxOf(index)));
      });
    }
    for (const [index, colour] of [[shown.key, ink.link], [shown.query, ink.gold]] as const) {
      if (index === null || index >= length) continue;
      const [x, y, w, t] = boxOf(index);
      context.lineWidth = 3;
      context.strokeStyle = css(colour);
      context.strokeRect(x + 1.5, y + 1.5, w - 3, t - 3);
    }
    context.strokeStyle = css(ink.grid);
    context.lineWidth = 1;
    for (let index = 0; index < before; index++) context.strokeRect(0.5, index * (BESIDE + 4) + 0.5, BESIDE - 1, BESIDE - 1);
  };
  return {
    element,
    draw,
    step(from, down, right) {
      if (from < before) return down ? Math.min(Math.max(from + down, 0), before - 1) : right > 0 ? before : from;
      const [row, column] = [Math.floor((from - before) / columns), (from - before) % columns];
      if (right < 0 && column === 0 && before) return Math.min(row, before - 1);
      const [y, x] = [Math.min(Math.max(row + down, 0), rows - 1), Math.min(Math.max(column + right, 0), columns - 1)];
      return before + y * columns + x;
    },
  };
}

/** Whole pixels, so that no seam of the picture shines through between patches. */
const grown = ([x, y, w, t]: [number, number, number, number]): [number, number, number, number] => {
  const [left, top] = [Math.round(x), Math.round(y)];
  return [left, top, Math.round(x + w) - left, Math.round(y + t) - top];
};
