/** The formula of one row, step by step, with its numbers. */

import { calledOff, Latest, shown, type App } from "../app";
import { formula, h, replace } from "../dom";
import type { Step } from "../provider";
import { effect } from "../signal";

export function steps(app: App): { element: HTMLElement; close: () => void } {
  const input = h("input", { type: "number", min: "1", value: "1", onchange: () => (app.cursor.value = { query: within(Number(input.value) - 1, app.current.queries), key: app.cursor.peek()?.key ?? 0 }) });
  const name = h("span");
  const title = h("h2");
  const list = h("ol", { className: "steps" });
  const element = h("section", { className: "stepsview", "aria-label": app.say("view.steps") }, h("div", { className: "controls" }, h("label", { className: "field" }, name, input)), title, list);
  const latest = new Latest();
  const stop = effect(() => {
    const query = app.cursor.value?.query ?? 0;
    const [site, head] = [app.site.value, app.head.value];
    name.textContent = app.say("steps.row");
    input.max = String(app.current.queries);
    input.value = String(query + 1);
    replace(title, app.say("query"), " ", h("bdi", {}, app.label("query", query)), app.current.formula ? h("small", {}, app.current.formula) : null);
    const signal = latest.next();
    app.provider.steps(site, head, query, signal)
      .then((told) => !signal.aborted && replace(list, ...told.map(item)))
      .catch((error: unknown) => !calledOff(error) && replace(list, app.say("failed", { message: String(error) })));
  });
  return {
    element,
    close: () => {
      latest.next();
      stop();
    },
  };
}

function item({ symbol, mathml, numbers, about }: Step): HTMLElement {
  return h("li", { className: "step" }, h("h3", {}, symbol), h("div", { className: "formula" }, formula(mathml)), h("p", {}, about), numberTable(symbol, numbers));
}

function numberTable(symbol: string, numbers: Step["numbers"]): HTMLElement {
  if (typeof numbers === "number") return h("p", { className: "single" }, shown(numbers, 6));
  const rows = (Array.isArray(numbers[0]) ? numbers : [numbers]) as number[][];
  const cells = (row: number[]): HTMLElement => h("tr", {}, ...row.map((value) => h("td", { className: "number" }, shown(value, 6))));
  return h("div", { className: "scroll", tabIndex: 0, role: "group", "aria-label": symbol }, h("table", { className: "numbers" }, h("tbody", {}, ...rows.map(cells))));
}

const within = (at: number, length: number): number => Math.min(Math.max(0, Math.floor(at) || 0), length - 1);
