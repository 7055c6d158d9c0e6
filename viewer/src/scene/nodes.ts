/** A graph: nodes and edges, wide where the query looks along them. */

import type { App } from "../app";
import { css, cssAt, INK, readableOn } from "../colour";
import { h } from "../dom";
import { direction } from "../label";
import type { Sequence } from "../provider";
import { arranged, spread, type Place } from "./layout";
import { arrowhead, roads, strokes, toScale } from "./road";
import { listen, sized, strengths, type Listener, type Scene, type Shown } from "./scene";

const [WIDEST, EDGE] = [720, 34];
/** Pixels of an edge at most. */
const LONGEST = 96;

export function nodes(app: App, sequence: Sequence, length: number, listener: Listener): Scene {
  const canvas = h("canvas", { className: "scene", tabIndex: 0, role: "application", "aria-label": app.say("scene.nodes") });
  const element = h("div", { className: "scenebox" }, canvas);
  const lines = roads(sequence);
  const molecule = Boolean(sequence.bonds);
  const unit = sequence.places ?? arranged(length, lines.map(({ source, target }) => [source, target] as const));
  let places: Place[] = [];
  let size = 20;
  let laidOut = 0;
  listen(canvas, listener, (x, y) => {
    const near = places.map(([px, py]) => Math.hypot(px - x, py - y));
    const best = near.indexOf(Math.min(...near));
    return best >= 0 && near[best]! < 1.6 * size ? best : null;
  });
  let height = 0;
  const draw = ({ weights, shares, query, key, carried }: Shown): void => {
    const width = Math.min(WIDEST, Math.max(300, element.clientWidth || WIDEST));
    // As large as a quarter of the room that a node has, so that neighbours stand apart on a phone, too.
    size = Math.max(5, Math.min(20, (0.18 * width) / Math.sqrt(length)));
    if (width !== laidOut) {
      if (sequence.places) {
        // Places that the trace gives are meant, and so are their distances.
        ({ places, height } = toScale(unit, lines, width, 0.8 * width, EDGE, LONGEST));
      } else {
        height = 0.72 * width;
        const placed = unit.map(([x, y]) => [EDGE + x * (width - 2 * EDGE), EDGE + y * (height - 2 * EDGE)] as const);
        places = spread(placed, 2.3 * size, [size + 4, size + 4, width - size - 4, height - size - 18]);
      }
      laidOut = width;
    }
    const context = sized(canvas, width, height);
    const [theme, scale] = [app.theme.value, app.scale.value];
    const ink = INK[theme];
    context.fillStyle = css(ink.paper);
    context.fillRect(0, 0, width, height);
    const line = (from: Place, to: Place, width: number, colour: string): void => {
      context.strokeStyle = css(colour);
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(...from);
      context.lineTo(...to);
      context.stroke();
    };
    const tip = (from: number, to: number, size: number, radius: number, colour: string): void => {
      context.fillStyle = css(colour);
      context.beginPath();
      for (const corner of arrowhead(places[from]!, places[to]!, radius, size)) context.lineTo(...corner);
      context.fill();
    };
    for (const { source, target, both, bond } of lines) {
      for (const { from, to, dashed } of strokes(places[source]!, places[target]!, bond, 5)) {
        context.setLineDash(dashed ? [4, 3] : []);
        line(from, to, molecule ? 1.8 : 1, molecule ? ink.quiet : ink.grid);
      }
      context.setLineDash([]);
      if (!both && !molecule) tip(source, target, 6, size + 1, ink.quiet);
    }
    const shades = weights ? strengths(app, weights, shares) : null;
    /** A weight as the width of an edge; of a node for itself, as a ring. */
    const way = (target: number, source: number, strength: number): void => {
      const wide = 1.5 + 8 * Math.sqrt(strength);
      if (target !== source) {
        line(places[source]!, places[target]!, wide, ink.link);
        tip(source, target, 5 + wide, size + 1, ink.link);
        return;
      }
      context.strokeStyle = css(ink.link);
      context.lineWidth = wide;
      context.beginPath();
      context.arc(...places[target]!, size + 1 + wide / 2, 0, 2 * Math.PI);
      context.stroke();
    };
    const most = carried?.reduce((top, [, , amount]) => Math.max(top, amount), 1e-12) ?? 1;
    if (carried) for (const [target, source, amount] of carried) way(target, source, amount / most);
    else if (query !== null && weights) weights.forEach((weight, at) => weight !== null && weight > 0 && way(query, at, shades![at]!));
    // What looks at the nodes from outside, such as the read-out of a molecule, makes areas around them.
    else if (weights) {
      shades!.forEach((strength, at) => {
        if (!strength) return;
        context.fillStyle = cssAt(scale, theme, strength).replace("rgb(", "rgba(").replace(")", ",0.35)");
        context.beginPath();
        context.arc(...places[at]!, size * (1 + 0.9 * Math.sqrt(strength)), 0, 2 * Math.PI);
        context.fill();
      });
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
      context.fillStyle = inside && t !== null ? readableOn(scale, theme, t) : css(ink.text);
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
