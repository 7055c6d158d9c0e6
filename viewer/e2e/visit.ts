/** Opening a page as a reader does, and all that it should not do meanwhile. */

import { expect, type Page } from "@playwright/test";
import { address } from "./pages";

/** Opens a page until `sign` is there. The list fills with requests to other addresses and with errors. */
export async function visited(page: Page, name: string, hash: string, sign: string): Promise<string[]> {
  const strangers: string[] = [];
  page.on("request", (request) => !/^(blob|data):/.test(request.url()) && request.url().split("#")[0] !== address(name) && strangers.push(request.url()));
  page.on("pageerror", (error) => strangers.push(String(error)));
  page.on("console", (message) => message.type() === "error" && strangers.push(message.text()));
  await page.goto("about:blank");
  await page.goto(address(name) + hash);
  await expect(page.locator(sign).first()).toBeAttached();
  return strangers;
}
