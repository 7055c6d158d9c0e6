/** What is printed: the view at the width of the paper, in light colours, below the names of the model, the view and the sentence. */

import type { App } from "../app";
import { h, replace } from "../dom";
import { modelOf, sentencesOf, viewName } from "../name";
import { effect } from "../signal";
import { finished, headingOf } from "./share";

/** Milliseconds for which a command to print waits for maps. */
const PATIENCE = 3000;

/** `page`: whether the viewer is the whole page, whose command to print waits until everything is drawn. */
export function paper(app: App, root: HTMLElement, view: HTMLElement, page: boolean): HTMLElement {
  const letterhead = h("div", { className: "letterhead" });
  const lay = (on: boolean): void => {
    root.classList.toggle("printing", on);
    app.printing.value = on ? app.printing.peek() + 1 : 0;
  };
  // Some browsers lay out pages before they say that they print, others after.
  addEventListener("beforeprint", () => lay(true));
  addEventListener("afterprint", () => lay(false));
  const printed = matchMedia("print");
  printed.addEventListener("change", () => lay(printed.matches));
  effect(() => {
    const title = [modelOf(app.trace), viewName(app, app.view.value)].filter(Boolean).join(" · ");
    void [app.site.value, app.head.value, app.heads.value, app.language.value];
    replace(letterhead, h("p", {}, h("strong", {}, title), h("span", {}, headingOf(app).note)), ...sentencesOf(app).map((text) => h("p", { dir: "auto" }, text)));
  });
  const print = async (): Promise<void> => {
    app.whole.value = true;
    try {
      await finished(app, view, PATIENCE).catch(() => undefined);
      globalThis.print();
    } finally {
      app.whole.value = false;
    }
  };
  // In a frame, the command means the page around it.
  if (page && globalThis.parent === globalThis.self)
    document.addEventListener("keydown", (event) => {
      if (event.key.toLowerCase() !== "p" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      void print();
    });
  return letterhead;
}
