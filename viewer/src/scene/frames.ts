/** A sound from left to right: seconds, waveform, spectrogram, and below them where each label is listened to. */

import type { App } from "../app";
import { css, INK } from "../colour";
import { h } from "../dom";
import { direction } from "../label";
import type { Sequence, Span } from "../provider";
import { cover, largest, listen, pictureOf, sized, strengths, type Listener, type Scene, type Shown, type Style } from "./scene";
import { hills, reachOf, roomy, type Row } from "./stretch";

const [RULER, WAVE, BANDS, BARS] = [20, 80, 130, 70];
/** A lane: its title, the labels over their peaks, and the hills. */
const [TITLE, NAMES, HILLS] = [15, 14, 46];
const LANE = TITLE + NAMES + HILLS + 5;
const FULL = 127;
const STRONG = "600 11px system-ui, sans-serif";
/** A name without letters: a space. */
export const BLANK = /^[␣\s]*$/;
/** Pixels of a second, at least: a long recording is wider than the page, up to what a canvas holds. */
const [SECOND, WIDEST] = [72, 16000];

/** The rows of one alignment over the same frames: an attention, or probabilities of CTC. */
export interface Lane {
  title: string;
  /** The rows of the queries from `from` on. */
  rows: readonly Row[];
  from: number;
  names: readonly string[];
  /** Whether its queries are those that are chosen and pointed at. */
  own: boolean;
}

export interface Heard extends Shown {
  lanes?: readonly Lane[];
  /** The queries whose weights are drawn. */
  unit?: Span | null;
  /** Frames, half-open: where the queries listen. */
  stretch?: Span | null;
}

export interface FramesScene extends Scene {
  draw(shown: Heard): void;
  /** Moves the line that stands where the sound is. */
  at(second: number | null): void;
  /** Scrolls a long recording to some frames. */
  show(frames: Span): void;
}

export function frames(app: App, sequence: Sequence, length: number, style: () => Style, listener: Listener): FramesScene {
  const canvas = h("canvas", { className: "scene", tabIndex: 0, role: "application", "aria-label": app.say("scene.frames") });
  const head = h("div", { className: "playhead", hidden: true });
  const element = h("div", { className: "scenebox", dir: "ltr" }, canvas, head);
  const { sound } = sequence;
  const seconds = sequence.hop ? sequence.hop * length : (sound?.seconds ?? null);
  const [wave, bands] = [sound ? WAVE : 0, sequence.picture ? BANDS : 0];
  const floor = RULER + wave + bands;
  let width = 800;
  const xOf = (frame: number): number => (frame * width) / length;
  listen(canvas, listener, (x) => (x >= 0 && x < width ? Math.min(length - 1, Math.floor((x * length) / width)) : null));
  let image: HTMLImageElement | null = null;
  let last: Heard = { weights: null, shares: [], query: null, key: null };
  let silhouettes: { of: Heard["lanes"]; lanes: ReturnType<typeof hills>[] } = { of: undefined, lanes: [] };
  void pictureOf(sequence).then((found) => {
    image = found;
    draw(last);
  });
  const draw = (shown: Heard): void => {
    last = shown;
    const lanes = shown.lanes ?? [];
    if (silhouettes.of !== shown.lanes) silhouettes = { of: shown.lanes, lanes: lanes.map(({ rows }) => hills(rows)) };
    width = Math.max(280, element.clientWidth || 800, Math.min((seconds ?? 0) * SECOND, WIDEST / (devicePixelRatio || 1)));
    const height = floor + (lanes.length ? lanes.length * LANE : BARS);
    const context = sized(canvas, width, height);
    canvas.classList.toggle("wide", width > element.clientWidth);
    const ink = INK[app.theme.value];
    context.fillStyle = css(ink.paper);
    context.fillRect(0, 0, width, height);
    const label = shown.stretch ? labelOf(context, shown.stretch) : null;
    ruler(context, seconds ?? length, seconds === null ? "" : " s", width, css(ink.quiet), label ? [label.left, label.left + label.wide] : [0, 0]);
    if (sound) outline(context, sound, seconds ?? sound.seconds, width, css(ink.text));
    context.imageSmoothingEnabled = false;
    if (image) context.drawImage(image, 0, RULER + wave, width, bands);
    const { weights } = shown;
    if (weights) {
      veil(context, weights, shown.shares);
      if (!lanes.length) bars(context, weights, height);
    }
    lanes.forEach((lane, at) => hilly(context, lane, silhouettes.lanes[at]!, floor + at * LANE, shown.unit ?? null));
    if (shown.query !== null && weights) band(context, weights, shown.query, floor);
    if (shown.stretch && label) bracket(context, shown.stretch, label);
    for (const [frame, colour] of [[shown.key, ink.link], [shown.query, ink.gold]] as const) {
      if (frame === null || frame >= length) continue;
      context.strokeStyle = css(colour);
      context.lineWidth = 2;
      context.strokeRect(xOf(frame) + 1, RULER + 1, Math.max(2, xOf(frame + 1) - xOf(frame) - 2), floor - RULER - 2 + (lanes.length ? 0 : BARS));
    }
    head.style.height = `${canvas.clientHeight || height}px`;
  };
  /** Lays the weights over the waveform and the spectrogram. */
  const veil = (context: CanvasRenderingContext2D, weights: Row, shares: readonly number[]): void => {
    strengths(app, weights, shares).forEach((t, frame) => {
      const [x, end] = [Math.round(xOf(frame)), Math.round(xOf(frame + 1))];
      if (wave) {
        context.fillStyle = cover(app, "heat", t).replace(/[\d.]+\)$/, `${(0.45 * (t === null || Number.isNaN(t) ? 0.5 : t)).toFixed(3)})`);
        context.fillRect(x, RULER, end - x, wave);
      }
      if (image) {
        context.fillStyle = cover(app, style(), t);
        context.fillRect(x, RULER + wave, end - x, bands);
      }
    });
  };
  const bars = (context: CanvasRenderingContext2D, weights: Row, height: number): void => {
    const ink = INK[app.theme.value];
    const top = largest(weights);
    weights.forEach((weight, frame) => {
      const [x, end] = [Math.round(xOf(frame)), Math.round(xOf(frame + 1))];
      const odd = weight === null || Number.isNaN(weight);
      const tall = odd ? BARS - 8 : ((BARS - 8) * weight) / top;
      context.fillStyle = css(weight === null ? ink.hidden : odd ? ink.unknown : ink.link);
      context.fillRect(x, height - tall, Math.max(1, end - x - (end - x > 4 ? 1 : 0)), tall);
    });
  };
  /** The hills of all labels, the chosen ones in front, with names over their peaks. */
  const hilly = (context: CanvasRenderingContext2D, lane: Lane, { hills: found, top }: ReturnType<typeof hills>, y: number, unit: Span | null): void => {
    const ink = INK[app.theme.value];
    const base = y + LANE - 5;
    context.fillStyle = css(ink.grid);
    context.fillRect(0, y, width, 1);
    context.fillRect(0, base, width, 1);
    const chosen = found.map((_, at) => lane.own && unit !== null && lane.from + at >= unit[0] && lane.from + at < unit[1] && (unit[1] - unit[0] === 1 || !BLANK.test(lane.names[at] ?? "")));
    const fill = (at: number): void => found[at]?.frames.forEach((frame, n) => {
      const [x, end] = [Math.round(xOf(frame)), Math.round(xOf(frame + 1))];
      const tall = Math.max(1, (HILLS * found[at]!.weights[n]!) / top);
      context.fillRect(x, base - tall, Math.max(1, end - x), tall);
    });
    found.forEach((_, at) => {
      if (chosen[at]) return;
      context.globalAlpha = at % 2 ? 0.34 : 0.6;
      context.fillStyle = css(ink.line);
      fill(at);
    });
    context.globalAlpha = 1;
    context.fillStyle = css(ink.link);
    chosen.forEach((is, at) => is && fill(at));
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.font = '11px system-ui, "Noto Sans", "DejaVu Sans", sans-serif';
    context.direction = direction(lane.title);
    context.textAlign = "left";
    context.fillStyle = css(ink.quiet);
    // A lane wider than the page says what it is wherever it is scrolled to.
    for (let x = 3; x < width - 100; x += Math.max(280, element.clientWidth)) context.fillText(lane.title, x, y + TITLE / 2 + 1);
    context.font = '12px system-ui, "Noto Sans", "DejaVu Sans", sans-serif';
    const peaks = found.flatMap((hill, at) => (hill && !BLANK.test(lane.names[at] ?? "") ? [{ at, x: xOf(hill.peak + 0.5), width: context.measureText(lane.names[at]!).width }] : []));
    const inside = peaks.map(({ at, x, width: wide }) => ({ at, width: wide, x: Math.min(Math.max(x, wide / 2 + 1), width - wide / 2 - 1) }));
    const shown = roomy(inside, inside.flatMap(({ at }, n) => (chosen[at] ? [n] : [])));
    context.textAlign = "center";
    inside.forEach(({ at, x }, n) => {
      if (!shown[n]) return;
      context.fillStyle = css(chosen[at] ? ink.link : ink.text);
      context.direction = direction(lane.names[at]!);
      context.fillText(lane.names[at]!, x, y + TITLE + NAMES / 2);
    });
    context.textAlign = "left";
    context.direction = "ltr";
  };
  /** What a frame may see of others: those before it, itself, and those ahead, which it has to wait for. */
  const band = (context: CanvasRenderingContext2D, weights: Row, query: number, y: number): void => {
    const reach = reachOf(weights);
    if (!reach || (reach[0] === 0 && reach[1] === length)) return;
    const ink = INK[app.theme.value];
    context.fillStyle = css(ink.line);
    context.fillRect(xOf(reach[0]), y, xOf(Math.min(query + 1, reach[1])) - xOf(reach[0]), 5);
    context.fillStyle = css(ink.link);
    if (reach[1] > query + 1) context.fillRect(xOf(query + 1), y, xOf(reach[1]) - xOf(query + 1), 5);
  };
  /** Where the seconds of a stretch are written, above its middle. */
  const labelOf = (context: CanvasRenderingContext2D, [from, to]: Span): { text: string; left: number; wide: number } => {
    const text = sequence.hop ? `${(from * sequence.hop).toFixed(2)}–${(to * sequence.hop).toFixed(2)} s` : `${from}–${to - 1}`;
    context.font = STRONG;
    const wide = context.measureText(text).width;
    return { text, wide, left: Math.min(Math.max(0, (xOf(from) + xOf(to) - wide) / 2), width - wide) };
  };
  const bracket = (context: CanvasRenderingContext2D, [from, to]: Span, { text, left }: { text: string; left: number }): void => {
    context.strokeStyle = context.fillStyle = css(INK[app.theme.value].link);
    context.lineWidth = 1.5;
    context.strokeRect(xOf(from), RULER - 1, Math.max(2, xOf(to) - xOf(from)), floor - RULER);
    context.font = STRONG;
    context.textBaseline = "top";
    context.fillText(text, left, 3);
  };
  const scroll = (x: number, margin: number): void => {
    const { scrollLeft, clientWidth } = element;
    if (canvas.clientWidth > clientWidth && (x < scrollLeft + margin || x > scrollLeft + clientWidth - margin)) element.scrollLeft = x - clientWidth / 3;
  };
  return {
    element,
    draw,
    step: (from, down, right) => Math.min(Math.max(from + right + 10 * down, 0), length - 1),
    at(second) {
      head.hidden = second === null || seconds === null;
      if (second === null || seconds === null) return;
      const x = (second / seconds) * (canvas.clientWidth || width);
      head.style.transform = `translateX(${x.toFixed(1)}px)`;
      scroll(x, 0);
    },
    show: ([from, to]) => scroll(((from + to) / 2 / length) * (canvas.clientWidth || width), 40),
  };
}

function ruler(context: CanvasRenderingContext2D, whole: number, unit: string, width: number, colour: string, taken: Span): void {
  const least = (whole * 64) / width;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((n) => n * power).find((size) => size >= least)!;
  context.font = "11px system-ui, sans-serif";
  context.fillStyle = colour;
  context.textBaseline = "top";
  for (let n = 0; n * step < whole; n++) {
    const x = Math.round((n * step * width) / whole);
    context.fillRect(x, RULER - 5, 1, 5);
    const text = `${Number((n * step).toPrecision(6))}${unit}`;
    if (x + 3 + context.measureText(text).width + 4 < taken[0] || x > taken[1] + 2) context.fillText(text, x + 3, 2);
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
