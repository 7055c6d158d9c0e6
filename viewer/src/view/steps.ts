/** The formula of one row as a lesson: step by step, with its numbers, which the reader may change. */

import { calledOff, Latest, type App } from "../app";
import { cellColour, css, INK, readableOn, strength } from "../colour";
import { formula, h, refill, replace } from "../dom";
import { Draft, EDITABLE, editable } from "../engine/draft";
import { parse } from "../engine/payload";
import { shownKeys, stepsOf } from "../engine/step";
import { lift } from "../lift";
import type { Figure, Step } from "../provider";
import { seenBy } from "../row";
import { effect, signal } from "../signal";
import { told } from "../strings/step";
import { figures, type Choices } from "./figures";
import { legend } from "./legend";
import { positions } from "./positions";

/** What readers changed stays while the page is open. */
const drafts = new WeakMap<App, Map<string, Promise<Draft>>>();

/** A row, as it is shown: its steps, and the numbers behind them where they can be changed. */
interface Lesson {
  steps: Step[];
  query: number;
  seen: number;
  draft: Draft | null;
  /** The steps once more, with the numbers of the draft. */
  again(): Step[];
}

export function steps(app: App): { element: HTMLElement; close: () => void; key: (event: KeyboardEvent) => boolean } {
  const input = h("input", { type: "number", min: "0", value: "0", onchange: () => (app.cursor.value = { query: within(Number(input.value), app.current.queries), key: app.cursor.peek()?.key ?? 0 }) });
  const name = h("span");
  const walk = h("div", { className: "walk" });
  const title = h("h2");
  const path = h("nav", { className: "path" });
  const list = h("ol", { className: "steps" });
  const following = h("div", { className: "following" });
  const note = h("p", { className: "mine", role: "status" });
  const rounded = h("p", { className: "note" });
  const row = h("label", { className: "field" }, name, input);
  const element = h("section", { className: "stepsview", "aria-label": app.say("view.steps") }, h("div", { className: "controls" }, row, walk), title, path, note, list, following, rounded, legend(app), positions(app));
  const latest = new Latest();
  const changing = signal(false);
  const lesson = signal<Lesson | null>(null);
  /** Counts resets, after which fields are written anew. */
  const resets = signal(0);

  const load = effect(() => {
    const query = app.cursor.value?.query ?? 0;
    const focus = app.cursor.value?.key;
    const [site, head] = [app.site.value, app.head.value];
    void app.scale.value;
    name.textContent = app.say("steps.row");
    input.max = String(app.current.queries - 1);
    input.value = String(query);
    replace(title, app.say("query"), " ", h("bdi", {}, app.label("query", query)), app.current.formula ? h("small", {}, h("bdi", { dir: "ltr" }, app.current.formula)) : null);
    const signal = latest.next();
    Promise.all([begun(app, site, head, query, focus, signal), seenBy(app, site, head, query)])
      .then(([begun, seen]) => !signal.aborted && (lesson.value = { ...begun, query, seen }))
      .catch((error: unknown) => !calledOff(error) && replace(list, app.failure(error)));
  });

  const go = (to: number): void => {
    const last = (lesson.peek()?.steps.length ?? 1) - 1;
    app.step.value = Math.min(Math.max(to, 0), last);
    const step = lesson.peek()?.steps[app.step.peek()!];
    if (step) app.said.value = `${app.say("steps.at", { n: app.step.peek()! + 1, m: last + 1 })}. ${told(app.language.value, step.about)}`;
  };

  const draw = effect(() => {
    const here = lesson.value;
    void [app.theme.value, app.language.value, resets.value];
    if (!here) return;
    const { draft } = here;
    const at = app.step.value === null ? null : Math.min(app.step.value, here.steps.length - 1);
    const editing = changing.value && draft !== null;
    rounded.textContent = app.say("steps.rounded") + (draft ? "" : ` ${app.say("steps.large", { n: EDITABLE })}`);
    const button = (word: "previous" | "next", by: number): HTMLElement => h("button", { "aria-disabled": String(at === null || at + by < 0 || at + by >= here.steps.length), onclick: () => go(at! + by) }, app.say(`steps.${word}`));
    refill(walk,
      ...(at === null ? [] : [button("previous", -1), button("next", 1), h("span", { className: "progress" }, app.say("steps.at", { n: at + 1, m: here.steps.length }))]),
      h("button", { "aria-pressed": String(at === null), onclick: () => (app.step.value = at === null ? 0 : null) }, app.say("steps.all")),
      draft ? h("button", { "aria-pressed": String(editing), onclick: () => change(!editing) }, app.say("steps.change")) : null,
      draft ? h("button", { "aria-disabled": String(!draft.changed), className: "reset", onclick: () => reset(draft) }, app.say("steps.reset")) : null);
    path.hidden = at === null;
    path.setAttribute("aria-label", app.say("view.steps"));
    refill(path, ...here.steps.map(({ symbol }, each) => h("button", { className: "tab", "aria-current": each === at ? "step" : null, "aria-label": `${each + 1}. ${symbol}`, onclick: () => go(each) }, h("bdi", { dir: "ltr" }, symbol))));
    show(at, editing);
  });

  /** Formulas and tables do not break: what is wider than paper is written smaller. */
  const shrink = effect(() => {
    const paper = app.printing.value > 0;
    void [app.theme.value, lesson.value];
    const rows = [...element.querySelectorAll<HTMLElement>(".formula,.scroll > table")];
    for (const row of rows) row.style.fontSize = "";
    if (!paper) return;
    for (const row of rows) {
      const share = row.parentElement!.clientWidth / row.scrollWidth;
      if (share < 1) row.style.fontSize = `${0.97 * share * Number.parseFloat(getComputedStyle(row).fontSize)}px`;
    }
  });

  /** The cards of the steps; those with fields stay as they are while the reader writes. */
  function show(at: number | null, editing: boolean): void {
    const here = lesson.peek()!;
    list.classList.toggle("one", at !== null);
    list.style.counterReset = `step ${at ?? 0}`;
    const made: { again: () => void }[] = [];
    const tell = (): void => {
      note.textContent = here.draft?.changed ? app.say("steps.own") : "";
      walk.querySelector(".reset")?.setAttribute("aria-disabled", String(!here.draft?.changed));
    };
    const changed = (): void => {
      here.steps = here.again();
      for (const each of made) each.again();
      tell();
    };
    const drawn = (each: number): { card: HTMLElement; again: () => void } => {
      const open = editing && here.steps[each]!.part !== undefined;
      const draw = (): HTMLElement => card(app, here, here.steps[each]!, each, open ? changed : null);
      const it = {
        card: draw(),
        again: (): void => {
          if (open) return;
          const before = it.card;
          before.replaceWith((it.card = draw()));
        },
      };
      made.push(it);
      return it;
    };
    const cards = here.steps.map((_, each) => (at === null || each === at ? drawn(each) : null));
    const results = editing && at !== null ? here.steps.map((step, each) => (each > at && /^[αc]/.test(step.symbol) && step.symbol !== "α·v" ? drawn(each) : null)) : [];
    refill(list, ...cards.flatMap((each) => (each ? [each.card] : [])));
    const follow = results.flatMap((each) => (each ? [each.card] : []));
    replace(following, ...(follow.length ? [h("h3", {}, app.say("steps.result")), h("ol", { className: "steps" }, ...follow)] : []));
    tell();
  }

  /** To change numbers one has to see some that are given. */
  function change(to: boolean): void {
    changing.value = to;
    const all = lesson.peek()?.steps ?? [];
    const at = app.step.peek();
    if (to && at !== null && all[at]?.part === undefined) app.step.value = Math.max(0, all.findIndex(({ part }) => part !== undefined));
  }

  function reset(draft: Draft): void {
    draft.reset();
    const here = lesson.peek()!;
    here.steps = here.again();
    resets.value += 1;
  }

  return {
    element,
    close: () => {
      latest.next();
      load();
      draw();
      shrink();
    },
    key: ({ key, shiftKey, target }) => {
      const way = key === "ArrowRight" ? 1 : key === "ArrowLeft" ? -1 : 0;
      const box = target instanceof Element ? target.closest(".scroll, .worked .formula") : null;
      const scrolls = box !== null && box.scrollWidth > box.clientWidth;
      if (!way || shiftKey || scrolls || app.step.peek() === null || !lesson.peek()) return false;
      // An address may name a step that this row does not have.
      go(Math.min(app.step.peek()!, lesson.peek()!.steps.length - 1) + (app.language.peek() === "fa" ? -way : way));
      return true;
    },
  };
}

async function begun(app: App, site: number, head: number, query: number, focus: number | undefined, signal: AbortSignal): Promise<Omit<Lesson, "query" | "seen">> {
  const here = app.trace.sites[site]!;
  if (!editable(here)) {
    const steps = await app.provider.steps(site, head, query, signal);
    return { steps, draft: null, again: () => steps };
  }
  const draft = await drafted(app, site, head);
  const weights = new Float64Array(here.keys);
  draft.recorded.row(query, 0, here.keys, weights);
  const keys = shownKeys(weights);
  const again = (): Step[] => stepsOf(draft.head, query, keys, focus);
  return { steps: again(), draft, again };
}

function drafted(app: App, site: number, head: number): Promise<Draft> {
  const known = drafts.get(app) ?? new Map<string, Promise<Draft>>();
  drafts.set(app, known);
  const name = `${site}/${head}`;
  const draft = known.get(name) ?? app.provider.numbers(site).then((bytes) => new Draft(app.trace.sites[site]!, head, parse(bytes).tensors[0]!));
  known.set(name, draft);
  draft.catch(() => known.delete(name));
  return draft;
}

/** One step: symbol, formula, sentence, the formula with numbers, and all numbers. `changed` makes fields of given ones. */
function card(app: App, { steps, query, seen, draft }: Lesson, step: Step, at: number, changed: (() => void) | null): HTMLElement {
  const { keys, part, worked } = step;
  const visible = steps.findIndex(({ symbol }) => symbol.startsWith("visible"));
  const hides = visible >= 0 && at > visible && Array.isArray(keys);
  const hidden = hides ? (steps[visible]!.numbers as number[]).map((one) => one === 0) : null;
  const row = (line: number): number => (part === "key" || part === "value" ? keys![line]! : part === "vector" ? 0 : query);
  const place = (line: number, column: number): [number, number] => [row(line), part === "scores" ? keys![column]! : column];
  const choices: Choices = {
    names: keys?.map((key) => app.label("key", key)) ?? null,
    hidden,
    focus: keys?.indexOf(steps.find(({ worked }) => worked && worked.key !== null)?.worked?.key ?? -1) ?? -1,
    ...(draft && keys ? { choose: (line: number) => (app.cursor.value = { query, key: keys[line]! }) } : {}),
    paint: painted(app, step, hidden, seen),
    change: changed && part && draft ? {
      now: (line, column) => draft.at(part, ...place(line, column)),
      to: (line, column, value) => {
        draft.set(part, ...place(line, column), value);
        changed();
      },
    } : null,
  };
  const with_ = worked && h("div", { className: "worked" }, h("span", {}, worked.key === null ? app.say("steps.together") : app.say("steps.for", { key: app.label("key", worked.key) })), h("div", { className: "formula", dir: "ltr", tabIndex: 0, role: "group", "aria-label": step.symbol }, formula(worked.mathml)));
  return h("li", { className: "step" }, h("h3", {}, h("bdi", { dir: "ltr" }, step.symbol)), h("div", { className: "formula", dir: "ltr" }, formula(step.mathml)), h("p", {}, told(app.language.value, step.about)), with_ ?? null, figures(app, step, choices));
}

/** The weights are painted as on the map; what may not be looked at is not zero here either. */
function painted(app: App, { symbol, numbers }: Step, hidden: boolean[] | null, seen: number): NonNullable<Choices["paint"]> | null {
  if (!/^α[₀-₉]+ⱼ?′?$/.test(symbol) || !Array.isArray(numbers)) return null;
  const [scale, theme] = [app.scale.peek(), app.theme.peek()];
  return (cell: HTMLElement, figure: Figure, at: number) => {
    const weight = typeof figure === "number" ? figure : NaN;
    const value = hidden?.[at] ? null : scale === "lift" ? lift(weight, 1 / seen) : weight;
    cell.style.backgroundColor = cellColour(scale, theme, value);
    cell.style.color = value === null || value === 0 ? css(INK[theme].text) : readableOn(scale, theme, Math.min(1, Math.max(0, strength(scale, value))));
  };
}

const within = (at: number, length: number): number => Math.min(Math.max(0, Math.floor(at) || 0), length - 1);
