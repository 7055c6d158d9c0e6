import { readFileSync } from "node:fs";
import { AxeBuilder } from "@axe-core/playwright";
import { expect, test, type Page } from "@playwright/test";
import { FOLDER } from "../test/stored";
import { visited } from "./visit";

const tile = (page: Page, name: RegExp) => page.getByRole("button", { name });
const preview = (page: Page) => page.locator(".preview");
const open = async (page: Page, name: string, hash = ""): Promise<string[]> => {
  const strangers = await visited(page, name, `#view=overview${hash}`, ".card .bars .measure");
  await expect(page.locator(".name", { hasText: "0" }).first()).toBeVisible();
  return strangers;
};

test("the translator's 64 heads are all in view, over the whole width of the page", async ({ page }) => {
  await page.setViewportSize({ width: 1300, height: 900 });
  const strangers = await open(page, "translation");
  await expect(page.locator("canvas[data-drawn]")).toHaveCount(64);
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
  await expect(page.locator(".layer h2").nth(2)).toBeVisible();
  const titles = await page.locator(".layer h2").allTextContents();
  expect(titles.length).toBeGreaterThan(2);
  expect(titles.map((title) => Number(/· (\d+)/.exec(title)![1])).reduce((a, b) => a + b)).toBe(64);
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
