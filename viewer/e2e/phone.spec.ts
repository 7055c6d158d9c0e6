/** On phones: what is looked at begins near the top, nothing hangs over the edge, and what can be pressed is as large as a finger. */

import { expect, test, type Page } from "@playwright/test";
import { address } from "./pages";
import { served } from "./server";
import { TOUR } from "./tour";
import { MEMBERS, persian } from "./trace";

const SIZES = [[390, 844], [360, 740], [320, 568]] as const;
/** Pixels from the top at which a view begins, its own choices left behind. */
const BEGINNING = 160;
const FINGER = 40;
/** What is drawn as a whole and pressed in parts that are smaller than a finger, and what does the same. */
const DENSE: Record<string, string> = {
  "canvas.map": "the arrow keys and Text choose a cell",
  "canvas.mini": "the map itself moves",
  "canvas.matrix": "the words above it",
  "canvas.scene": "the arrow keys, the words, and ‹ ›",
};

/** What is wrong with the page as it stands, in words. */
async function faults(page: Page): Promise<string[]> {
  return page.evaluate(
    ([most, finger, dense]) => {
      const told: string[] = [];
      const name = (element: Element): string => `${element.tagName.toLowerCase()}.${element.className} "${(element.textContent || element.getAttribute("aria-label") || "").slice(0, 20)}"`;
      const shown = (element: Element): boolean => element.checkVisibility({ visibilityProperty: true }) && element.getBoundingClientRect().width > 0 && !element.closest(".unseen");
      const over = document.documentElement.scrollWidth - innerWidth;
      if (over > 0) told.push(`the page is ${over} pixels wider than the screen`);
      const view = document.querySelector("main.view > *")!;
      const section = view.matches("section") ? view : view.querySelector("section")!;
      const parts = [...section.children].filter((part) => shown(part) && !part.matches(".controls"));
      const begins = Math.min(...parts.map((part) => part.getBoundingClientRect().top)) + scrollY;
      if (begins > most) told.push(`what is looked at begins at ${begins}`);
      for (const row of document.querySelectorAll(".bar nav, main section > .controls")) if (shown(row) && row.clientHeight > finger + 8) told.push(`${name(row)} has more than one line: ${row.clientHeight} pixels`);
      for (const element of document.querySelectorAll("a[href],button,select,input,textarea,summary,[role=button],[role=slider],[role=tab],[role=link],[role=application]")) {
        if (!shown(element)) continue;
        const { width, height } = element.getBoundingClientRect();
        if (width < finger - 0.01 || height < finger - 0.01) told.push(`${name(element)} is ${width.toFixed(1)} × ${height.toFixed(1)}`);
      }
      for (const canvas of document.querySelectorAll("canvas")) if (shown(canvas) && ["pointer", "crosshair"].includes(getComputedStyle(canvas).cursor) && !canvas.closest("button") && !dense.some((known) => canvas.matches(known))) told.push(`${name(canvas)} is pressed`);
      return told;
    },
    [BEGINNING, FINGER, Object.keys(DENSE)] as const,
  );
}

async function sound(page: Page, what: string): Promise<void> {
  for (const [width, height] of SIZES) {
    await page.setViewportSize({ width, height });
    await expect.poll(() => faults(page), { message: `${what} at ${width} × ${height}` }).toEqual([]);
  }
}

for (const language of ["en", "ru"])
  test(`every view fits a phone and a finger, in the language ${language}`, async ({ page }) => {
    test.slow();
    for (const name of new Set(TOUR.map(({ page }) => page))) {
      await page.setViewportSize({ width: SIZES[0][0], height: SIZES[0][1] });
      await page.goto(address(name));
      for (const { hash, sign } of TOUR.filter((stop) => stop.page === name)) {
        await page.evaluate((hash) => void (location.hash = hash), `${hash}&language=${language}`);
        await expect(page.locator(sign).first()).toBeAttached();
        await sound(page, `${name}#${hash}`);
      }
    }
  });

test("so do a run with its answer, what waits behind More, the menu of Save, and dialogs", async ({ page }) => {
  const server = await served(persian(), persian(), () => ({ trace: "second", output: ["I", "bought", "it"], before: ["I", "read", "it"], log_probability: -3.5, log_probability_before: -1.25 }));
  try {
    await page.setViewportSize({ width: SIZES[0][0], height: SIZES[0][1] });
    await page.goto(`${server.url}#view=run`);
    await expect(page.locator(".settings")).toBeHidden();
    await page.locator(".rerun .primary").click();
    await expect(page.locator(".answer mark").first()).toBeVisible();
    await sound(page, "run");
    await page.locator(".share button").first().click();
    await expect(page.locator(".menu")).toBeVisible();
    await sound(page, "menu");
    await page.keyboard.press("Escape");
    await page.locator(".more").click();
    await expect(page.locator(".tools select").first()).toBeVisible();
    const opened = async (what: string): Promise<void> => {
      // What waits behind More is above the view.
      for (const [width, height] of SIZES) {
        await page.setViewportSize({ width, height });
        await expect.poll(async () => (await faults(page)).filter((fault) => !fault.startsWith("what is looked at begins")), { message: `${what} at ${width}` }).toEqual([]);
      }
    };
    await opened("More");
    for (const opener of [".settings button", ".pedigree button"]) {
      await page.locator(opener).click();
      await expect(page.locator("dialog[open]")).toBeVisible();
      await opened(opener);
      await page.locator("dialog[open] button").last().click();
    }
  } finally {
    server.close();
  }
});

test("the tab of the present view is in sight, however many there are", async ({ page }) => {
  await page.setViewportSize({ width: 320, height: 568 });
  for (const language of ["en", "fa"]) {
    await page.goto("about:blank");
    await page.goto(`${address("speech")}#view=compare&language=${language}`);
    const tab = page.locator(".tab[aria-current=page]");
    await expect(tab).toBeInViewport({ ratio: 0.95 });
  }
});

test("alignments and text stand in two columns, and lines begin at their words", async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 844 });
  for (const view of ["alignment", "text"]) {
    await page.goto("about:blank");
    await page.goto(`${address("translation")}#view=${view}`);
    await expect(page.locator(".words.columns .token").first()).toBeVisible();
    const [targets, sources] = await Promise.all(["targets", "sources"].map((side) => page.locator(`.words .${side} .token`).evaluateAll((tokens) => tokens.map((token) => token.getBoundingClientRect().toJSON() as DOMRect))));
    for (const [at, box] of targets!.entries()) if (at) expect(box.top).toBeGreaterThanOrEqual(targets![at - 1]!.bottom - 0.5);
    expect(Math.max(...targets!.map(({ right }) => right))).toBeLessThan(Math.min(...sources!.map(({ left }) => left)) - 40);
    // Both columns are of one height: no line is steeper than its words are apart.
    expect(Math.abs(targets!.at(-1)!.bottom - sources!.at(-1)!.bottom)).toBeLessThan(16);
  }
});

test("no two of 34 nodes of a graph overlap", async ({ page }) => {
  await page.addInitScript(() => {
    const { arc } = CanvasRenderingContext2D.prototype;
    const circles: number[][] = ((globalThis as unknown as { circles: number[][] }).circles = []);
    CanvasRenderingContext2D.prototype.arc = function (x, y, radius, ...rest) {
      circles.push([x, y, radius]);
      return arc.call(this, x, y, radius, ...rest);
    };
  });
  for (const [width, height] of SIZES) {
    await page.setViewportSize({ width, height });
    await page.goto("about:blank");
    await page.goto(`${address("club")}#view=scene&query=33`);
    await expect(page.locator(".reading .weight")).toBeVisible();
    const circles = await page.evaluate(() => (globalThis as unknown as { circles: number[][] }).circles);
    const nodes = circles.slice(-MEMBERS);
    for (const [at, [x, y, radius]] of nodes.entries()) {
      expect(radius).toBeGreaterThanOrEqual(8);
      for (const [left, top, size] of nodes.slice(0, at)) expect(Math.hypot(x! - left!, y! - top!)).toBeGreaterThan(radius! + size!);
    }
  }
});
