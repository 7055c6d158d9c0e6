/** Find a token by its text, and go from one place to the next. */

import type { App } from "../app";
import { h } from "../dom";
import { matches } from "../label";
import { effect } from "../signal";

const MOST = 10000;

export function search(app: App, go: (query: number | null, key: number | null) => void): { element: HTMLElement; input: HTMLInputElement } {
  const input = h("input", { type: "search", dir: "auto", autocomplete: "off", spellcheck: false });
  const count = h("output", { className: "count" });
  const name = h("span");
  let at = -1;
  let wanted = "";
  const find = (): void => {
    wanted = input.value.trim();
    at = -1;
    app.found.value = { queries: places(app, "query", wanted), keys: places(app, "key", wanted) };
    tell();
  };
  const tell = (): void => {
    const { queries, keys } = app.found.value;
    const all = keys.length || queries.length;
    count.textContent = wanted === "" ? "" : all === 0 ? app.say("search.none") : app.say("search.count", { at: at + 1, count: all });
  };
  const next = (step: number): void => {
    const { queries, keys } = app.found.value;
    const list = keys.length ? keys : queries;
    if (!list.length) return tell();
    at = at < 0 && step < 0 ? list.length - 1 : (at + step + list.length) % list.length;
    go(keys.length ? null : list[at]!, keys.length ? list[at]! : null);
    tell();
  };
  input.addEventListener("input", find);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Enter") next(event.shiftKey ? -1 : 1);
    if (event.key === "Escape") {
      input.value = "";
      find();
      input.blur();
    }
  });
  effect(() => {
    name.textContent = app.say("search");
    void [app.site.value];
    if (input.value) find();
  });
  return { element: h("label", { className: "field search" }, name, input, count), input };
}

function places(app: App, side: "query" | "key", wanted: string): number[] {
  const labels = app.sequence(side)?.labels ?? [];
  const length = side === "query" ? app.current.queries : app.current.keys;
  const found: number[] = [];
  for (let at = 0; at < Math.min(length, labels.length) && found.length < MOST; at++) if (matches(labels[at]!, wanted)) found.push(at);
  return found;
}
