/** The door: `mount(element, provider)`. A page that says where its trace is gets a viewer by itself. */

import "./style.css";
import { App } from "./app";
import { Cached } from "./cached";
import { h, replace } from "./dom";
import { follow } from "./follow";
import { GoneError, HttpProvider } from "./http";
import { found, open } from "./open";
import type { TileProvider } from "./provider";
import { preferred, spoken } from "./strings/strings";
import { Shell } from "./view/shell";

export async function mount(element: HTMLElement, provider: TileProvider, second?: TileProvider): Promise<App> {
  element.setAttribute("aria-busy", "true");
  const cached = new Cached(provider);
  try {
    const trace = await cached.meta();
    if (!trace.sites.length) throw new Error(spoken(preferred(navigator.languages), "empty"));
    const beside = second ? new Cached(second) : trace.beside ? cached.other(trace.beside) : null;
    const app = new App(cached, trace, beside && { provider: beside, trace: await beside.meta() });
    new Shell(element, app);
    return app;
  } catch (error) {
    const message = error instanceof GoneError ? spoken(preferred(navigator.languages), "gone") : error instanceof Error ? error.message : String(error);
    element.classList.add("foveate");
    replace(element, h("main", {}, h("h1", {}, "Foveate"), h("p", { role: "alert", className: "warning" }, message)));
    throw error;
  } finally {
    element.removeAttribute("aria-busy");
  }
}

declare global {
  var foveate: { mount: typeof mount; open: typeof open; HttpProvider: typeof HttpProvider };
}
globalThis.foveate = { mount, open, HttpProvider };

function start(): void {
  const root = document.getElementById("foveate");
  if (!root) return;
  void found(root).then(async (here) => {
    if (!here) return;
    const app = await mount(root, here.provider, here.beside);
    if (here.notebook) follow(app, here.notebook.port, here.notebook.place);
  });
}
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
