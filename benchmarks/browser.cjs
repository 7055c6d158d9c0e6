// What viewer.py asks of a browser: node browser.cjs PLAYWRIGHT picture PAGE CDN PATIENCE | explore URL LENGTH | story PAGE VISITS

const { chromium } = require(process.argv[2]);
const [what, ...rest] = process.argv.slice(3);
const sleep = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** A page has its first picture when a canvas holds more than a few colours, or an SVG as many lines as there are tokens. */
const drawn = () => {
  for (const canvas of document.querySelectorAll("canvas")) {
    const { width, height } = canvas;
    const pixels = width && height ? canvas.getContext("2d")?.getImageData(0, 0, width, height).data : null;
    if (!pixels) continue;
    const inked = new Uint32Array(pixels.buffer).filter((pixel) => pixel >>> 24);
    if (inked.length > (width * height) / 20 && new Set(inked).size > 8) return true;
  }
  return document.querySelectorAll("svg line").length >= 64;
};

async function picture(page, [path, cdn, patience]) {
  const local = [[/require/, "/requirejs/require.js"], [/d3/, "/d3/dist/d3.min.js"], [/jquery/, "/jquery/dist/jquery.min.js"]];
  await page.route(/^https?:/, (route) => {
    const found = local.find(([name]) => name.test(new URL(route.request().url()).pathname));
    return found && cdn ? route.fulfill({ path: cdn + found[1] }) : route.abort();
  });
  let crashed = false;
  page.on("crash", () => (crashed = true));
  const begin = Date.now();
  const left = () => patience * 1000 - (Date.now() - begin);
  // Our page may begin with its story; rivals do not read this part of an address.
  page.goto(`file://${path}#view=map`, { timeout: 0 }).catch(() => {});
  while (left() > 0 && !crashed) {
    // A page that is busy does not answer: nobody waits for it longer than for a picture.
    const found = await Promise.race([page.evaluate(drawn).catch(() => false), sleep(left())]);
    if (found) return { seconds: (Date.now() - begin) / 1000 };
    await sleep(50);
  }
  return { seconds: null, why: crashed ? "the page crashed" : `no picture within ${patience} s` };
}

async function explore(page, [url, length]) {
  const seconds = (begin) => Number(((Date.now() - begin) / 1000).toFixed(2));
  // Nothing is asked for, and what is drawn is exact: the map says so itself.
  const settled = async () => {
    await page.waitForTimeout(30);
    await page.locator(".waiting").waitFor({ state: "hidden", timeout: 600000 });
  };
  const at = (zoom) => `#view=map&x=${0.3 * length}&y=${0.75 * length}&zoom=${zoom}`;
  const begin = Date.now();
  const tile = page.waitForResponse(/\/tile\//, { timeout: 600000 }).then((answer) => answer.finished());
  await page.goto(`${url}#view=map`);
  await tile;
  const opened = seconds(begin);
  await settled();
  const exact = seconds(begin);
  const pass = async () => {
    const steps = [];
    for (let zoom = 512 / length; zoom <= 16; zoom *= 2) {
      const start = Date.now();
      await page.evaluate((hash) => { location.hash = hash; }, at(zoom));
      await settled();
      steps.push({ zoom: Number(zoom.toPrecision(3)), seconds: seconds(start) });
    }
    return steps;
  };
  const zooming = await pass();
  const again = await pass();
  const heap = await page.evaluate(() => Math.round((performance.memory?.usedJSHeapSize ?? 0) / 1e6));
  return { first_tile: opened, whole_map_exact: exact, zooming, again, page_heap_mb: heap };
}

/** Milliseconds from the start of each visit, in a browser that has just begun, to the first word of the story and its first line. */
async function story(page, [path, visits]) {
  const times = [];
  for (let visit = 0; visit < Number(visits); visit++) {
    const context = await page.context().browser().newContext({ viewport: { width: 1200, height: 900 } });
    const fresh = await context.newPage();
    await fresh.addInitScript(() => {
      new MutationObserver((_, watch) => {
        if (!document.querySelector(".sentence .word") || !document.querySelector(".threads path")) return;
        watch.disconnect();
        requestAnimationFrame(() => setTimeout(() => performance.mark("drawn")));  // after it is painted
      }).observe(document, { subtree: true, childList: true });
    });
    await fresh.goto("file://" + path);
    await fresh.waitForFunction(() => performance.getEntriesByName("drawn").length > 0);
    times.push(await fresh.evaluate(() => {
      const { loadEventStart } = performance.getEntriesByType("navigation")[0];
      const { startTime } = performance.getEntriesByName("drawn")[0];
      return { navigation: startTime, load: Math.max(0, startTime - loadEventStart) };
    }));
    await context.close();
  }
  return times;
}

(async () => {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-quic", "--disable-background-networking"] });
  const page = await browser.newPage({ viewport: { width: 1200, height: 900 } });
  console.log(JSON.stringify(await { picture, explore, story }[what](page, rest)));
  process.exit(0);
})();
