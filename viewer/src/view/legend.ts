import type { App } from "../app";
import { css, cssAt, differenceColour, INK, LOG_DECADES, type Scale } from "../colour";
import { h, replace } from "../dom";
import { effect } from "../signal";

const TICKS: Record<Scale, [string, number][]> = {
  log: [["10⁻⁶", 0], ["10⁻⁴", 2 / LOG_DECADES], ["1/100", 4 / LOG_DECADES], ["1", 1]],
  lift: [["1/64", 0], ["1/8", 0.25], ["1", 0.5], ["8", 0.75], ["64", 1]].map(([text, at]) => [text as string, at as number]),
  linear: [["0", 0], ["½", 0.5], ["1", 1]],
};

/** The colours in plain words. */
export function legend(app: App, difference = false): HTMLElement {
  const box = h("div", { className: "legend" });
  effect(() => {
    const theme = app.theme.value;
    const scale = app.scale.value;
    const ink = INK[theme];
    const colour = (t: number): string => (difference ? differenceColour(theme, 2 * t - 1) : cssAt(scale, theme, t));
    const bar = h("span", { className: "bar" });
    bar.style.background = `linear-gradient(to right,${Array.from({ length: 17 }, (_, n) => colour(n / 16)).join(",")})`;
    const ticks = difference ? ([["−1", 0], ["0", 0.5], ["+1", 1]] as [string, number][]) : TICKS[scale];
    const scaleBox = h("span", { className: "scale", dir: "ltr" }, bar, ...ticks.map(([text, at]) => {
      const tick = h("span", { className: at === 0 ? "tick first" : at === 1 ? "tick last" : "tick" }, text);
      tick.style.left = `${at * 100}%`;
      return tick;
    }));
    const swatch = (background: string): HTMLElement => {
      const square = h("span", { className: "swatch" });
      square.style.background = background;
      return square;
    };
    const hatch = `repeating-linear-gradient(135deg,${css(ink.hidden)} 0 3px,${css(ink.hatch)} 3px 4px)`;
    replace(box, scaleBox, h("span", { className: "words" }, app.say(difference ? "legend.difference" : `legend.${scale}`)), difference ? null : h("span", { className: "key" }, swatch(css(ink.zero)), app.say("legend.zero")), h("span", { className: "key" }, swatch(hatch), app.say("legend.hidden")));
  });
  return box;
}
