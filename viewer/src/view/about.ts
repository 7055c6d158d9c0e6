/** Where the numbers come from: everything that the trace says of itself. */

import { shown, type App } from "../app";
import { h, replace } from "../dom";

export function about(app: App): { element: HTMLDialogElement; open: () => void } {
  const element = h("dialog", { className: "help about" });
  const open = (): void => {
    const { configuration, ...rest } = app.trace.pedigree;
    const site = app.current;
    const here = { name: site.name, formula: site.formula, visibility: site.visibility.code, heads: site.heads, "key heads": site.kv_heads, queries: site.queries, keys: site.keys };
    replace(element, h("h2", {}, app.say("about")),
      table(app, lines(rest)), h("h3", {}, app.say("site")), table(app, lines(here)),
      configuration && typeof configuration === "object" ? h("h3", {}, app.say("about.configuration")) : null,
      configuration && typeof configuration === "object" ? table(app, lines(configuration)) : null,
      h("button", { onclick: () => element.close() }, app.say("close")));
    element.setAttribute("aria-label", app.say("about"));
    element.showModal();
  };
  return { element, open };
}

type Line = [name: string, value: unknown];

/** Nested settings by their dotted names. */
export function lines(of: object, before = ""): Line[] {
  return Object.entries(of).flatMap(([name, value]): Line[] => {
    if (value !== null && typeof value === "object" && !Array.isArray(value)) return lines(value as object, `${before}${name}.`);
    return value === null || value === undefined ? [] : [[before + name, value]];
  });
}

function table(app: App, all: Line[]): HTMLElement {
  const words: Record<string, string> = { difference: app.say("about.difference"), rounding: app.say("about.rounding") };
  return h("dl", { dir: "ltr" }, ...all.flatMap(([name, value]) => [h("dt", {}, words[name] ?? name), h("dd", {}, h("bdi", {}, typeof value === "number" ? shown(value, 5) : String(value)))]));
}
