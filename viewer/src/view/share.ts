/** Save and Copy link: the present view as a file, or as an address. */

import type { App } from "../app";
import { h, refill, replace } from "../dom";
import { fileName, modelOf, sentencesOf, viewName } from "../name";
import { download, gifFile, pngFile, svgFile } from "../save/film";
import { drawn, type Heading } from "../save/picture";
import { effect, signal } from "../signal";
import { isEmpty } from "../story/switching";
import { drawable } from "../story/tellable";
import { settled } from "../story/telling";

const KINDS = ["svg", "png", "gif"] as const;
type Kind = (typeof KINDS)[number];
/** Milliseconds for which a button says what it has done. */
const CONFIRMED = 2500;
/** Milliseconds that maps may take to be computed. */
const PATIENCE = 60_000;

/** `view` is the element of the present view. Frames of notebooks have no address, and may not hand out files. */
export function share(app: App, view: HTMLElement): HTMLElement {
  const element = h("div", { className: "share", hidden: !/^(https?|file):$/.test(location.protocol) });
  const menu = h("div", { className: "menu", role: "group", hidden: true });
  const fallback = h("dialog", { className: "help address" });
  const [opened, busy, done, failure] = [signal(false), signal<Kind | null>(null), signal<"copied" | "saved" | null>(null), signal("")];
  let forget: ReturnType<typeof setTimeout> | undefined;
  const report = (what: "copied" | "saved"): void => {
    clearTimeout(forget);
    done.value = what;
    app.said.value = app.say(what);
    forget = setTimeout(() => (done.value = null), CONFIRMED);
  };
  const save = async (kind: Kind): Promise<void> => {
    if (busy.peek()) return;
    [busy.value, failure.value] = [kind, ""];
    try {
      const file = await kept(app, view, kind);
      download(file, fileName(app, kind));
      if (menu.contains(document.activeElement)) element.querySelector("button")!.focus();
      opened.value = false;
      report("saved");
    } catch (error) {
      failure.value = app.failure(error);
    } finally {
      busy.value = null;
    }
  };
  const copy = async (): Promise<void> => {
    const address = location.href.split("#")[0] + app.hash;
    try {
      await navigator.clipboard.writeText(address);
      report("copied");
    } catch {
      // Pages that are not from a safe origin, and readers, may refuse.
      const field = h("input", { type: "text", readOnly: true, value: address, "aria-label": app.say("copy") });
      replace(fallback, h("h2", {}, app.say("copy")), h("p", {}, app.say("copy.refused")), field, h("button", { onclick: () => fallback.close() }, app.say("close")));
      fallback.setAttribute("aria-label", app.say("copy"));
      fallback.showModal();
      field.select();
    }
  };
  effect(() => {
    menu.hidden = !opened.value;
    menu.setAttribute("aria-label", app.say("save"));
    const kinds = KINDS.filter((kind) => kind !== "gif" || app.telling.value);
    refill(menu, ...kinds.map((kind) => h("button", { "aria-disabled": String(busy.value !== null), onclick: () => void save(kind) }, busy.value === kind ? app.say("saving") : app.say(`save.${kind}`))),
      failure.value ? h("p", { className: "warning", role: "alert" }, failure.value) : null);
  });
  effect(() => {
    refill(element,
      h("button", { className: "tab", "aria-expanded": String(opened.value), onclick: () => (opened.value = !opened.value) }, app.say(done.value === "saved" ? "saved" : "save")),
      menu,
      h("button", { className: "tab", onclick: () => void copy() }, app.say(done.value === "copied" ? "copied" : "copy")),
      fallback);
  });
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !opened.peek()) return;
    opened.value = false;
    element.querySelector("button")!.focus();
    event.stopPropagation();
  });
  document.addEventListener("pointerdown", ({ target }) => target instanceof Node && !element.contains(target) && busy.peek() === null && (opened.value = false));
  element.addEventListener("focusout", ({ relatedTarget }) => relatedTarget instanceof Node && !element.contains(relatedTarget) && (opened.value = false));
  return element;
}

/** The file of a view, which is laid out as a whole meanwhile: nothing scrolls, fades or waits. */
async function kept(app: App, view: HTMLElement, kind: Kind): Promise<Blob> {
  const root = view.closest<HTMLElement>(".foveate")!;
  const before = { word: app.word.peek(), cursor: app.cursor.peek() };
  root.style.minHeight = `${root.offsetHeight}px`;
  root.classList.add("saving");
  app.whole.value = true;
  try {
    const part = view.firstElementChild as HTMLElement;
    const [theme, heading, telling] = [app.theme.peek(), headingOf(app), app.telling.peek()];
    if (kind === "gif" && telling) {
      // Play, which may be in the middle of it, begins anew.
      app.telling.value = { ...telling };
      await settled();
      return await gifFile(part, heading, theme, telling);
    }
    await finished(app, view);
    const picture = drawn(part).framed(heading, theme);
    return kind === "svg" ? svgFile(picture) : await pngFile(picture);
  } finally {
    if (kind === "gif") {
      await app.telling.peek()?.show(null);
      [app.word.value, app.cursor.value] = [before.word, before.cursor];
    }
    app.whole.value = false;
    root.classList.remove("saving");
    root.style.minHeight = "";
  }
}

/** Whether all maps of heads are drawn, which otherwise are when they come into view. */
export async function finished(app: App, view: HTMLElement, patience = PATIENCE): Promise<void> {
  const end = performance.now() + patience;
  do {
    await new Promise((resolve) => setTimeout(resolve, 50));
    if (performance.now() > end) throw new Error(app.say("waiting"));
  } while (view.querySelector("canvas.thumbnail:not([data-drawn])") || view.querySelector(".waiting:not([hidden])")?.textContent === app.say("waiting"));
  await settled();
}

export function headingOf(app: App): Heading {
  const view = app.view.peek();
  const story = view === "story";
  const written = story && !drawable(app.sequence("key")) && !drawable(app.sequence("query"));
  const { heads } = app.current;
  const mean = view === "alignment" ? app.heads.peek() === "mean" : view === "compare" && app.against.peek()?.mean === true;
  const drawn = view === "text" && app.together.peek().length > 1 ? app.together.peek() : [app.head.peek()];
  const head = mean ? app.say("story.mean", { count: heads }) : `${app.say(drawn.length > 1 ? "text.heads" : "head").toLocaleLowerCase()} ${drawn.join(", ")}`;
  const where = [app.siteName(app.current), heads > 1 ? head : ""].filter(Boolean).join(", ");
  // A story with switches shows another answer than the one of the trace.
  const [model, sentences] = [modelOf(app.trace), sentencesOf(app).slice(0, story && !isEmpty(app.off.peek()) ? 1 : 2).join(" → ")];
  const title = [model, story && model ? "" : viewName(app, view)].filter(Boolean).join(" · ");
  return { spoken: [title, sentences].filter(Boolean).join(": "), title, text: written ? "" : sentences, note: ["story", "overview", "compare"].includes(view) ? "" : where };
}
