/** The documentation site in a browser: direction, fonts, widths, search, the viewer inside lessons, and no request to elsewhere. */

import { expect, test, type Page } from "@playwright/test";
import { execFileSync } from "node:child_process";
import { createReadStream, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../build/docs/site/", import.meta.url));
const VERSION = /^__version__ = "(.+)"$/m.exec(readFileSync(new URL("../../src/foveate/__init__.py", import.meta.url), "utf8"))![1]!;
const SITE = `${ROOT}${VERSION}/`;
const TYPES: Record<string, string> = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".woff2": "font/woff2", ".svg": "image/svg+xml", ".png": "image/png", ".json": "application/json" };
const LANGUAGES = { en: "ltr", fa: "rtl", ru: "ltr", zh_CN: "ltr" } as const;
type Language = keyof typeof LANGUAGES;

let server: Server;
let origin: string;
let home: string;

test.beforeAll(async () => {
  expect(existsSync(`${SITE}en/index.html`), "`python docs/website/build_site.py` builds the site").toBe(true);
  server = createServer((request, response) => {
    const path = join(ROOT, decodeURIComponent(new URL(request.url!, "http://site").pathname));
    if (!existsSync(path)) return void response.writeHead(404).end();
    response.setHeader("content-type", TYPES[extname(path)] ?? "application/octet-stream");
    createReadStream(path).pipe(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  home = `${origin}${VERSION}/`;
});
test.afterAll(() => server.close());

test("a lesson is at most a megabyte, with the viewer's pages and the pictures inside it", () => {
  for (const language of Object.keys(LANGUAGES)) {
    const folder = `${SITE}${language}/docs/lessons/`;
    for (const name of readdirSync(folder).filter((file) => file.endsWith(".html"))) {
      const text = readFileSync(folder + name, "utf8");
      const parts = [...text.matchAll(/<(?:iframe|img)[^>]*\bsrc="([^"#:]+)/g)].map((match) => join(folder, match[1]!));
      const sizes = [folder + name, ...new Set(parts)].map((file) => statSync(file).size);
      expect(sizes.reduce((sum, size) => sum + size, 0), `${language}/${name}`).toBeLessThan(1_000_000);
    }
  }
});

/** Opens a page; what it requests from elsewhere or in vain, and what it complains about, is the answer of the function. */
async function open(page: Page, path: string): Promise<() => string[]> {
  const wrong: string[] = [];
  page.on("request", (request) => {
    if (!request.url().startsWith(origin) && !/^(data|blob|about):/.test(request.url())) wrong.push(`asked ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 400 && !response.url().endsWith("/favicon.ico")) wrong.push(`${response.status()} ${response.url()}`);
  });
  page.on("pageerror", (error) => wrong.push(String(error)));
  await page.goto(home + path, { waitUntil: "load" });
  return () => wrong;
}

const lessons = (language: Language): string[] => readdirSync(`${SITE}${language}/docs/lessons`).filter((name) => name.endsWith(".html")).map((name) => `${language}/docs/lessons/${name}`);

for (const [language, direction] of Object.entries(LANGUAGES) as [Language, string][]) {
  for (const width of [1300, 390]) {
    test(`lessons in ${language} fit into ${width} pixels, with their direction and fonts`, async ({ page }) => {
      await page.setViewportSize({ width, height: 900 });
      for (const path of [`${language}/index.html`, ...lessons(language)]) {
        const wrong = await open(page, path);
        const shown = await page.evaluate(async () => {
          await document.fonts.ready;
          const direction = (selector: string): string[] => [...document.querySelectorAll(`article ${selector}`)].map((node) => getComputedStyle(node).direction);
          const heading = document.querySelector("h1")!;
          return {
            html: document.documentElement.dir,
            text: [...new Set(direction("p"))].filter((each) => each),
            code: [...new Set([...direction("pre"), ...direction("math")])],
            wide: document.documentElement.scrollWidth - innerWidth,
            fonts: [...document.fonts].filter((font) => font.status === "loaded").map((font) => font.family),
            heading: getComputedStyle(heading).fontFamily,
          };
        });
        expect(shown.html, path).toBe(direction);
        expect(shown.text, path).toContain(direction);
        expect(shown.code.filter((each) => each !== "ltr"), path).toEqual([]);
        expect(shown.wide, path).toBeLessThanOrEqual(0);
        expect(shown.heading, path).toMatch(/^Vazirmatn/);
        if (language === "fa") expect(shown.fonts, path).toContain("Vazirmatn");
        expect(wrong(), path).toEqual([]);
      }
    });
  }

  test(`the answers of lessons in ${language} are closed until they are opened`, async ({ page }) => {
    await open(page, `${language}/docs/lessons/additive.html`);
    const answer = page.locator("details.answer");
    await expect(answer.locator("p")).toBeHidden();
    await answer.locator("summary").click();
    await expect(answer.locator("p")).toBeVisible();
    await expect(answer.locator("p")).toContainText("1");
  });

  test(`lessons in ${language} contain the viewer in their language`, async ({ page }) => {
    for (const path of lessons(language).filter((each) => /<iframe class="viewer"/.test(readFileSync(SITE + each, "utf8")))) {
      const wrong = await open(page, path);
      const frame = page.locator("iframe.viewer").first();
      await frame.scrollIntoViewIfNeeded();
      const body = frame.contentFrame().locator("html");
      await expect(body, path).toHaveAttribute("lang", new RegExp(`^${language.slice(0, 2)}`));
      await expect(frame.contentFrame().locator("#foveate *").first(), path).toBeAttached();
      expect(wrong(), path).toEqual([]);
    }
  });
}

const QUERIES: [Language, string][] = [["en", "additive"], ["en", "sparsemax"], ["en", "beam search"], ["en", "vanishing gradient"], ["fa", "هم‌ترازی"], ["fa", "رمزگذار"], ["ru", "выравнивания"], ["ru", "энкодер"], ["zh_CN", "对齐"], ["zh_CN", "注意力"]];
for (const [language, query] of QUERIES) {
  test(`search in ${language} finds ${query}`, async ({ page }) => {
    const wrong = await open(page, `${language}/search.html?q=${encodeURIComponent(query)}`);
    await expect(page.locator("#search-results a").first()).toBeVisible();
    // The search finds other endings of a word, too.
    await expect(page.locator("#search-results")).toContainText(new RegExp(query.split(" ")[0]!.slice(0, 10), "i"));
    expect(wrong()).toEqual([]);
  });
}

test("pages that are opened from a disk have a search, too", async ({ page }) => {
  await page.goto(`file://${SITE}en/search.html?q=sparsemax`);
  await expect(page.locator("#search-results li a").first()).toBeVisible();
});

/** A folder with the version that was built. */
function alone(): string {
  const folder = mkdtempSync(join(tmpdir(), "versions-"));
  symlinkSync(SITE, join(folder, VERSION));
  return folder;
}

/** The same with an older version that has two pages, and one whose name is a whole number. */
function sideBySide(): string {
  const folder = alone();
  mkdirSync(join(folder, "0.0.1/en/docs/lessons"), { recursive: true });
  for (const name of ["en/index.html", "en/docs/lessons/graphs.html"]) writeFileSync(join(folder, "0.0.1", name), `<title>old ${name}</title>`);
  mkdirSync(join(folder, "0/en"), { recursive: true });
  writeFileSync(join(folder, "0/en/index.html"), "");
  execFileSync(process.env["PYTHON"] ?? "../.venv/bin/python", ["../docs/website/version_list.py", folder]);
  return folder;
}

test("a version is chosen among those that lie side by side, also from a disk", async ({ page }) => {
  const folder = sideBySide();
  try {
    await page.goto(`file://${folder}/index.html`);
    await expect(page).toHaveURL(new RegExp(`/${VERSION.replaceAll(".", "\\.")}/en/index.html$`));
    await page.goto(`file://${folder}/${VERSION}/ru/docs/lessons/graphs.html`);
    const choice = page.locator(".version select");
    await expect(choice).toHaveValue(VERSION);
    expect(await choice.locator("option").allTextContents()).toEqual([VERSION, "0.0.1", "0"]);
    await choice.selectOption("0.0.1");
    await expect(page, "the older version has English only").toHaveTitle("old en/index.html");
    await page.goto(`file://${folder}/${VERSION}/en/docs/lessons/graphs.html`);
    await choice.selectOption("0.0.1");
    await expect(page, "the same page").toHaveTitle("old en/docs/lessons/graphs.html");
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("a version that stands alone says its number", async ({ page }) => {
  const folder = alone();
  try {
    await page.goto(`file://${folder}/${VERSION}/en/docs/lessons/graphs.html`);
    await expect(page.locator(".version")).toContainText(VERSION);
    await expect(page.locator(".version select")).toHaveCount(0);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("the page of a lesson opens with all controls", async ({ page }) => {
  const wrong = await open(page, "fa/docs/lessons/pictures.html");
  const [whole] = await Promise.all([page.waitForEvent("popup"), page.locator(".whole a").click()]);
  await expect(whole.locator("html")).toHaveAttribute("lang", "fa");
  await expect(whole.locator("nav button").first()).toBeVisible();
  expect(wrong()).toEqual([]);
});

test("manual and reference fit into a phone", async ({ page }) => {
  await page.setViewportSize({ width: 390, height: 900 });
  for (const path of ["en/README.html", "en/docs/commands.html", "en/docs/graphs.html", "en/docs/mechanisms/README.html", "en/docs/mechanisms/score-additive.html", "en/reference/attention.html"]) {
    const wrong = await open(page, path);
    expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), path).toBeLessThanOrEqual(0);
    expect(wrong(), path).toEqual([]);
  }
});
