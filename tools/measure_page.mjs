// How fast pages are: a chain of 30 bodies over 10,000 steps, alone and three of them at once. Opening is
// from the request to the first picture with everything read; playing is drawn frames per second. In a
// browser without a graphics card, at 1280 x 800.
//
//     NEURALSIM_PROGRAM=build/neuralsim node tools/measure_page.mjs

import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chain } from "../tests/web/chain.mjs";
import { openBrowser, run } from "../tests/web/support.mjs";

const BODIES = 30, STEPS = 10000, SECONDS = 5;
const folder = mkdtempSync(join(tmpdir(), "neuralsim_measure_"));
const browser = await openBrowser();

async function measure(file) {
    const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
    const begin = performance.now();
    await page.goto(pathToFileURL(file).href);
    await page.waitForFunction(() => window.neuralsim?.curves && window.neuralsim.scene.frames > 0);
    const open = (performance.now() - begin) / 1000;
    const packed = await page.evaluate(() => document.getElementById("viewer-bytes").textContent.length);
    const frames = () => page.evaluate(() => window.neuralsim.scene.frames);
    await page.evaluate(() => window.neuralsim.timeline.setPlaying(true));
    await page.waitForTimeout(1000);
    const first = await frames(), start = performance.now();
    await page.waitForTimeout(1000 * SECONDS);
    const rate = (await frames() - first) / ((performance.now() - start) / 1000);
    const { ratio } = await page.evaluate(() => window.neuralsim.scene.stats);
    await page.close();
    return { open, rate, ratio, packed: packed / 1e6, rest: (statSync(file).size - packed) / 1e6 };
}

try {
    const model = join(folder, "chain.urdf"), starts = join(folder, "starts.csv");
    writeFileSync(model, chain(BODIES));
    const names = Array.from({ length: BODIES }, (_, k) => `q${k}`).join(",");
    const start = (angle) => Array(BODIES).fill(angle).join(",");
    writeFileSync(starts, `${names}\n${[0.1, 0.05, -0.1].map(start).join("\n")}\n`);
    const options = [model, "--steps", String(STEPS), "--dt", "0.001"];
    const cases = [["1 track", "--q0", ...Array(BODIES).fill("0.1")], ["3 tracks", "--batch", starts]];
    console.log(`${BODIES} bodies, ${STEPS} steps; load ${loadavg()[0].toFixed(1)}`);
    for (const [name, ...more] of cases) {
        const file = join(folder, "page.html");
        await run("simulate", ...options, ...more, "--html", file);
        const { open, rate, ratio, packed, rest } = await measure(file);
        console.log(`${name.padEnd(9)} opens in ${open.toFixed(2)} s, plays at ${rate.toFixed(0)} frames/s`
            + ` (${ratio} pixels per point); data ${packed.toFixed(2)} MB, all else ${rest.toFixed(2)} MB`);
    }
} finally {
    await browser.close();
    rmSync(folder, { recursive: true });
}
