// What `neuralsim view` serves, in a browser.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { openBrowser, openPage, openServed, root, run, serve, start, temporaryFolder, until } from "./support.mjs";

test("the report of a fit opens, served and as a file", async (t) => {
    const folder = temporaryFolder(t);
    await run("fit", "examples/pendulum_fit.yaml", "-o", folder);
    const { address, stop } = await serve(t, folder);
    const browser = await openBrowser();
    t.after(() => browser.close());
    const served = await openServed(browser, address);
    const file = await openPage(browser, join(folder, "report.html"));
    for (const { page, check } of [served, file]) {
        assert.equal(await page.locator("h1").textContent(), "A double pendulum from 18 s of recordings");
        assert.ok(await page.locator("svg").count() > 0);
        check();
    }
    assert.equal(await stop(), 0);
});

test("a fit can be watched while it runs, and its report seen when it ends", async (t) => {
    const folder = temporaryFolder(t);
    const file = join(folder, "slow.yaml"), out = join(folder, "out");
    writeFileSync(file, `title: A slow fit
model: ${root}/models/double_pendulum.urdf
integrator: rk4
timestep: 0.02
data: {train: [{file: ${root}/examples/pendulum_recording.csv, trajectories: 0-2}]}
parameters: {link/*/mass: free}
fit: {windows: 25, states: recorded, method: adam, rate: 1e-6, iterations: 1000000, tolerance: 0}
`);
    const fit = start(t, "fit", file, "-o", out, "--threads", "1");
    await until("progress.json", () => readFileSync(join(out, "progress.json")));
    const { address } = await serve(t, out);
    const browser = await openBrowser();
    t.after(() => browser.close());
    const { page, check } = await openServed(browser, address);
    assert.equal(await page.locator("h1").textContent(), "A slow fit");
    assert.equal(await page.locator("#live").getAttribute("data-url"), "progress");

    // The page may ask for news, by the address it holds.
    const ask = () => page.evaluate(async () => {
        const url = document.getElementById("live").dataset.url;
        return (await fetch(url)).json();
    });
    const first = await until("a first point", async () => {
        const progress = await ask();
        return progress.history.length > 0 ? progress : null;
    });
    assert.equal(first.state, "running");
    assert.equal(first.phase, "windows of 25, Adam");
    assert.ok(first.age >= 0 && first.age < 60);
    await until("more points", async () => (await ask()).seconds > first.seconds);
    check();

    assert.equal(await fit.stop("SIGINT"), 0);
    const after = await openServed(browser, address);
    assert.ok(await after.page.locator("svg").count() > 0);
    assert.equal(await after.page.locator("#live").count(), 0);
    after.check();
});
