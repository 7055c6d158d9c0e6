/** Play, Save and Copy link, on the page of the translator that comes with the package, and on small ones. */

import { readFileSync } from "node:fs";
import { AxeBuilder } from "@axe-core/playwright";
import { expect, test, type Page } from "@playwright/test";
import { expected, percent, SENTENCE, strongest } from "./answer";
import { address } from "./pages";
import { visited } from "./visit";

const visit = (page: Page, name: string, hash = "") => visited(page, name, hash, ".view canvas, .threads path, .stepsview .walk button");

async function saved(page: Page, kind: "SVG" | "PNG" | "GIF"): Promise<{ name: string; bytes: Buffer }> {
  const button = page.locator(".share > button").first();
  if ((await button.getAttribute("aria-expanded")) !== "true") await button.click();
  const [download] = await Promise.all([page.waitForEvent("download"), page.locator(".menu button", { hasText: kind }).click()]);
  const bytes = readFileSync((await download.path())!);
  await expect(page.locator(".foveate")).not.toHaveClass(/saving/);
  return { name: download.suggestedFilename(), bytes };
}

interface Parsed {
  texts: string[];
  title: string;
  size: [number, number];
  paths: { weight: number; width: number }[];
  strange: string[];
}
/** An SVG read by another document, as another program would. */
const parsed = (page: Page, bytes: Buffer): Promise<Parsed> =>
  page.evaluate((source) => {
    const svg = new DOMParser().parseFromString(source, "image/svg+xml");
    if (svg.querySelector("parsererror")) throw new Error(svg.documentElement.textContent!);
    const all = [...svg.querySelectorAll("*")];
    return {
      texts: [...svg.querySelectorAll("text")].map((text) => text.textContent!),
      title: svg.querySelector("title")!.textContent!,
      size: ["width", "height"].map((name) => Number(svg.documentElement.getAttribute(name))) as [number, number],
      paths: [...svg.querySelectorAll<SVGPathElement>("path[data-weight]")].map((path) => ({ weight: Number(path.dataset["weight"]), width: Number(path.getAttribute("stroke-width")) })),
      strange: all.filter((each) => /script|foreignObject/.test(each.localName) || /^(https?|file):/.test(each.getAttribute("href") ?? "") || [...each.attributes].some(({ name, value }) => name !== "href" && /NaN|undefined|Infinity/.test(value))).map((each) => each.outerHTML),
    };
  }, bytes.toString());

const unwritten = (page: Page) => page.locator(".unwritten");
const answer = (): string[] => [...expected().target, "end"];

test("the answer is written word by word, each with its own weights, and pauses", async ({ page }) => {
  const strangers = await visit(page, "translation");
  await expect(unwritten(page)).toHaveCount(0);
  const speed = page.getByRole("button", { name: /Speed/ });
  await page.keyboard.press("ArrowUp");
  await page.keyboard.press("ArrowUp");
  await expect(speed).toHaveText("4×");
  await page.keyboard.press("Space");
  // Somewhere in the middle, however fast this machine is.
  await page.waitForFunction(([least, most]) => ((left) => left >= least! && left <= most!)(document.querySelectorAll(".unwritten").length), [2, answer().length - 3]);
  await page.keyboard.press("Space");
  await expect(page.getByRole("button", { name: "Play", exact: true })).toBeVisible();
  const left = await unwritten(page).count();
  const at = answer().length - left;
  await expect(page.locator(".told")).toContainText(`${answer()[at - 1]!}`);
  await expect(page.locator(".key.line .unwritten")).toHaveCount(0);
  await page.waitForTimeout(600);
  await expect(unwritten(page)).toHaveCount(left);
  await page.keyboard.press("ArrowRight");
  await expect(unwritten(page)).toHaveCount(left - 1);
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("ArrowLeft");
  await expect(unwritten(page)).toHaveCount(left + 1);
  await page.keyboard.press("Escape");
  await expect(unwritten(page)).toHaveCount(0);
  expect(page.url()).not.toContain("word=");
  await page.getByRole("button", { name: "Play", exact: true }).click();
  await expect(unwritten(page).first()).toBeAttached();
  await expect(unwritten(page)).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Play", exact: true })).toBeVisible();
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
  expect(strangers).toEqual([]);
});

test("nothing moves by itself for those who asked for that: Play steps", async ({ page }) => {
  await page.emulateMedia({ reducedMotion: "reduce" });
  await visit(page, "translation");
  await expect(page.getByRole("button", { name: "Play", exact: true })).toHaveCount(0);
  await page.locator(".play .primary").click();
  await expect(unwritten(page)).toHaveCount(answer().length - 1);
  await page.waitForTimeout(1500);
  await expect(unwritten(page)).toHaveCount(answer().length - 1);
  await page.mouse.click(5, 300);
  await page.keyboard.press("Space");
  await expect(unwritten(page)).toHaveCount(answer().length - 2);
});

test("prompts, captions and transcripts are played, too; a text that looks ahead is never hidden", async ({ page }) => {
  await visit(page, "causal", "#view=story");
  await page.getByRole("button", { name: "Next word" }).click();
  await expect(unwritten(page)).toHaveCount(127);
  await visit(page, "labelled");
  await page.getByRole("button", { name: "Next word" }).click();
  await expect(page.locator(".told")).toContainText("The looked at");
  await expect(unwritten(page)).toHaveCount(0);
  await visit(page, "captioned");
  const next = page.getByRole("button", { name: "Next word" });
  for (const left of [4, 3, 1]) {
    await next.click();
    await expect(unwritten(page)).toHaveCount(left);
  }
  await expect(page.locator(".tokens [aria-pressed=true]")).toHaveText("sle");
  await visit(page, "speech");
  await next.click();
  await expect(page.locator(".ofletters .unwritten, .oftokens .unwritten")).toHaveCount(4);
  await expect(page.locator(".ofwords [aria-pressed=true]")).toHaveText("one");
});

test("a story is saved as a drawing with its words, whose lines are as thick as weights", async ({ page }) => {
  const strangers = await visit(page, "translation", `#word=query-${strongest().query}`);
  const { name, bytes } = await saved(page, "SVG");
  expect(name).toBe("en-fr-story.svg");
  const { texts, title, paths, strange, size } = await parsed(page, bytes);
  expect(title).toContain("en-fr");
  expect(title).toContain(SENTENCE);
  expect(texts[0]).toBe("en-fr");
  expect(texts).toEqual(expect.arrayContaining([...SENTENCE.split(" "), ...answer(), percent(strongest().share), "layer 1 (0 to 1) · mean of 8 heads"]));
  const words = [...SENTENCE.split(" "), ...expected().target];
  expect(texts.filter((text) => words.includes(text))).toEqual(words);
  expect(strange).toEqual([]);
  expect(paths.length).toBe(await page.locator(".threads path").count());
  const byWeight = [...paths].sort((a, b) => a.weight - b.weight);
  expect(byWeight.map(({ width }) => width)).toEqual([...paths.map(({ width }) => width)].sort((a, b) => a - b));
  expect(byWeight.at(-1)!.width / byWeight[0]!.width).toBeGreaterThan(3);
  expect(byWeight.at(-1)!.width).toBeCloseTo(1.5 + 10 * strongest().share, 0);
  const png = await saved(page, "PNG");
  expect(png.name).toBe("en-fr-story.png");
  expect(png.bytes.subarray(1, 4).toString()).toBe("PNG");
  expect([png.bytes.readUInt32BE(16), png.bytes.readUInt32BE(20)]).toEqual(size.map((each) => 2 * each));
  expect(strangers).toEqual([]);
});

test("Play is saved as a film of one frame for each word, one before and one after", async ({ page }) => {
  const strangers = await visit(page, "translation");
  // In the middle of Play, whose state is not part of the film.
  for (let word = 0; word < 3; word++) await page.getByRole("button", { name: "Next word" }).click();
  const { name, bytes } = await saved(page, "GIF");
  expect(name).toBe("en-fr-story.gif");
  expect(page.url()).toContain("word=query-2");
  await expect(unwritten(page)).toHaveCount(0);
  await expect(page.locator(".play .note")).toHaveText(`${answer().length} / ${answer().length}`);
  const film = await page.evaluate(async (base64) => {
    const data = Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
    const decoder = new ImageDecoder({ data, type: "image/gif" });
    await decoder.tracks.ready;
    await decoder.completed;
    const ink: number[] = [];
    const lasts: number[] = [];
    const { frameCount, repetitionCount } = decoder.tracks.selectedTrack!;
    for (let frameIndex = 0; frameIndex < frameCount; frameIndex++) {
      const { image } = await decoder.decode({ frameIndex });
      const canvas = new OffscreenCanvas(image.displayWidth, image.displayHeight);
      const context = canvas.getContext("2d")!;
      context.drawImage(image, 0, 0);
      // How far to the right anything is written in the lower half, above the note.
      const [top, height] = [Math.round(canvas.height * 0.7), Math.round(canvas.height * 0.09)];
      const { data: pixels } = context.getImageData(0, top, canvas.width, height);
      let right = 0;
      for (let at = 0; at < pixels.length; at += 4) if (pixels[at]! < 120) right = Math.max(right, (at / 4) % canvas.width);
      ink.push(right);
      lasts.push(image.duration! / 1e6);
    }
    return { frameCount, repetitionCount, ink, lasts };
  }, bytes.toString("base64"));
  expect(film.frameCount).toBe(answer().length + 2);
  expect(film.repetitionCount).toBe(Infinity);
  expect(film.ink[0]).toBe(0);
  for (let word = 1; word < answer().length - 1; word++) expect(film.ink[word + 1]!).toBeGreaterThan(film.ink[word]!);
  expect(film.lasts.at(-1)).toBeGreaterThan(film.lasts[1]!);
  expect(strangers).toEqual([]);
});

test("keys disturb neither a film nor what is behind a dialog, and the focus returns to Save", async ({ page }) => {
  await visit(page, "translation");
  const save = page.locator(".share > button").first();
  await save.focus();
  await page.keyboard.press("Enter");
  await page.locator(".menu button", { hasText: "GIF" }).focus();
  const film = page.waitForEvent("download");
  await page.keyboard.press("Enter");
  await expect(page.locator(".foveate")).toHaveClass(/saving/);
  await page.keyboard.press("2");
  await page.evaluate(() => document.body.dispatchEvent(new KeyboardEvent("keydown", { key: " ", bubbles: true })));
  await film;
  await expect(page.locator(".foveate")).not.toHaveClass(/saving/);
  await expect(page.locator(".view")).toHaveAttribute("data-view", "story");
  await expect(page.getByRole("button", { name: "Play", exact: true })).toBeVisible();
  await expect(save).toBeFocused();
  await save.click();
  await expect(page.locator(".menu")).toBeVisible();
  await page.mouse.click(5, 400);
  await expect(page.locator(".menu")).toBeHidden();
  await page.getByRole("button", { name: "Where these numbers come from" }).click();
  await expect(page.locator("dialog[open]")).toBeVisible();
  await page.keyboard.press("2");
  await expect(page.locator(".view")).toHaveAttribute("data-view", "story");
});

test("a viewer among others leaves the keys of the page alone", async ({ page }) => {
  await visit(page, "translation");
  const written = page.locator(".play .note");
  await page.keyboard.press("ArrowRight");
  await expect(written).toHaveText(`1 / ${answer().length}`);
  await page.evaluate(() => {
    const root = document.querySelector(".foveate")!;
    root.replaceWith(Object.assign(document.createElement("div"), { id: "around" }));
    document.querySelector("#around")!.append(root);
  });
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowUp");
  await expect(page.getByRole("button", { name: /Speed/ })).toHaveText("1×");
  await expect(written).toHaveText(`1 / ${answer().length}`);
});

for (const [name, view, word] of [
  ["translation", "overview", "decoder.1.cross_attention"], ["translation", "map", "decoder.1.cross_attention, head 0"], ["translation", "text", "Lines from queries to keys"],
  ["translation", "alignment", "decoder.1.cross_attention, mean of 8 heads"], ["translation", "steps", "program"], ["translation", "compare", "First less second"],
  ["persian", "story", "خواندم"], ["captioned", "story", "dog"], ["speech", "scene", "example · Sound"], ["nodes", "story", "Ada"],
] as const) {
  test(`the ${view} of ${name} is saved, and stands alone`, async ({ page }) => {
    const strangers = await visit(page, name, `#view=${view}&query=1&key=1`);
    if (view === "overview") await expect(page.locator("canvas[data-drawn]").first()).toBeVisible();
    const { bytes } = await saved(page, "SVG");
    const { texts, strange, size } = await parsed(page, bytes);
    expect(texts.join(" ")).toContain(word);
    expect(texts[0]).toContain(name === "translation" ? "en-fr" : (await page.locator("h1 bdi").textContent())!);
    if (name === "translation") expect(texts.join(" ")).toContain("This program");
    expect(texts.join(" ")).not.toMatch(/Point at|Play|Save/);
    expect(strange).toEqual([]);
    if (view === "steps") {
      await page.getByRole("button", { name: "Change the numbers" }).click();
      const value = await page.locator("td input").first().inputValue();
      expect((await parsed(page, (await saved(page, "SVG")).bytes)).texts).toContain(value);
    }
    if (view === "map" || view === "compare") expect(texts).toEqual(expect.arrayContaining([expected().source[1], "line", "</s>"]));
    // It is drawn without this page's style sheet and script.
    const drawn = await page.evaluate(async (source) => {
      const image = new Image();
      image.src = `data:image/svg+xml;base64,${source}`;
      await image.decode();
      const canvas = Object.assign(document.createElement("canvas"), { width: image.naturalWidth, height: image.naturalHeight });
      const context = canvas.getContext("2d")!;
      context.drawImage(image, 0, 0);
      return new Set(new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size;
    }, bytes.toString("base64"));
    expect(drawn).toBeGreaterThan(20);
    expect(size[0]).toBeGreaterThan(300);
    expect(await page.locator(".foveate").getAttribute("style")).not.toContain("px");
    expect(strangers).toEqual([]);
  });
}

test("a text of letters of two units is saved as a picture, wherever its lines end", async ({ page }) => {
  await visit(page, "emoji", "#view=map");
  const { bytes } = await saved(page, "PNG");
  expect(bytes.subarray(1, 4).toString()).toBe("PNG");
});

test("a copied link opens the same view, and a refusal leaves the address to be copied by hand", async ({ page, context }) => {
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await visit(page, "translation", "#word=query-5&head=3&heads=one&language=fa");
  const copy = page.locator(".share > button").nth(1);
  await copy.click();
  await expect(copy).toHaveText("پیوند رونوشت شد");
  const link = await page.evaluate(() => navigator.clipboard.readText());
  expect(link.split("#")[0]).toBe(address("translation"));
  const told = await page.locator(".told").textContent();
  const other = await context.newPage();
  await other.goto(link);
  await expect(other.locator(".told")).toHaveText(told!);
  await expect(other.locator(".foveate")).toHaveAttribute("dir", "rtl");
  await page.evaluate(() => Object.defineProperty(navigator, "clipboard", { value: { writeText: () => Promise.reject(new Error("refused")) } }));
  await expect(copy).not.toHaveText("پیوند رونوشت شد");
  await copy.click();
  const field = page.locator("dialog.address input");
  await expect(field).toHaveValue(link);
  expect(await field.evaluate((input: HTMLInputElement) => input.value.slice(input.selectionStart!, input.selectionEnd!))).toBe(link);
  const { violations } = await new AxeBuilder({ page }).analyze();
  expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
});

test("a page is called by its model and its sentence", async ({ page }) => {
  await visit(page, "translation");
  await expect(page).toHaveTitle(`en-fr: ${SENTENCE}`);
  await expect(page.locator("h1")).toContainText("en-fr");
  expect(readFileSync(new URL(address("translation")), "utf8")).toContain(`<title>en-fr: ${SENTENCE}</title>`);
});

for (const width of [1300, 390]) {
  test(`the menu of Save is within reach at ${width} pixels, in four languages`, async ({ page }) => {
    await page.setViewportSize({ width, height: 800 });
    for (const language of ["en", "fa", "ru", "zh"]) {
      await visit(page, "translation", `#language=${language}`);
      await page.locator(".share > button").first().click();
      for (const button of await page.locator(".menu button").all()) {
        const box = (await button.boundingBox())!;
        expect(box.x).toBeGreaterThanOrEqual(0);
        expect(box.x + box.width).toBeLessThanOrEqual(width);
      }
      expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width);
      if (language === "fa") expect((await new AxeBuilder({ page }).analyze()).violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
      await page.keyboard.press("Escape");
      await expect(page.locator(".menu")).toBeHidden();
    }
  });
}

for (const [name, view, canvas] of [["translation", "map", "canvas.map"], ["translation", "alignment", "canvas.matrix"], ["molecule", "story", "canvas.scene"]] as const) {
  test(`the drawing of the ${view} of ${name} has the same pixels as its canvas`, async ({ page }) => {
    // With room for all, saving changes no sizes.
    await page.setViewportSize({ width: 1280, height: 1100 });
    await visit(page, name, `#view=${view}&query=3&key=2&scale=linear`);
    await page.waitForTimeout(500);
    const { bytes } = await saved(page, "SVG");
    const apart = await page.evaluate(async ([source, selector]) => {
      const canvas = document.querySelector<HTMLCanvasElement>(selector!)!;
      const holder = document.body.appendChild(document.createElement("div"));
      const svg = holder.appendChild(document.importNode(new DOMParser().parseFromString(atob(source!), "image/svg+xml").documentElement, true));
      const inner = [...svg.querySelectorAll<SVGSVGElement>("svg[viewBox]")].find((each) => each.viewBox.baseVal.width === canvas.width && each.viewBox.baseVal.height === canvas.height)!;
      const [from, at] = [svg.getBoundingClientRect(), inner.getScreenCTM()!];
      holder.remove();
      const image = new Image();
      image.src = `data:image/svg+xml;base64,${source}`;
      await image.decode();
      const drawn = Object.assign(document.createElement("canvas"), { width: canvas.width, height: canvas.height });
      const context = drawn.getContext("2d")!;
      context.drawImage(image, from.left - at.e, from.top - at.f);
      const [ours, theirs] = [context, canvas.getContext("2d")!].map((each) => each.getImageData(0, 0, canvas.width, canvas.height).data) as [Uint8ClampedArray, Uint8ClampedArray];
      let sum = 0;
      let ink = 0;
      for (let at = 0; at < ours.length; at += 4) {
        // What a canvas leaves clear shows the paper.
        const alpha = theirs[at + 3]! / 255;
        for (let channel = 0; channel < 3; channel++) {
          const value = theirs[at + channel]! * alpha + 255 * (1 - alpha);
          sum += Math.abs(ours[at + channel]! - value);
          ink += 255 - value;
        }
      }
      return { sum, ink };
    }, [bytes.toString("base64"), canvas]);
    expect(apart.ink).toBeGreaterThan(0);
    expect(apart.sum / apart.ink).toBeLessThan(0.12);
  });
}
