/** The numbers of a step: aligned at the decimal point, with a bar beside each, or with colours behind a whole table. */

import { shown, type App } from "../app";
import { differenceColour } from "../colour";
import { h } from "../dom";
import { FEATURES } from "../engine/step";
import { aligned, read, together } from "../number";
import type { Figure, Step } from "../provider";

/** How strong the colour behind the largest number of a table is: letters are read on it. */
const TINT = 0.34;

export interface Choices {
  /** The names of the keys, if the numbers belong to keys. */
  names?: string[] | null;
  /** Whether each of these keys is hidden. */
  hidden?: boolean[] | null;
  /** The place of the key whose numbers are in the formula. */
  focus?: number;
  choose?(at: number): void;
  /** Another colour than that of a number's share of the largest. */
  paint?: ((cell: HTMLElement, value: Figure, at: number) => void) | null;
  /** For numbers that the reader may change: what is written in a field now, and what to do with another number. */
  change?: { now(row: number, column: number): number; to(row: number, column: number, value: number): void } | null;
}

export function figures(app: App, { symbol, numbers }: Step, choices: Choices = {}): HTMLElement {
  if (!Array.isArray(numbers)) return h("p", { className: "single" }, h("bdi", { dir: "ltr", title: exactly(numbers) }, aligned([numbers])[0]!));
  const table = Array.isArray(numbers[0]) ? grid(app, symbol, numbers as Figure[][], choices) : column(app, symbol, numbers as Figure[], choices);
  return h("div", { className: "scroll", dir: "ltr", tabIndex: 0, role: "group", "aria-label": symbol }, table);
}

/** One number a line, with its bar. */
function column(app: App, symbol: string, numbers: Figure[], choices: Choices): HTMLElement {
  const { names, hidden, change } = choices;
  const written = aligned(numbers.map((value, at) => (hidden?.[at] ? 0 : value)));
  const sizes = numbers.map((value, at) => (hidden?.[at] ? 0 : finite(value)));
  const [least, most] = [Math.min(0, ...sizes), Math.max(0, ...sizes)];
  const rows = numbers.map((value, at) => {
    const name = names ? names[at]! : String(at + 1);
    const fill = h("span", { className: sizes[at]! < 0 ? "amount below" : "amount" });
    const extent = most - least || 1;
    fill.style.left = `${(100 * (Math.min(0, sizes[at]!) - least)) / extent}%`;
    fill.style.width = `${(100 * Math.abs(sizes[at]!)) / extent}%`;
    const cell = change ? field(app, symbol, name, 0, at, change) : number(value, hidden?.[at] ? "–" : written[at]!);
    if (!change) (choices.paint ?? tinted(app, most - least))(cell, value, at);
    return h("tr", { className: names && at === choices.focus ? "focus" : "" }, title(name, at, names ? choices : {}), cell, change ? null : h("td", { className: "track" }, fill));
  });
  return h("table", { className: "numbers column" }, h("tbody", {}, ...rows));
}

/** One key a line, and its features along it. */
function grid(app: App, symbol: string, lines: Figure[][], choices: Choices): HTMLElement {
  const { names, hidden, change } = choices;
  const written = together(lines);
  const largest = Math.max(...lines.flat().map((value) => Math.abs(finite(value))), 0);
  const last = Math.max(...lines.map(({ length }) => length));
  const head = h("thead", {}, h("tr", {}, h("td"), ...Array.from({ length: last }, (_, at) => h("th", { scope: "col", className: "number" }, at < FEATURES ? at + 1 : "Σ …"))));
  const body = lines.map((line, row) => {
    const cells = line.map((value, at) => {
      if (change) return field(app, symbol, names?.[row] ?? String(row + 1), row, at, change);
      const cell = number(value, hidden?.[row] ? "–" : written[row]![at]!);
      tinted(app, largest)(cell, hidden?.[row] ? 0 : value);
      return cell;
    });
    return h("tr", { className: row === choices.focus ? "focus" : "" }, title(names?.[row] ?? "", row, choices), ...cells);
  });
  return h("table", { className: "numbers grid" }, head, h("tbody", {}, ...body));
}

/** The name of a line; that of a key chooses whose numbers are in the formula. */
function title(name: string, at: number, { choose, focus }: Choices): HTMLElement {
  const text = h("bdi", {}, name);
  return h("th", { scope: "row" }, choose ? h("button", { className: "plain", "aria-pressed": String(at === focus), onclick: () => choose(at) }, text) : text);
}

const number = (value: Figure, written: string): HTMLElement => h("td", { className: "number", title: exactly(value) }, written);

const tinted = (app: App, largest: number) => (cell: HTMLElement, value: Figure): void => {
  cell.style.backgroundColor = differenceColour(app.theme.peek(), largest ? (TINT * finite(value)) / largest : 0);
};

function field(app: App, symbol: string, name: string, row: number, at: number, change: NonNullable<Choices["change"]>): HTMLElement {
  const now = (): string => String(Number(change.now(row, at).toPrecision(7)));
  const input = h("input", {
    ...{ type: "text", inputMode: "decimal", size: 6, value: now(), dir: "ltr", "aria-label": `${symbol} ${name} ${at + 1}`, autocomplete: "off" },
    oninput: () => {
      const value = read(input.value);
      input.setAttribute("aria-invalid", String(!Number.isFinite(value)));
      input.title = Number.isFinite(value) ? "" : app.say("steps.invalid");
      if (Number.isFinite(value)) change.to(row, at, value);
    },
    onblur: () => {
      if (input.getAttribute("aria-invalid") !== "true") return;
      input.value = now();
      input.setAttribute("aria-invalid", "false");
      input.title = "";
    },
  });
  return h("td", { className: "number" }, input);
}

/** All of a number, where less of it is shown. */
const exactly = (value: Figure): string | null => (typeof value === "string" || aligned([value])[0] === shown(value, 7) ? null : shown(value, 7));
const finite = (value: Figure): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);
