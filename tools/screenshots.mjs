// The pictures of the README, from real pages in a real browser: docs/images/*.png.
//
//     NEURALSIM_PROGRAM=build/neuralsim node tools/screenshots.mjs

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { openBrowser, root, run } from "../tests/web/support.mjs";

const folder = mkdtempSync(join(tmpdir(), "neuralsim_screenshots_"));
const browser = await openBrowser();

// Of a page as it looks at a time of its motion.
async function shoot(name, file, { width, height, colorScheme = "light", time, prepare }) {
    const page = await browser.newPage({ viewport: { width, height }, colorScheme });
    await page.goto(pathToFileURL(file).href);
    await page.waitForFunction(() => window.neuralsim?.curves);
    await page.evaluate((at) => window.neuralsim.timeline.set(at), time);
    await prepare?.(page);
    await page.waitForTimeout(1000); // drawn finely once nothing moves
    await page.screenshot({ path: join(root, "docs/images", `${name}.png`) });
    await page.close();
    console.log(`docs/images/${name}.png`);
}

try {
    const stand = "0 0 0.3 1 0 0 0 0 0.8 -1.5 0 0.8 -1.5 0 0.8 -1.5 0 0.8 -1.5".split(" ");
    const walk = join(folder, "quadruped.html"), fit = join(folder, "fit");
    await run("simulate", "models/quadruped.urdf", "--ground", "--time", "1", "--q0", ...stand, "--qd0", "0.8",
        ...Array(17).fill("0"), "--html", walk);
    await run("fit", "examples/pendulum_fit.yaml", "-o", fit);
    await shoot("simulation", walk, { width: 1280, height: 760, time: 0.12 });
    await shoot("phone", walk, { width: 390, height: 760, colorScheme: "dark", time: 0.12 });
    await shoot("report", join(fit, "report.html"), { width: 1280, height: 760, time: 1.7 });
} finally {
    await browser.close();
    rmSync(folder, { recursive: true });
}
