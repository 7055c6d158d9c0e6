/** axe finds nothing: in every view, light and dark, in every language, on a desk and on a phone. */

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { expect, test, type Page } from "@playwright/test";
import type { AxeResults } from "axe-core";
import { address } from "./pages";
import { served } from "./server";
import { TOUR } from "./tour";
import { persian } from "./trace";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const LANGUAGES = ["en", "fa", "ru", "zh"];
const [DESK, PHONE] = [[1280, 800], [390, 844]] as const;
const LOOKS = (["light", "dark"] as const).flatMap((theme) => [DESK, PHONE].map((size) => ({ theme, size })));

/** Every theme on every size with a language each; the next view has the next languages. `AXE_ALL=1` tries all together, in minutes. */
const turns = (nth: number) =>
  LOOKS.flatMap((look, at) => (process.env["AXE_ALL"] ? LANGUAGES : [LANGUAGES[(at + nth) % LANGUAGES.length]!]).map((language) => ({ ...look, language })));

/** What axe finds in the page as it stands. */
async function violations(page: Page): Promise<string[]> {
  return page.evaluate(async (source) => {
    const global = globalThis as unknown as { axe?: { run(options: object): Promise<AxeResults> } };
    if (!global.axe) (0, eval)(source);
    for (const animation of document.getAnimations()) animation.finish();
    const { violations } = await global.axe!.run({ resultTypes: ["violations"] });
    return violations.flatMap(({ id, nodes }) => nodes.map(({ html, any }) => `${id}: ${html.slice(0, 160)} ${any[0]?.message ?? ""}`));
  }, AXE);
}

async function turned(page: Page, hash: string): Promise<void> {
  await page.evaluate(async (hash) => {
    const heard = new Promise((resolve) => addEventListener("hashchange", resolve, { once: true }));
    location.hash = hash;
    await heard;
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  }, hash);
}

for (const name of new Set(TOUR.map(({ page }) => page))) {
  test(`axe finds nothing in the page ${name}`, async ({ page }) => {
    await page.goto(address(name));
    await expect(page.locator("h1")).toBeVisible();
    for (const [nth, stop] of TOUR.entries()) {
      if (stop.page !== name) continue;
      for (const { theme, size, language } of turns(nth)) {
        await page.setViewportSize({ width: size[0], height: size[1] });
        const hash = `${stop.hash}&theme=${theme}&language=${language}`;
        await turned(page, hash);
        await expect(page.locator(stop.sign).first()).toBeAttached();
        expect(await violations(page), `${hash} at ${size[0]} pixels`).toEqual([]);
      }
    }
  });
}

test("axe finds nothing in what opens over a view, nor in a run with its answer", async ({ page }) => {
  const server = await served(persian(), persian(), () => ({ trace: "second", output: ["I", "bought", "it"], before: ["I", "read", "it"], log_probability: -3.5, log_probability_before: -1.25 }));
  try {
    // The server's policy allows no scripts from strings, which axe is here.
    await page.route(`${server.url}viewer.js`, async (route) => route.fulfill({ body: `${await (await route.fetch()).text()}\n;${AXE}`, contentType: "text/javascript" }));
    await page.setViewportSize({ width: PHONE[0], height: PHONE[1] });
    for (const [theme, language] of [["light", "ru"], ["dark", "fa"]]) {
      await page.goto("about:blank");
      await page.goto(`${server.url}#view=run&theme=${theme}&language=${language}`);
      await page.locator(".rerun .primary").click();
      await expect(page.locator(".answer mark").first()).toBeVisible();
      await page.locator(".more").click();
      await expect(page.locator(".tools")).toBeVisible();
      expect(await violations(page), "run").toEqual([]);
      await page.locator(".share button").first().click();
      await expect(page.locator(".menu")).toBeVisible();
      expect(await violations(page), "menu").toEqual([]);
      await page.keyboard.press("Escape");
      for (const opener of [".settings button", ".pedigree button"]) {
        await page.locator(opener).click();
        await expect(page.locator("dialog[open]")).toBeVisible();
        expect(await violations(page), opener).toEqual([]);
        await page.locator("dialog[open] button").last().click();
      }
    }
  } finally {
    server.close();
  }
});
