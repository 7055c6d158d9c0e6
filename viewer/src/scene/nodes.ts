/** A graph: nodes and edges, wide where the query looks along them. */

import type { App } from "../app";
import { css, cssAt, INK, readableOn } from "../colour";
import { h } from "../dom";
import { direction } from "../label";
import type { Sequence } from "../provider";
import { arranged } from "./layout";
import { listen, sized, strengths, type Listener, type Scene, type Shown } from "./scene";

/** More nodes than so many are a cloud and no picture. */
export const MOST_NODES = 300;
const [WIDEST, EDGE] = [720, 34];

export function nodes(app: App, sequence: Sequence, length: number, listener: Listener): Scene {
  const canvas = h("canvas", { className: "scene", tabIndex: 0, role: "application", "aria-label": app.say("scene.nodes") });
  const element = h("div", { className: "scenebox" }, canvas);
  const edges = (sequence.edges?.[0] ?? []).map((source, at) => [source, sequence.edges![1][at]!] as const);
  const unit = sequence.places ?? arranged(length, edges);
  let places: (readonly [number, number])[] = [];
  const size = Math.max(7, Math.min(20, 130 / Math.sqrt(length)));
  listen(canvas, listener, (x, y) => {
    const near = places.map(([px, py]) => Math.hypot(px - x, py - y));
    const best = near.indexOf(Math.min(...near));
    return best >= 0 && near[best]! < 1.6 * size ? best : null;
  });
  const draw = ({ weights, query, key }: Shown): void => {
    const width = Math.min(WIDEST, Math.max(300, element.clientWidth || WIDEST));
    const height = 0.72 * width;
    places = unit.map(([x, y]) => [EDGE + x * (width - 2 * EDGE), EDGE + y * (height - 2 * EDGE)]);
    const context = sized(canvas, width, height);
    const [theme, scale] = [app.theme.value, app.scale.value];
    const ink = INK[theme];
    context.fillStyle = css(ink.paper);
    context.fillRect(0, 0, width, height);
    const line = (a: number, b: number, width: number, colour: string): void => {
      context.strokeStyle = css(colour);
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(...places[a]!);
      context.lineTo(...places[b]!);
      context.stroke();
    };
    for (const [a, b] of edges) if (a !== b) line(a, b, 1, ink.grid);
    const shades = weights ? strengths(app, weights) : null;
    if (query !== null && weights) {
      weights.forEach((weight, at) => at !== query && weight > 0 && line(query, at, 1.5 + 8 * Math.sqrt(shades![at]!), ink.link));
    }
    context.font = `${size > 11 ? 13 : 11}px system-ui, "Noto Sans", "DejaVu Sans", sans-serif`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    places.forEach(([x, y], at) => {
      const t = shades?.[at] ?? NaN;
      context.beginPath();
      context.arc(x, y, size, 0, 2 * Math.PI);
      context.fillStyle = Number.isNaN(t) ? css(ink.hidden) : cssAt(scale, theme, t);
      context.fill();
      context.lineWidth = at === query || at === key ? 3.5 : 1;
      context.strokeStyle = css(at === query ? ink.gold : at === key ? ink.link : ink.quiet);
      context.stroke();
      const name = app.label("key", at);
      const inside = context.measureText(name).width < 1.8 * size;
      context.direction = direction(name);
      context.fillStyle = inside && !Number.isNaN(t) ? readableOn(scale, theme, t) : css(ink.text);
      if (inside || length <= 60) context.fillText(name, x, inside ? y : y + size + 9);
    });
  };
  return { element, draw, step: (from, down, right) => toward(places, from, down, right) };
}

/** The nearest node in the direction of an arrow. */
function toward(places: readonly (readonly [number, number])[], from: number, down: number, right: number): number {
  const [x, y] = places[from]!;
  let [best, least] = [from, Infinity];
  places.forEach(([px, py], at) => {
    const along = (px - x) * right + (py - y) * down;
    const aside = Math.abs((px - x) * down) + Math.abs((py - y) * right);
    if (at !== from && along > 1 && along + 2 * aside < least) [best, least] = [at, along + 2 * aside];
  });
  return best;
}
