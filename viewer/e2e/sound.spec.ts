/** A recording: what a letter was listened to is seen and heard, with the pointer and with keys. */

import { AxeBuilder } from "@axe-core/playwright";
import { expect, test, type Page } from "@playwright/test";
import { Engine } from "../src/engine/engine";
import { assemble, parse } from "../src/engine/payload";
import { stretch } from "../src/scene/stretch";
import { address } from "./pages";
import { SPEECH, speech } from "./trace";

interface Heard {
  from: number;
  length: number;
  buffer: { seconds: number; rate: number; sum: number };
}

/** Notes what is really played: the arguments of every source, and what its buffer holds. */
const listening = (): void => {
  const heard: Heard[] = [];
  Object.assign(globalThis, { heard, stopped: 0 });
  const { start, stop } = AudioBufferSourceNode.prototype;
  AudioBufferSourceNode.prototype.start = function (when?: number, from?: number, length?: number): void {
    const samples = this.buffer!.getChannelData(0);
    heard.push({ from: from!, length: length!, buffer: { seconds: this.buffer!.duration, rate: this.buffer!.sampleRate, sum: samples.reduce((sum, sample) => sum + Math.abs(sample), 0) } });
    start.call(this, when, from, length);
  };
  AudioBufferSourceNode.prototype.stop = function (when?: number): void {
    (globalThis as unknown as { stopped: number }).stopped++;
    stop.call(this, when);
  };
};

async function visit(page: Page, name: string, hash: string): Promise<string[]> {
  const strangers: string[] = [];
  page.on("request", (request) => !/^(blob|data):/.test(request.url()) && request.url().split("#")[0] !== address(name) && strangers.push(request.url()));
  page.on("pageerror", (error) => strangers.push(String(error)));
  page.on("console", (message) => message.type() === "error" && strangers.push(message.text()));
  await page.addInitScript(listening);
  await page.goto(address(name) + hash);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  return strangers;
}

const heard = (page: Page): Promise<Heard[]> => page.evaluate(() => (globalThis as unknown as { heard: Heard[] }).heard);
const letter = (page: Page, at: number) => page.locator(".oftokens button").nth(at);
const word = (page: Page, at: number) => page.locator(".ofwords button").nth(at);
const note = (page: Page) => page.locator(".sceneview p.note");
const pixel = (page: Page, second: number, y: number) => page.locator("canvas.scene").evaluate((canvas: HTMLCanvasElement, [at, row]) => Array.from(canvas.getContext("2d")!.getImageData(Math.round((at! / 2) * canvas.width), row!, 1, 1).data.slice(0, 3)), [second, y]);
const ORANGE = [213, 94, 0];
/** Below the ruler and the waveform: the first lane's hills end 5 above its end, those of the second 80 further down. */
const [ATTENTION, CTC] = [20 + 80 + 72, 20 + 80 + 80 + 72];
/** How many pixels of the map are those of an edge; a cursor has a few of them, too. */
const orange = (page: Page) => page.locator("canvas.map").evaluate((canvas: HTMLCanvasElement) => {
  const { data } = canvas.getContext("2d")!.getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) if (data[at] === 213 && data[at + 1] === 94 && data[at + 2] === 0) count++;
  return count;
});
const CROSS = "#view=scene&site=1";

test("pointing at a letter shows the stretch that it was listened to, in both lanes", async ({ page }) => {
  const strangers = await visit(page, "speech", CROSS);
  await expect(letter(page, 4)).toHaveAttribute("title", /^1\.\d\d–1\.\d\d s$/);
  const peak = (SPEECH.peaks[4]! + 0.5) * SPEECH.hop;
  const [from, to] = (await letter(page, 4).getAttribute("title"))!.replace(" s", "").split("–").map(Number) as [number, number];
  expect(from).toBeLessThan(peak);
  expect(to).toBeGreaterThan(peak);
  expect(to - from).toBeLessThan(0.3);
  expect(await pixel(page, peak, ATTENTION)).not.toEqual(ORANGE);
  await letter(page, 4).hover();
  await expect.poll(() => pixel(page, peak, ATTENTION)).toEqual(ORANGE);
  expect(await pixel(page, peak, CTC)).toEqual(ORANGE);
  expect(await pixel(page, (SPEECH.peaks[0]! + 0.5) * SPEECH.hop, CTC)).not.toEqual(ORANGE);
  await page.mouse.move(5, 5);
  await expect.poll(() => pixel(page, peak, ATTENTION)).not.toEqual(ORANGE);
  expect(await heard(page)).toEqual([]);
  expect(strangers).toEqual([]);
});

test("a page with a transcript opens with its sound and its words, and the tab of the sound has the choices", async ({ page }) => {
  for (const name of ["speech", "silent"]) {
    await visit(page, name, "");
    await expect(page.locator(".tab[aria-current=page]")).toHaveText("Story");
    await expect(page.getByLabel("Site")).toBeHidden();
    await expect(page.locator(".transcript .ofwords .token").first()).toBeVisible();
    await page.getByRole("button", { name: "Sound", exact: true }).click();
    await expect(page.getByLabel("Site")).toHaveValue("1");
  }
});

test("a story of the mean of all heads says where the mean listens, and that of one head where this head does", async ({ page }) => {
  const { trace, tensors } = speech();
  const engine = new Engine(parse(assemble(trace, tensors)));
  const rows = await Promise.all([0, 1].map((head) => engine.row(1, head, 4)));
  const mean = Array.from(rows[0]!, (weight, frame) => (weight + rows[1]![frame]!) / 2);
  const told = (weights: readonly number[]): string => stretch(weights)!.map((frame) => (frame * SPEECH.hop).toFixed(2)).join("–") + " s";
  expect(told(mean)).not.toBe(told([...rows[0]!]));
  for (const [heads, weights] of [["mean", mean], ["one", [...rows[0]!]]] as const) {
    await visit(page, "speech", `#view=story&heads=${heads}`);
    await expect(letter(page, 4)).toHaveAttribute("title", told(weights));
    await page.goto("about:blank");
  }
});

test("pressing a letter plays its stretch, and nothing else", async ({ page }) => {
  const strangers = await visit(page, "speech", CROSS);
  await expect(letter(page, 4)).toHaveAttribute("title", /s$/);
  const [from, to] = (await letter(page, 4).getAttribute("title"))!.replace(" s", "").split("–").map(Number) as [number, number];
  await letter(page, 4).click();
  await expect.poll(async () => (await heard(page)).length).toBe(1);
  const [{ from: start, length, buffer }] = (await heard(page)) as [Heard];
  expect([start, start + length]).toEqual([expect.closeTo(from, 2), expect.closeTo(to, 2)]);
  expect(buffer.seconds).toBeCloseTo(2, 1);
  expect(buffer.sum).toBeGreaterThan(100);
  await expect(page.locator(".which").first()).toHaveText("query 4: t");
  await expect(note(page)).toContainText(`t: 80 % of the weight lies between ${from.toFixed(2)} and ${to.toFixed(2)} s.`);
  expect(strangers).toEqual([]);
});

test("a word is heard from its first letter to its last, without the space before it", async ({ page }) => {
  await visit(page, "speech", CROSS);
  await expect(word(page, 1)).toHaveText("two");
  await expect(word(page, 1)).toHaveAttribute("title", /s$/);
  await word(page, 1).click();
  await expect.poll(async () => (await heard(page)).length).toBe(1);
  const [{ from, length }] = (await heard(page)) as [Heard];
  expect(from).toBeGreaterThan((SPEECH.peaks[3]! + 2) * SPEECH.hop);
  expect(from).toBeLessThanOrEqual(SPEECH.peaks[4]! * SPEECH.hop + 1e-6);
  expect(from + length).toBeGreaterThanOrEqual(SPEECH.peaks[6]! * SPEECH.hop);
  await expect(word(page, 1)).toHaveAttribute("aria-pressed", "true");
  await expect(letter(page, 4)).toHaveAttribute("aria-pressed", "false");
  await expect(note(page)).toContainText("two: 80 %");
});

test("keys do it all: arrows lead from letter to letter, Enter and Space play, and Space on the sound stops", async ({ page }) => {
  await visit(page, "speech", CROSS);
  await expect(letter(page, 0)).toHaveAttribute("title", /s$/);
  await letter(page, 0).focus();
  await page.keyboard.press("ArrowRight");
  await expect(letter(page, 1)).toBeFocused();
  await expect.poll(() => pixel(page, (SPEECH.peaks[1]! + 0.5) * SPEECH.hop, ATTENTION)).toEqual(ORANGE);
  await page.keyboard.press("Enter");
  await expect.poll(async () => (await heard(page)).length).toBe(1);
  await expect(letter(page, 1)).toBeFocused();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press(" ");
  await expect.poll(async () => (await heard(page)).length).toBe(2);
  const [first, second] = (await heard(page)) as [Heard, Heard];
  expect(second.from).toBeGreaterThan(first.from);
  await expect(page.locator("p[role=status]")).toContainText("e looks at");
  await page.getByRole("button", { name: "Hear all" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.getByRole("button", { name: "Stop hearing" })).toBeFocused();
  await page.locator("canvas.scene").focus();
  await page.keyboard.press(" ");
  await expect(page.getByRole("button", { name: "Hear all" })).toBeVisible();
  await page.keyboard.press(" ");
  await expect.poll(async () => (await heard(page)).length).toBe(4);
  expect((await heard(page))[3]!.from).toBeCloseTo(second.from, 3);
});

test("all of it is played with a line that goes along, and the words light up as they are heard", async ({ page }) => {
  await visit(page, "speech", CROSS);
  const line = page.locator(".playhead");
  await expect(line).toBeHidden();
  await expect(word(page, 0)).toHaveAttribute("title", /s$/);
  // A word is lit for less than half a second, which a busy machine can miss by looking from outside.
  const lit = await page.evaluateHandle(() => {
    const words: string[] = [];
    const note = ({ target }: MutationRecord): void => void ((target as HTMLElement).classList.contains("met") && words.push(target.textContent ?? ""));
    new MutationObserver((records) => records.forEach(note)).observe(document.querySelector(".ofwords")!, { subtree: true, attributes: true, attributeFilter: ["class"] });
    return words;
  });
  await page.getByRole("button", { name: "Hear all" }).click();
  await expect(line).toBeVisible();
  const place = async (): Promise<number> => (await line.boundingBox())!.x;
  const before = await place();
  await expect.poll(place).toBeGreaterThan(before + 20);
  await expect(line).toBeHidden();
  await expect(page.getByRole("button", { name: "Hear all" })).toBeVisible();
  const spoken = await Promise.all([word(page, 0), word(page, 1)].map((one) => one.textContent()));
  expect([...new Set(await lit.jsonValue())].slice(0, 2)).toEqual(spoken);
  expect((await heard(page))[0]).toMatchObject({ from: 0, length: 2 });
});

test("an alignment that is no attention says so, and plays as well", async ({ page }) => {
  await visit(page, "speech", "#view=scene&site=2");
  await expect(page.locator(".pedigree")).toContainText("These are probabilities of an alignment, not attention.");
  await expect(letter(page, 4)).toHaveAttribute("title", "1.20–1.28 s");
  await letter(page, 4).click();
  await expect.poll(async () => (await heard(page)).length).toBe(1);
  // Two frames are too short to be heard: a little more is played.
  const [{ from, length }] = (await heard(page)) as [Heard];
  expect([from, length]).toEqual([expect.closeTo(1.18, 3), expect.closeTo(0.12, 3)]);
});

test("a frame of an encoder that streams shows what it may see, and the map its edge", async ({ page }) => {
  await visit(page, "speech", "#view=scene&site=0&query=20&key=18");
  await expect(note(page)).toContainText("It sees 0.32 s behind itself and 0.08 s ahead.");
  await expect(page.locator(".transcript")).toHaveCount(0);
  expect(await pixel(page, 16.5 * SPEECH.hop, 102)).toEqual([33, 90, 151]);
  expect(await pixel(page, 22.5 * SPEECH.hop, 102)).toEqual(ORANGE);
  expect(await pixel(page, 24.5 * SPEECH.hop, 102)).not.toEqual(ORANGE);
  await page.locator("canvas.scene").focus();
  await page.keyboard.press(" ");
  await expect.poll(async () => (await heard(page)).length).toBe(1);
  await page.getByRole("button", { name: "Map" }).click();
  await expect(page.locator(".legend")).toContainText("orange edge: how far ahead a frame may look");
  await page.keyboard.press("Escape");
  await expect.poll(() => orange(page)).toBeGreaterThan(500);
  await page.getByLabel("Site").selectOption("1");
  await expect(page.locator(".legend")).not.toContainText("orange edge");
  await expect.poll(() => orange(page)).toBeLessThan(100);
});

test("a sound without samples is seen and says why it is silent; older traces of sounds, too", async ({ page }) => {
  for (const [name, hash] of [["silent", CROSS], ["frames", "#view=scene"]] as const) {
    const strangers = await visit(page, name, hash);
    await expect(note(page)).toContainText("has the outline of the sound only");
    await expect(page.getByRole("button", { name: /Hear/ })).toHaveCount(0);
    await letter(page, 4).hover();
    await letter(page, 4).click();
    await expect(page.locator(".which").first()).toContainText("query 4");
    expect(await heard(page)).toEqual([]);
    expect(strangers).toEqual([]);
  }
});

test("samples that no browser can read are reported", async ({ page }) => {
  await page.addInitScript(() => {
    AudioContext.prototype.decodeAudioData = () => Promise.reject(new DOMException("Unable to decode audio data", "EncodingError"));
  });
  await visit(page, "speech", CROSS);
  await expect(letter(page, 4)).toHaveAttribute("title", /s$/);
  await letter(page, 4).click();
  await expect(page.locator(".sceneview [role=alert]")).toContainText("Unable to decode audio data");
  await expect(page.getByRole("button", { name: "Hear all" })).toBeVisible();
});

for (const theme of ["light", "dark"]) {
  test(`axe finds nothing in a recording in ${theme} colours`, async ({ page }) => {
    test.slow();
    await visit(page, "speech", `${CROSS}&theme=${theme}`);
    await expect(letter(page, 4)).toHaveAttribute("title", /s$/);
    const { violations } = await new AxeBuilder({ page }).analyze();
    expect(violations.map(({ id, nodes }) => [id, nodes[0]?.html])).toEqual([]);
  });
}
