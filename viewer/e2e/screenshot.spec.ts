/** The pictures of the documentation. FOVEATE_SCREENSHOTS=1 takes them anew; otherwise each has to show what its view shows today. */

import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test, type Page } from "@playwright/test";
import { SENTENCE, SWITCHED } from "./answer";
import { foveate, python, root } from "./command";
import { address } from "./pages";

const FOLDER = `${root}docs/screenshots/`;
const TEXTS = fileURLToPath(new URL("./screenshot.json", import.meta.url));
const RENEW = process.env["FOVEATE_SCREENSHOTS"] === "1";
/** The mean difference of two pictures, of 255, above which they show different things; letters of other fonts stay below it. */
const FAR = 1.5;

interface Shot {
  page: string;
  hash?: string;
  width?: number;
  height: number;
  /** What has to be on the page before the picture is taken. */
  sign: string;
  does?(page: Page): Promise<void>;
}

const key = (page: Page, text: string) => page.locator(".sentence .key .word", { hasText: new RegExp(`^${text}$`) }).first();
const SHOTS: Record<string, Shot> = {
  story: { page: "translation", hash: "#word=query-5", width: 1120, height: 480, sign: ".threads path" },
  switched: {
    ...{ page: "switched", height: 560, sign: ".threads path" },
    async does(page) {
      await key(page, SWITCHED).click();
      await expect(key(page, SWITCHED)).toHaveClass(/off/);
      await page.locator(".sentence .query .word.fresh").first().hover();
    },
  },
  play: {
    ...{ page: "translation", width: 1120, height: 480, sign: ".threads path" },
    async does(page) {
      for (let word = 0; word < 7; word++) await page.keyboard.press("Space");
    },
  },
  overview: { page: "translation", hash: "#view=overview", height: 760, sign: "canvas" },
  map: { page: "translation", hash: "#view=map&query=6&key=4", height: 620, sign: "canvas" },
  steps: { page: "self-attention", hash: "#view=steps&query=0&step=3", height: 520, sign: ".steps, .step" },
  caption: { page: "caption", hash: "#query=4", height: 520, sign: "canvas, svg" },
  molecule: { page: "aspirin", height: 700, sign: "canvas" },
  sound: { page: "speech", hash: "#word=query-4", height: 600, sign: "canvas, svg" },
  why: { page: "why", width: 840, height: 262, sign: "svg" },
};

test.use({ viewport: { width: 960, height: 600 }, deviceScaleFactor: 1.5, reducedMotion: "reduce" });
test.beforeAll(() => {
  test.setTimeout(300_000);
  const pages = fileURLToPath(new URL("./pages/", import.meta.url));
  const recorded = fileURLToPath(new URL("./recorded/", import.meta.url));
  const look = (...what: string[]): void => foveate("look", ...what);
  look("en-fr", "--text", SENTENCE, "--html", `${pages}switched.html`, "--ablations");
  look("en-fr", "The small black cat is sleeping.", "--why", "chat", "--out", `${pages}why.svg`);
  writeFileSync(`${pages}why.html`, `<body style="margin:0">${readFileSync(`${pages}why.svg`, "utf8")}`);
  for (const name of ["caption", "aspirin"]) look(`${recorded}${name}.trace`, "--html", `${pages}${name}.html`);
});

async function taken(page: Page, shot: Shot): Promise<Buffer> {
  await page.setViewportSize({ width: shot.width ?? 960, height: shot.height });
  await page.goto("about:blank");
  await page.goto(address(shot.page) + (shot.hash ?? ""));
  await expect(page.locator(shot.sign).first()).toBeAttached();
  await shot.does?.(page);
  let [before, now]: Buffer[] = [Buffer.alloc(0), await page.screenshot()];
  for (let tries = 0; !now!.equals(before!) && tries < 20; tries++) {
    await page.waitForTimeout(200);
    [before, now] = [now!, await page.screenshot()];
  }
  return now!;
}

/** What the picture shows, in words. */
const said = async (page: Page): Promise<string> => (await page.locator(".view, body:has(> svg)").first().innerText()).replace(/\s+/g, " ").trim();

const NUMBER = /\d+\.\d+/g;

/** Whether two texts differ only in the last digits of numbers, by one: another processor rounds otherwise. */
function alike(one: string, other: string): boolean {
  if (one.replace(NUMBER, "#") !== other.replace(NUMBER, "#")) return false;
  const theirs = other.match(NUMBER) ?? [];
  return (one.match(NUMBER) ?? []).every((number, at) => {
    const digits = number.split(".")[1]!.length;
    return digits === theirs[at]!.split(".")[1]!.length && Math.abs(Number(number) - Number(theirs[at])) < 1.5 * 10 ** -digits;
  });
}

/** How far apart two pictures are: the mean difference of their colours, of 255, in squares of 24 pixels. */
const apart = (page: Page, one: Buffer, other: Buffer): Promise<number> =>
  page.evaluate(
    async (pictures) => {
      const [a, b] = await Promise.all(
        pictures.map(async (data) => {
          const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
          const image = await createImageBitmap(new Blob([bytes], { type: "image/png" }));
          const canvas = new OffscreenCanvas(Math.ceil(image.width / 24), Math.ceil(image.height / 24));
          const context = canvas.getContext("2d")!;
          context.imageSmoothingQuality = "high";
          context.drawImage(image, 0, 0, canvas.width, canvas.height);
          return context.getImageData(0, 0, canvas.width, canvas.height).data;
        }),
      );
      return a!.length === b!.length ? a!.reduce((sum, value, at) => sum + Math.abs(value - b![at]!), 0) / a!.length : Infinity;
    },
    [one.toString("base64"), other.toString("base64")],
  );

for (const [name, shot] of Object.entries(SHOTS)) {
  test(`the picture of the documentation shows the view: ${name}`, async ({ page }) => {
    const picture = await taken(page, shot);
    const texts = existsSync(TEXTS) ? (JSON.parse(readFileSync(TEXTS, "utf8")) as Record<string, string>) : {};
    if (RENEW) {
      const file = join(mkdtempSync(join(tmpdir(), "shot-")), "shot.png");
      writeFileSync(file, picture);
      execFileSync(python, [fileURLToPath(new URL("./palette.py", import.meta.url)), file, `${FOLDER}${name}.png`]);
      writeFileSync(TEXTS, `${JSON.stringify({ ...texts, [name]: await said(page) }, Object.keys({ ...texts, [name]: "" }).sort(), 1)}\n`);
    }
    const hint = "The view has changed. Look at it, and take its picture anew: FOVEATE_SCREENSHOTS=1 npx playwright test e2e/screenshot.spec.ts";
    if (!RENEW) {
      const text = await said(page);
      if (!alike(text, texts[name] ?? "")) expect(text, hint).toBe(texts[name]);
    }
    expect(await apart(page, picture, readFileSync(`${FOLDER}${name}.png`)), hint).toBeLessThan(FAR);
  });
}

test("pictures are small, are those of this list, and differ by more than what is let through", async ({ page }) => {
  const files = readdirSync(FOLDER).filter((file) => file.endsWith(".png"));
  expect(files.sort()).toEqual(Object.keys(SHOTS).map((name) => `${name}.png`).sort());
  const sizes = files.map((file) => statSync(FOLDER + file).size);
  expect(Math.max(...sizes)).toBeLessThanOrEqual(60_000);
  expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(600_000);
  const pictures = files.map((file) => readFileSync(FOLDER + file));
  for (const [at, one] of pictures.entries()) for (const other of pictures.slice(at + 1)) expect(await apart(page, one, other)).toBeGreaterThan(FAR);
});
