import { expect, test, type Page } from "@playwright/test";
import { address, page as standalone } from "./pages";
import { lecture, NEEDLE, needle, needleWeight } from "./trace";

/** Everything a page asked for that is not itself or made by itself. */
async function visit(page: Page, name: string, hash = ""): Promise<string[]> {
  const strangers: string[] = [];
  page.on("request", (request) => {
    if (!/^(blob|data):/.test(request.url()) && request.url().split("#")[0] !== address(name)) strangers.push(request.url());
  });
  page.on("pageerror", (error) => strangers.push(String(error)));
  page.on("console", (message) => message.type() === "error" && strangers.push(message.text()));
  await page.goto(address(name) + hash);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  return strangers;
}

const map = (page: Page) => page.getByRole("application");
const status = (page: Page) => page.locator("p[role=status]");
const settled = (page: Page) => expect(page.locator(".waiting")).toBeHidden();

test("a needle among 32,768 tokens is found, zoomed to and told truly", async ({ page }) => {
  const strangers = await visit(page, "needle", "#view=map");
  await settled(page);
  await page.getByLabel("Search tokens").fill("seeker");
  await page.keyboard.press("Enter");
  await expect(page.locator(".count")).toHaveText("1 of 1");
  await page.getByRole("button", { name: /needle/ }).first().click();
  await settled(page);
  const truth = needleWeight(needle(), 0);
  await expect(page.locator(".reading .weight")).toHaveText(String(Number(truth.toPrecision(4))));
  await expect(page.locator(".reading")).toContainText("1 of 256");
  await expect(status(page)).toContainText("▁seeker looks at ▁needle");
  expect(page.url()).toContain(`query=${NEEDLE.query}&key=${NEEDLE.key}`);
  expect(strangers).toEqual([]);
});

test("hovering tells the weight under the pointer, at any zoom", async ({ page }) => {
  await visit(page, "needle", `#view=map&x=${NEEDLE.key}.5&y=${NEEDLE.query}.5&zoom=16`);
  await settled(page);
  const box = (await map(page).boundingBox())!;
  const middle = { x: 112 + (box.width - 112) / 2, y: 96 + (box.height - 96) / 2 };
  await map(page).hover({ position: middle });
  const truth = String(Number(needleWeight(needle(), 0).toPrecision(4)));
  await expect(page.locator(".reading .weight")).toHaveText(truth);
  await page.mouse.wheel(0, 1200);
  await settled(page);
  await map(page).hover({ position: { x: middle.x + 1, y: middle.y } });
  await expect(page.locator(".reading")).toContainText("weights a cell");
});

test("another head has other weights, and the address brings them back", async ({ page }) => {
  await visit(page, "needle", `#view=map&query=${NEEDLE.query}&key=${NEEDLE.key}`);
  const first = await page.locator(".reading .weight").textContent();
  await page.getByLabel("Head", { exact: true }).selectOption({ value: "1" });
  await expect(page.locator(".reading .weight")).not.toHaveText(first!);
  const second = (await page.locator(".reading .weight").textContent())!;
  expect(Number(second)).toBeCloseTo(needleWeight(needle(), 1), 6);
  await page.reload();
  await expect(page.locator(".reading .weight")).toHaveText(second);
  await expect(page.getByLabel("Head", { exact: true })).toHaveValue("1");
});

test("the steps of the lectures' example show its numbers", async ({ page }) => {
  const strangers = await visit(page, "lecture", "#view=steps&step=all");
  const step = (name: string) => page.locator(".step").filter({ has: page.getByRole("heading", { name, exact: true }) });
  await expect(step("q₀·kⱼ").locator("td.number")).toHaveText(["2", "4", "4"]);
  await expect(step("α₀ⱼ").locator("td.number")).toHaveText(["0.063", "0.468", "0.468"]);
  await expect(step("c₀").locator("td.number")).toHaveText(["1.94", "6.68", "1.60"]);
  await expect(step("c₀").locator("td.number").first()).toHaveAttribute("title", "1.936621");
  await expect(step("c₀").locator("math munder")).toHaveCount(1);
  await page.getByLabel("Query number").fill("1");
  await page.keyboard.press("Enter");
  await expect(step("q₁·kⱼ").locator("td.number")).toHaveText(["4", "16", "12"]);
  await page.getByLabel("Site").selectOption("causal");
  await expect(step("visible₁ⱼ").locator("td.number")).toHaveText(["1", "1", "0"]);
  expect(strangers).toEqual([]);
});

test("the lectures' table of positions is shown term by term", async ({ page }) => {
  await visit(page, "lecture", "#view=steps");
  await page.getByText("How this position becomes a vector").click();
  await page.getByLabel("Place", { exact: true }).fill("1");
  await page.getByLabel("Base").fill("100");
  await expect(page.locator(".position .step").last().locator("td.number")).toHaveText(["0.841", "0.540", "0.100", "0.995"]);
});

test("in a sandboxed frame, as notebooks show it, the viewer works without an address of its own", async ({ page }) => {
  await page.goto(address("lecture"));
  await page.evaluate((html) => {
    document.body.replaceChildren();
    const frame = document.body.appendChild(document.createElement("iframe"));
    frame.setAttribute("sandbox", "allow-scripts");
    frame.width = "1000";
    frame.height = "700";
    frame.srcdoc = html;
  }, standalone(lecture()).replace(/<meta http-equiv[^>]*>/, ""));
  const inside = page.frameLocator("iframe");
  await inside.getByRole("button", { name: "Overview" }).click();
  await inside.getByRole("button", { name: /^encoder\.0\.self_attention, head 0: .*entropy/ }).click();
  await inside.getByRole("application").press("ArrowDown");
  await expect(inside.locator(".reading .weight")).not.toBeEmpty();
});

test("a Persian sentence reads from the right and is linked to its English words", async ({ page }) => {
  await visit(page, "persian", "#view=alignment");
  await expect(page.locator(".sources")).toHaveAttribute("dir", "rtl");
  await expect(page.locator(".targets")).toHaveAttribute("dir", "ltr");
  const place = async (text: string) => (await page.locator(".sources .token", { hasText: text }).boundingBox())!.x;
  expect(await place("من")).toBeGreaterThan(await place("کتاب"));
  expect(await place("کتاب")).toBeGreaterThan(await place("خواندم"));
  await expect(page.getByLabel("Links as text")).toHaveValue("0-0 1-2 1-3 3-1 4-4");
  await expect(page.locator(".error")).toHaveText("0.2");
  await expect(page.locator(".matrix")).toHaveAttribute("aria-label", /book → کتاب/);
});

test("a Chinese sentence is linked word by word", async ({ page }) => {
  await visit(page, "chinese", "#view=alignment");
  await expect(page.locator(".sources")).toHaveAttribute("dir", "ltr");
  await expect(page.getByLabel("Links as text")).toHaveValue("0-0 1-4 2-1 4-2 6-3 7-5");
  await expect(page.locator(".error")).toHaveText("0");
  await page.getByRole("combobox", { name: "Links" }).selectOption("threshold");
  await expect(page.getByLabel("Links as text")).toHaveValue("0-0 1-4 2-1 4-2 6-3 7-5");
});

test("an alignment begins across, by words where the gold links are", async ({ page }) => {
  await visit(page, "pieces", "#view=overview");
  await expect(page.locator(".barkey")).toHaveText("entropydistancefirst key");
  await page.getByRole("button", { name: "Alignment" }).click();
  await expect(page.getByLabel("Site")).toHaveValue("1");
  await expect(page.locator(".sources .token")).toHaveText(["unbelievable", "cat."]);
  await expect(page.getByLabel("Links as text")).toHaveValue("0-0 1-1");
  await expect(page.locator(".error")).toHaveText("0");
});

test("a word's share is told by its words, and its first tokens below", async ({ page }) => {
  await visit(page, "pieces", "#view=map&site=1&cells=word&query=0&key=0");
  const cell = page.locator(".reading dd").first();
  await expect(page.locator(".reading h2")).toHaveText("incroyable → unbelievable");
  await expect(page.locator(".reading h3")).toHaveText("▁in → ▁un");
  await expect(page.locator(".reading")).toContainText("words, mass");
  await expect(cell).toHaveText(/^0\.9\d+$/);
  await map(page).press("ArrowRight");
  await expect(status(page)).toHaveText(/^Cell of queries incroyable and keys cat\.: mass 0\.0\d+\.$/);
  await page.getByLabel("Cells").selectOption("sentence");
  await expect(cell).toHaveText("1");
});

test("the keys of a word are those of its first token, whichever token the cursor is at", async ({ page }) => {
  await visit(page, "pieces", "#view=map&site=1&query=0&key=0");
  const keys = page.locator(".strongest tbody");
  await expect(keys).toContainText("0.");
  const first = (await keys.textContent())!;
  await page.evaluate(() => void (location.hash = "#view=map&site=1&query=1&key=0"));
  await expect(keys).not.toHaveText(first);
  await page.getByLabel("Cells").selectOption("word");
  await expect(keys).toHaveText(first);
});

test("a brush over words ends where the last word does", async ({ page }) => {
  await visit(page, "pieces", "#view=map&site=1&cells=word&query=1&key=1");
  await map(page).press("b");
  expect(page.url()).toContain("brush=0-2-0-3");
  await map(page).press("ArrowRight");
  await map(page).press("ArrowDown");
  await expect.poll(() => page.url()).toContain("brush=0-4-0-5");
});

test("a word's share is told in other colours, too, and whether it was drawn before or not", async ({ page }) => {
  await visit(page, "translation", "#view=map&cells=word&head=0&heads=one&query=2&key=2");
  const cell = page.locator(".reading dd").first();
  const told: string[] = [];
  for (const key of ["]", "[", "c", "]"]) {
    await expect(cell).toHaveText(/^\d/);
    told.push((await cell.textContent())!);
    await map(page).press(key);
    await settled(page);
  }
  await expect(cell).not.toHaveText(told[0]!);
  await expect(cell).toHaveText(told[1]!);
});

test("an estimate that was read gives way to the exact number", async ({ page }) => {
  test.slow();
  await visit(page, "large", "#view=map&query=6000&key=3000&pool=peak");
  await expect(page.locator(".waiting")).toHaveText("estimate from sampled rows");
  const cell = page.locator(".reading dd").last();
  await map(page).press("ArrowRight");
  await expect(cell).toHaveText(/^\d/);
  const guess = await cell.textContent();
  await expect(page.locator(".waiting")).toBeHidden({ timeout: 90_000 });
  await expect(cell).not.toHaveText(guess!);
  const exact = await cell.textContent();
  await map(page).press("ArrowLeft");
  await map(page).press("ArrowRight");
  await expect(cell).toHaveText(exact!);
});

test("an address that is put into the open page shows what it shows in a new one", async ({ page }) => {
  await visit(page, "speech", "#view=map&site=0&query=40&key=40&x=20&y=20&zoom=30&brush=1-3-1-3&word=query-2");
  await expect(page.locator(".reading .weight")).toBeVisible();
  await page.evaluate(() => void (location.hash = "#view=map&site=1"));
  await expect(page.getByLabel("Site")).toHaveValue("1");
  await expect(page.locator(".reading .cell")).toHaveText("Point at the map, or move the cursor with the arrows, to read a weight.");
  await expect.poll(() => page.url()).not.toMatch(/query=|zoom=|brush=|word=/);
});

test("Shift and Enter begin a search at its end", async ({ page }) => {
  await visit(page, "causal", "#view=map");
  await page.getByLabel("Search tokens").fill("w12");
  await page.keyboard.press("Shift+Enter");
  await expect(page.locator(".count")).toHaveText("9 of 9");
  await page.keyboard.press("Enter");
  await expect(page.locator(".count")).toHaveText("1 of 9");
});

test("everything can be reached from the keyboard", async ({ page }) => {
  await visit(page, "lecture", "#view=overview");
  await page.getByRole("button", { name: /causal, head 0/ }).press("Enter");
  await expect(map(page)).toBeVisible();
  await map(page).focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowUp");
  await expect(status(page)).toHaveText("x₁ may not look at x₃.");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowLeft");
  await expect(status(page)).toContainText("x₂ looks at x₂: weight 1");
  await page.keyboard.press("b");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("b");
  expect(page.url()).toContain("brush=1-3-1-2");
  await page.keyboard.press("}");
  await expect(page.getByLabel("Site")).toHaveValue("3");
  await expect(status(page)).toContainText("x₃ looks at x₂: weight 0.4615");
  await page.keyboard.press("c");
  await expect(page.getByLabel("Colours")).toHaveValue("log");
  await page.keyboard.press("p");
  await expect(page.getByLabel("Pooling")).toHaveValue("mass");
  await page.keyboard.press("Enter");
  await expect(page.locator(".step").first()).toBeVisible();
  await page.keyboard.press("3");
  await page.getByRole("button", { name: "Text", exact: true }).focus();
  await page.keyboard.press("3");
  await expect(page.locator(".running .token").first()).toBeVisible();
  await page.keyboard.press("/");
  await page.keyboard.type("x₃");
  await page.keyboard.press("Enter");
  await expect(map(page)).toBeVisible();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Help" }).focus();
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog")).toContainText("arrows: move the cursor");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toBeHidden();
});

test("the page says where its numbers come from", async ({ page }) => {
  await visit(page, "lecture", "#view=map");
  await page.getByRole("button", { name: "Where these numbers come from" }).click();
  await expect(page.getByRole("dialog")).toContainText("largest difference between run and explain");
  await expect(page.getByRole("dialog")).toContainText("softmax(q·k)");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("dialog")).toBeHidden();
});

test("two heads are compared by their difference", async ({ page }) => {
  await visit(page, "lecture", "#view=compare");
  await expect(page.locator("figure")).toHaveCount(3);
  await page.getByLabel("Site").nth(1).selectOption("causal");
  const box = (await map(page).first().boundingBox())!;
  await map(page).first().hover({ position: { x: 112 + (box.width - 112) / 2, y: 96 + (box.height - 96) / 2 - 64 } });
  await expect(page.locator(".pairline")).toHaveText("x₁ looks at x₂: first 0.4683, second 0, difference 0.4683.");
  const picture = () => map(page).nth(2).evaluate((canvas: HTMLCanvasElement) => canvas.toDataURL());
  await expect.poll(async () => (await picture()).length).toBeGreaterThan(1000);
  const other = await picture();
  await page.getByLabel("Site").nth(1).selectOption({ index: 0 });
  await expect.poll(picture).not.toBe(other);
});

test("two heads are compared by the shares of words where cells are words", async ({ page }) => {
  await visit(page, "pieces", "#view=map&site=1&cells=word&query=0&key=0");
  const share = page.locator(".reading dd").first();
  await expect(share).toHaveText(/^0\.9\d+$/);
  const told = await share.textContent();
  await page.evaluate(() => void (location.hash = "#view=compare&site=1&cells=word&against=0-1-0"));
  await expect(page.locator("figure")).toHaveCount(3);
  await map(page).first().press("ArrowLeft");
  await map(page).first().press("ArrowUp");
  await map(page).first().press("ArrowLeft");
  await expect(page.locator(".pairline")).toHaveText(`incroyable looks at unbelievable: first ${told}, second ${told}, difference 0.`);
  // Maps of other sizes have no difference, and are read one by one.
  await page.getByLabel("Site").nth(1).selectOption({ index: 0 });
  await expect(page.locator("figure")).toHaveCount(2);
  await map(page).first().press("ArrowRight");
  await expect(page.locator(".pairline")).toContainText("Cell of queries incroyable and keys cat.");
});

/** The page when nothing changes any more: what is computed behind the map takes longer on a slow machine. */
async function stillPicture(page: Page): Promise<Buffer> {
  // The browser smooths round corners now by one shade and now by another.
  const picture = (): Promise<Buffer> => page.screenshot({ animations: "disabled", style: "* { border-radius: 0 !important }" });
  let last = await picture();
  for (let same = 0, tries = 0; same < 3 && tries < 40; tries++) {
    await page.waitForTimeout(1000);
    const next = await picture();
    same = next.equals(last) ? same + 1 : 0;
    last = next;
  }
  return last;
}

test("the same page draws the same picture", async ({ page }) => {
  for (const [name, hash] of [["lecture", "#view=map&query=0&key=1"], ["persian", "#view=alignment"], ["needle", `#view=map&x=${NEEDLE.key}&y=${NEEDLE.query}&zoom=20&scale=lift`]] as const) {
    const shots: Buffer[] = [];
    for (let round = 0; round < 2; round++) {
      await page.goto("about:blank");
      await visit(page, name, hash);
      await page.waitForLoadState("load");
      if (hash.includes("view=map")) await settled(page);
      if (hash.includes("view=map")) await expect(page.locator(".mini[data-exact]")).toBeVisible({ timeout: 60_000 });
      shots.push(await stillPicture(page));
    }
    expect(shots[0]!.equals(shots[1]!), name).toBe(true);
  }
});

test("cells are painted by their weights, hidden ones hatched", async ({ page }) => {
  await visit(page, "lecture", "#view=map&site=2&scale=linear&theme=light");
  await settled(page);
  await page.waitForTimeout(300);
  const colours = await map(page).evaluate((canvas: HTMLCanvasElement) => {
    const [left, top, side] = [112 + (canvas.clientWidth - 112) / 2 - 96, 96 + (canvas.clientHeight - 96) / 2 - 96, 64];
    const read = (row: number, column: number, dx: number): string => Array.from(canvas.getContext("2d")!.getImageData(Math.round(left + (column + 0.5) * side + dx), Math.round(top + (row + 0.5) * side), 1, 1).data.slice(0, 3)).join();
    return { own: read(0, 0, 0), hidden: new Set([0, 1, 2, 3, 4, 5].map((dx) => read(0, 2, dx))).size, faint: read(1, 0, 0) };
  });
  expect(colours.own).toBe("24,37,68");
  expect(colours.faint).toBe("247,250,252");
  expect(colours.hidden).toBeGreaterThan(1);
});
