import { readFileSync } from "node:fs";
import { AxeBuilder } from "@axe-core/playwright";
import { expect, test, type Page } from "@playwright/test";
import { HEADS } from "../src/colour";
import { Engine } from "../src/engine/engine";
import { FOLDER } from "../test/stored";
import { expected } from "./answer";
import { causal } from "./trace";
import { visited } from "./visit";

const tile = (page: Page, name: RegExp) => page.getByRole("button", { name });
const preview = (page: Page) => page.locator(".preview");
const open = async (page: Page, name: string, hash = ""): Promise<string[]> => {
  const strangers = await visited(page, name, `#view=overview${hash}`, ".card .bars .measure");
  await expect(page.locator(".name", { hasText: "0" }).first()).toBeVisible();
  return strangers;
};

test("the translator's heads are all in view, over the whole width of the page", async ({ page }) => {
  await page.setViewportSize({ width: 1300, height: 1500 });
  const strangers = await open(page, "translation");
  await expect(page.locator("canvas[data-drawn]")).toHaveCount(expected().heads);
  const view = page.locator(".overview");
  expect(await view.evaluate(({ scrollHeight, clientHeight }) => scrollHeight - clientHeight)).toBeLessThanOrEqual(0);
  const right = await page.locator(".card").evaluateAll((cards) => Math.max(...cards.map((card) => card.getBoundingClientRect().right)));
  expect(right).toBeGreaterThan(1240);
  expect(right).toBeLessThanOrEqual(1300);
  expect(strangers).toEqual([]);
});

for (const [name, heads, columns] of [["causal", 4, 4], ["many", 144, 12]] as const)
  test(`${heads} heads fill the page, and a phone has two or three beside each other`, async ({ page }) => {
    const beside = (): Promise<number> => page.locator(".row").first().evaluate((row) => getComputedStyle(row).gridTemplateColumns.split(" ").length);
    await page.setViewportSize({ width: 1300, height: 900 });
    await open(page, name);
    await expect(page.locator(".card")).toHaveCount(heads);
    await expect.poll(beside).toBe(columns);
    expect(await page.locator(".row").first().evaluate((row) => row.getBoundingClientRect().right)).toBeGreaterThan(1240);
    await page.setViewportSize({ width: 390, height: 844 });
    await expect.poll(beside).toBeLessThanOrEqual(3);
    expect(await beside()).toBeGreaterThanOrEqual(2);
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(390);
  });

test("heads stand with those that do the same, by the names that Python gives them", async ({ page }) => {
  const told = (JSON.parse(readFileSync(`${FOLDER}measures.json`, "utf8")) as Record<string, { behaviour: string }[][]>)["heads"]!;
  await open(page, "heads");
  await page.getByLabel("Sort by").selectOption("behaviour");
  const titles = page.locator(".layer h2");
  await expect(titles).toHaveText([/^previous token · 2/, /^itself · 2/, /^next token · 1/, /^first token · 2/, /^punctuation · 2/, /^same word · 2/, /^induction · 2/, /^neighbours · 2/, /^by position · 2/, /^by content · 2/, /^evenly · 3/]);
  const named = { previous: "previous token", flat: "evenly" } as const;
  for (const [behaviour, name] of Object.entries(named)) {
    const wanted = told.flatMap((heads, site) => heads.flatMap((each, head) => (each.behaviour === behaviour ? [`${site}·${head}`] : [])));
    await expect(page.locator(".layer", { hasText: name }).locator(".name")).toHaveText(wanted);
  }
  expect(page.url()).toContain("order=behaviour");
  await page.reload();
  await expect(page.getByLabel("Sort by")).toHaveValue("behaviour");
  await expect(titles.first()).toContainText("at least half of the weight is on the token just before");
  await page.getByLabel("Sort by").selectOption("previous");
  await expect(page.locator(".name").first()).toHaveText(/·0$/);
});

test("the translator's heads have more than one behaviour, and each tile says its own", async ({ page }) => {
  await open(page, "translation", "&order=behaviour");
  // Heads that are not measured yet stand under "…".
  await expect(page.locator(".layer h2", { hasText: "…" })).toHaveCount(0);
  const titles = await page.locator(".layer h2").allTextContents();
  expect(titles.length).toBeGreaterThan(2);
  expect(titles.map((title) => Number(/· (\d+)/.exec(title)![1])).reduce((a, b) => a + b)).toBe(expected().heads);
  for (const section of await page.locator(".layer").all()) {
    const name = (await section.locator("h2").textContent())!.split(" · ")[0]!;
    await expect(section.locator(".card").first()).toHaveAccessibleName(new RegExp(`head \\d: ${name};`));
  }
});

test("a pointer or the focus enlarges a head and moves nothing; Escape closes it, Enter opens the map", async ({ page }) => {
  await open(page, "translation");
  const places = () => page.locator(".card").evaluateAll((cards) => cards.map((card) => card.getBoundingClientRect().top + card.getBoundingClientRect().left));
  const before = await places();
  const card = tile(page, /encoder\.1\.attention, head 2/);
  await card.hover();
  await expect(preview(page)).toContainText("encoder.1.attention · Head 2");
  await expect(preview(page)).toContainText("entropy");
  await expect(page.locator(".enlarged")).toHaveAttribute("data-fine", "yes");
  const ink = await page.locator(".enlarged").evaluate((canvas: HTMLCanvasElement) => new Set(new Uint32Array(canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size);
  expect(ink).toBeGreaterThan(50);
  expect(await places()).toEqual(before);
  const [box, big] = [(await card.boundingBox())!, (await preview(page).boundingBox())!];
  expect(big.x >= box.x + box.width || big.x + big.width <= box.x).toBe(true);
  expect(big.y >= 0 && big.y + big.height <= 800).toBe(true);
  await page.keyboard.press("Escape");
  await expect(preview(page)).toBeHidden();
  await page.mouse.move(5, 5);
  await page.getByLabel("Kind").focus();
  await page.keyboard.press("Tab");
  await expect(preview(page)).toContainText("encoder.0.attention · Head 0");
  await page.keyboard.press("Tab");
  await expect(preview(page)).toContainText("encoder.0.attention · Head 1");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("application")).toBeVisible();
  expect(page.url()).toContain("site=0&head=1");
});

test("a finger's first touch enlarges, its second opens, and one elsewhere closes", async ({ browser }) => {
  const page = await browser.newPage({ hasTouch: true, viewport: { width: 390, height: 844 } });
  await open(page, "translation");
  const card = tile(page, /encoder\.0\.attention, head 4/);
  await card.tap();
  await expect(preview(page)).toContainText("encoder.0.attention · Head 4");
  await page.locator(".layer h2").first().tap();
  await expect(preview(page)).toBeHidden();
  await card.tap();
  await preview(page).tap();
  await expect(page.getByRole("application")).toBeVisible();
  expect(page.url()).toContain("site=0&head=4");
  await page.close();
});

test("axe finds nothing in the overview, however it is ordered", async ({ page }) => {
  test.slow();
  for (const hash of ["&order=behaviour", "&order=behaviour&theme=dark&language=fa", "&order=entropy&language=zh", "&contrast=1&scale=lift&language=ru"]) {
    await open(page, "heads", hash);
    await page.locator(".card").nth(1).focus();
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html]), hash).toEqual([]);
  }
});

test("formulas read from the left on pages that read from the right", async ({ page }) => {
  await visited(page, "causal", "#view=overview&language=fa", ".card");
  const places = await page.locator("small bdi").evaluateAll((all) => all.filter((each) => each.textContent!.includes("(")).map((each) => {
    const text = each.firstChild!;
    return [0, text.textContent!.length - 1].map((at) => {
      const range = document.createRange();
      range.setStart(text, at);
      range.setEnd(text, at + 1);
      return range.getBoundingClientRect().left;
    });
  }));
  expect(places.length).toBeGreaterThan(0);
  for (const [first, last] of places) expect(first).toBeLessThan(last!);
});

const pick = (page: Page, head: number) => page.getByRole("group", { name: "Heads" }).getByRole("button", { name: `Head ${head}`, exact: true });

test("chosen heads are drawn together: a colour and a bar each, kept in the address, and saved", async ({ page }) => {
  const strangers = await visited(page, "causal", "#view=text&site=0&head=1", ".pick");
  await expect(pick(page, 1)).toHaveAttribute("aria-pressed", "true");
  await pick(page, 3).click();
  await pick(page, 0).click();
  await expect(page.locator(".legend")).toContainText("Head 0Head 1Head 3");
  await expect(page.locator(".legend")).not.toContainText("blue lines");
  await expect(page.locator(".which")).toContainText("mean of 3 heads");
  expect(page.url()).toContain("together=0-1-3");
  await page.locator(".targets").getByRole("button", { name: "▁w5", exact: true }).click();
  await page.reload();
  await expect(pick(page, 3)).toHaveAttribute("aria-pressed", "true");
  await expect(page.locator(".targets [aria-pressed=true]")).toHaveText("▁w5");
  await page.locator(".share > button").first().click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(".menu button", { hasText: "SVG" }).click()]);
  const svg = readFileSync((await download.path())!, "utf8");
  // The bars of the chosen query, in the saved drawing, are its weights.
  const { trace, tensors } = causal();
  const engine = new Engine({ trace, tensors: tensors.map((named) => new Map(Object.entries(named))) });
  for (const head of [0, 1, 3]) {
    const row = await engine.row(0, head, 5);
    const bars = [...svg.matchAll(new RegExp(`<path[^>]*d="M[-\\d.]+ [-\\d.]+h7v(-?[\\d.]+)h-7z"[^>]*fill="#${HEADS.light[head]}"`, "g"))].map(([, height]) => Math.abs(Number(height)) / 18);
    expect(bars.length).toBeGreaterThan(5);
    bars.slice(0, 6).forEach((bar, key) => expect(bar).toBeCloseTo(row[key]!, 1));
    expect(svg).toMatch(new RegExp(`stroke="#${HEADS.light[head]}"`));
  }
  expect(svg).not.toContain(`stroke="#${HEADS.light[2]}"`);
  expect(svg).toContain("Head 3");
  expect(svg).toContain("heads 0, 1, 3");
  await pick(page, 0).click();
  await pick(page, 3).click();
  await expect(page.getByLabel("Head", { exact: true })).toHaveValue("1");
  expect(page.url()).not.toContain("together");
  await pick(page, 1).click();
  await expect(pick(page, 1)).toHaveAttribute("aria-pressed", "true");
  expect(strangers).toEqual([]);
});

test("there are eight colours, so no more than eight heads are drawn, and the ninth says why", async ({ page }) => {
  await visited(page, "many", "#view=text&together=0-1-2-3-4-5-6-11-7", ".pick");
  await expect(page.locator(".pick[aria-pressed=true]")).toHaveCount(8);
  await expect(page.locator(".textview .note strong")).toHaveText("At most 8 heads are drawn together.");
  const ninth = page.locator(".pick[aria-disabled]").first();
  await expect(ninth).toHaveAttribute("title", "At most 8 heads are drawn together.");
  await ninth.press("Enter");
  await expect(page.locator(".pick[aria-pressed=true]")).toHaveCount(8);
  await page.locator(".targets .token").nth(2).hover();
  await expect(page.locator(".which")).toContainText("▁w2 · mean of 8 heads");
  await pick(page, 0).click();
  await expect(page.locator(".textview .note strong")).toHaveCount(0);
  for (const theme of ["light", "dark"]) {
    await visited(page, "many", `#view=text&together=0-1-2-3-4-5-6-7&theme=${theme}`, ".pick");
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
  }
  await page.getByLabel("Head", { exact: true }).selectOption("2");
  await expect(page.locator(".pick[aria-pressed=true]")).toHaveCount(1);
});
