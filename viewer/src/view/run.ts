/** The model once more: with another text, or with heads or tokens switched off. */

import { shown, type App, type Other } from "../app";
import { h, refill, replace } from "../dom";
import type { RerunAnswer } from "../provider";
import { effect, signal } from "../signal";

export function run(app: App): { element: HTMLElement; close: () => void } {
  const text = (name: string): string => app.trace.sequences[name]?.text ?? "";
  const source = h("textarea", { rows: 3, dir: "auto", value: text("source") || text(app.current.key) });
  const target = h("textarea", { rows: 2, dir: "auto", value: text("target") });
  const tokens = h("input", { type: "text", inputMode: "numeric", placeholder: "0, 3" });
  const off = signal<[number, number][]>([]);
  const busy = signal(false);
  const form = h("form", { className: "rerun" });
  const chips = h("p", { className: "chips" });
  const answer = h("div", { className: "answer" });
  const element = h("section", { className: "runview", "aria-label": app.say("view.run") }, form, answer);
  const go = async (): Promise<void> => {
    busy.value = true;
    try {
      const numbers = tokens.value.split(/[^0-9]+/).filter(Boolean).map(Number);
      const told = await app.provider.rerun({ source: source.value, target: target.value || null, heads_off: off.value, tokens_off: numbers });
      const provider = app.provider.other(told.trace);
      const other: Other = { provider, trace: await provider.meta(), name: told.trace, site: app.site.peek(), head: app.head.peek() };
      app.others.value = [...app.others.value, other];
      app.against.value = other;
      const same = told.output.join(" ") === told.before.join(" ");
      app.said.value = app.say(same ? "run.same" : "run.changed");
      replace(answer, h("p", {}, h("strong", {}, app.said.value), likelihood(app, told)), h("h2", {}, app.say("run.before")), tokensOf(told.before, told.output), h("h2", {}, app.say("run.after")), tokensOf(told.output, told.before),
        h("button", { onclick: () => (app.view.value = "compare") }, app.say("view.compare")));
    } catch (error) {
      replace(answer, h("p", { className: "warning" }, app.say("failed", { message: error instanceof Error ? error.message : String(error) })));
    } finally {
      busy.value = false;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void go();
  });
  const stops = [
    effect(() => {
      const add = h("button", { type: "button", onclick: () => (off.value = [...off.value.filter(([s, n]) => s !== app.site.peek() || n !== app.head.peek()), [app.site.peek(), app.head.peek()]]) }, app.say("run.add"));
      const submit = h("button", { type: "submit", className: "primary" }, app.say("run.go"));
      listChips(chips, app, off.value, (at) => (off.value = off.value.filter((_, index) => index !== at)));
      refill(form, field(app.say("run.source"), source), field(app.say("run.target"), target), h("div", { className: "field wide" }, h("span", {}, app.say("run.heads")), chips, add), field(app.say("run.tokens"), tokens), submit, h("p", { className: "note" }, app.say("run.caption")));
    }),
    effect(() => {
      form.setAttribute("aria-busy", String(busy.value));
      for (const button of form.querySelectorAll("button")) button.disabled = busy.value;
    }),
  ];
  return { element, close: () => stops.forEach((stop) => stop()) };
}

/** How likely the output before is now. */
function likelihood(app: App, { log_probability: now, log_probability_before: before }: RerunAnswer): string {
  if (typeof now !== "number" || typeof before !== "number") return "";
  return ` ${app.say("run.likelihood", { before: shown(before), now: shown(now) })}`;
}

const field = (name: string, input: HTMLElement): HTMLElement => h("label", { className: "field wide" }, h("span", {}, name), input);

function listChips(chips: HTMLElement, app: App, off: [number, number][], drop: (at: number) => void): void {
  replace(chips, ...off.map(([site, head], at) => h("button", { type: "button", className: "chip", onclick: () => drop(at) }, `${app.trace.sites[site]!.name} · ${head} ×`)));
}

/** An output, with what the other one has not at the same place marked. */
function tokensOf(output: string[], other: string[]): HTMLElement {
  return h("p", { className: "output", dir: "auto" }, ...output.flatMap((token, at) => [at ? " " : "", token === other[at] ? h("bdi", {}, token) : h("mark", {}, h("bdi", {}, token))]));
}
