// What `neuralsim view` serves, in a browser.

import assert from "node:assert/strict";
import { readFileSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { openBrowser, openPage, openServed, root, run, serve, start, temporaryFolder, until } from "./support.mjs";

const browser = await openBrowser();
after(() => browser.close());

test("the report of a fit opens, served and as a file", async (t) => {
    const folder = temporaryFolder(t);
    await run("fit", "examples/pendulum_fit.yaml", "-o", folder);
    const { address, stop } = await serve(t, folder);
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
train: {window: 25, initial_state: recorded, method: adam, learning_rate: 1e-6, iterations: 1000000, tolerance: 0}
`);
    const fit = start(t, "fit", file, "-o", out, "--threads", "1");
    await until("progress.json", () => readFileSync(join(out, "progress.json")));
    const { address } = await serve(t, out);
    const { page, check } = await openServed(browser, address);
    assert.equal(await page.locator("h1").textContent(), "A slow fit");
    assert.equal(await page.locator("#live").getAttribute("data-url"), "progress");

    // What is drawn is what the fit wrote, point by point. It writes again before the page asks: try until both
    // are of the same moment.
    const written = () => JSON.parse(readFileSync(join(out, "progress.json"), "utf8"));
    const drawn = await until("the curve of the file", async () => {
        const points = await page.evaluate(() => window.neuralsim.live.points()), { history } = written();
        return points.length > 1 && points.at(-1)[0] === history.at(-1)[0] ? { points, history } : null;
    });
    assert.equal(drawn.points.length, drawn.history.length);
    for (const [k, [seconds, loss]] of drawn.points.entries()) {
        const [at, wanted] = drawn.history[k];
        assert.ok(seconds === at && Math.abs(loss - wanted) < 1e-9 * wanted, `point ${k}: ${seconds} s, ${loss}`);
    }
    const first = written();
    assert.equal(first.state, "running");
    assert.equal(first.number, 0);
    await page.getByText("phase 1 of 1: windows of 25, Adam").waitFor();
    await page.getByText(/^iteration \d+ of 1000000 \u00b7 loss [\d.e-]+ \u00b7 \d+\u00a0s$/).waitFor();
    const canvas = await page.locator(".live-plot canvas").boundingBox();
    assert.ok(canvas.width > 300 && canvas.height > 200);
    await until("more points", () => page.evaluate((count) =>
        window.neuralsim.live.points().at(-1)[0] > count, drawn.points.at(-1)[0]));
    check();

    // It becomes the report by itself.
    assert.equal(await fit.stop("SIGINT"), 130);
    await page.waitForFunction(() => document.getElementById("viewer") && window.neuralsim?.curves);
    assert.equal(await page.locator("#live").count(), 0);
    assert.ok(await page.locator("svg.figure").count() > 0);
    check();
});

test("a live page counts phases from 1, and says what went wrong", async (t) => {
    const folder = temporaryFolder(t), file = join(folder, "progress.json");
    const news = { state: "running", title: "Three phases", phase: "windows of 50, LM", number: 1, count: 3, iteration: 5,
        iterations: 10, loss: 1, seconds: 2, history: [[0.5, 4, 0], [1, 2, 0], [1.5, 8, 1], [2, 1, 1]], message: null };
    writeFileSync(file, JSON.stringify(news));
    utimesSync(file, new Date(), new Date(Date.now() - 100000));
    const { address } = await serve(t, folder);
    const { page, check } = await openServed(browser, address);
    t.after(() => page.close());
    await page.getByText("phase 2 of 3: windows of 50, LM").waitFor();
    await page.getByText("No news for 1\u00a0min").waitFor();
    assert.equal(await page.locator("progress").evaluate((bar) => bar.value), 0.5);
    const points = await page.evaluate(() => window.neuralsim.live.points());
    assert.deepEqual(points.map(([seconds]) => seconds), [0.5, 1, 1.5, 2]);
    assert.ok(points.every(([, loss], k) => Math.abs(loss - [4, 2, 8, 1][k]) < 1e-9));
    writeFileSync(file, JSON.stringify({ ...news, state: "failed", message: "link1 has no mass" }));
    await page.getByText("Failed: link1 has no mass").waitFor();
    check();
});
