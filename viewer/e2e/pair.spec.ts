/** Two models and one text: two small ones with other pieces, trained here, and one of them beside the translator that comes with the package. */

import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { AxeBuilder } from "@axe-core/playwright";
import { expect, test, type Page } from "@playwright/test";
import { foveate, printed, serving, type Serving } from "./command";
import { address } from "./pages";
import { visited } from "./visit";

const pages = fileURLToPath(new URL("./pages/", import.meta.url));
/** The two runs, which a worker that starts again after a failure does not train again. */
const folder = `${pages}pair`;
const TEXT = "a woman sees the black horse .";
const WRITTEN = "une femme voit le cheval noir .";

/** Sentences of five subjects, verbs and objects each: what a model of a few thousand weights learns in seconds. */
function sentences(): string {
  const parts = [
    { "the cat": "le chat", "the dog": "le chien", "a man": "un homme", "a woman": "une femme", "the child": "l' enfant" },
    { sees: "voit", hears: "entend", loves: "aime", takes: "prend", finds: "trouve" },
    { "a red bicycle": "un vélo rouge", "the old house": "la vieille maison", "a small bird": "un petit oiseau", "the black horse": "le cheval noir", "the street": "la rue" },
  ].map((part) => Object.entries(part));
  return parts[0]!.flatMap(([a, x]) => parts[1]!.flatMap(([b, y]) => parts[2]!.map(([c, z]) => `${a} ${b} ${c} .\t${x} ${y} ${z} .\n`))).join("");
}

let server: Serving;
let url = "";
test.beforeAll(async () => {
  test.setTimeout(600_000);
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/pairs.tsv`, sentences());
  const recurrent = ["model=bahdanau", "model.embedding_dim=24", "model.hidden_dim=32", "model.maxout_dim=32"];
  const train = (name: string, tokeniser: string, steps: number, tokens: number, model = recurrent): void => {
    if (existsSync(`${folder}/${name}/model.safetensors`)) return;
    const settings = [`source_tokeniser=${tokeniser}`, `target_tokeniser=${tokeniser}`, ...model, `train.steps=${steps}`, `train.validate_every=${steps}`, "train.learning_rate=0.01", `data.max_tokens=${tokens}`];
    foveate("train", "translate", "--source", `${folder}/pairs.tsv`, "--out", `${folder}/${name}`, "--quiet", "--threads", "1", ...settings.flatMap((setting) => ["--set", setting]));
  };
  train("words", "word", 200, 600);
  train("pieces", "{kind='sentencepiece',vocab_size=290}", 400, 900);
  const transformer = ["model=transformer", "model.block.model_dim=24", "model.block.num_heads=4", "model.block.feedforward_dim=32", "model.encoder_layers=2", "model.decoder_layers=2"];
  train("brief", "word", 20, 600, transformer);
  train("longer", "word", 60, 600, transformer);
  foveate("look", `${folder}/brief`, "--beside", `${folder}/longer`, "--text", TEXT, "--target", WRITTEN, "--html", `${pages}heads-pair.html`);
  foveate("look", `${folder}/words`, "--beside", `${folder}/pieces`, "--text", TEXT, "--html", `${pages}pair.html`);
  foveate("look", "en-fr", "--beside", `${folder}/pieces`, "--text", "a man finds a red bicycle .", "--target", "un homme trouve un vélo rouge .", "--html", `${pages}beside.html`);
  foveate("look", "en-fr", "--beside", `${folder}/words`, "--text", "the dog hears a man .", "--html", `${pages}differing.html`);
  server = await serving("look", `${folder}/words`, "--beside", `${folder}/pieces`, "--text", TEXT, "--no-browser");
  ({ url } = server);
});
test.afterAll(() => server.end());

const story = (page: Page, at: number) => page.locator(".pairview article").nth(at);
const word = (page: Page, at: number, side: "key" | "query", text: string) => story(page, at).locator(`.sentence .${side} .word`, { hasText: new RegExp(`^${text}$`) }).first();
const line = async (page: Page, at: number, side: "key" | "query"): Promise<string> => (await story(page, at).locator(`.sentence .${side} .word:not(.end)`).allInnerTexts()).join(" ");

for (const where of ["page", "server"] as const) {
  test(`the ${where} tells both stories, and a word that is pointed at is lit in both`, async ({ page }) => {
    if (where === "page") expect(await visited(page, "pair", "", ".pairview article")).toEqual([]);
    else await page.goto(url);
    for (const at of [0, 1]) {
      await expect.poll(() => line(page, at, "key")).toBe(TEXT);
      expect(await line(page, at, "query")).toBe(WRITTEN);
    }
    await expect(page.locator(".pairview h2")).toHaveText(["words", "pieces"]);
    await expect(page.locator(".answers")).toContainText("Both answers have the same words");
    for (const [from, to] of [[0, 1], [1, 0]] as const) {
      await word(page, from, "key", "horse").hover();
      await expect(word(page, to, "key", "horse")).toHaveClass(/own/);
      await expect(story(page, to).locator(".told")).toContainText("horse was looked at by");
      await word(page, from, "query", "noir").hover();
      await expect(word(page, to, "query", "noir")).toHaveClass(/own/);
      await expect(word(page, to, "key", "horse")).not.toHaveClass(/own/);
    }
    await page.mouse.move(5, 5);
    await expect(story(page, 0).locator(".own")).toHaveCount(0);
    await expect(story(page, 1).locator(".own")).toHaveCount(0);
    await word(page, 0, "key", "a").focus();
    await page.keyboard.press("ArrowRight");
    await expect(word(page, 1, "key", "woman")).toHaveClass(/own/);
  });

  test(`the ${where} compares the maps word by word, and the numbers are those of Python`, async ({ page }) => {
    await page.goto(where === "page" ? address("pair") : url);
    await page.getByRole("button", { name: "Compare the weights" }).click();
    await expect(page.locator("figure")).toHaveCount(3);
    await expect(page.locator(".compareview > .note")).toContainText("cells are what both texts have in common");
    const canvas = page.locator("figure canvas.map").first();
    await canvas.focus();
    for (const key of ["ArrowDown", "ArrowRight"]) await page.keyboard.press(key);
    await expect(page.locator(".pairline")).toContainText(/looks at .*first .*second .*difference/);
    const said = (await page.locator(".pairline").innerText()).replace(/[\u2066-\u2069]/g, "");
    const [, query, key, first, second] = /^(\S+) looks at (\S+): first ([\d.e−]+), second ([\d.e−]+),/.exec(said)!;
    const script = `
import sys
from foveate.inspect import aligned
from foveate.tasks.translate.use import Translator
one, other = (Translator.load(run).trace(${JSON.stringify(TEXT)}) for run in sys.argv[1:3])
maps = aligned(one, other)
at = maps.rows.index(sys.argv[3]), maps.columns.index(sys.argv[4])
print(maps.first[at], maps.second[at])`;
    const answer = printed(script, `${folder}/words`, `${folder}/pieces`, query!, key!);
    const [one, two] = answer.trim().split(" ").map(Number);
    expect(Number(first!.replace("−", "-"))).toBeCloseTo(one!, 3);
    expect(Number(second!.replace("−", "-"))).toBeCloseTo(two!, 3);
    expect(one).not.toBeCloseTo(two!, 3);
  });
}

test("the shipped translator stands beside a small model with other pieces, within one page's size", async ({ page }) => {
  expect(statSync(`${pages}beside.html`).size).toBeLessThan(1e6);
  const strangers = await visited(page, "beside", "#view=compare", "figure canvas.map");
  await expect(page.locator("figure")).toHaveCount(3);
  await expect(page.getByLabel("Compare with")).toHaveValue("1");
  await page.getByLabel("Cells").selectOption("token");
  await expect(page.locator("figure")).toHaveCount(3);
  await page.getByRole("button", { name: "Story" }).click();
  await expect(page.locator(".pairview h2")).toHaveText(["en-fr", "pieces"]);
  await expect.poll(() => line(page, 0, "query")).toBe("un homme trouve un vélo rouge .");
  expect(strangers).toEqual([]);
});

test("where the answers differ the page says so, marks the words, and compares rows as far as they agree", async ({ page }) => {
  await visited(page, "differing", "", ".pairview article");
  await expect(page.locator(".answers")).toContainText("The two answers differ");
  await expect(story(page, 1).locator(".query .word.fresh").first()).toBeVisible();
  await page.getByRole("button", { name: "Compare the weights" }).click();
  await expect(page.locator(".compareview > p").first()).toContainText(/The two models wrote different texts|differ from the first word/);
});

test("a map of all heads has Python's distances, opens both heads by click and by key, and stays in the address", async ({ page }) => {
  expect(await visited(page, "heads-pair", "#view=compare&pairs=own", "canvas.pairs")).toEqual([]);
  await expect(page.locator("figcaption").first()).toContainText("mean of all");
  const canvas = page.locator("canvas.pairs");
  await canvas.focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowRight");
  const line = page.locator(".pairsline");
  await expect(line).toContainText(/decoder.1.cross_attention · 1 and decoder.1.cross_attention · 1: distance [\d.]+\.$/);
  await page.keyboard.press("Enter");
  await expect(page.locator("figcaption").nth(1)).toContainText("decoder.1.cross_attention · 1");
  await expect(page.getByLabel("Head", { exact: true }).nth(1)).toHaveValue("1");
  await page.locator(".headpairs select").selectOption("all");
  await expect(page.locator(".headpairs button")).toBeHidden();
  const script = `
import json, sys
from foveate.inspect import aligned
from foveate.tasks.translate.use import Translator
one, other = (Translator.load(run) for run in sys.argv[1:3])
one, other = (each.trace(${JSON.stringify(TEXT)}, ${JSON.stringify(WRITTEN)}) for each in (one, other))
site = one.index("decoder.0.cross_attention")
mean = lambda head, at: aligned(one, other, site=site, head=head, other_site=site + at // 4, other_head=at % 4).mean
print(json.dumps([[mean(head, at) for at in (0, 2)] for head in range(3)]))`;
  const stored = JSON.parse(printed(script, `${folder}/brief`, `${folder}/longer`)) as number[][];
  for (const [row, means] of stored.entries())
    for (const [at, mean] of means.entries()) {
      await canvas.hover({ position: { x: 28 + 12 + 48 * at, y: 18 + 12 + 24 * row } });
      await expect(line).toContainText(`cross_attention · ${row} and decoder.0.cross_attention · ${2 * at}:`);
      expect(Math.abs(Number(/([\d.]+)\.$/.exec(await line.innerText())![1]) - mean)).toBeLessThan(1e-3);
    }
  await canvas.click({ position: { x: 28 + 12 + 48, y: 18 + 12 } });
  await expect(page.locator("figcaption").first()).toContainText("decoder.0.cross_attention · 0");
  await expect(page.locator("figcaption").nth(1)).toContainText("decoder.0.cross_attention · 2");
  const link = new URL(page.url()).hash;
  await visited(page, "heads-pair", link, "canvas.pairs");
  await expect(page.locator(".headpairs select")).toHaveValue("all");
  await expect(page.locator("figcaption").nth(1)).toContainText("decoder.0.cross_attention · 2");
  const saving = page.waitForEvent("download");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Drawing (SVG)" }).click();
  const drawing = readFileSync(await (await saving).path(), "utf8");
  expect(drawing).toContain("Rows are heads");
  expect(drawing.match(/d="M[\d.]+ [\d.]+h23v23h-23z"/g)).toHaveLength(64 + 1);
});

test("the keys of Play reach the story that has the focus, and no other", async ({ page }) => {
  await visited(page, "pair", "", ".pairview article");
  await expect(story(page, 0).locator(".play .note")).toHaveText(/^(\d+) \/ \1$/);
  await story(page, 1).locator("h2").click();
  await page.keyboard.press("ArrowRight");
  await expect(story(page, 1).locator(".play .note")).toHaveText(/^1 \//);
  await expect(story(page, 0).locator(".play .note")).toHaveText(/^(\d+) \/ \1$/);
});

test("axe finds nothing, on a phone and in Persian, too", async ({ page }) => {
  for (const [width, name, hash] of [[1280, "pair", ""], [1280, "pair", "#view=compare&theme=dark"], [390, "pair", "#language=fa"], [1280, "heads-pair", "#view=compare&pairs=all"], [390, "heads-pair", "#view=compare&language=fa"]] as const) {
    await page.setViewportSize({ width, height: 844 });
    await page.goto("about:blank");
    await page.goto(address(name) + hash);
    await expect(page.locator(hash.includes("compare") ? "figure canvas.map" : ".pairview .threads path").first()).toBeAttached();
    await page.waitForTimeout(500);
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.map(({ id, nodes }) => [hash, id, nodes[0]?.html]), hash).toEqual([]);
    expect(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth)).toBe(true);
  }
});
