/** A sound from left to right: seconds, waveform, spectrogram, and below them how much a query looks at each frame. */

import type { App } from "../app";
import { css, INK } from "../colour";
import { h } from "../dom";
import type { Sequence } from "../provider";
import { cover, largest, listen, pictureOf, sized, strengths, type Listener, type Scene, type Shown, type Style } from "./scene";

const [RULER, WAVE, BANDS, BARS] = [20, 80, 130, 70];
const FULL = 127;

export function frames(app: App, sequence: Sequence, length: number, style: () => Style, listener: Listener): Scene {
  const canvas = h("canvas", { className: "scene", tabIndex: 0, role: "application", "aria-label": app.say("scene.frames") });
  const element = h("div", { className: "scenebox" }, canvas);
  const { sound } = sequence;
  const seconds = sequence.hop ? sequence.hop * length : (sound?.seconds ?? null);
  const [wave, bands] = [sound ? WAVE : 0, sequence.picture ? BANDS : 0];
  let width = 800;
  const xOf = (frame: number): number => (frame * width) / length;
  listen(canvas, listener, (x) => (x >= 0 && x < width ? Math.min(length - 1, Math.floor((x * length) / width)) : null));
  let image: HTMLImageElement | null = null;
  let last: Shown = { weights: null, seen: 1, query: null, key: null };
  void pictureOf(sequence).then((found) => {
    image = found;
    draw(last);
  });
  const draw = (shown: Shown): void => {
    last = shown;
    width = Math.max(280, element.clientWidth || 800);
    const height = RULER + wave + bands + BARS;
    const context = sized(canvas, width, height);
    const ink = INK[app.theme.value];
    context.fillStyle = css(ink.paper);
    context.fillRect(0, 0, width, height);
    ruler(context, seconds ?? length, seconds === null ? "" : " s", width, css(ink.quiet));
    if (sound) outline(context, sound, seconds ?? sound.seconds, width, css(ink.text));
    context.imageSmoothingEnabled = false;
    if (image) context.drawImage(image, 0, RULER + wave, width, bands);
    const { weights } = shown;
    if (weights) {
      const top = largest(weights);
      strengths(app, weights, shown.seen).forEach((t, frame) => {
        const [x, end] = [Math.round(xOf(frame)), Math.round(xOf(frame + 1))];
        if (wave) {
          context.fillStyle = cover(app, "heat", t).replace(/[\d.]+\)$/, `${(0.45 * (t === null || Number.isNaN(t) ? 0.5 : t)).toFixed(3)})`);
          context.fillRect(x, RULER, end - x, wave);
        }
        if (image) {
          context.fillStyle = cover(app, style(), t);
          context.fillRect(x, RULER + wave, end - x, bands);
        }
        const tall = t === null || Number.isNaN(t) ? BARS - 8 : ((BARS - 8) * weights[frame]!) / top;
        context.fillStyle = css(t === null ? ink.hidden : Number.isNaN(t) ? ink.unknown : ink.link);
        context.fillRect(x, height - tall, Math.max(1, end - x - (end - x > 4 ? 1 : 0)), tall);
      });
    }
    for (const [frame, colour] of [[shown.key, ink.link], [shown.query, ink.gold]] as const) {
      if (frame === null || frame >= length) continue;
      context.strokeStyle = css(colour);
      context.lineWidth = 2;
      context.strokeRect(xOf(frame) + 1, RULER + 1, Math.max(2, xOf(frame + 1) - xOf(frame) - 2), height - RULER - 2);
    }
  };
  return { element, draw, step: (from, down, right) => Math.min(Math.max(from + right + 10 * down, 0), length - 1) };
}

function ruler(context: CanvasRenderingContext2D, whole: number, unit: string, width: number, colour: string): void {
  const least = (whole * 64) / width;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= least)!;
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colour;
  context.textBaseline = "top";
  for (let n = 0; n * step < whole; n++) {
    const x = Math.round((n * step * width) / whole);
    context.fillRect(x, RULER - 5, 1, 5);
    context.fillText(`${Number((n * step).toPrecision(6))}${unit}`, x + 3, 2);
  }
}

function outline(context: CanvasRenderingContext2D, { low, high, seconds }: NonNullable<Sequence["sound"]>, whole: number, width: number, colour: string): void {
  context.fillStyle = colour;
  const middle = RULER + WAVE / 2;
  const tall = WAVE / 2 - 3;
  const pieces = (width * seconds) / whole / low.length;
  low.forEach((least, at) => {
    const [top, bottom] = [middle - (high[at]! / FULL) * tall, middle - (least / FULL) * tall];
    context.fillRect(at * pieces, top, Math.max(1, pieces), Math.max(1, bottom - top));
  });
}
