/** The formula of one row, step by step, with its numbers. */

import { calledOff, Latest, shown, type App } from "../app";
import { cellColour, css, INK, readableOn, strength } from "../colour";
import { formula, h, replace } from "../dom";
import { FEATURES } from "../engine/step";
import { positionSteps } from "../engine/position";
import type { Figure, Step } from "../provider";
import { lift } from "../lift";
import { seenBy } from "../row";
import { effect } from "../signal";
import { told } from "../strings/step";
import { legend } from "./legend";

export function steps(app: App): { element: HTMLElement; close: () => void } {
  const input = h("input", { type: "number", min: "0", value: "0", onchange: () => (app.cursor.value = { query: within(Number(input.value), app.current.queries), key: app.cursor.peek()?.key ?? 0 }) });
  const name = h("span");
  const title = h("h2");
  const list = h("ol", { className: "steps" });
  const rounded = h("p", { className: "note" });
  const element = h("section", { className: "stepsview", "aria-label": app.say("view.steps") }, h("div", { className: "controls" }, h("label", { className: "field" }, name, input)), title, list, rounded, legend(app), position(app));
  const latest = new Latest();
  const stop = effect(() => {
    const query = app.cursor.value?.query ?? 0;
    const [site, head] = [app.site.value, app.head.value];
    name.textContent = app.say("steps.row");
    input.max = String(app.current.queries - 1);
    input.value = String(query);
    replace(title, app.say("query"), " ", h("bdi", {}, app.label("query", query)), app.current.formula ? h("small", {}, h("bdi", { dir: "ltr" }, app.current.formula)) : null);
    rounded.textContent = app.say("steps.rounded");
    void [app.scale.value, app.theme.value, app.language.value];
    const signal = latest.next();
    Promise.all([app.provider.steps(site, head, query, signal), seenBy(app, site, head, query)])
      .then(([all, seen]) => !signal.aborted && replace(list, ...all.map((step) => item(app, step, painted(app, step, all, seen)))))
      .catch((error: unknown) => !calledOff(error) && replace(list, app.failure(error)));
  });
  return {
    element,
    close: () => {
      latest.next();
      stop();
    },
  };
}

/** The lectures' table of positions, for whoever wants to see where the order of words comes from. */
function position(app: App): HTMLElement {
  const number = (value: number, least: number, step: number): HTMLInputElement => h("input", { type: "number", value: String(value), min: String(least), step: String(step), oninput: () => fill() });
  const [place, dimension, base] = [number(app.cursor.peek()?.query ?? 0, 0, 1), number(4, 2, 2), number(10000, 2, 1)];
  const list = h("ol", { className: "steps" });
  const fill = (): void => {
    const size = Math.min(64, Math.max(2, 2 * Math.round(Number(dimension.value) / 2)));
    replace(list, ...positionSteps(Math.max(0, Number(place.value)), size, Math.max(2, Number(base.value))).map((step) => item(app, step)));
  };
  fill();
  const field = (word: "steps.place" | "steps.dimension" | "steps.base", input: HTMLElement): HTMLElement => h("label", { className: "field" }, h("span", {}, app.say(word)), input);
  return h("details", { className: "position" }, h("summary", {}, app.say("steps.position")), h("div", { className: "controls" }, field("steps.place", place), field("steps.dimension", dimension), field("steps.base", base)), list);
}

type Paint = (cell: HTMLElement, value: Figure, at: number) => void;

/** The weights are painted as on the map; what may not be looked at is not zero here either. */
function painted(app: App, { symbol, numbers }: Step, all: readonly Step[], seen: number): Paint | null {
  if (!/^α[₀-₉]+ⱼ?′?$/.test(symbol) || !Array.isArray(numbers)) return null;
  const visible = all.find((step) => step.symbol.startsWith("visible"))?.numbers as number[] | undefined;
  const [scale, theme] = [app.scale.peek(), app.theme.peek()];
  return (cell, figure, at) => {
    const weight = typeof figure === "number" ? figure : NaN;
    const value = visible?.[at] === 0 ? null : scale === "lift" ? lift(weight, 1 / seen) : weight;
    cell.style.backgroundColor = cellColour(scale, theme, value);
    cell.style.color = !value ? css(INK[theme].text) : readableOn(scale, theme, Math.min(1, Math.max(0, strength(scale, value))));
  };
}

function item(app: App, { symbol, mathml, numbers, about, keys }: Step, paint: Paint | null = null): HTMLElement {
  const names = keys?.map((key) => app.label("key", key)) ?? null;
  return h("li", { className: "step" }, h("h3", {}, h("bdi", { dir: "ltr" }, symbol)), h("div", { className: "formula", dir: "ltr" }, formula(mathml)), h("p", {}, told(app.language.value, about)), numberTable(symbol, numbers, names, paint));
}

/** One number, a line of them, or one line a key; with the keys' names where they are known. */
function numberTable(symbol: string, numbers: Step["numbers"], names: string[] | null, paint: Paint | null): HTMLElement {
  if (!Array.isArray(numbers)) return h("p", { className: "single" }, h("bdi", { dir: "ltr", title: exactly(numbers) }, written(numbers)));
  const lines = Array.isArray(numbers[0]) ? (numbers as Figure[][]) : null;
  const cells = (row: Figure[], name?: string): HTMLElement => h("tr", {}, name === undefined ? null : h("th", { scope: "row" }, h("bdi", {}, name)), ...row.map((value, at) => {
    const cell = h("td", { className: "number", dir: "ltr", title: exactly(value) }, written(value));
    paint?.(cell, value, at);
    return cell;
  }));
  const head = !lines && names ? h("thead", {}, h("tr", {}, ...names.map((name) => h("th", { scope: "col", className: "number" }, h("bdi", {}, name))))) : null;
  const last = Math.max(...(lines ?? []).map(({ length }) => length));
  const count = lines && h("thead", {}, h("tr", {}, h("td"), ...Array.from({ length: last }, (_, at) => h("th", { scope: "col", className: "number" }, at < FEATURES ? at + 1 : "Σ …"))));
  const body = lines ? lines.map((row, at) => cells(row, names?.[at])) : [cells(numbers as Figure[])];
  return h("div", { className: "scroll", dir: "ltr", tabIndex: 0, role: "group", "aria-label": symbol }, h("table", { className: "numbers" }, head ?? count, h("tbody", {}, ...body)));
}

/** All of a number, where less of it is shown. */
const exactly = (value: Figure): string | null => (typeof value === "string" || shown(value) === shown(value, 7) ? null : shown(value, 7));
const written = (value: Figure): string => (typeof value === "string" ? value : shown(value));
const within = (at: number, length: number): number => Math.min(Math.max(0, Math.floor(at) || 0), length - 1);
