/** All heads at once: a small map of each, named by what it does, in any order, and large where one looks closer. */

import { ORDERS, shown, type App } from "../app";
import { UNKNOWN } from "../codec";
import { choice, h, refill, replace } from "../dom";
import { BEHAVIOURS, THUMBNAIL, type Behaviour, type Measure, type Measures, type Site, type Thumbnail } from "../provider";
import { effect, signal, untracked } from "../signal";
import { legend } from "./legend";
import { APART, FRAME, GAP, NAMED, packed } from "./packing";
import { Preview } from "./preview";
import { shiftsOf, thumbnail } from "./thumbnail";

const BARS: readonly Measure[] = ["entropy", "distance", "sink"];

interface Card {
  site: number;
  head: number;
  element: HTMLButtonElement;
  canvas: HTMLCanvasElement;
  name: HTMLElement;
  bars: HTMLElement;
  does: HTMLElement;
  measures: Measures | null;
  behaviour: Behaviour | null;
}

/** Heads that stand together, by their layer or by what they do. */
interface Group {
  title: (Node | string)[];
  about: string;
  cards: Card[];
}

/** Below this width a page is a phone, with three tiles in a row. */
const PHONE = 600;
/** Pixels of a page of A4 or US letter below the names of what is printed. */
const PAPER = 840;

export function overview(app: App): { element: HTMLElement; close: () => void; key: (event: KeyboardEvent) => boolean } {
  const kind = signal<Site["kind"] | "all">("all");
  const measured = signal(0);
  const grid = h("div", { className: "heads" });
  const note = h("p", { className: "note" });
  const controls = h("div", { className: "controls" });
  const element = h("section", { className: "overview", "aria-label": app.say("view.overview") }, controls, legend(app, { contrast: () => app.contrast.value }), note, grid);
  const preview = new Preview(app, (tile) => open(app, tile));
  element.append(preview.element);
  element.addEventListener("click", ({ target }) => (target as Element).closest(".card,.preview") || preview.hide());
  element.addEventListener("scroll", () => preview.hide(), { passive: true });
  const cards = app.trace.sites.flatMap((site, index) => Array.from({ length: site.heads }, (_, head) => card(app, index, head, preview)));
  let groups: Group[] = [];
  const fill = (): void => fitted(element, grid, groups, app.printing.peek() > 0);
  const watch = new ResizeObserver(fill);
  watch.observe(element);
  const closed = new AbortController();
  const certain = new Certain(app, cards, closed.signal, (site) => void measure(site));
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      const card = cards.find(({ element: each }) => each === target)!;
      void draw(app, card).then(() => certain.want(card));
    }
  });
  for (const each of cards) seen.observe(each.element);
  const rest = (): void => cards.filter(({ canvas }) => !canvas.dataset["drawn"]).forEach((each) => void draw(app, each));
  const estimates = new Set<number>();
  const measure = async (site: number): Promise<void> => {
    const told = await app.provider.statistics(site).catch(() => null);
    if (told?.estimate) estimates.add(site);
    else estimates.delete(site);
    for (const each of cards) if (told && each.site === site) [each.measures, each.behaviour] = [told.heads[each.head] ?? null, told.behaviours[each.head] ?? null];
    measured.value += 1;
  };
  void (async () => {
    for (const site of app.trace.sites.keys()) if (!closed.signal.aborted) await measure(site);
  })();
  const stops = [
    effect(() => {
      void app.language.value;
      refill(controls,
        choice(app.say("sort"), ORDERS.map((name) => [name, app.say(name === "place" || name === "behaviour" ? `sort.${name}` : `measure.${name}`)] as const), app.order.value, (name) => (app.order.value = name)),
        choice(app.say("kind"), (["all", "self", "cross", "graph", "recurrent"] as const).map((name) => [name, app.say(`kind.${name}`)] as const), kind.value, (name) => (kind.value = name)),
        h("p", { className: "barkey" }, ...BARS.map((name) => h("span", {}, h("span", { className: `fill ${name}` }), app.say(`measure.${name}`)))),
      );
    }),
    effect(() => {
      void measured.value;
      const by = app.order.value;
      void app.language.value;
      const chosen = cards.filter(({ site }) => kind.value === "all" || app.trace.sites[site]!.kind === kind.value);
      groups = untracked(() => grouped(app, chosen, by));
      lay(grid, groups);
      label(app, cards);
      fill();
      note.textContent = estimates.size ? app.say("estimate") : "";
    }),
    effect(() => {
      const [site, head, mean] = [app.site.value, app.head.value, app.heads.value === "mean"];
      for (const each of cards) each.element.setAttribute("aria-current", String(each.site === site && (mean || each.head === head)));
    }),
    effect(() => app.whole.value && rest()),
    effect(() => {
      void app.printing.value;
      fill();
    }),
    effect(() => {
      void [app.theme.value, app.tint];
      preview.hide();
      for (const each of cards) if (each.canvas.dataset["drawn"]) void draw(app, each);
    }),
  ];
  return {
    element,
    close: () => {
      closed.abort();
      seen.disconnect();
      watch.disconnect();
      preview.hide();
      for (const stop of stops) stop();
    },
    key: ({ key }) => {
      if (key !== "Escape" || !preview.shown) return false;
      preview.hide();
      return true;
    },
  };
}

/** Estimated maps are replaced by exact ones, one after another, for as long as the overview is open. */
class Certain {
  private readonly waiting: Card[] = [];
  private busy = false;

  constructor(
    private readonly app: App,
    private readonly cards: readonly Card[],
    private readonly signal: AbortSignal,
    private readonly done: (site: number) => void,
  ) {}

  want(card: Card): void {
    if (!card.canvas.hasAttribute("data-estimate")) return;
    this.waiting.push(card);
    if (!this.busy) void this.work();
  }

  private async work(): Promise<void> {
    this.busy = true;
    for (let card = this.waiting.shift(); card && !this.signal.aborted; card = this.waiting.shift()) {
      const exact = await this.app.provider.exactOverview(card.site, card.head, this.signal).catch(() => null);
      if (exact) await paint(this.app, card, exact);
      const { site } = card;
      const rest = this.cards.some((each) => each.site === site && each.canvas.dataset["drawn"] && each.canvas.hasAttribute("data-estimate"));
      if (exact && !rest) this.done(site);
    }
    this.busy = false;
  }
}

function card(app: App, site: number, head: number, preview: Preview): Card {
  const canvas = h("canvas", { width: THUMBNAIL, height: THUMBNAIL, className: "thumbnail", "aria-hidden": "true" });
  const bars = h("span", { className: "bars", "aria-hidden": "true" });
  const [name, does] = [h("bdi", { className: "name", dir: "ltr" }), h("span", { className: "does" })];
  let touched = false;
  const press = ({ pointerType }: PointerEvent): void => {
    // A finger cannot hover: its first touch enlarges, its second opens.
    touched = pointerType === "touch" && !(touched && preview.shown === made);
    if (touched) preview.show(made);
    else open(app, made);
  };
  const element = h("button", {
    className: "card", onclick: press,
    onpointerenter: ({ pointerType }: PointerEvent) => pointerType === "mouse" && preview.soon(made),
    onpointerleave: ({ pointerType }: PointerEvent) => pointerType === "mouse" && preview.hide(),
    onfocus: () => element.matches(":focus-visible") && preview.show(made),
    onblur: () => preview.hide(),
  }, canvas, name, bars, does);
  const made: Card = { site, head, canvas, name, bars, does, measures: null, behaviour: null, element };
  return made;
}

function open(app: App, { site, head }: { site: number; head: number }): void {
  app.choose(site, head);
  app.view.value = "map";
}

/** By layers, by what heads do, or all in one order. */
function grouped(app: App, chosen: Card[], by: App["order"]["value"]): Group[] {
  if (by === "place")
    return [...new Set(chosen.map(({ site }) => site))].map((site) => {
      const { layer, kind, formula } = app.trace.sites[site]!;
      const title = [`${app.say("layer")} ${layer} · ${app.say(`kind.${kind}`)}`, h("small", {}, h("bdi", {}, app.siteName(app.trace.sites[site]!)), formula ? " · " : "", h("bdi", {}, formula))];
      return { title, about: app.trace.sites[site]!.name, cards: chosen.filter((each) => each.site === site) };
    });
  if (by === "behaviour")
    return [...BEHAVIOURS, null].map((name) => {
      const cards = chosen.filter(({ behaviour }) => behaviour === name);
      const about = name ? app.say(`does.${name}`) : "";
      return { title: name ? [`${app.say(`behaviour.${name}`)} · ${cards.length}`, h("small", {}, about)] : ["…"], about, cards };
    }).filter(({ cards }) => cards.length > 0);
  return [{ title: [], about: "", cards: chosen.sort((a, b) => (b.measures?.[by] ?? -1) - (a.measures?.[by] ?? -1)) }];
}

function lay(grid: HTMLElement, groups: readonly Group[]): void {
  const used = grid.contains(document.activeElement) ? (document.activeElement as HTMLElement) : null;
  replace(grid, ...groups.map(({ title, about, cards }) => {
    const row = h("div", { className: "row" }, ...cards.map(({ element }) => element));
    return title.length ? h("section", { className: "layer" }, h("h2", { title: about }, ...title), row) : row;
  }));
  // What is moved loses the focus.
  used?.focus();
}

/** Tiles as large as the page has room for. */
function fitted(element: HTMLElement, grid: HTMLElement, groups: readonly Group[], paper: boolean): void {
  const { clientWidth: width } = element;
  // What is saved is as it is on the screen.
  if (!width || element.closest(".saving")) return;
  const above = grid.getBoundingClientRect().top - element.getBoundingClientRect().top + element.scrollTop;
  const phone = width < PHONE;
  // A phone's page is as long as what it holds.
  const height = paper ? PAPER : phone ? innerHeight : element.clientHeight;
  const { groups: beside, columns, side } = packed(groups.map(({ cards }) => cards.length), { width: width - 2, height: height - above, least: phone ? 84 : 52, most: 420 });
  grid.style.cssText = `--side:${side}px;--columns:${columns};--beside:${beside};--tile:${side + FRAME}px;--gap:${GAP}px;--apart:${APART}px`;
  grid.classList.toggle("named", side >= NAMED);
}

function label(app: App, cards: Card[]): void {
  const largest = (name: Measure): number => Math.max(...cards.map(({ measures }) => measures?.[name] ?? 0), 1e-9);
  const most = Object.fromEntries(BARS.map((name) => [name, name === "sink" ? 1 : largest(name)])) as Record<Measure, number>;
  const byLayer = app.order.peek() === "place";
  for (const { element, name, bars, does, measures, behaviour, site, head } of cards) {
    const here = app.trace.sites[site]!;
    const numbers = Object.fromEntries(BARS.map((each) => [each, measures ? shown(measures[each], 3) : "…"]));
    const told = behaviour ? app.say(`behaviour.${behaviour}`) : "…";
    element.setAttribute("aria-label", app.say("overview.card", { site: app.siteName(here), head, behaviour: told, ...numbers }));
    name.textContent = byLayer ? String(head) : `${site}·${head}`;
    does.textContent = told;
    replace(bars, ...BARS.map((each) => {
      const fill = h("span", { className: `fill ${each}` });
      fill.style.width = `${Math.round(100 * Math.min(1, (measures?.[each] ?? 0) / most[each]))}%`;
      return h("span", { className: "measure" }, fill);
    }));
  }
}

async function draw(app: App, card: Card): Promise<void> {
  const answer = await app.provider.overview(card.site, card.head).catch(() => null);
  if (answer) await paint(app, card, answer).catch(() => undefined);
}

async function paint(app: App, card: Card, { codes, estimate }: Thumbnail): Promise<void> {
  const [tint, site] = [untracked(() => app.tint), app.trace.sites[card.site]!];
  const shifts = await shiftsOf(app.provider, card.site, card.head, site, tint);
  if (tint !== app.tint) return;
  app.unknown.value ||= codes.includes(UNKNOWN);
  const small = thumbnail(site, codes, app.theme.peek(), tint, shifts);
  card.canvas.width = small.width;
  card.canvas.height = small.height;
  card.canvas.getContext("2d")!.drawImage(small, 0, 0);
  card.canvas.toggleAttribute("data-estimate", estimate);
  card.canvas.dataset["drawn"] = "yes";
}
