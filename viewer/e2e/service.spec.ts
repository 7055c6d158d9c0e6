/** The page of `foveate serve`, with the translator that comes with the package and a small language model; and pages of other origins. */

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { AxeBuilder } from "@axe-core/playwright";
import { expect, test, type Page } from "@playwright/test";
import { printed, root, serving, type Serving } from "./command";
import { capitals, persian, trainLanguages } from "./languages";

const KEY = "0123456789abcdef0123";
const TEXT = "The black cat sleeps.";
const WRITTEN = "Le chat noir dort.";
const RUNS = `${root}tests/golden/version_0_1/runs/`;
const FINGER = 44;

let open: Serving;
let guarded: Serving;
/** A service with a voice, and with a recogniser, which reads files. */
let sounding: Serving;
let friend: Server;
let folder: string;
/** The origin of pages that may ask, and of pages that may not. */
let origins: string[];
test.beforeAll(async () => {
  test.setTimeout(300_000);
  friend = createServer((_, response) => response.setHeader("content-type", "text/html").end("<title>Another page</title>")).listen(0, "127.0.0.1");
  await new Promise((resolve) => friend.once("listening", resolve));
  const { port } = friend.address() as AddressInfo;
  origins = [`http://127.0.0.1:${port}`, `http://localhost:${port}`];
  const keys = fileURLToPath(new URL("./pages/keys.txt", import.meta.url));
  writeFileSync(keys, `${KEY}\n`);
  const common = ["--port", "0", "--quiet", "--threads", "1", "--wait", "20", "--allow-origin", origins[0]!];
  folder = mkdtempSync(`${tmpdir()}/foveate-service-`);
  open = await serving("serve", "en-fr", `all=${trainLanguages(`${folder}/languages`)}`, `tags=${RUNS}tag_transformer`, `gpt=${RUNS}language_model_gpt`, ...common);
  guarded = await serving("serve", "en-fr", "--api-key-file", keys, ...common);
  sounding = await serving("serve", ...soundRuns(`${folder}/sound`), ...common);
});
test.afterAll(async () => {
  await Promise.all([open, guarded, sounding].map((each) => each.end()));
  friend.close();
  rmSync(folder, { recursive: true });
});

/** Small runs that speak and write down, as arguments of `foveate serve`. */
function soundRuns(place: string): string[] {
  const script = `
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.surface.sense_run import recogniser, voice
for name, train in (("voice", voice), ("asr", recogniser)):
    folder = Path(sys.argv[2]) / name
    folder.mkdir(parents=True)
    print(f"{name}={train(folder)}")
`;
  return printed(script, root, place).split("\n").filter((line) => /^(voice|asr)=/.test(line));
}

/** Opens the page of a service. The list fills with requests to other addresses, refusals and errors. */
async function visit(page: Page, { url }: Serving): Promise<string[]> {
  const strangers: string[] = [];
  page.on("request", (request) => !/^(blob|data):/.test(request.url()) && !request.url().startsWith(url) && strangers.push(request.url()));
  page.on("response", (response) => response.status() >= 400 && strangers.push(`${response.status()} ${response.url()}`));
  page.on("pageerror", (error) => strangers.push(String(error)));
  page.on("console", (message) => message.type() === "error" && strangers.push(message.text()));
  await page.goto(url);
  await expect(page.locator("#run option").first()).toBeAttached();
  return strangers;
}

test("a text is translated, its attention is drawn, and the viewer opens this very answer", async ({ page, context }) => {
  const strangers = await visit(page, open);
  await expect(page.locator("link[rel=icon]")).toHaveAttribute("href", /^data:/);
  await page.getByLabel("Text").fill(TEXT);
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.locator("#answer")).toHaveText(WRITTEN);
  await page.getByRole("button", { name: "Show the attention" }).click();
  const { rows: words, columns } = (await (await page.request.post(`${open.url}/explain`, { data: { source: TEXT } })).json()) as { rows: string[]; columns: string[] };
  await expect(page.locator("#map thead th")).toHaveText(columns);
  await expect(page.locator("#map tbody th")).toHaveText(words);
  const sums = await page.locator("#map tbody tr").evaluateAll((lines) => lines.map((line) => [...line.querySelectorAll("td")].reduce((sum, cell) => sum + Number(cell.textContent), 0)));
  for (const sum of sums) expect(Math.abs(sum - 1)).toBeLessThan(0.05);
  const [viewer] = await Promise.all([context.waitForEvent("page"), page.getByRole("link", { name: "Open this answer in the viewer" }).click()]);
  await expect(viewer.locator(".sentence .key .word").first()).toBeAttached();
  expect((await viewer.locator(".sentence .query .word:not(.end)").allInnerTexts()).join(" ")).toBe(WRITTEN);
  expect(strangers).toEqual([]);
});

test("an answer that comes late does not stand below a later question", async ({ page }) => {
  await visit(page, open);
  let release = (): void => undefined;
  const later = new Promise<void>((resolve) => (release = resolve));
  await page.route("**/translate", async (route) => {
    if ((route.request().postDataJSON() as { q: string }).q !== TEXT) await later;
    await route.continue();
  });
  const text = page.getByLabel("Text");
  await text.fill("b");
  const first = page.waitForResponse((response) => response.url().endsWith("/translate") && (response.request().postDataJSON() as { q: string }).q === "b");
  await page.getByRole("button", { name: "Ask" }).click();
  await text.fill(TEXT);
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.locator("#answer")).toHaveText(WRITTEN);
  release();
  await (await first).finished();
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
  await expect(page.locator("#answer")).toHaveText(WRITTEN);
});

test("the command for curl is copied, and asks what the page asks", async ({ page, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await visit(page, open);
  await page.getByLabel("Text").fill("It's a \"cat\".");
  await page.getByRole("button", { name: "Copy" }).click();
  await expect(page.locator("#state")).toHaveText("Copied");
  const command = await page.evaluate(() => navigator.clipboard.readText());
  // The words of the command, as a shell reads them.
  const words = [...command.matchAll(/(?:'[^']*'|\\'|[^\s'])+/g)].map(([word]) => word.replaceAll(/'([^']*)'|\\(')/g, "$1$2"));
  expect(words.slice(0, 4)).toEqual(["curl", "-H", "Content-Type: application/json", "-d"]);
  const response = await fetch(words[5]!, { method: "POST", headers: { "content-type": "application/json" }, body: words[4]! });
  expect(response.status).toBe(200);
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.locator("#answer")).toHaveText(((await response.json()) as { translatedText: string }).translatedText);
});

test("each model has its own question and answer", async ({ page }) => {
  const strangers = await visit(page, open);
  await page.getByLabel("Text").fill("a b c");
  for (const [run, task, shape] of [["tags", "tag", /^a\/\S+ b\/\S+ c\/\S+$/], ["gpt", "generate", /[abc]/]] as const) {
    await page.getByRole("combobox", { name: /^Model/ }).selectOption(`${run} (${task})`);
    await expect(page.locator("#curl")).toContainText(run);
    await page.getByRole("button", { name: "Ask" }).click();
    await expect(page.locator("#answer")).toHaveText(shape);
    await page.getByRole("button", { name: "Show the attention" }).click();
    await expect(page.locator("#map td").first()).toBeAttached();
  }
  expect(strangers).toEqual([]);
});

test("a translator of several languages stands in the list once for each pair", async ({ page }) => {
  const strangers = await visit(page, open);
  const word = "fad";
  for (const [pair, text, expected, rtl] of [
    ["en → de", word, capitals(word), false],
    ["en → fa", word, persian(word), false],
    ["fa → en", persian(word), word, true],
  ] as const) {
    await page.getByRole("combobox", { name: /^Model/ }).selectOption(`all (${pair})`);
    await page.getByLabel("Text").fill([...text.replaceAll(" ", "")].join(" "));
    await page.getByRole("button", { name: "Ask" }).click();
    await expect(page.locator("#answer")).toHaveText([...expected.replaceAll(" ", "")].join(" "));
    await expect(page.locator("#curl")).toContainText(`"target":"${pair.slice(-2)}"`);
    await page.getByRole("button", { name: "Show the attention" }).click();
    await expect(page.locator("#map thead th").first()).toHaveText(`<2${pair.slice(-2)}>`);
    await expect(page.locator("#map table")).toHaveAttribute("dir", rtl ? "rtl" : "ltr");
  }
  expect(strangers).toEqual([]);
});

for (const [locale, language, ask, option, unknown] of [
  ["fa-IR", "فارسی", "بپرس", /^\u2068tags\u2069 \(برچسب واژه‌ها\)$/, "مدل \u2068“🙂”\u2069 را نمی‌شناسد."],
  ["ru-RU", "Русский", "Спросить", /^tags \(разметка слов\)$/, "Модель не знает “🙂”."],
  ["zh-CN", "中文", "提问", /^tags \(标注词语\)$/, "模型不认识“🙂”。"],
] as const)
  test.describe(() => {
    test.use({ locale });
    test(`the page speaks ${language} to its readers, and fits their phones`, async ({ page }) => {
      const strangers = await visit(page, open);
      await expect(page.locator("html")).toHaveAttribute("dir", language === "فارسی" ? "rtl" : "ltr");
      await expect(page.locator("#run option", { hasText: "tags" })).toHaveText(option);
      await page.locator("#text").fill(`${TEXT} 🙂`);
      await page.getByRole("button", { name: ask, exact: true }).click();
      await expect(page.locator("#unknown")).toHaveText(unknown);
      await page.locator("#explain").click();
      await expect(page.locator("#map td").first()).toBeAttached();
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
      for (const width of [1280, 320]) {
        await page.setViewportSize({ width, height: 844 });
        expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)).toBeLessThanOrEqual(0);
      }
      await page.locator("#run").selectOption({ index: 2 });
      await page.locator("#language").selectOption("English");
      await expect(page.getByRole("button", { name: "Ask" })).toBeVisible();
      await expect(page.locator("html")).toHaveAttribute("dir", "ltr");
      expect(await page.locator("#run").evaluate((list: HTMLSelectElement) => list.selectedIndex)).toBe(2);
      expect(strangers).toEqual([]);
    });
  });

test("every language of the page has all its words", async ({ page }) => {
  await visit(page, open);
  const names = await page.evaluate("Object.values(WORDS).map((words) => Object.keys(words).join())");
  expect(new Set(names as string[]).size).toBe(1);
  expect(names).toHaveLength(4);
});

test("a service with keys asks for one, and says what is wrong", async ({ page }) => {
  await visit(page, guarded);
  await page.getByLabel("Text").fill(TEXT);
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.locator("#answer")).toContainText("A key is needed");
  await page.getByLabel("Key").fill(KEY);
  await expect(page.locator("#curl")).toContainText("Bearer KEY");
  await expect(page.locator("#curl")).not.toContainText(KEY);
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.locator("#answer")).toHaveText(WRITTEN);
});

test("the page fits a phone and a finger, and axe finds nothing, in light and dark", async ({ page }) => {
  await visit(page, open);
  await page.getByLabel("Text").fill("A man in a red shirt is riding a bicycle down the street.");
  await page.getByRole("button", { name: "Show the attention" }).click();
  await expect(page.locator("#map td").first()).toBeAttached();
  for (const colorScheme of ["light", "dark"] as const)
    for (const width of [1280, 390, 320]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 844 });
      expect(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), `${width}`).toBeLessThanOrEqual(0);
      const small = await page.locator("button, select, textarea").evaluateAll((parts, least) => parts.filter((part) => part.getBoundingClientRect().height < least).map(({ id }) => id), FINGER);
      expect(small).toEqual([]);
      const { violations } = await new AxeBuilder({ page }).analyze();
      expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html]), `${colorScheme}, ${width}`).toEqual([]);
    }
});

/** What a page of the present origin gets: the answer, or the browser's refusal. */
const asked = (page: Page, { url }: Serving, headers: Record<string, string>): Promise<string> =>
  page.evaluate(
    async ([url, headers, q]) => {
      try {
        const response = await fetch(`${url}/translate`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify({ q, source: "en", target: "fr" }) });
        const { translatedText, error } = (await response.json()) as { translatedText?: string; error?: string };
        return translatedText ?? error!;
      } catch (error) {
        return (error as Error).name;
      }
    },
    [url, headers, TEXT] as const,
  );

test("pages of a listed origin may ask, with and without a key, and others may not", async ({ page }) => {
  await page.goto(origins[0]!);
  expect(await asked(page, open, {})).toBe(WRITTEN);
  expect(await asked(page, guarded, { authorization: `Bearer ${KEY}` })).toBe(WRITTEN);
  expect(await asked(page, guarded, { "x-api-key": KEY })).toBe(WRITTEN);
  expect(await asked(page, guarded, {})).toContain("A key is needed");
  await page.goto(origins[1]!);
  expect(await asked(page, open, {})).toBe("TypeError");
});

test("a voice is heard, and a model that reads files has its command", async ({ page }) => {
  const strangers = await visit(page, sounding);
  await expect(page.locator("#run option")).toHaveText(["voice (speak)"]);
  await page.getByLabel("Text").fill("star rest tea");
  await expect(page.locator("#curl")).toHaveText(`curl -H 'Content-Type: application/json' -d '{"run":"voice","text":"star rest tea"}' -o speech.wav ${new URL(sounding.url).origin}/speak`);
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.locator("#sound")).toBeVisible();
  const heard = () => page.locator("#sound").evaluate((sound: HTMLAudioElement) => sound.duration);
  await expect.poll(heard).toBeGreaterThan(0.02);
  await page.getByRole("button", { name: "Show the attention" }).click();
  await expect(page.locator("#map th").last()).toBeVisible();
  await expect(page.locator("#sound")).toBeHidden();
  await expect(page.locator("#others")).toHaveText(`curl -F run=asr -F file=@FILE ${new URL(sounding.url).origin}/transcribe`);
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.locator("#sound")).toBeVisible();
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
  expect(strangers).toEqual([]);
});

test("the page says what the model does not know", async ({ page }) => {
  const strangers = await visit(page, open);
  await page.getByLabel("Text").fill(`${TEXT} 🙂`);
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.locator("#unknown")).toHaveText("The model does not know “🙂”.");
  await page.getByLabel("Text").fill(TEXT);
  await page.getByRole("button", { name: "Ask" }).click();
  await expect(page.locator("#answer")).toHaveText(WRITTEN);
  await expect(page.locator("#unknown")).toBeHidden();
  expect(strangers).toEqual([]);
});
