import type { App } from "../app";
import { css, cssAt, differenceColour, FAINTER, INK, LOG_DECADES, STRONGER, type Scale } from "../colour";
import { h, replace } from "../dom";
import type { Style } from "../scene/scene";
import { effect } from "../signal";

const TICKS: Record<Scale, [string, number][]> = {
  log: [["10⁻⁶", 0], ["10⁻⁴", 2 / LOG_DECADES], ["1/100", 4 / LOG_DECADES], ["1", 1]],
  lift: [["1/64", 0], ["1/8", 0.25], ["1", 0.5], ["8", 0.75], ["64", 1]].map(([text, at]) => [text as string, at as number]),
  linear: [["0", 0], ["½", 0.5], ["1", 1]],
};

export interface Legend {
  difference?: boolean;
  /** What is drawn besides colours. */
  marks?: readonly ("line" | "link" | "gold")[];
  /** Whether the edge of what frames may see is drawn. */
  ahead?: () => boolean;
  /** On the linear scale the row's largest weight is the strongest colour. */
  row?: boolean;
  /** The colours of heads that are drawn together, and their names. */
  heads?: () => readonly (readonly [string, string])[];
  /** Whether each head has colours of its own. */
  contrast?: () => boolean;
  /** How weights lie over a picture. */
  style?: () => Style;
}

/** A bar of colours with numbers at their places from 0 to 1. */
export function scaleOf(colour: (t: number) => string, ticks: readonly (readonly [string, number])[]): HTMLElement {
  const bar = h("span", { className: "bar" });
  bar.style.background = `linear-gradient(to right,${Array.from({ length: 17 }, (_, n) => colour(n / 16)).join(",")})`;
  return h("span", { className: "scale", dir: "ltr" }, bar, ...ticks.map(([text, at]) => {
    const tick = h("span", { className: at === 0 ? "tick first" : at === 1 ? "tick last" : "tick" }, text);
    tick.style.left = `${at * 100}%`;
    return tick;
  }));
}

/** The colours in plain words. */
export function legend(app: App, { difference = false, marks = [], ahead = () => false, row = false, heads = () => [], contrast = () => false, style = () => "heat" }: Legend = {}): HTMLElement {
  const box = h("div", { className: "legend" });
  let attached = false;
  const stop = effect(() => {
    if (attached && !box.isConnected) return stop();
    attached ||= box.isConnected;
    const theme = app.theme.value;
    const own = contrast();
    const scale = own ? "log" : app.scale.value;
    const ink = INK[theme];
    const light = style() === "light";
    const whole = row && scale === "linear";
    // A picture of middling grey under the veil that lies where the query does not look.
    const grey = (t: number): string => `rgb(${[8, 10, 14].map((veil) => Math.round(190 + (veil - 190) * 0.82 * (1 - t))).join(",")})`;
    const colour = (t: number): string => (difference ? differenceColour(theme, 2 * t - 1) : light ? grey(t) : cssAt(scale, theme, t));
    const rows: [string, number][] = [["0", 0], [app.say("legend.largest"), 1]];
    const ends: [string, number][] = [[app.say("legend.faintest"), 0], [app.say("legend.strongest"), 1]];
    const ticks = own ? ends : difference ? ([["−1", 0], ["0", 0.5], ["+1", 1]] as [string, number][]) : whole ? rows : TICKS[scale];
    const scaleBox = scaleOf(colour, ticks);
    const key = (background: string, text: string): HTMLElement => {
      const square = h("span", { className: "swatch" });
      square.style.background = background;
      return h("span", { className: "key" }, square, text);
    };
    const hatch = `repeating-linear-gradient(135deg,${css(ink.hidden)} 0 3px,${css(ink.hatch)} 3px 4px)`;
    replace(box, scaleBox, h("span", { className: "said" }, own ? app.say("legend.contrast", { faint: 100 * FAINTER, strong: 100 * STRONGER }) : app.say(difference ? "legend.difference" : whole ? "legend.row" : `legend.${scale}`)),
      difference || row ? null : key(css(ink.zero), app.say("legend.zero")),
      difference ? null : key(row ? css(ink.hidden) : hatch, app.say("legend.hidden")),
      app.unknown.value ? key(css(ink.unknown), app.say("legend.unknown")) : null,
      ahead() ? key(css(ink.link), app.say("legend.ahead")) : null,
      ...heads().map(([colour, name]) => key(colour, name)),
      heads().length ? h("span", { className: "said" }, app.say("text.bars")) : null,
      ...marks.filter((mark) => mark !== "line" || heads().length === 0).map((mark) => key(css(ink[mark]), app.say(`legend.${mark}`))));
  });
  return box;
}
