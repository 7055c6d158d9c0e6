import { defineConfig } from "@playwright/test";
import viewer from "./playwright.config";

const { globalSetup: _pages, ...options } = viewer;

/** The documentation site, as `make docs` built it. */
export default defineConfig({ ...options, testDir: "site", timeout: 240_000 });
