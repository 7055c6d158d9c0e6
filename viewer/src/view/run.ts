/** The model once more: with another text, or with heads or tokens switched off. */

import { shown, type App, type Other } from "../app";
import { h, refill, replace } from "../dom";
import { printable, reading } from "../label";
import type { RerunAnswer, Trace } from "../provider";
import { effect, signal } from "../signal";

/** Tokens that can be switched off by a click; further ones by their numbers. */
const MOST_PIECES = 200;

export function run(app: App): { element: HTMLElement; close: () => void } {
  const text = (name: string): string => app.trace.sequences[name]?.text ?? "";
  const source = h("textarea", { rows: 2, dir: "auto", value: text("source") || text(app.current.key) });
  // Empty: a target that is given is not the model's answer, and would never change.
  const target = h("textarea", { rows: 2, dir: "auto" });
  const tokens = h("input", { type: "text", inputMode: "numeric", placeholder: "0, 3" });
  const pieces = switches(tokens);
  const off = signal<[number, number][]>([]);
  const busy = signal(false);
  const form = h("form", { className: "rerun" });
  const chips = h("p", { className: "chips" });
  const answer = h("div", { className: "answer" });
  const element = h("section", { className: "runview", "aria-label": app.say("view.run") }, form, answer);
  const go = async (): Promise<void> => {
    busy.value = true;
    try {
      const told = await app.provider.rerun({ source: source.value, target: target.value || null, heads_off: off.value, tokens_off: numbersIn(tokens) });
      const provider = app.provider.other(told.trace);
      const other: Other = { provider, trace: await provider.meta(), name: told.trace, site: app.site.peek(), head: app.head.peek() };
      app.others.value = [...app.others.value, other];
      app.against.value = other;
      pieces.list(labelsOf(app, other.trace));
      const same = told.output.join(" ") === told.before.join(" ");
      app.said.value = app.say(same ? "run.same" : "run.changed");
      replace(answer, h("p", {}, h("strong", {}, app.said.value), likelihood(app, told)), h("h2", {}, app.say("run.before")), tokensOf(told.before, told.output), h("h2", {}, app.say("run.after")), tokensOf(told.output, told.before),
        h("p", { className: "controls" },
          h("button", { onclick: () => (app.view.value = "compare") }, app.say("view.compare")),
          h("a", { href: `?trace=${encodeURIComponent(told.trace)}#view=map`, target: "_blank", rel: "noopener" }, app.say("run.alone"))));
    } catch (error) {
      replace(answer, h("p", { className: "warning" }, app.failure(error)));
    } finally {
      busy.value = false;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void go();
  });
  pieces.list(labelsOf(app, app.trace));
  const stops = [
    effect(() => {
      const here = `${app.siteName(app.current)} · ${app.head.value}`;
      target.placeholder = app.say("run.own");
      pieces.element.setAttribute("aria-label", app.say("cells.token"));
      const add = h("button", { type: "button", onclick: () => (off.value = [...off.value.filter(([s, n]) => s !== app.site.peek() || n !== app.head.peek()), [app.site.peek(), app.head.peek()]]) }, `${app.say("run.add")}: ${here}`);
      const submit = h("button", { type: "submit", className: "primary" }, app.say("run.go"));
      listChips(chips, app, off.value, (at) => (off.value = off.value.filter((_, index) => index !== at)));
      refill(form, field(app.say("run.source"), source), field(app.say("run.target"), target), h("div", { className: "field wide" }, h("span", {}, app.say("run.heads")), h("div", { className: "offs" }, chips, add)), field(app.say("run.tokens"), tokens), pieces.element, submit, h("p", { className: "note" }, app.say("run.caption")));
    }),
    effect(() => {
      form.setAttribute("aria-busy", String(busy.value));
      for (const button of form.querySelectorAll("button")) button.disabled = busy.value;
    }),
  ];
  return { element, close: () => stops.forEach((stop) => stop()) };
}

const numbersIn = ({ value }: HTMLInputElement): number[] => value.split(/[^0-9]+/).filter(Boolean).map(Number);
const labelsOf = (app: App, { sequences }: Trace): readonly string[] => (sequences["source"] ?? sequences[app.current.key])?.labels ?? [];

/** The tokens themselves as switches, beside the field of their numbers. */
function switches(field: HTMLInputElement): { element: HTMLElement; list: (labels: readonly string[]) => void } {
  const element = h("div", { className: "pieces", role: "group" });
  const press = (): void => {
    const off = new Set(numbersIn(field));
    [...element.children].forEach((piece, at) => piece.setAttribute("aria-pressed", String(off.has(at))));
  };
  const toggle = (at: number): void => {
    const off = numbersIn(field);
    field.value = (off.includes(at) ? off.filter((each) => each !== at) : [...off, at].sort((a, b) => a - b)).join(", ");
    press();
  };
  field.addEventListener("input", press);
  const piece = (label: string, at: number): HTMLElement => h("button", { type: "button", className: "token", title: String(at), onclick: () => toggle(at) }, h("bdi", {}, printable(label)));
  const list = (labels: readonly string[]): void => {
    element.dir = reading(labels);
    replace(element, ...labels.slice(0, MOST_PIECES).map(piece));
    press();
  };
  return { element, list };
}

/** How likely the output before is now. */
function likelihood(app: App, { log_probability: now, log_probability_before: before }: RerunAnswer): string {
  if (typeof now !== "number" || typeof before !== "number") return "";
  return ` ${app.say("run.likelihood", { before: shown(before), now: shown(now) })}`;
}

const field = (name: string, input: HTMLElement): HTMLElement => h("label", { className: "field wide" }, h("span", {}, name), input);

function listChips(chips: HTMLElement, app: App, off: [number, number][], drop: (at: number) => void): void {
  replace(chips, ...off.map(([site, head], at) => h("button", { type: "button", className: "chip", onclick: () => drop(at) }, `${app.siteName(app.trace.sites[site]!)} · ${head} ×`)));
}

/** An output, with what the other one has not at the same place marked. */
function tokensOf(output: string[], other: string[]): HTMLElement {
  return h("p", { className: "output", dir: "auto" }, ...output.flatMap((token, at) => [at ? " " : "", token === other[at] ? h("bdi", {}, token) : h("mark", {}, h("bdi", {}, token))]));
}
