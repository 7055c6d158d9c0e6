/** The steps as a lesson, on the lectures' worked examples as `foveate look --example` writes them. */

import { AxeBuilder } from "@axe-core/playwright";
import { expect, test, type Page } from "@playwright/test";
import { address } from "./pages";
import { visited } from "./visit";

const visit = (page: Page, name: string, hash = "") => visited(page, name, hash, ".walk button");
const step = (page: Page, name: string) => page.locator(".step").filter({ has: page.getByRole("heading", { name, exact: true }) });
const numbers = (page: Page, name: string) => step(page, name).locator("td.number");
const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });
/** All digits of a row: those of the cells where they say all, and their titles. */
const whole = (page: Page, name: string) => numbers(page, name).evaluateAll((cells) => cells.map((cell) => Number((cell.getAttribute("title") || cell.textContent!).replace("−", "-"))));

test("a worked example opens at its first step, and buttons and arrows walk through the formula", async ({ page }) => {
  const strangers = await visit(page, "self-attention");
  await expect(page.locator(".progress")).toHaveText("Step 1 of 10");
  await expect(numbers(page, "q₀")).toHaveText(["1", "0", "2"]);
  await expect(page.locator(".stepsview > .steps > .step")).toHaveCount(1);
  await expect(button(page, "Previous step")).toBeDisabled();
  await button(page, "Next step").click();
  await expect(numbers(page, "kⱼ")).toHaveText(["0", "1", "1", "4", "4", "0", "2", "3", "1"]);
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await expect(step(page, "q₀·kⱼ").locator(".worked math")).toHaveText("1·0+0·1+2·1=2");
  await step(page, "q₀·kⱼ").getByRole("button", { name: "x₂" }).click();
  await expect(step(page, "q₀·kⱼ").locator(".worked math")).toHaveText("1·4+0·4+2·0=4");
  await page.locator(".path").getByRole("button", { name: "7. α₀ⱼ" }).click();
  await expect(numbers(page, "α₀ⱼ")).toHaveText(["0.063", "0.468", "0.468"]);
  expect(page.url()).toContain("step=6");
  const amounts = await step(page, "α₀ⱼ").locator(".amount").evaluateAll((bars) => bars.map((bar) => bar.getBoundingClientRect().width));
  expect(amounts[0]! / amounts[1]!).toBeCloseTo(0.063379 / 0.468311, 2);
  await page.keyboard.press("ArrowLeft");
  await expect(step(page, "Σ exp(e)").locator(".single")).toHaveText("117");
  await page.reload();
  await expect(page.locator(".progress")).toHaveText("Step 6 of 10");
  // At the last step the focus stays, and an address that goes beyond it needs no second press.
  await button(page, "Next step").focus();
  for (let presses = 0; presses < 6; presses++) await page.keyboard.press("Enter");
  await expect(page.locator(".progress")).toHaveText("Step 10 of 10");
  await expect(button(page, "Next step")).toBeDisabled();
  await expect(button(page, "Next step")).toBeFocused();
  await page.evaluate(() => (location.hash = "#view=steps&step=99"));
  await expect(page.locator(".progress")).toHaveText("Step 10 of 10");
  await page.keyboard.press("ArrowLeft");
  await expect(page.locator(".progress")).toHaveText("Step 9 of 10");
  await button(page, "All steps").click();
  await expect(page.locator(".stepsview > .steps > .step")).toHaveCount(10);
  expect(page.url()).toContain("step=all");
  expect(strangers).toEqual([]);
});

test("numbers stand at one decimal point", async ({ page }) => {
  await visit(page, "action-gets-results", "#step=7");
  const right = await numbers(page, "α₀ⱼ").evaluateAll((cells) => cells.map((cell) => {
    const range = document.createRange();
    const text = cell.firstChild!;
    range.setStart(text, text.textContent!.indexOf("."));
    range.setEnd(text, text.textContent!.indexOf(".") + 1);
    return range.getBoundingClientRect().right;
  }));
  expect(Math.max(...right) - Math.min(...right)).toBeLessThan(0.5);
  expect((await numbers(page, "α₀ⱼ").allTextContents()).every((text) => /^0\.\d{3}$/.test(text))).toBe(true);
});

test("a changed number changes everything after it to the exact values, and reset takes it back", async ({ page }) => {
  const strangers = await visit(page, "one-hot");
  await expect(page.locator(".stepsview h2")).toContainText("сдавать");
  await page.goto(`${address("one-hot")}#step=6`);
  await expect(numbers(page, "α₁ⱼ")).toHaveText(["0.130", "0.352", "0.130", "0.130", "0.130", "0.130"]);
  await button(page, "Change the numbers").click();
  await expect(page.locator(".progress")).toHaveText("Step 1 of 10");
  // «сдавать» asks for «лабораторные», too: a score of 2 instead of 0.
  await page.getByLabel("q₁ 3 3").fill("2");
  const total = Math.exp(1) + Math.exp(2) + 4;
  const wanted = [1, Math.exp(1), Math.exp(2), 1, 1, 1].map((each) => each / total);
  (await whole(page, "α₁ⱼ")).forEach((value, at) => expect(value).toBeCloseTo(wanted[at]!, 6));
  (await whole(page, "c₁")).forEach((value, at) => expect(value).toBeCloseTo(wanted[at]!, 6));
  await expect(page.getByText("These are your numbers.")).toBeVisible();
  await page.getByLabel("q₁ 3 3").fill("−۰٫۵");
  expect((await whole(page, "α₁ⱼ"))[2]).toBeCloseTo(Math.exp(-0.5) / (Math.exp(1) + Math.exp(-0.5) + 4), 6);
  await page.getByLabel("q₁ 3 3").fill("much");
  await expect(page.getByLabel("q₁ 3 3")).toHaveAttribute("aria-invalid", "true");
  await page.getByLabel("q₁ 3 3").blur();
  await expect(page.getByLabel("q₁ 3 3")).toHaveValue("-0.5");
  await button(page, "Next step").click();
  await page.getByLabel("kⱼ сдавать 2").fill("3");
  await page.locator(".path").getByRole("button", { name: "4. q₁·kⱼ" }).click();
  await expect(numbers(page, "q₁·kⱼ")).toHaveText(["0.00", "3.00", "−0.50", "0.00", "0.00", "0.00"]);
  await button(page, "Reset").click();
  await expect(numbers(page, "q₁·kⱼ")).toHaveText(["0", "1", "0", "0", "0", "0"]);
  await expect(button(page, "Reset")).toBeDisabled();
  expect(strangers).toEqual([]);
});

test("with all steps shown, fields stay under the hand while the rest is computed", async ({ page }) => {
  await visit(page, "self-attention", "#view=steps&step=all&query=0");
  await button(page, "Change the numbers").click();
  await page.getByLabel("kⱼ x₁ 3").click();
  await page.keyboard.press("End");
  await page.keyboard.type(".5");
  await expect(page.getByLabel("kⱼ x₁ 3")).toBeFocused();
  await expect(numbers(page, "q₀·kⱼ")).toHaveText(["3", "4", "4"]);
  await page.getByLabel("vⱼ x₁ 1").fill("-10");
  const total = Math.exp(-1) + 2;
  expect((await whole(page, "c₀"))[0]).toBeCloseTo((-10 * Math.exp(-1) + 4) / total, 5);
});

test("what is hidden stays apart from zero, and a site without softmax has its own steps", async ({ page }) => {
  await visit(page, "self-attention", "#view=steps&site=2&query=1&step=all");
  await expect(numbers(page, "α₁ⱼ")).toHaveText(["6e−6", "1.000", "–"]);
  await page.getByLabel("Site").selectOption("relu");
  await expect(numbers(page, "α₁ⱼ")).toHaveText(["0.125", "0.500", "0.375"]);
  await expect(step(page, "α₁ⱼ").locator(".worked")).toContainText("=0.125");
});

for (const language of ["en", "fa", "ru", "zh"]) {
  for (const width of [1300, 390]) {
    test(`a lesson fits in ${language} at ${width} pixels, numbers from left to right`, async ({ page }) => {
      await page.setViewportSize({ width, height: 800 });
      for (const [theme, at] of [["light", "1"], ["dark", "all"]]) {
        const strangers = await visit(page, "one-hot", `#view=steps&query=1&language=${language}&theme=${theme}&step=${at}`);
        await expect(page.locator(".foveate")).toHaveAttribute("dir", language === "fa" ? "rtl" : "ltr");
        for (const what of [".step .formula", ".step td.number", ".path bdi"]) {
          const directions = await page.locator(what).evaluateAll((all) => all.map((each) => getComputedStyle(each).direction));
          expect(new Set(directions)).toEqual(new Set(["ltr"]));
        }
        expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
        if (at === "1") await page.locator(".walk button[aria-pressed]").nth(1).click();
        if (width < 600) expect(Math.min(...(await page.locator(".walk button").evaluateAll((all) => all.map((each) => each.getBoundingClientRect().height))))).toBeGreaterThanOrEqual(40);
        const { violations } = await new AxeBuilder({ page }).analyze();
        expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
        expect(strangers).toEqual([]);
      }
    });
  }
}

test("in Persian the next step is to the left, and the features keep their order", async ({ page }) => {
  await visit(page, "one-hot", "#view=steps&query=1&step=1&language=fa");
  await page.keyboard.press("ArrowLeft");
  await expect(step(page, "q·k")).toBeVisible();
  await page.keyboard.press("ArrowRight");
  await expect(step(page, "kⱼ")).toBeVisible();
  const heads = await page.locator(".step thead th").evaluateAll((all) => all.map((each) => each.getBoundingClientRect().x));
  expect(heads).toEqual([...heads].sort((a, b) => a - b));
  const [next, before] = [await button(page, "گام بعدی").boundingBox(), await button(page, "گام پیشین").boundingBox()];
  expect(next!.x).toBeLessThan(before!.x);
});
