import { defineConfig } from "@playwright/test";

export default defineConfig({
  testDir: "e2e",
  testMatch: "*.spec.ts",
  workers: 1,
  timeout: 90_000,
  expect: { timeout: 20_000 },
  // A machine that is busy may lose one race. A test that passes only at its second try is listed as flaky.
  retries: 1,
  globalSetup: "./e2e/pages.ts",
  reporter: [["list"]],
  use: {
    viewport: { width: 1280, height: 800 },
    locale: "en-GB",
    colorScheme: "light",
    deviceScaleFactor: 1,
    launchOptions: {
      executablePath: process.env["CHROMIUM"] ?? "/usr/bin/chromium",
      args: ["--no-sandbox", "--disable-quic", "--disable-background-networking"],
    },
  },
});
