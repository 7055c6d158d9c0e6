/** What the positions of a sequence were made from, drawn, with one query's weights over it. */

import type { App } from "../app";
import { css, cssAt, INK, strength } from "../colour";
import { lift } from "../lift";
import type { Sequence } from "../provider";
import { contextOf } from "../save/recorder";
import type { Carried } from "./hop";

export interface Shown {
  /** One query's weights; null where it may not look. Null while they are not there. */
  weights: readonly (number | null)[] | null;
  /** The equal share of each key, for lift; none while they are not there. */
  shares: readonly number[];
  /** The query, where this sequence is the queries' too. */
  query: number | null;
  key: number | null;
  /** Of a graph: how much goes along edges, where more than the query's own are drawn. */
  carried?: readonly Carried[] | null;
}

export interface Scene {
  element: HTMLElement;
  draw(shown: Shown): void;
  /** Where an arrow key leads from a position. */
  step(from: number, down: number, right: number): number;
}

export interface Listener {
  hover(index: number | null): void;
  /** With shift a key is meant, otherwise the query. */
  pick(index: number, shift: boolean): void;
}

export type Style = "light" | "heat";

/** The largest of a row. */
export const largest = (weights: readonly (number | null)[]): number => weights.reduce<number>((top, weight) => (weight !== null && weight > top ? weight : top), 1e-12);

/** How strongly each weight is drawn, 0 to 1: on the linear scale the row's largest is the strongest. Null and NaN stay. */
export function strengths(app: App, weights: readonly (number | null)[], shares: readonly number[]): (number | null)[] {
  const scale = app.scale.value;
  const top = largest(weights);
  return weights.map((weight, at) => {
    if (weight === null || Number.isNaN(weight)) return weight;
    const t = scale === "linear" ? weight / top : strength(scale, scale === "lift" ? lift(weight, shares[at] ?? 1) : weight);
    return Math.min(1, Math.max(0, t));
  });
}

/** Lays the weights over what is drawn: light falls where the query looks, or colour does. */
export function cover(app: App, style: Style, t: number | null): string {
  const theme = app.theme.peek();
  if (t === null) return css(INK[theme].hidden);
  if (Number.isNaN(t)) return css(INK[theme].unknown);
  if (style === "light") return `rgb(8 10 14 / ${(0.82 * (1 - t)).toFixed(3)})`;
  return cssAt(app.scale.peek(), theme, t).replace("rgb(", "rgba(").replace(")", `,${(0.25 + 0.6 * t).toFixed(3)})`);
}

/** A canvas as sharp as the screen; returns what to draw with, in CSS pixels. */
export function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  // Its height follows: where there is less room it is shown smaller.
  canvas.style.width = `${canvas.width / ratio}px`;
  const context = contextOf(canvas);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
}

export function listen(canvas: HTMLCanvasElement, { hover, pick }: Listener, at: (x: number, y: number) => number | null): void {
  const place = (event: PointerEvent): number | null => {
    const box = canvas.getBoundingClientRect();
    const shrunk = canvas.width / (devicePixelRatio || 1) / box.width;
    return at((event.clientX - box.left) * shrunk, (event.clientY - box.top) * shrunk);
  };
  canvas.addEventListener("pointermove", (event) => hover(place(event)));
  canvas.addEventListener("pointerleave", () => hover(null));
  canvas.addEventListener("click", (event) => {
    const index = place(event as PointerEvent);
    if (index !== null) pick(index, event.shiftKey);
  });
}

const pictures = new WeakMap<Sequence, Promise<HTMLImageElement | null>>();

/** The picture of a sequence, decoded once; null where it has none, or the browser cannot read it. */
export function pictureOf(sequence: Sequence): Promise<HTMLImageElement | null> {
  const known = pictures.get(sequence);
  if (known) return known;
  const found = decoded(sequence);
  pictures.set(sequence, found);
  return found;
}

async function decoded({ picture }: Sequence): Promise<HTMLImageElement | null> {
  if (!picture || !/^image\/(png|jpeg)$/.test(picture.media)) return null;
  const image = new Image();
  image.src = `data:${picture.media};base64,${picture.data}`;
  return image.decode().then(() => image, () => null);
}
