/** Words and heads switched off in the story of the translator that comes with the package: with its model, and on a page. */

import { readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { AxeBuilder } from "@axe-core/playwright";
import { expect, test, type Page } from "@playwright/test";
import { answered, cost, expected, lost, number, OTHER, SENTENCE, SWITCHED } from "./answer";
import { foveate, serving, type Serving } from "./command";
import { address } from "./pages";

let server: Serving;
let url = "";
test.beforeAll(async () => {
  test.setTimeout(300_000);
  const page = fileURLToPath(new URL("./pages/switched.html", import.meta.url));
  foveate("look", "en-fr", "--text", SENTENCE, "--html", page, "--ablations");
  server = await serving("look", "en-fr", "--text", SENTENCE, "--no-browser");
  ({ url } = server);
});
test.afterAll(() => server.end());

async function visit(page: Page, to: string, hash = ""): Promise<string[]> {
  const strangers: string[] = [];
  page.on("request", (request) => !/^(blob|data):/.test(request.url()) && !request.url().startsWith(to) && strangers.push(request.url()));
  page.on("pageerror", (error) => strangers.push(String(error)));
  page.on("console", (message) => message.type() === "error" && strangers.push(message.text()));
  await page.goto("about:blank");
  await page.goto(to + hash);
  await expect(page.locator(".sentence .word").first()).toBeAttached();
  return strangers;
}
const word = (page: Page, side: "key" | "query", text: string) => page.locator(`.sentence .${side} .word`, { hasText: new RegExp(`^${text}$`) }).first();
const answer = async (page: Page): Promise<string> => (await page.locator(".sentence .query .word:not(.end)").allInnerTexts()).join(" ");
/** The answer with the word switched off, and the address of that. */
const without = (): string => expected().without_word.answer;
const off = (): string => `off=${expected().off.join(".")}`;
const lostNats = (): string => `lost ${number(cost(expected().without_word), 3)} nats`;

test("the answers without each word add little to the page", () => {
  const [alone, switched] = ["translation", "switched"].map((name) => statSync(fileURLToPath(address(name))).size);
  expect(switched! - alone!).toBeGreaterThan(0);
  expect(switched! - alone!).toBeLessThan(16_000);
});

test("a click switches a word off, and the answer rewrites itself with its cost, a bar and a way back", async ({ page }) => {
  const strangers = await visit(page, url);
  await expect.poll(() => answer(page)).toBe(answered());
  await expect(page.locator(".switches")).toContainText("Click a word of the text to switch it off");
  await word(page, "key", SWITCHED).hover();
  await expect(page.locator(".told")).toContainText("was looked at by");
  expect(await answer(page)).toBe(answered());
  await word(page, "key", SWITCHED).click();
  await expect.poll(() => answer(page)).toBe(without());
  await expect(word(page, "key", SWITCHED)).toHaveClass(/off/);
  await expect(page.locator(".sentence .fresh")).toHaveText(lost(without(), answered()));
  await expect(page.locator(".former s")).toHaveText(lost(answered(), without()));
  const { without_word } = expected();
  const [before, now] = without_word.log_probabilities.map((value) => number(value, 4));
  await expect(page.locator(".cost")).toContainText(new RegExp(`^The answer before ${lostNats()} of log-probability: \\S*${before}\\S* became \\S*${now}`));
  await expect(page.locator(".costbar b")).toHaveText(number(-cost(without_word), 3));
  const [track, fill] = [await page.locator(".costbar .track").boundingBox(), await page.locator(".costbar .fill").boundingBox()];
  expect(fill!.width / track!.width).toBeCloseTo(cost(without_word) / Math.max(10, Math.ceil(cost(without_word))), 2);
  expect(page.url()).toContain(off());

  await page.mouse.move(2, 2);
  const lines = page.locator(".threads path");
  await expect(lines.first()).toBeAttached();
  await page.locator(".sentence .query .word").nth(3).hover();
  await expect(page.locator(".told")).not.toContainText(SWITCHED);

  await word(page, "key", OTHER).click();
  await expect(page.locator(".switches .chip")).toHaveText([`${OTHER} ×`, `${SWITCHED} ×`]);
  await page.getByRole("button", { name: "Undo" }).click();
  await expect.poll(() => answer(page)).toBe(without());
  await page.getByRole("button", { name: "Switch everything on" }).click();
  await expect.poll(() => answer(page)).toBe(answered());
  await expect(page.locator(".sentence .fresh, .sentence .off, .costbar")).toHaveCount(0);
  expect(page.url()).not.toContain("off=");
  expect(strangers).toEqual([]);
});

test("the keyboard does the same, the focus stays, and the address brings the switches back", async ({ page }) => {
  await visit(page, url);
  await page.locator(".sentence .query .word").first().focus();
  await page.keyboard.press("ArrowUp");
  const focused = page.locator(".sentence .key .word:focus");
  await expect(page.locator(".told")).toContainText("was looked at by");
  await page.keyboard.press("Home");
  for (let steps = 0; steps < SENTENCE.split(" ").indexOf(SWITCHED); steps++) await page.keyboard.press("ArrowRight");
  await expect(focused).toHaveText(SWITCHED);
  expect(await answer(page)).toBe(answered());
  await page.keyboard.press("Enter");
  await expect.poll(() => answer(page)).toBe(without());
  await expect(focused).toHaveText(SWITCHED);
  await expect(page.getByRole("status")).toContainText(lostNats());
  await page.reload();
  await expect.poll(() => answer(page)).toBe(without());
  await word(page, "key", SWITCHED).focus();
  await page.keyboard.press("Space");
  await expect.poll(() => answer(page)).toBe(answered());
});

test("a head is switched off from the choice of heads, and draws no line", async ({ page }) => {
  const { site, head, without_head } = expected();
  await visit(page, url);
  await expect(page.getByRole("button", { name: /Switch head/ })).toHaveCount(0);
  await page.getByRole("button", { name: "More" }).click();
  await page.getByLabel("Head", { exact: true }).selectOption(`${head}`);
  await page.getByRole("button", { name: `Switch head ${head} off` }).click();
  await expect(page.locator(".switches .chip")).toHaveText([`decoder.1.cross_attention · Head ${head} ×`]);
  await expect.poll(() => answer(page)).toBe(without_head.answer);
  await expect(page.locator(".cost")).toContainText(number(without_head.log_probabilities[1], 4));
  await expect(page.locator(".threads path")).toHaveCount(0);
  expect(page.url()).toContain(`off=${site}-${head}`);
  await page.getByLabel("Site").selectOption("0");
  // The answer before stands beside the new one where it was another; a model may need no single head for its words.
  await expect(page.locator(".former")).toHaveCount(without_head.answer === answered() ? 0 : 2);
  await page.locator(".switches .chip").click();
  await expect(page.locator(".switches .chip")).toHaveCount(0);
  await expect(page.locator(".former")).toHaveCount(0);
});

test("a finger sees the lines of a word first, and switches it off when it touches it again", async ({ browser }) => {
  const context = await browser.newContext({ hasTouch: true, viewport: { width: 390, height: 800 } });
  const page = await context.newPage();
  await visit(page, url);
  await word(page, "key", SWITCHED).tap();
  await expect(page.locator(".told")).toContainText("was looked at by");
  expect(await answer(page)).toBe(answered());
  await word(page, "key", SWITCHED).tap();
  await expect.poll(() => answer(page)).toBe(without());
  // A keyboard at the same device need not press twice.
  await word(page, "key", OTHER).tap();
  await expect(page.locator(".told")).toContainText(OTHER);
  await word(page, "key", OTHER).focus();
  await page.keyboard.press("Enter");
  await expect(page.locator(".switches .chip")).toHaveText([`${OTHER} ×`, `${SWITCHED} ×`]);
  await context.close();
});

test("a page without a model says why, and one with its switches knows each word off by itself", async ({ page }) => {
  await visit(page, address("translation"));
  await expect(page.locator(".switches")).toBeHidden();
  await word(page, "key", SWITCHED).click();
  await expect(page.locator(".switches")).toContainText("because it has no model");
  expect(await answer(page)).toBe(answered());

  const strangers = await visit(page, address("switched"));
  await word(page, "key", SWITCHED).click();
  await expect.poll(() => answer(page)).toBe(without());
  await expect(page.locator(".cost")).toContainText(lostNats());
  // The pointer still lies on the word, which has no lines: those of the others are drawn.
  expect(await page.locator(".threads path").count()).toBeGreaterThan(8);
  await expect(page.locator(".switches")).toContainText("one word at a time");
  await word(page, "key", OTHER).click();
  await expect(page.locator(".switches .chip")).toHaveText([`${OTHER} ×`]);
  await page.getByRole("button", { name: "Undo" }).click();
  await expect.poll(() => answer(page)).toBe(without());
  await page.getByRole("button", { name: "More" }).click();
  await page.getByLabel("Head", { exact: true }).selectOption("3");
  await expect(page.locator(".switches")).toContainText("known only for the attention that the page opens with");
  await expect(page.locator(".threads path")).toHaveCount(0);
  expect(strangers).toEqual([]);
});

test("on a page, too, the outcome is said, the focus stays with the keyboard, and a drawing is called by what it shows", async ({ page }) => {
  await visit(page, address("switched"));
  const switched = word(page, "key", SWITCHED);
  await switched.focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("status")).toContainText(lostNats());
  await page.locator(".share > button").first().click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(".menu button").first().click()]);
  const drawing = readFileSync((await download.path())!, "utf8");
  expect(/<title>(.*)<\/title>/.exec(drawing)![1]).toBe(`en-fr: ${SENTENCE}`);
  expect(drawing).not.toContain("one word at a time");
  await page.getByRole("button", { name: "Switch everything on" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("button", { name: "Undo" })).toBeFocused();
  await page.keyboard.press("Enter");
  await expect(page.locator(".sentence .off").first()).toBeAttached();
  await page.getByRole("button", { name: "Undo" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("button", { name: "Undo" })).toHaveCount(0);
  await expect(page.locator(".sentence .word:focus")).toHaveCount(1);
});

for (const language of ["en", "fa", "ru", "zh"]) {
  test(`switches fit and are accessible in ${language}, wide and narrow, light and dark`, async ({ page }) => {
    for (const [width, theme] of [[1300, "light"], [390, "dark"]] as const) {
      await page.setViewportSize({ width, height: 800 });
      const strangers = await visit(page, address("switched"), `#language=${language}&theme=${theme}&${off()}`);
      await expect(page.locator(".costbar")).toBeVisible();
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
      const heights = await page.locator(".switches button").evaluateAll((all) => all.map((each) => each.getBoundingClientRect().height));
      expect(Math.min(...heights)).toBeGreaterThanOrEqual(40);
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
      expect(strangers).toEqual([]);
    }
  });
}
