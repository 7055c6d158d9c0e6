/** On paper: the view without anything to press, in light colours, nothing cut, and lines at their words. */

import { execFileSync, spawnSync } from "node:child_process";
import { expect, test, type Page } from "@playwright/test";
import { expected, SENTENCE } from "./answer";
import { address } from "./pages";
import { TOUR } from "./tour";

/** Reads what was printed, where poppler is installed. */
const READER = "pdftotext";
const PAPERS = { A4: [595, 842], Letter: [612, 792] } as const;

interface Told {
  faults: string[];
}

/** Has a page say what is wrong with its layout when it is printed, after everything else that hears of it. */
async function watch(page: Page): Promise<void> {
  await page.evaluate(() => {
    const check = (): Told => {
      const faults: string[] = [];
      const root = document.querySelector<HTMLElement>(".foveate")!;
      const edge = root.getBoundingClientRect();
      const name = (element: Element): string => `${element.tagName.toLowerCase()}.${element.getAttribute("class")}`;
      const shown = (element: Element): boolean => element.checkVisibility() && element.getBoundingClientRect().width > 0;
      if (root.dataset["theme"] !== "light") faults.push("dark colours");
      if (edge.width < 640) faults.push(`${edge.width} pixels of the page are printed on`);
      for (const element of root.querySelectorAll("header.bar,.tools,.controls,.zoom,.path,.menu,dialog,.share,.play,.pharaoh,.mini,select,input")) if (shown(element)) faults.push(`${name(element)} is printed`);
      for (const element of root.querySelectorAll<HTMLElement>("main *")) {
        if (!shown(element) || element.closest("svg,math")) continue;
        const box = element.getBoundingClientRect();
        if (box.left < edge.left - 1 || box.right > edge.right + 1) faults.push(`${name(element)} reaches from ${box.left} to ${box.right}, the page from ${edge.left} to ${edge.right}`);
        const { overflowX, overflowY, textOverflow } = getComputedStyle(element);
        // A label of 5,000 letters ends with "…" everywhere.
        if (textOverflow === "ellipsis") continue;
        if (overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1) faults.push(`${name(element)} is cut at ${element.clientWidth} of ${element.scrollWidth}`);
        if (overflowY !== "visible" && element.scrollHeight > element.clientHeight + 4) faults.push(`${name(element)} is cut at ${element.clientHeight} of ${element.scrollHeight} down`);
      }
      for (const canvas of root.querySelectorAll<HTMLElement>("canvas.lines")) {
        const [box, own] = [canvas.parentElement!.getBoundingClientRect(), canvas.getBoundingClientRect()];
        // Tokens are where they were when the lines were drawn, as long as their box is as large as it was.
        if (Math.hypot(box.width - own.width, box.height - own.height, box.top - own.top) > 3) faults.push(`lines over ${own.width} × ${own.height} of ${box.width} × ${box.height}`);
      }
      const written = [...root.querySelectorAll(".sentence .written")].map((word) => word.getBoundingClientRect());
      for (const path of root.querySelectorAll<SVGPathElement>(".threads path")) {
        const matrix = path.getScreenCTM()!;
        for (const at of [0, path.getTotalLength()]) {
          const { x, y } = path.getPointAtLength(at).matrixTransform(matrix);
          // Straight above, below or beside a word, and near it.
          const far = Math.min(...written.map(({ left, right, top, bottom }) => {
            const [dx, dy] = [Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom)];
            return Math.min(dx, dy) + Math.max(0, Math.max(dx, dy) - 30);
          }));
          if (far > 2) faults.push(`a line ends ${far.toFixed(1)} pixels from any word`);
        }
      }
      const [head] = root.querySelectorAll(".letterhead");
      if (!head || !shown(head)) faults.push("no letterhead");
      if (!root.querySelector(".storyview") && ![...root.querySelectorAll(".legend .scale .bar")].some(shown)) faults.push("no legend");
      return { faults: [...new Set(faults)].slice(0, 9) };
    };
    const printed = matchMedia("print");
    const hear = async (): Promise<void> => {
      // Before a page is painted on paper, everything runs that it has set going, but nothing that waits for a clock.
      for (let turn = 0; turn < 200; turn++) await null;
      (globalThis as unknown as { told: Told }).told = check();
    };
    printed.addEventListener("change", () => printed.matches && void hear());
  });
}

async function printed(page: Page, format: keyof typeof PAPERS): Promise<Told & { file: Buffer }> {
  const file = await page.pdf({ format });
  return { file, ...(await page.evaluate(() => (globalThis as unknown as { told: Told }).told)) };
}

const read = (file: Buffer): string => execFileSync(READER, ["-layout", "-", "-"], { input: file }).toString();

for (const [width, height, format] of [[1280, 800, "A4"], [390, 844, "Letter"]] as const) {
  test(`every view is printed whole on ${format} from a screen of ${width} pixels`, async ({ page }) => {
    test.slow();
    await page.setViewportSize({ width, height });
    for (const name of new Set(TOUR.map(({ page }) => page))) {
      await page.goto(address(name));
      await expect(page.locator("h1")).toBeAttached();
      await watch(page);
      for (const { hash, sign } of TOUR.filter((stop) => stop.page === name)) {
        await page.evaluate((hash) => void (location.hash = hash), `${hash}&theme=dark`);
        await expect(page.locator(sign).first()).toBeAttached();
        const told = await printed(page, format);
        expect(told.faults, `${name}#${hash}`).toEqual([]);
        expect(told.file.toString("latin1")).toMatch(new RegExp(`/MediaBox \\[0 0 ${PAPERS[format][0]}[.\\d]* ${PAPERS[format][1]}`));
        // The screen is as it was.
        await expect(page.locator(".foveate")).not.toHaveClass(/printing/);
        await expect(page.locator(".foveate")).toHaveAttribute("data-theme", "dark");
      }
    }
  });
}

test("what is printed names the model, the view and the sentence, and has its words, but nothing to press", async ({ page }) => {
  test.skip(spawnSync(READER, ["-v"]).error !== undefined, `${READER} is not installed`);
  for (const [hash, view, words] of [["view=story", "Story", expected().target], ["view=alignment&theme=dark", "Alignment", ["graphical", "interface", "</s>"]], ["view=steps&query=3&step=all", "Steps", ["Exponentials: all positive."]]] as const) {
    await page.goto("about:blank");
    await page.goto(`${address("translation")}#${hash}`);
    await expect(page.locator(hash.includes("steps") ? ".step" : hash.includes("story") ? ".threads path" : ".words .token").first()).toBeAttached();
    const text = read(await page.pdf({ format: "A4" }));
    expect(text).toContain(`en-fr · ${view}`);
    expect(text).toContain(SENTENCE);
    for (const word of words) expect(text).toContain(word);
    for (const button of ["Copy link", "More", "Play", "Next step", "Where these numbers"]) expect(text).not.toContain(button);
  }
});

test("the keys of printing wait until every head is drawn", async ({ page }) => {
  await page.setViewportSize({ width: 600, height: 500 });
  await page.addInitScript(() => {
    const global = globalThis as unknown as { left: number | null };
    global.left = null;
    globalThis.print = () => void (global.left = document.querySelectorAll("canvas.thumbnail:not([data-drawn])").length);
  });
  await page.goto(`${address("translation")}#view=overview`);
  await expect(page.locator(".thumbnail[data-drawn]").first()).toBeAttached();
  expect(await page.locator(".thumbnail:not([data-drawn])").count()).toBeGreaterThan(0);
  await page.keyboard.press("Control+p");
  await expect.poll(() => page.evaluate(() => (globalThis as unknown as { left: number | null }).left)).toBe(0);
});

test("a screen narrower than paper, or wider, is laid out anew before and after", async ({ page }) => {
  await page.goto(`${address("translation")}#view=story`);
  await expect(page.locator(".threads path").first()).toBeAttached();
  const drawing = () => page.locator(".threads").evaluate((lines) => lines.innerHTML);
  const before = await drawing();
  await page.emulateMedia({ media: "print" });
  await expect(page.locator(".foveate")).toHaveClass(/printing/);
  await expect.poll(drawing).not.toBe(before);
  await page.emulateMedia({ media: "screen" });
  await expect.poll(drawing).toBe(before);
});
