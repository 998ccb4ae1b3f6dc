// Run the tests given, in a browser; exit code 77 when there is none, unless in CI, where it must be.
//
//     NEURALSIM_PROGRAM=build/neuralsim node tests/web/run.mjs tests/web/*.test.mjs

import { spawnSync } from "node:child_process";
import { findChromium, findPlaywright } from "./support.mjs";

const missing = !findChromium() ? "chromium" : !findPlaywright() ? "playwright-core (npm ci in web/)" : null;
if (missing) {
    console.error(`no ${missing}: pages are not tested`);
    process.exit(process.env.CI ? 1 : 77);
}
const { status } = spawnSync(process.execPath, ["--test", ...process.argv.slice(2)], { stdio: "inherit" });
process.exit(status ?? 1);
