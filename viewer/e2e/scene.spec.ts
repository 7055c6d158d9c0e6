import { AxeBuilder } from "@axe-core/playwright";
import { expect, test, type Page } from "@playwright/test";
import { Engine } from "../src/engine/engine";
import { assemble, parse } from "../src/engine/payload";
import { golden } from "../test/stored";
import { address, framed, widgetModule } from "./pages";
import { lecture } from "./trace";

async function visit(page: Page, name: string, hash = "#view=scene"): Promise<string[]> {
  const strangers: string[] = [];
  page.on("request", (request) => !/^(blob|data):/.test(request.url()) && request.url().split("#")[0] !== address(name) && strangers.push(request.url()));
  page.on("pageerror", (error) => strangers.push(String(error)));
  page.on("console", (message) => message.type() === "error" && strangers.push(message.text()));
  await page.goto(address(name) + hash);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  return strangers;
}

const engine = (name: string): Engine => {
  const { trace, tensors } = golden(name);
  return new Engine(parse(assemble(trace, tensors)));
};
async function truth(name: string, query: number, key: number): Promise<string> {
  const { weight } = await engine(name).value(0, 0, query, key);
  return weight < 1e-4 ? weight.toExponential(2).replace("-", "−") : String(Number(weight.toPrecision(4)));
}
const scene = (page: Page) => page.locator("canvas.scene").first();
const status = (page: Page) => page.locator("p[role=status]");
const colourAt = (page: Page, x: number, y: number) => scene(page).evaluate((canvas: HTMLCanvasElement, at) => Array.from(canvas.getContext("2d")!.getImageData(at[0]!, at[1]!, 1, 1).data.slice(0, 3)), [x, y]);

test("what a patch looks at lies as light on the picture", async ({ page }) => {
  const strangers = await visit(page, "patches", "#view=scene&scale=linear&query=9&key=0");
  await expect(page.getByRole("button", { name: "Picture", exact: true })).toHaveAttribute("aria-current", "page");
  const row = await engine("patches").row(0, 0, 9);
  const [best, least] = [row.indexOf(Math.max(...row.slice(1))), row.indexOf(Math.min(...row.slice(1)))];
  const middle = (patch: number): [number, number] => [38 + (((patch - 1) % 6) + 0.5) * (560 / 6), (Math.floor((patch - 1) / 6) + 0.5) * (560 / 6)];
  const bright = async (patch: number): Promise<number> => Math.max(...(await colourAt(page, ...middle(patch))));
  await expect.poll(async () => (await bright(best)) - (await bright(least))).toBeGreaterThan(40);
  await scene(page).click({ position: { x: middle(best)[0], y: middle(best)[1] }, modifiers: ["Shift"] });
  await expect(page.locator(".reading .weight")).toHaveText(await truth("patches", 9, best));
  await scene(page).hover({ position: { x: 15, y: 15 } });
  await expect(page.locator(".reading .pair")).toContainText("[class]");
  await expect(page.locator(".reading .weight")).toHaveText(await truth("patches", 9, 0));
  expect(strangers).toEqual([]);
});

test("arrows go from patch to patch, and the query can be stepped through", async ({ page }) => {
  await visit(page, "patches", "#view=scene&query=1&key=1");
  await scene(page).focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Shift+ArrowDown");
  await expect(status(page)).toContainText("1,1 looks at 1,0");
  expect(page.url()).toContain("query=8&key=7");
  await page.getByRole("button", { name: "Query after" }).click();
  await expect(page.locator(".which").first()).toHaveText("query 9: 1,2");
  await page.getByRole("button", { name: "Play" }).click();
  await expect(page.locator(".which").first()).not.toHaveText("query 9: 1,2");
  await page.getByRole("button", { name: "Stop" }).click();
});

test("a letter lights up the seconds that it was heard at", async ({ page }) => {
  const strangers = await visit(page, "frames", "#view=scene&scale=linear");
  await expect(page.getByRole("button", { name: "Sound", exact: true })).toBeVisible();
  await page.locator(".tokens").getByRole("button", { name: "o" }).click();
  await expect(page.locator(".sceneview p.note")).toContainText(/looks most at 1\.\d\d s/);
  const width = (await scene(page).boundingBox())!.width;
  await scene(page).click({ position: { x: (36.5 * width) / 40, y: 120 } });
  await expect(page.locator(".reading .weight")).toHaveText(await truth("frames", 4, 36));
  await expect(page.locator(".reading .pair")).toContainText("1.44 s");
  const bar = async (frame: number): Promise<number[]> => colourAt(page, Math.round(((frame + 0.5) * width) / 40), 265);
  await expect.poll(() => bar(36)).toEqual([213, 94, 0]);
  expect(await bar(4)).not.toEqual([213, 94, 0]);
  expect(strangers).toEqual([]);
});

test("a node looks along its edges, and at nobody else", async ({ page }) => {
  const strangers = await visit(page, "nodes", "#view=scene&query=2&key=3");
  await expect(page.getByRole("button", { name: "Graph", exact: true })).toBeVisible();
  await expect(page.locator(".reading .weight")).toHaveText(await truth("nodes", 2, 3));
  await scene(page).focus();
  const before = page.url();
  await page.keyboard.press("ArrowRight");
  await expect.poll(() => page.url()).not.toBe(before);
  await page.goto(`${address("nodes")}#view=scene&query=0&key=7`);
  await page.reload();
  await expect(status(page)).toHaveText("Ada may not look at Hà.");
  expect(strangers).toEqual([]);
});

test("a molecule shows its bonds, what several layers carry, and what the read-out looks at", async ({ page }) => {
  const strangers = await visit(page, "molecule", "#view=scene");
  await expect(page.locator(".which").first()).toHaveText("query 6: C");
  await expect(page.locator(".sceneview p.note")).toContainText("C: atom 6.");
  const drawn = () => scene(page).evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
  const own = await drawn();
  await page.getByLabel("Edges").selectOption("over 2 layers");
  await expect(page.locator(".sceneview p.note")).toContainText("multiplied along the paths of 2 layers");
  await expect.poll(drawn).not.toBe(own);
  const two = await drawn();
  await page.getByLabel("Edges").selectOption("all");
  await expect.poll(drawn).not.toBe(two);
  await page.getByLabel("Site").selectOption("readout");
  await expect(page.getByLabel("Edges")).toHaveCount(0);
  await expect(page.locator(".tokens").getByRole("button")).toHaveText("solubility −1.68");
  const { trace, tensors } = golden("molecule");
  const row = await new Engine(parse(assemble(trace, tensors))).row(2, 0, 0);
  await expect(page.locator(".reading .number").nth(1)).toHaveText(String(Number(Math.max(...row).toPrecision(4))));
  expect(strangers).toEqual([]);
});

for (const name of ["patches", "frames", "nodes", "molecule"]) {
  test(`a scene of ${name} is the same at every visit, and axe finds nothing in it`, async ({ page }) => {
    test.slow();
    const drawn: string[] = [];
    for (const theme of ["light", "light", "dark"]) {
      await page.goto("about:blank");
      await visit(page, name, `#view=scene&query=3&key=2&theme=${theme}`);
      await expect(page.locator(".sceneview p.note")).toContainText("looks most at");
      drawn.push(await scene(page).evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL()));
      if (drawn.length === 1) continue;
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
    }
    expect(drawn[0] === drawn[1]).toBe(true);
  });
}

test("a scene tells single weights, whatever the cells of the map are", async ({ page }) => {
  await visit(page, "captioned", "#view=scene&cells=word&query=0&key=0");
  await expect(page.locator(".reading h2")).toHaveText("▁a → 0,0");
  await expect(page.locator(".reading .weight")).toHaveText(/^0\.\d+$/);
  await expect(page.locator(".reading")).not.toContainText("…");
});

test("a trace of texts has no picture to show", async ({ page }) => {
  await visit(page, "lecture", "#view=scene");
  await expect(page.getByRole("application")).toBeVisible();
  await expect(page.getByRole("button", { name: "Picture" })).toHaveCount(0);
});

test("in a notebook's widget the frame is sandboxed and every number comes through its port", async ({ page }) => {
  const { trace, tensors } = lecture();
  const python = new Engine({ trace, tensors: tensors.map((named) => new Map(Object.entries(named))) });
  const asked: string[] = [];
  // What `foveate.inspect.notebook.Answers` does, by the engine that was held against it.
  await page.exposeFunction("askPython", async (method: string, args: unknown[]) => {
    asked.push(method);
    const value = await (python as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>)[method]!(...args);
    const array = method === "overview" ? (value as { codes: Uint16Array }).codes : value;
    if (!ArrayBuffer.isView(array)) return { value };
    const kind = array.constructor.name.replace("Array", "").toLowerCase();
    return { array: kind, bytes: Array.from(new Uint8Array(array.buffer, array.byteOffset, array.byteLength)), ...(method === "overview" ? { thumbnail: { estimate: false } } : {}) };
  });
  const strangers: string[] = [];
  page.on("request", (request) => !/^(blob|data|about):/.test(request.url()) && strangers.push(request.url()));
  page.on("pageerror", (error) => strangers.push(String(error)));
  await page.evaluate(async ([source, html]) => {
    const { default: widget } = await import(URL.createObjectURL(new Blob([source!], { type: "text/javascript" })));
    const ears: ((content: unknown, buffers: DataView[]) => void)[] = [];
    const state: Record<string, unknown> = { page: html, height: 700, site: 0, head: 0, cursor: null };
    const watched: [string, () => void][] = [];
    const set = (name: string, value: unknown): void => {
      const same = JSON.stringify(state[name]) === JSON.stringify(value);
      state[name] = value;
      if (!same) for (const [event, told] of watched) if (event === `change:${name}`) told();
    };
    const model = {
      get: (name: string) => state[name],
      set,
      save_changes: () => undefined,
      on: (event: string, hear: never) => (event === "msg:custom" ? ears.push(hear) : watched.push([event, hear])),
      off: () => undefined,
      send: async ({ id, method, args }: { id: string; method: string; args: unknown[] }) => {
        if (!method) return;
        const { bytes, ...told } = await (globalThis as unknown as { askPython(method: string, args: unknown[]): Promise<{ bytes?: number[] }> }).askPython(method, args);
        // Jupyter's buffers begin anywhere within a message.
        const buffers = bytes ? [new DataView(Uint8Array.from([0, ...bytes]).buffer, 1)] : [];
        for (const hear of ears) hear({ id, ...told }, buffers);
      },
    };
    Object.assign(globalThis, { notebook: { state, set } });
    widget.render({ model, el: document.body });
  }, [widgetModule(), framed()] as const);
  const frame = page.locator("iframe");
  await expect(frame).toHaveAttribute("sandbox", "allow-scripts");
  const inside = page.frameLocator("iframe");
  await inside.getByRole("button", { name: "Overview" }).click();
  await inside.getByRole("button", { name: /^encoder\.0\.self_attention, head 0: [^;]*; entropy 0/ }).click();
  await inside.getByRole("application").press("ArrowDown");
  await expect(inside.locator(".reading .weight")).not.toBeEmpty();
  await inside.getByRole("button", { name: "Steps" }).click();
  await expect(inside.locator(".step").first()).toBeVisible();
  const state = () => page.evaluate(() => (globalThis as unknown as { notebook: { state: object } }).notebook.state);
  await expect.poll(state).toMatchObject({ site: 0, head: 0, cursor: [1, 1] });
  await page.evaluate(() => {
    const { set } = (globalThis as unknown as { notebook: { set(name: string, value: unknown): void } }).notebook;
    set("site", 2);
    set("cursor", [1, 0]);
  });
  await expect(inside.getByLabel("Site")).toHaveValue("2");
  await expect(inside.getByLabel("Query number")).toHaveValue("1");
  await expect.poll(state).toMatchObject({ site: 2, cursor: [1, 0] });
  expect(new Set(asked)).toEqual(new Set(["meta", "statistics", "overview", "tile", "value", "row", "numbers"]));
  expect(strangers).toEqual([]);
});
