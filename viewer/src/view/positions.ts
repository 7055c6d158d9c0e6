/** The lectures' table of positions, for whoever wants to see where the order of words comes from. */

import type { App } from "../app";
import { formula, h, replace } from "../dom";
import { positionSteps } from "../engine/position";
import { told } from "../strings/step";
import { figures } from "./figures";

export function positions(app: App): HTMLElement {
  const number = (value: number, least: number, step: number): HTMLInputElement => h("input", { type: "number", value: String(value), min: String(least), step: String(step), oninput: () => fill() });
  const [place, dimension, base] = [number(app.cursor.peek()?.query ?? 0, 0, 1), number(4, 2, 2), number(10000, 2, 1)];
  const list = h("ol", { className: "steps" });
  const fill = (): void => {
    const size = Math.min(64, Math.max(2, 2 * Math.round(Number(dimension.value) / 2)));
    const all = positionSteps(Math.max(0, Number(place.value)), size, Math.max(2, Number(base.value)));
    replace(list, ...all.map((step) => h("li", { className: "step" }, h("h3", {}, h("bdi", { dir: "ltr" }, step.symbol)), h("div", { className: "formula", dir: "ltr" }, formula(step.mathml)), h("p", {}, told(app.language.value, step.about)), figures(app, step))));
  };
  fill();
  const field = (word: "steps.place" | "steps.dimension" | "steps.base", input: HTMLElement): HTMLElement => h("label", { className: "field" }, h("span", {}, app.say(word)), input);
  return h("details", { className: "position" }, h("summary", {}, app.say("steps.position")), h("div", { className: "controls" }, field("steps.place", place), field("steps.dimension", dimension), field("steps.base", base)), list);
}
