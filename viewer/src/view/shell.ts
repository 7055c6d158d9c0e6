/** The frame of the page: choices above, one view in the middle, the latest words below. */

import { openingOf, shown, VIEWS, type App, type View } from "../app";
import { choice, h, refill, replace } from "../dom";
import { modelOf, titleOf, viewName } from "../name";
import { effect, signal, untracked } from "../signal";
import { drawable, hasScenes, tellable } from "../story/tellable";
import { LANGUAGES, type Language } from "../strings/strings";
import { about } from "./about";
import { alignment } from "./alignment";
import { compare } from "./compare";
import { headLayer } from "./layer";
import { legend } from "./legend";
import { MapView } from "./map";
import { mini } from "./mini";
import { overview } from "./overview";
import { paper } from "./paper";
import { streams } from "./reach";
import { Reading, strongest } from "./reading";
import { run } from "./run";
import { scenes } from "./scenes";
import { search } from "./search";
import { share } from "./share";
import { steps } from "./steps";
import { story } from "./story";
import { text } from "./text";
import { unitOf } from "./units";

/** Where everything but the tabs waits behind "More", as the style sheet has it. */
const PHONE = "(max-width:600px)";

interface Shown {
  element: HTMLElement;
  close(): void;
  /** Whether a key of the keyboard means something here. */
  key?(event: KeyboardEvent): boolean;
}

export class Shell {
  private readonly body = h("main", { className: "view" });
  private readonly choices = h("div", { className: "controls" });
  private readonly help: HTMLDialogElement;
  private readonly finder: { element: HTMLElement; input: HTMLInputElement };
  /** Whether the reader asked for the choices, or had enough of them; the story and phones begin without. */
  private readonly wanted = signal<boolean | null>(null);
  private readonly narrow = signal(false);
  private readonly share: HTMLElement;
  private current: Shown | null = null;
  private map: MapView | null = null;

  constructor(
    root: HTMLElement,
    private readonly app: App,
  ) {
    root.classList.add("foveate");
    this.help = h("dialog", { className: "help" });
    this.finder = search(app, (query, key) => void this.go(query, key));
    this.share = share(app, this.body);
    const bar = h("header", { className: "bar" });
    const status = h("p", { className: "status", role: "status", "aria-live": "polite" });
    const told = about(app);
    const pedigree = h("span");
    const more = h("button", { className: "plain", onclick: told.open });
    const origin = h("p", { className: "pedigree" }, pedigree, " ", more);
    const footer = h("footer", { className: "foot" }, status, origin);
    const tools = h("section", { className: "tools" }, this.choices, this.finder.element);
    const gone = h("div", { className: "gone", role: "alert" });
    const page = root.parentElement === document.body;
    replace(root, bar, paper(app, root, this.body, page), tools, gone, this.body, footer, this.help, told.element);
    const phone = matchMedia(PHONE);
    this.narrow.value = phone.matches;
    phone.addEventListener("change", () => (this.narrow.value = phone.matches));
    effect(() => tools.setAttribute("aria-label", app.say("tools")));
    effect(() => {
      const retry = (): void => void app.provider.ping().then((back) => back && location.reload());
      if (app.provider.gone.value) replace(gone, h("span", {}, app.say("gone")), h("button", { onclick: retry }, app.say("retry")));
      else replace(gone);
    });
    effect(() => this.drawBar(bar));
    effect(() => this.drawTools());
    effect(() => (tools.hidden = !this.choosing));
    effect(() => {
      origin.hidden = app.embedded.value;
      bar.classList.toggle("unseen", app.embedded.value);
    });
    effect(() => {
      const view = app.view.value;
      // A story of words and one of a picture have nothing in common.
      if (view === "story") void [app.sequence("query"), app.sequence("key")];
      this.open(view);
    });
    effect(() => (status.textContent = app.said.value));
    effect(() => {
      pedigree.textContent = app.view.value === "story" ? "" : this.pedigree();
      more.textContent = app.say("about");
    });
    effect(() => {
      root.dataset["theme"] = app.theme.value;
      root.lang = app.language.value;
      root.dir = app.language.value === "fa" ? "rtl" : "ltr";
      if (page) [document.documentElement.lang, document.title] = [app.language.value, titleOf(app)];
    });
    // A viewer that is the page hears keys wherever the focus is; one among others only its own.
    (page ? document : root).addEventListener("keydown", (event) => this.key(event as KeyboardEvent));
  }

  private get choosing(): boolean {
    return !this.app.embedded.value && (this.wanted.value ?? (this.app.view.value !== "story" && !this.narrow.value));
  }

  private views(): View[] {
    const { trace, provider } = this.app;
    return VIEWS.filter((view) => (view !== "run" || (trace.attached === true && provider.attached)) && (view !== "scene" || hasScenes(trace)) && (view !== "story" || trace.sites.some((site) => tellable(trace, site))));
  }

  /** A view begins where it says most: an alignment looks across. */
  private turn(view: View): void {
    const { app } = this;
    const opening = openingOf(app.trace);
    if (view === "story" && !tellable(app.trace, app.current)) app.choose(opening.site, opening.head ?? 0);
    if (view === "alignment" && app.view.peek() !== view && app.current.kind !== "cross" && app.trace.sites[opening.site]!.kind === "cross") app.choose(opening.site, opening.head ?? app.head.value);
    app.view.value = view;
  }

  private drawBar(bar: HTMLElement): void {
    const { app } = this;
    const tabs = this.views().map((view) => h("button", { className: "tab", "aria-current": app.view.value === view ? "page" : null, onclick: () => this.turn(view) }, viewName(app, view)));
    const nav = h("nav", { "aria-label": app.say("title") }, ...tabs);
    const model = modelOf(app.trace);
    const more = h("button", { className: "tab more", "aria-expanded": String(this.choosing), onclick: () => (this.wanted.value = !this.choosing) }, app.say("more"));
    refill(bar, h("h1", {}, app.say("title"), model ? h("small", {}, h("bdi", {}, model)) : null), nav, this.share, more,
      this.choosing ? h("div", { className: "settings" },
        choice(app.say("theme"), (["auto", "light", "dark"] as const).map((name) => [name, app.say(`theme.${name}`)] as const), app.choice.value, (name) => (app.choice.value = name)),
        choice(app.say("language"), Object.entries(LANGUAGES) as [Language, string][], app.language.value, (name) => (app.language.value = name)),
        h("button", { onclick: () => this.openHelp(), title: "?" }, app.say("help"))) : null);
    // A row of tabs that scrolls shows the present one in its middle, once the page has its direction.
    const middle = (element: Element | null): number => (element ? element.getBoundingClientRect().left + element.clientWidth / 2 : NaN);
    requestAnimationFrame(() => (nav.scrollLeft += middle(nav.querySelector("[aria-current]")) - middle(nav) || 0));
  }

  /** One head, in place of the mean where that is shown. */
  private chooseHead(head: number): void {
    const { app } = this;
    if (app.view.value === "story" || app.view.value === "alignment") app.heads.value = "one";
    app.choose(app.site.value, head);
  }

  private drawTools(): void {
    const { app } = this;
    const sites = app.trace.sites.map((site, at) => [String(at), app.siteName(site)] as const);
    const told = app.view.value === "story";
    const numbers = Array.from({ length: app.current.heads }, (_, head) => [String(head), String(head)] as const);
    const against = app.view.value === "compare" ? app.against.value : null;
    const heads = (told || against) && numbers.length > 1 ? [["mean", app.say("alignment.mean")] as const, ...numbers] : numbers;
    const mean = numbers.length > 1 && (told ? app.heads.value === "mean" : against?.mean === true);
    const chooseHead = (name: string): void => {
      if (told && name === "mean") app.heads.value = "mean";
      if (against) app.against.value = { ...against, mean: name === "mean" };
      if (name !== "mean") this.chooseHead(Number(name));
    };
    const has = (level: "words" | "sentences"): boolean => Boolean(app.sequence("query")?.[level] ?? app.sequence("key")?.[level]);
    const cells = (["token", "word", "sentence"] as const).filter((name) => name === "token" || has(`${name}s`));
    const changeCells = (name: (typeof cells)[number]): void => {
      app.cells.value = name;
      app.camera.value = null;
    };
    refill(this.choices,
      choice(app.say("site"), sites, String(app.site.value), (site) => app.choose(Number(site), app.head.value)),
      choice(app.say("head"), heads, mean ? "mean" : String(app.head.value), chooseHead),
      told && !drawable(app.sequence("key")) ? null : choice(app.say("scale"), app.tints.map((name) => [name, app.say(`scale.${name}`)] as const), app.tint, (name) => app.colour(name)),
      told ? null : choice(app.say("pool"), (["peak", "mass"] as const).map((name) => [name, app.say(`pool.${name}`)] as const), app.pool.value, (name) => (app.pool.value = name)),
      !told && (cells.length > 1 || app.cells.value !== "token") ? choice(app.say("cells"), cells.map((name) => [name, app.say(`cells.${name}`)] as const), app.cells.value, changeCells) : null);
  }

  private open(view: View): void {
    untracked(() => {
      this.current?.close();
      this.map = null;
      this.current = this.make(view);
      replace(this.body, this.current.element);
      this.body.dataset["view"] = view;
    });
  }

  private make(view: View): Shown {
    switch (view) {
      case "story":
        return story(this.app);
      case "overview":
        return overview(this.app);
      case "text":
        return text(this.app);
      case "alignment":
        return alignment(this.app);
      case "scene":
        return this.views().includes("scene") ? scenes(this.app) : this.mapView();
      case "steps":
        return steps(this.app);
      case "compare":
        return compare(this.app);
      case "run":
        if (this.views().includes("run")) return run(this.app);
        return this.mapView();
      case "map":
        return this.mapView();
    }
  }

  private mapView(): Shown {
    const { app } = this;
    const layer = () => headLayer(app.provider, app.site.value, app.head.value, app.cells.value, { scale: app.scale.value, theme: app.theme.value, pool: app.pool.value });
    const map = new MapView(app, layer, app.say("map.label"));
    const reading = new Reading(app, (query, key) => map.hoverAt(unitOf(app, "query", query), unitOf(app, "key", key)));
    const small = mini(app, map.begun, (x, y) => map.look({ x, y, zoom: app.camera.value?.zoom ?? 1 }));
    const waiting = h("p", { className: "waiting", hidden: true }, app.say("waiting"));
    map.onwaiting = (is, estimated) => {
      waiting.hidden = !is;
      waiting.textContent = app.say(estimated ? "estimate" : "waiting");
      if (!is) reading.again();
    };
    let last = "";
    map.onhover = (hover) => {
      const name = hover ? `${hover.query}/${hover.key}/${hover.level}` : "";
      if (name === last) return;
      last = name;
      void reading.read(hover);
    };
    this.map = map;
    const buttons = h("div", { className: "zoom", role: "group", "aria-label": app.say("map.mini") },
      h("button", { onclick: () => map.zoom(2), "aria-label": app.say("nearer"), title: app.say("nearer") }, "+"),
      h("button", { onclick: () => map.zoom(0.5), "aria-label": app.say("farther"), title: app.say("farther") }, "−"),
      h("button", { onclick: () => map.fit(), "aria-label": app.say("fit"), title: app.say("fit") }, "⤢"));
    const element = h("section", { className: "mapview", "aria-label": app.say("view.map") }, h("div", { className: "stage" }, map.element, buttons, waiting), legend(app, { ahead: () => streams(app) }));
    reading.element.append(small.element);
    const both = h("div", { className: "withreading" }, element, reading.element);
    return {
      element: both,
      close: () => {
        map.close();
        reading.close();
        small.close();
      },
    };
  }

  /** To a found token: as a key, with the query that looks at it in view; its own row where the map is square. */
  private async go(query: number | null, key: number | null): Promise<void> {
    const { app } = this;
    if (!["map", "compare"].includes(app.view.value)) app.view.value = "map";
    await Promise.resolve();
    const at = app.cursor.value;
    const to = { query: query ?? (app.current.query === app.current.key ? key! : (at?.query ?? 0)), key: key ?? 0 };
    if (key === null) {
      const row = await app.provider.row(app.site.value, app.head.value, to.query).catch(() => null);
      to.key = row ? (strongest(row, 1)[0] ?? 0) : 0;
    }
    app.cursor.value = to;
    this.map?.show(to.query, to.key);
  }

  private key(event: KeyboardEvent): void {
    const { app } = this;
    const typing = event.target instanceof HTMLElement && event.target.matches("input,textarea,select");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || this.body.closest(".foveate.saving,.foveate:has(dialog[open])")) return;
    const views = this.views();
    const actions: Record<string, () => void> = {
      "?": () => this.openHelp(),
      "/": () => this.finder.input.focus(),
      "[": () => this.chooseHead(app.head.value - 1),
      "]": () => this.chooseHead(app.head.value + 1),
      "{": () => app.choose(app.site.value - 1, app.head.value),
      "}": () => app.choose(app.site.value + 1, app.head.value),
      c: () => app.nextScale(),
      p: () => (app.pool.value = app.pool.value === "peak" ? "mass" : "peak"),
    };
    VIEWS.forEach((view, at) => views.includes(view) && (actions[String(at)] = () => this.turn(view)));
    if (event.target instanceof HTMLCanvasElement) actions["Enter"] = () => (app.view.value = "steps");
    const action = actions[event.key];
    if (!action && !this.current?.key?.(event)) return;
    event.preventDefault();
    action?.();
  }

  private openHelp(): void {
    const { app } = this;
    const lines = (["arrows", "zoom", "head", "find", "scale", "brush", "steps", "walk", "scene", "sound", "play", "views"] as const).map((name) => h("li", {}, app.say(`keys.${name}`)));
    replace(this.help, h("h2", {}, app.say("keys.title")), h("ul", {}, ...lines), h("button", { onclick: () => this.help.close() }, app.say("close")));
    this.help.setAttribute("aria-label", app.say("help"));
    this.help.showModal();
  }

  private pedigree(): string {
    const { app } = this;
    const { dtype } = app.trace.pedigree;
    // Numbers that are not finite come as text.
    const measured = (name: "difference" | "rounding"): string => {
      const value = app.trace.pedigree[name] ?? null;
      return value === null ? "" : app.say(name, { value: shown(Number(value), 3) });
    };
    const shows = app.current.shows;
    return [
      brief(app.current.formula),
      shows === "exact" ? "" : app.say(`shows.${shows}`),
      app.current.drawn ? app.say("shows.drawn") : "",
      app.current.posterior ? app.say("shows.posterior") : "",
      app.current.formula.includes(app.current.visibility.code) ? "" : brief(app.current.visibility.code),
      dtype ?? "",
      measured("difference"),
      measured("rounding"),
    ].filter(Boolean).join(" · ");
  }
}

/** A rule may list every edge of a graph. */
const brief = (text: string): string => (text.length > 120 ? `${text.slice(0, 118)} …` : text);
