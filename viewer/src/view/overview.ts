/** All heads at once: a small map of each, with bars for what they do, in any order. */

import { shown, type App } from "../app";
import { UNKNOWN } from "../codec";
import { choice, h, refill, replace } from "../dom";
import { MEASURES, THUMBNAIL, type Measure, type Measures, type Site, type Thumbnail } from "../provider";
import { effect, signal, untracked } from "../signal";
import { legend } from "./legend";
import { shiftsOf, thumbnail } from "./thumbnail";

const BARS: readonly Measure[] = ["entropy", "distance", "sink"];

interface Card {
  site: number;
  head: number;
  element: HTMLButtonElement;
  canvas: HTMLCanvasElement;
  bars: HTMLElement;
  measures: Measures | null;
}

export function overview(app: App): { element: HTMLElement; close: () => void } {
  const order = signal<"place" | Measure>("place");
  const kind = signal<Site["kind"] | "all">("all");
  const measured = signal(0);
  const grid = h("div", { className: "heads" });
  const note = h("p", { className: "note" });
  const controls = h("div", { className: "controls" });
  const element = h("section", { className: "overview", "aria-label": app.say("view.overview") }, controls, legend(app), note, grid);
  const cards = app.trace.sites.flatMap((site, index) => Array.from({ length: site.heads }, (_, head) => card(app, index, head)));
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
    for (const each of cards) if (told && each.site === site) each.measures = told.heads[each.head] ?? null;
    measured.value += 1;
  };
  void (async () => {
    for (const site of app.trace.sites.keys()) if (!closed.signal.aborted) await measure(site);
  })();
  const stops = [
    effect(() => {
      void app.language.value;
      refill(controls,
        choice(app.say("sort"), [["place", app.say("sort.place")] as const, ...MEASURES.map((name) => [name, app.say(`measure.${name}`)] as const)], order.value, (name) => (order.value = name)),
        choice(app.say("kind"), (["all", "self", "cross", "graph", "recurrent"] as const).map((name) => [name, app.say(`kind.${name}`)] as const), kind.value, (name) => (kind.value = name)),
        h("p", { className: "barkey" }, ...BARS.map((name) => h("span", {}, h("span", { className: `fill ${name}` }), app.say(`measure.${name}`)))),
      );
    }),
    effect(() => {
      void measured.value;
      const by = order.value;
      const chosen = cards.filter(({ site }) => kind.value === "all" || app.trace.sites[site]!.kind === kind.value);
      if (by !== "place") chosen.sort((a, b) => (b.measures?.[by] ?? -1) - (a.measures?.[by] ?? -1));
      // Few heads take what room there is; many stay as small as can be told apart.
      grid.style.setProperty("--side", `${Math.round(Math.min(260, Math.max(82, Math.sqrt(500_000 / Math.max(chosen.length, 1)) - 40)))}px`);
      untracked(() => lay(app, grid, chosen, by === "place"));
      label(app, cards);
      note.textContent = estimates.size ? app.say("estimate") : "";
    }),
    effect(() => {
      const [site, head, mean] = [app.site.value, app.head.value, app.heads.value === "mean"];
      for (const each of cards) each.element.setAttribute("aria-current", String(each.site === site && (mean || each.head === head)));
    }),
    effect(() => app.whole.value && rest()),
    effect(() => {
      void [app.theme.value, app.scale.value];
      for (const each of cards) if (each.canvas.dataset["drawn"]) void draw(app, each);
    }),
  ];
  return {
    element,
    close: () => {
      closed.abort();
      seen.disconnect();
      for (const stop of stops) stop();
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

function card(app: App, site: number, head: number): Card {
  const canvas = h("canvas", { width: THUMBNAIL, height: THUMBNAIL, className: "thumbnail", "aria-hidden": "true" });
  const bars = h("span", { className: "bars", "aria-hidden": "true" });
  const name = h("span", { className: "name" }, String(head));
  const open = (): void => {
    app.choose(site, head);
    app.view.value = "map";
  };
  return { site, head, canvas, bars, measures: null, element: h("button", { className: "card", onclick: open }, canvas, name, bars) };
}

function lay(app: App, grid: HTMLElement, chosen: Card[], grouped: boolean): void {
  if (!grouped) return replace(grid, h("div", { className: "row" }, ...chosen.map(({ element }) => element)));
  const sites = [...new Set(chosen.map(({ site }) => site))];
  replace(grid, ...sites.map((site) => {
    const { layer, kind, name, formula } = app.trace.sites[site]!;
    const title = h("h2", { title: name }, `${app.say("layer")} ${layer} · ${app.say(`kind.${kind}`)}`, h("small", {}, h("bdi", {}, app.siteName(app.trace.sites[site]!)), formula ? " · " : "", formula));
    return h("section", { className: "layer" }, title, h("div", { className: "row" }, ...chosen.filter((each) => each.site === site).map(({ element }) => element)));
  }));
}

function label(app: App, cards: Card[]): void {
  const largest = (name: Measure): number => Math.max(...cards.map(({ measures }) => measures?.[name] ?? 0), 1e-9);
  const most = Object.fromEntries(BARS.map((name) => [name, name === "sink" ? 1 : largest(name)])) as Record<Measure, number>;
  for (const { element, bars, measures, site, head } of cards) {
    const numbers = Object.fromEntries(BARS.map((name) => [name, measures ? shown(measures[name], 3) : "…"]));
    const text = app.say("overview.card", { site: app.siteName(app.trace.sites[site]!), head, ...numbers });
    element.setAttribute("aria-label", text);
    element.title = MEASURES.map((name) => `${app.say(`measure.${name}`)} ${measures ? shown(measures[name], 3) : "…"}`).join("\n");
    replace(bars, ...BARS.map((name) => {
      const fill = h("span", { className: `fill ${name}` });
      fill.style.width = `${Math.round(100 * Math.min(1, (measures?.[name] ?? 0) / most[name]))}%`;
      return h("span", { className: "measure" }, fill);
    }));
  }
}

async function draw(app: App, card: Card): Promise<void> {
  const answer = await app.provider.overview(card.site, card.head).catch(() => null);
  if (answer) await paint(app, card, answer).catch(() => undefined);
}

async function paint(app: App, card: Card, { codes, estimate }: Thumbnail): Promise<void> {
  const [scale, site] = [app.scale.peek(), app.trace.sites[card.site]!];
  const shifts = await shiftsOf(app.provider, card.site, card.head, site, scale);
  if (scale !== app.scale.peek()) return;
  app.unknown.value ||= codes.includes(UNKNOWN);
  const small = thumbnail(site, codes, app.theme.peek(), scale, shifts);
  card.canvas.width = small.width;
  card.canvas.height = small.height;
  card.canvas.getContext("2d")!.drawImage(small, 0, 0);
  card.canvas.toggleAttribute("data-estimate", estimate);
  card.canvas.dataset["drawn"] = "yes";
}
