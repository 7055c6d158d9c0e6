import { expect, test } from "@playwright/test";
import { address } from "./pages";
import { served, type Served } from "./server";
import { chinese, lecture, needle, persian } from "./trace";

let server: Served | null = null;
test.afterEach(() => server?.close());

const model = () => ({ trace: "second", output: ["I", "bought", "the", "book"], before: ["I", "read", "the", "book"], log_probability: -3.5, log_probability_before: -1.25 });

test("a served page works under a strict policy and asks only its server", async ({ page }) => {
  server = await served(lecture(), lecture(), model);
  const strangers: string[] = [];
  page.on("request", (request) => !request.url().startsWith(server!.url) && strangers.push(request.url()));
  page.on("response", (answer) => answer.status() >= 400 && strangers.push(`${answer.status()} ${answer.url()}`));
  await page.goto(`${server.url}#view=map&query=0&key=1&theme=dark`);
  await expect(page.locator(".reading .weight")).toHaveText("0.4683");
  await page.getByRole("button", { name: "Steps" }).click();
  await expect(page.locator(".step").first()).toBeVisible();
  await page.getByRole("button", { name: "Overview" }).click();
  await expect(page.getByRole("button", { name: /relu, head 0: [^;]*; entropy 1/ })).toBeVisible();
  expect(strangers.filter((url) => !url.endsWith("/favicon.ico"))).toEqual([]);
});

test("the model runs again with a head switched off, and both maps can be compared", async ({ page }) => {
  server = await served(persian(), persian(), model);
  await page.goto(`${server.url}#view=run`);
  await page.getByLabel("Source text").fill("من کتاب را خریدم .");
  await page.getByRole("button", { name: "Switch this head off" }).click();
  const piece = page.getByRole("group", { name: "tokens" }).getByRole("button", { name: "خواندم" });
  await piece.click();
  await expect(page.getByLabel("Tokens switched off")).toHaveValue("3");
  await page.getByLabel("Tokens switched off").fill("2, 3");
  await expect(piece).toHaveAttribute("aria-pressed", "true");
  await page.getByRole("button", { name: "Run", exact: true }).click();
  await expect(page.locator(".answer mark")).toHaveText(["read", "bought"]);
  await expect(page.locator(".answer")).toContainText("log-probability −1.25 without the change and −3.5 with it");
  expect(server.reruns).toEqual([{ source: "من کتاب را خریدم .", target: null, heads_off: [[0, 0]], tokens_off: [2, 3] }]);
  const alone = page.locator(".answer").getByRole("link", { name: "Open this run separately" });
  await expect(alone).toHaveAttribute("href", "?trace=second#view=map");
  await page.locator(".answer").getByRole("button", { name: "Compare" }).click();
  await expect(page.getByLabel("Compare with")).toHaveValue("1");
  await expect(page.locator("figure")).toHaveCount(3);
  const asked = page.waitForRequest(/api\/tile\/.*trace=second/);
  await page.goto(`${server.url}?trace=second#view=map`);
  await asked;
});

test("slow tiles and the small map show estimates first, say so, and become exact", async ({ page }) => {
  test.slow();
  server = await served(needle(), needle(), model);
  let release: () => void = () => undefined;
  const held = new Promise<void>((resolve) => (release = resolve));
  await page.route(/tile.*estimate=1/, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, headers: { ...answer.headers(), "x-foveate-estimate": "1" } });
  });
  // Which level is drawn depends on the height of the letters above the map.
  await page.route(/tile\/0\/0\/\d+\/\d+\/\d+\?pool=\w+$/, async (route) => {
    await held;
    await route.continue();
  });
  await page.route(/overview\/0\/0$/, async (route) => {
    const answer = await route.fetch();
    await route.fulfill({ response: answer, headers: { ...answer.headers(), "x-foveate-estimate": "1" } });
  });
  await page.goto(`${server.url}#view=map`);
  await expect(page.locator(".waiting")).toHaveText("estimate from sampled rows", { timeout: 60_000 });
  await expect(page.locator(".mini")).toHaveAttribute("data-estimate", "");
  release();
  await expect(page.locator(".waiting")).toBeHidden();
  await expect(page.locator(".mini")).not.toHaveAttribute("data-estimate", "");
});

test("without a model there is nothing to run again", async ({ page }) => {
  await page.goto(address("lecture"));
  await expect(page.getByRole("button", { name: "Map", exact: true })).toBeVisible();
  await expect(page.getByRole("button", { name: "Run again" })).toHaveCount(0);
});

test("another page's trace is loaded for comparison; two sizes are shown and not subtracted", async ({ page }) => {
  server = await served(chinese(), chinese(), model);
  await page.goto(`${server.url}#view=compare`);
  await page.getByLabel("Another trace").setInputFiles(new URL(address("persian")).pathname);
  await expect(page.getByLabel("Compare with")).toHaveValue("1");
  await expect(page.locator(".warning")).toContainText("6 × 8 and 5 × 5");
  await expect(page.locator("figure")).toHaveCount(2);
  const second = page.getByRole("application").nth(1);
  const box = (await second.boundingBox())!;
  await second.click({ position: { x: 112 + (box.width - 112) / 2, y: 96 + (box.height - 96) / 2 } });
  await expect(page.locator(".pairline")).toHaveText(/^the looks at \u2068?را\u2069?: weight 0\.\d+, rank 3, lift 0\.\d+\.$/);
  await expect(page.locator("p[role=status]")).toContainText("the looks at");
});
