/** What a reader meets: true numbers, doors that agree, legends, what answers a pointer, phones, paper, a server that ends. */

import { AxeBuilder } from "@axe-core/playwright";
import { expect, test, type Page } from "@playwright/test";
import { Engine } from "../src/engine/engine";
import { address } from "./pages";
import { served, type Served } from "./server";
import { causal, layers, lecture } from "./trace";

const [LEFT, TOP] = [112, 96];
const map = (page: Page) => page.locator("canvas.map");
const reading = (page: Page) => page.locator(".reading");
const settled = (page: Page) => expect(page.locator(".waiting")).toBeHidden();
async function visit(page: Page, name: string, hash = ""): Promise<void> {
  await page.goto("about:blank");
  await page.goto(address(name) + hash);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
}
const engine = ({ trace, tensors }: ReturnType<typeof causal>): Engine => new Engine({ trace, tensors: tensors.map((named) => new Map(Object.entries(named))) });
/** The colour of a cell of a map that is fitted whole. */
const painted = (page: Page, rows: number, columns: number, row: number, column: number) =>
  map(page).evaluate((canvas: HTMLCanvasElement, [rows, columns, row, column, left, top]) => {
    const frame = { width: canvas.clientWidth - left, height: canvas.clientHeight - top };
    const zoom = Math.min((frame.width - 12) / columns, (frame.height - 12) / rows, 64);
    const [x, y] = [left + frame.width / 2 + (column + 0.3 - columns / 2) * zoom, top + frame.height / 2 + (row + 0.3 - rows / 2) * zoom];
    return Array.from(canvas.getContext("2d")!.getImageData(Math.round(x), Math.round(y), 1, 1).data.slice(0, 3));
  }, [rows, columns, row, column, LEFT, TOP] as const);

test("a word that is looked at more than its share is painted so, and its lift is told", async ({ page }) => {
  await visit(page, "pieces", "#view=map&site=1&cells=word&scale=lift&theme=light&query=0&key=0");
  await settled(page);
  // Two words: the share of "unbelievable" is three of five pieces.
  const told = async (): Promise<[string, string]> => {
    const [weight, lift] = await Promise.all([reading(page).locator("dd").first().textContent(), reading(page).locator(".celllift").textContent()]);
    return [lift ?? "", String(Number((Number(weight) / 0.6).toPrecision(3)))];
  };
  await expect.poll(async () => { const [lift, expected] = await told(); return lift === expected && Number(lift) > 1; }).toBe(true);
  await expect.poll(async () => (await painted(page, 2, 2, 0, 0))[0]).toBeGreaterThan(200);
  const [red, , blue] = await painted(page, 2, 2, 0, 0);
  expect(red! - blue!).toBeGreaterThan(10);
  const [other, , cold] = await painted(page, 2, 2, 0, 1);
  expect(cold! - other!).toBeGreaterThan(10);
});

test("a map that opens with a cursor knows its level, and ranks are among the visible keys", async ({ page }) => {
  await visit(page, "causal", "#view=map&query=2&key=1");
  await expect(reading(page)).toContainText("0: single weights");
  await expect(reading(page)).toContainText(/rank\d of 3lift/);
  await expect(reading(page)).not.toContainText("NaN");
  await map(page).focus();
  for (let n = 0; n < 2; n++) await page.keyboard.press("+");
  await expect(reading(page)).toContainText("0: single weights");
  await page.keyboard.press("Escape");
  await expect(reading(page)).toContainText("Point at the map");
});

test("the level that is told is the one that is drawn", async ({ page }) => {
  await visit(page, "needle", "#view=map&query=30100&key=29973");
  await expect(reading(page)).toContainText("128 × 128 weights a cell");
  await page.getByRole("button", { name: "Nearer" }).click();
  await expect(reading(page)).toContainText("64 × 64 weights a cell");
});

test("what is not a number is neither hidden nor a weight, and the legend says so", async ({ page }) => {
  await visit(page, "odd", "#view=map&query=1&key=0&theme=light");
  await settled(page);
  await expect(reading(page).locator(".weight")).toHaveText("NaN");
  await expect(page.locator("p[role=status]")).toContainText("b → aaa");
  await expect(page.locator("p[role=status]")).toContainText("not a number");
  await expect(page.locator(".legend")).toContainText("not a number");
  await expect(page.locator(".strongest")).toContainText("the weights are not numbers");
  await expect(page.locator(".pedigree")).toContainText("largest difference between run and the weights shown: NaN");
  await expect.poll(() => painted(page, 5, 5, 1, 0)).toEqual([194, 0, 122]);
  expect(await painted(page, 5, 5, 0, 0)).not.toEqual([194, 0, 122]);
  await visit(page, "lecture", "#view=map");
  await settled(page);
  await expect(page.locator(".legend")).not.toContainText("not a number");
});

test("every view opens at what the model aligns with", async ({ page }) => {
  for (const [view, heads] of [["map", null], ["text", null], ["alignment", "one"], ["steps", null]] as const) {
    await visit(page, "layers", `#view=${view}`);
    await expect(page.getByLabel("Site")).toHaveValue("0");
    await expect(page.getByLabel("Head", { exact: true })).toHaveValue("1");
    if (heads) await expect(page.getByLabel("Heads")).toHaveValue(heads);
  }
  await visit(page, "layers", "#view=overview");
  await expect(page.locator(".card[aria-current=true]")).toHaveCount(1);
  await visit(page, "pieces", "#view=alignment");
  await expect(page.getByLabel("Site")).toHaveValue("1");
  await expect(page.getByLabel("Heads")).toHaveValue("mean");
});

test("Persian steps are Persian, and their numbers stand from left to right", async ({ page }) => {
  for (const [language, letters] of [["fa", /[\u0600-\u06ff]/], ["ru", /[\u0400-\u04ff]/], ["zh", /[\u4e00-\u9fff]/]] as const) {
    await visit(page, "causal", `#view=steps&query=3&step=all&language=${language}`);
    await expect(page.locator(".step").first()).toBeVisible();
    const said = await page.locator(".step > p:not(.single)").allTextContents();
    expect(said.length).toBeGreaterThan(5);
    for (const sentence of said) expect(sentence).toMatch(letters);
  }
  await visit(page, "causal", "#view=steps&query=3&step=all&language=fa");
  await expect(page.locator(".step").first()).toBeVisible();
  const numbers = page.locator(".step td.number");
  expect((await numbers.allTextContents()).join(" ")).toMatch(/^[^-]*−[^-]*$/);
  for (const box of ["td.number", ".single bdi", ".formula", "h3 bdi", ".scroll"]) for (const each of await page.locator(`.step ${box}`).all()) expect(await each.evaluate((element) => getComputedStyle(element).direction)).toBe("ltr");
  await expect(page.locator("h2 small bdi")).toHaveAttribute("dir", "ltr");
});

test("text says how much of it is shown, answers the pointer, and lets a query go", async ({ page }) => {
  await visit(page, "causal", "#view=text&scale=linear&query=100&key=0");
  await expect(page.locator(".part")).toHaveText("Shown: queries 48–127 of 128, keys 0–79 of 128.");
  await expect(page.locator(".running .token")).toHaveCount(128);
  await expect(page.locator(".running .hiddentoken")).toHaveCount(27);
  await expect(page.locator(".textview button.token[aria-pressed=true]")).toHaveText("▁w100");
  await page.keyboard.press("Escape");
  await page.locator(".textview button.token[aria-pressed=true]").focus();
  await page.keyboard.press("Escape");
  await expect(page.locator(".textview button.token[aria-pressed=true]")).toHaveCount(0);
  const token = page.locator(".targets").getByRole("button", { name: "▁w20", exact: true });
  await token.click();
  await expect(page.locator(".textview button.token[aria-pressed=true]")).toHaveText("▁w20");
  await page.locator(".textview button.token[aria-pressed=true]").click();
  await expect(page.locator(".textview button.token[aria-pressed=true]")).toHaveCount(0);
  await page.mouse.move(0, 0);
  const lines = () => page.locator("canvas.lines").evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
  const before = await lines();
  await page.locator(".targets").getByRole("button", { name: "▁w5", exact: true }).hover();
  await expect.poll(lines).not.toBe(before);
  await expect(page.locator(".which")).toHaveText("Query: ▁w5");
  await expect(page.locator(".running .hiddentoken")).toHaveCount(122);
});

test("every view explains its colours", async ({ page }) => {
  for (const [name, hash, words] of [
    ["lecture", "view=overview", "from nothing to all of the attention"],
    ["lecture", "view=map", "hidden from the query"],
    ["lecture", "view=text", "blue lines: weights"],
    ["persian", "view=alignment", "orange: links by the chosen rulegreen: gold links"],
    ["lecture", "view=steps", "from nothing to all of the attention"],
    ["lecture", "view=compare", "orange: the first weighs more"],
    ["patches", "view=scene", "to the largest weight of this row"],
    ["frames", "view=scene", "to the largest weight of this row"],
    ["nodes", "view=scene", "to the largest weight of this row"],
  ] as const) {
    await visit(page, name, `#${hash}`);
    await expect(page.locator(".legend", { hasText: words }).first(), `${name} ${hash}`).toBeVisible();
  }
});

test("the words and the cells of an alignment answer", async ({ page }) => {
  await visit(page, "layers", "#view=alignment");
  const row = await engine(layers()).row(0, 1, 1);
  const best = row.indexOf(Math.max(...row));
  const word = page.locator(".targets").getByRole("button", { name: "chat" });
  await word.click();
  await expect(word).toHaveAttribute("aria-pressed", "true");
  await expect(page.locator(".pairline")).toContainText(`chat → ${["the", "black", "cat", "."][best]} ${Number(row[best]!.toPrecision(3))}`);
  await word.click();
  await expect(word).toHaveAttribute("aria-pressed", "false");
  const matrix = page.locator(".matrix");
  const box = (await matrix.boundingBox())!;
  await matrix.hover({ position: { x: box.width - 8 - 13 - 26, y: box.height - 8 - 13 - 2 * 26 } });
  await expect(page.locator(".pairline")).toHaveText(/^chat looks at cat: weight 0\.\d+, lift \d/);
});

test("an overview shows each head by itself, or lifts, and few heads fill it", async ({ page }) => {
  await visit(page, "causal", "#view=overview");
  await expect(page.getByLabel("Colours")).toHaveValue("contrast");
  await expect(page.locator(".legend")).toContainText("each head by itself");
  const card = page.locator(".thumbnail").first();
  await expect(card).toHaveAttribute("data-drawn", "yes");
  expect((await card.boundingBox())!.width).toBeGreaterThan(200);
  // The first query sees itself alone: an equal share, in the neutral colour.
  const corner = () => card.evaluate((canvas: HTMLCanvasElement) => Array.from(canvas.getContext("2d")!.getImageData(0, 0, 1, 1).data.slice(0, 3)));
  const contrasted = await corner();
  await page.getByLabel("Colours").selectOption("lift");
  await expect(page.locator(".legend")).toContainText("1 = looks everywhere equally");
  await expect.poll(corner).not.toEqual(contrasted);
  const lifted = await corner();
  await page.getByLabel("Colours").selectOption("log");
  await expect.poll(corner).not.toEqual(lifted);
});

test("a picture is read by its shares, a long text by where it looks more than anywhere", async ({ page }) => {
  for (const [name, scale] of [["patches", "linear"], ["frames", "linear"], ["nodes", "linear"], ["lecture", "linear"], ["causal", "lift"]] as const) {
    await visit(page, name, "#view=map");
    await expect(page.getByLabel("Colours")).toHaveValue(scale);
  }
});

test("a label of 5,000 letters is cut where one sees it", async ({ page }) => {
  await visit(page, "odd", "#view=text");
  await expect(page.locator(".sources .token").first()).toHaveText(/^a{63}…$/);
  await expect(page.locator(".running .token").first()).toHaveText(/^a{63}…$/);
});

test("buttons cover no cell of the map", async ({ page }) => {
  await visit(page, "chinese", "#view=map");
  const [canvas, buttons] = [(await map(page).boundingBox())!, (await page.locator(".zoom").boundingBox())!];
  expect(buttons.x + buttons.width).toBeLessThanOrEqual(canvas.x + LEFT);
  expect(buttons.y + buttons.height).toBeLessThanOrEqual(canvas.y + TOP);
  await visit(page, "chinese", "#view=map&language=fa");
  expect((await page.locator(".zoom").boundingBox())!.x).toBeLessThan((await map(page).boundingBox())!.x + LEFT);
});

test("on a phone no line of an alignment runs through a word, and the page begins near its top", async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  await visit(page, "causal", "#view=alignment");
  await expect(page.locator(".words")).toHaveClass("words columns");
  const tops = async (side: string) => Promise.all((await page.locator(`.${side} .token`).all()).map(async (each) => (await each.boundingBox())!.y));
  for (const side of ["sources", "targets"]) expect(new Set(await tops(side)).size).toBe((await tops(side)).length);
  expect((await page.locator("main").boundingBox())!.y).toBeLessThan(220);
  expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
});

test("a trace without attention says so", async ({ page }) => {
  await page.goto(address("empty"));
  await expect(page.getByRole("alert")).toHaveText("This trace does not contain attention, so there is nothing to show.");
});

test("when the server ends, the page says so and nothing computes for ever", async ({ page }) => {
  let server: Served | null = await served(causal(), lecture(), () => ({ trace: "", output: [], before: [] }));
  await page.goto(`${server.url}#view=map`);
  await settled(page);
  await expect(page.locator(".gone")).toBeHidden();
  server.close();
  server = null;
  await page.getByLabel("Head", { exact: true }).selectOption("2");
  await expect(page.getByRole("alert")).toContainText("The server of this page does not answer.");
  await settled(page);
  await page.getByRole("button", { name: "Steps" }).click();
  await expect(page.locator(".stepsview")).toContainText("The server of this page does not answer.");
  await expect(page.locator("body")).not.toContainText("Failed to fetch");
  await page.getByRole("button", { name: "Try again" }).click();
  await expect(page.getByRole("alert")).toContainText("does not answer");
});
