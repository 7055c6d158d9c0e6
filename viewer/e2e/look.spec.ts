import { test } from "@playwright/test";
import { address } from "./pages";
test("look", async ({ page }) => {
  page.on("console", (m) => console.log("console:", m.text()));
  page.on("pageerror", (e) => console.log("error:", e.message));
  for (const [name, hash] of [["lecture", "#view=overview"], ["lecture", "#view=map&query=0&key=1"], ["lecture", "#view=steps"], ["lecture", "#view=text"],["lecture","#view=compare&site=1"], ["persian", "#view=alignment"], ["chinese", "#view=alignment&theme=dark"], ["needle", "#view=map"], ["needle", "#view=map&query=30100&key=29973&x=29973&y=30100&zoom=16&scale=lift"]] as const) {
    await page.goto("about:blank");
    await page.goto(address(name) + hash);
    await page.waitForTimeout(2500);
    await page.screenshot({ path: `/tmp/look-${name}-${hash.slice(6, 14)}${hash.length}.png` });
  }
});
