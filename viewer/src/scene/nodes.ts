/** A graph: nodes and edges, wide where the query looks along them. */

import type { App } from "../app";
import { css, cssAt, INK, readableOn } from "../colour";
import { h } from "../dom";
import { direction } from "../label";
import type { Sequence } from "../provider";
import { arranged, spread } from "./layout";
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
  let size = 20;
  let laidOut = 0;
  listen(canvas, listener, (x, y) => {
    const near = places.map(([px, py]) => Math.hypot(px - x, py - y));
    const best = near.indexOf(Math.min(...near));
    return best >= 0 && near[best]! < 1.6 * size ? best : null;
  });
  const draw = ({ weights, seen, query, key }: Shown): void => {
    const width = Math.min(WIDEST, Math.max(300, element.clientWidth || WIDEST));
    const height = 0.72 * width;
    // As large as a quarter of the room that a node has, so that neighbours stand apart on a phone, too.
    size = Math.max(5, Math.min(20, (0.18 * width) / Math.sqrt(length)));
    if (width !== laidOut) {
      const placed = unit.map(([x, y]) => [EDGE + x * (width - 2 * EDGE), EDGE + y * (height - 2 * EDGE)] as const);
      // Places that the trace gives are meant.
      places = sequence.places ? placed : spread(placed, 2.3 * size, [size + 4, size + 4, width - size - 4, height - size - 18]);
      laidOut = width;
    }
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
    const shades = weights ? strengths(app, weights, seen) : null;
    if (query !== null && weights) {
      weights.forEach((weight, at) => at !== query && weight !== null && weight > 0 && line(query, at, 1.5 + 8 * Math.sqrt(shades![at]!), ink.link));
    }
    context.font = `${size > 11 ? 13 : 11}px system-ui, "Noto Sans", "DejaVu Sans", sans-serif`;
    context.textBaseline = "middle";
    context.textAlign = "center";
    const widest = Math.max(...unit.map((_, at) => context.measureText(app.label("key", at)).width));
    // Where there is no room for all names, those are written that the query looks at.
    const roomy = length <= 60 && length * (widest + 8) * 4 * (2 * size + 16) < width * height;
    const named: (() => void)[] = [];
    places.forEach(([x, y], at) => {
      const t = shades ? shades[at]! : null;
      const plain = t === null || Number.isNaN(t);
      context.beginPath();
      context.arc(x, y, size, 0, 2 * Math.PI);
      context.fillStyle = t === null ? css(ink.hidden) : plain ? css(ink.unknown) : cssAt(scale, theme, t);
      context.fill();
      context.lineWidth = at === query || at === key ? 3.5 : 1;
      context.strokeStyle = css(at === query ? ink.gold : at === key ? ink.link : ink.quiet);
      context.stroke();
      const name = app.label("key", at);
      const inside = context.measureText(name).width < 1.8 * size;
      context.direction = direction(name);
      context.fillStyle = inside && !plain ? readableOn(scale, theme, t) : css(ink.text);
      if (inside) context.fillText(name, x, y);
      else if (at === query || at === key || roomy || (t !== null && t > 0.2)) named.push(() => context.fillText(name, Math.min(Math.max(x, widest / 2), width - widest / 2), y + size + 9));
    });
    context.fillStyle = css(ink.text);
    for (const write of named) write();
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
