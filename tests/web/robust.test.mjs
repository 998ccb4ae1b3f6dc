// Motions as odd as data can be, and browsers that lose or lack something.

import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { openBrowser, openPage, run, temporaryFolder } from "./support.mjs";
import { bodyPoses, box, freeLink, times, writePage } from "./synthetic.mjs";

const browser = await openBrowser();
after(() => browser.close());
const small = await browser.newContext({ viewport: { width: 640, height: 480 } }); // quick to draw
const folder = temporaryFolder({ after }), template = join(folder, "template.html");
before(() => run("simulate", "models/double_pendulum.urdf", "--time", "0.1", "--html", template));

const up = [0, 0, 1], hundred = times(100);
const scene = (more = {}) => ({ up, links: [freeLink("a")], geoms: [box(0, 0.5)], ...more });
const runOf = (time, ...how) => [{ name: "run", role: "run", poses: bodyPoses(time, ...how) }];
const position = (...columns) => ({ name: "joint/a/position", unit: "rad", columns });
const missing = (time) => Array.from({ length: 7 }, () => time.map(() => NaN));

// One track in one episode.
const simple = (time, more = {}, ...how) =>
    [scene(more), [{ time, tracks: runOf(time, ...how), quantities: [position(time.map((t) => Math.sin(t)))] }]];

async function open(t, name, [model, episodes]) {
    const path = join(folder, `${name}.html`);
    writePage(template, path, model, episodes);
    const opened = await openPage(small, path);
    t.after(() => opened.page.close());
    await opened.page.waitForFunction(() => window.neuralsim?.curves);
    return opened;
}

// Use everything; nothing may complain, and the page must stay as wide as the screen.
async function useAll({ page, check }) {
    await page.evaluate(async () => {
        const { timeline } = window.neuralsim, pause = () => new Promise((resolve) => setTimeout(resolve, 30));
        for (let k = Math.min(timeline.payload.episodes.length, 4) - 1; k >= 0; k--) {
            timeline.choose(k);
            timeline.setPlaying(true);
            await pause();
            timeline.setPlaying(false);
            timeline.set((timeline.first + timeline.last) / 2);
            await pause();
        }
    });
    for (const key of ["Home", "ArrowRight", "End", "[", "]", "w", "f", "f", "i", "j", "r", "a", "n", "c", "1", "1"]) {
        await page.keyboard.press(key);
    }
    assert.ok(await page.evaluate(() => document.scrollingElement.scrollWidth <= window.innerWidth));
    assert.deepEqual(await page.getByRole("alert").allTextContents(), []);
    check();
}

const types = ["sphere", "box", "capsule", "cylinder", "ellipsoid", "ellipse", "polygon", "mesh", "points", "plane",
    "later"];
const line = [0, 0, 0, 1, 0, 0, 2, 0, 0, 3, 0, 0]; // no hull
const curvesOnly = ["recorded", "after"].map((role) => ({ name: role, role, poses: null }));
const odd = {
    "a single row": simple([3]),
    "two rows": simple([3, 4]),
    "times far from 0": simple(times(100, 1e6)),
    "microseconds": simple(times(100, 0, 1e-6)),
    "weeks": simple(times(100, 0, 1e4)),
    "a kilometre": simple(hundred, { geoms: [box(0, 500)] }),
    "a millimetre": simple(hundred, { geoms: [box(0, 0.0005)] }),
    "x up": simple(hundred, { up: [1, 0, 0] }),
    "y down": simple(hundred, { up: [0, -1, 0] }),
    "no geometry": simple(hundred, { geoms: [] }),
    "no links": [scene({ links: [], geoms: [box(-1, 1)] }),
        [{ time: hundred, tracks: [{ name: "run", role: "run", poses: [] }] }]],
    "geometries without size": simple(hundred, { geoms: types.map((type) => box(0, 0, { type, size: [0, 0, 0] })) }),
    "numbers missing in geometries": simple(hundred, { geoms: [box(0, 1, { size: [null, 1, 1] }),
        box(0, 1, { pose: [null, 0, 0, null, 0, 0, 0] }), box(0, 1, { type: "mesh", vertices: line })] }),
    "only missing rows": [scene(), [{ time: hundred, tracks: [{ name: "run", role: "run", poses: missing(hundred) }],
        quantities: [position(hundred.map(() => NaN))] }]],
    "curves only": [scene(), [{ time: hundred, tracks: curvesOnly, quantities: [position(hundred, null)] }]],
    "episodes of different tracks": [scene(), [
        { name: "one", time: hundred, tracks: runOf(hundred), quantities: [position(hundred)] },
        { name: "two", time: times(3), quantities: [position(null, times(3))],
            tracks: [curvesOnly[0], { name: "after", role: "after", poses: bodyPoses(times(3)) }] },
        { name: "none", time: hundred, tracks: [{ name: "z", role: "before", poses: null }] }]],
    "a thousand quantities": [scene(), [{ time: hundred, tracks: runOf(hundred),
        quantities: Array.from({ length: 1000 }, (_, k) =>
            ({ name: `sensor/${k >> 3}/${k & 7}`, unit: "V", columns: [hundred] })) }]],
};

describe("odd motions are shown without complaint", () => {
    for (const [name, page] of Object.entries(odd)) test(name, async (t) => useAll(await open(t, name, page)));
});

describe("what is drawn", () => {
    test("turns the shorter way between rows, whatever the signs of quaternions", async (t) => {
        const time = times(20, 0, 0.1);
        const { page, check } = await open(t, "signs", simple(time, {}, [1, 2, 3], [0, 0, 0], 2));
        const drawn = await page.evaluate((time) => time.map((t) => {
            window.neuralsim.timeline.set(t);
            const [, , , w, , , z] = window.neuralsim.scene.linkPose(0, 0);
            return 2 * Math.atan2(z, w);
        }), time.map((t) => t + 0.03));
        for (const [k, angle] of drawn.slice(0, -1).entries()) {
            const wanted = 2 * (time[k] + 0.03), error = Math.sin((angle - wanted) / 2);
            assert.ok(Math.abs(error) < 1e-3, `${angle} not ${wanted}`);
        }
        check();
    });

    test("stays exact far from the origin, of every track", async (t) => {
        const { page } = await open(t, "far", [scene({ geoms: [box(0, 0.1)] }), [{ time: hundred, tracks: [
            { name: "a", role: "recorded", poses: bodyPoses(hundred, [1e6, 1e6, 1e6], [0.1, 0, 0]) },
            { name: "b", role: "after", poses: bodyPoses(hundred, [1e6 + 0.5, 1e6, 1e6]) }] }]]);
        const places = await page.evaluate(() => [0, 1].map((track) => {
            window.neuralsim.timeline.set(0.5);
            return window.neuralsim.scene.linkPose(track, 0)[0] - 1e6;
        }));
        assert.ok(Math.abs(places[0] - 0.05) < 1e-6 && Math.abs(places[1] - 0.5) < 1e-6, places.join());
    });

    test("keeps a useful range when one motion diverges", async (t) => {
        const wave = hundred.map((x) => Math.sin(6 * x)), gone = hundred.map((x) => Math.exp(14 * x));
        const tracks = ["recorded", "before", "after"].map((role) => ({ name: role, role, poses: bodyPoses(hundred) }));
        const runs = ["a", "b", "c"].map((name) => ({ name, role: "run", poses: bodyPoses(hundred) }));
        const { page, check } = await open(t, "diverges", [scene(), [
            { time: hundred, tracks, quantities: [position(wave, gone, wave)] },
            { time: hundred, tracks: runs, quantities: [position(wave, gone, wave)] }]]);
        const range = () => page.evaluate(() => window.neuralsim.curves.panels()[0].range[0]);
        const [low, high] = await range();
        assert.ok(low < -1 && low > -5 && high > 1 && high < 5, `${low} ${high}`);
        for (const role of ["recorded", "after"]) await page.getByLabel(role).uncheck();
        assert.ok((await range())[1] > 1e5); // alone it is shown as it is
        await page.evaluate(() => window.neuralsim.timeline.choose(1));
        assert.ok((await range())[1] < 50);
        check();
    });

    test("has an axis for each of two units, and says that there are no more", async (t) => {
        const quantities = ["rad", "rad/s", "J"].map((unit, k) =>
            ({ name: `quantity${k}`, unit, columns: [hundred.map((x) => 10 ** k * x)] }));
        const episode = { time: hundred, tracks: runOf(hundred), quantities };
        const { page, check } = await open(t, "units", [scene(), [episode]]);
        const panel = page.locator(".curve-panel").first();
        await panel.getByRole("button", { name: "quantity0" }).first().click();
        await panel.getByRole("checkbox", { name: "quantity1" }).check();
        const ranges = await page.evaluate(() => window.neuralsim.curves.panels()[0].range);
        assert.equal(ranges.length, 2);
        assert.ok(ranges[0][1] < 2 && ranges[1][1] > 9);
        assert.ok(await panel.getByRole("checkbox", { name: "quantity2" }).isDisabled());
        await panel.getByText("This panel has its 2 axes: rad and rad/s.").waitFor();
        await panel.getByRole("checkbox", { name: "quantity0" }).uncheck();
        assert.ok(await panel.getByRole("checkbox", { name: "quantity2" }).isEnabled());
        await page.keyboard.press("Escape");
        assert.equal(await panel.getByRole("searchbox").count(), 0);
        check();
    });
});

describe("a browser", () => {
    test("is asked for no more after a hundred changes of episode, of light and of size", async (t) => {
        const contacts = [{ name: "c", columns: Array.from({ length: 6 }, () => hundred) }];
        const episodes = Array.from({ length: 40 }, (_, k) => ({
            name: `episode ${k}`,
            time: hundred,
            tracks: ["recorded", "after"].map((role) =>
                ({ name: role, role, poses: bodyPoses(hundred, [k, 0, 0]), contacts })),
            quantities: [position(hundred, hundred)],
        }));
        const geoms = [box(0, 0.5), box(-1, 0.1), box(-1, 1, { type: "plane", size: [0, 0, 0] })];
        await small.addInitScript(() => {
            const { createBuffer, deleteBuffer } = WebGL2RenderingContext.prototype;
            window.buffers = 0;
            WebGL2RenderingContext.prototype.createBuffer = function () {
                window.buffers++;
                return createBuffer.call(this);
            };
            WebGL2RenderingContext.prototype.deleteBuffer = function (buffer) {
                window.buffers--;
                deleteBuffer.call(this, buffer);
            };
        });
        const { page, check } = await open(t, "forty", [scene({ geoms }), episodes]);
        const change = (count) => page.evaluate(async (count) => {
            const { timeline, scene } = window.neuralsim;
            for (let k = 0; k < count; k++) {
                timeline.choose(k % 40);
                if (k % 3 === 0) scene.draw(); // what was never drawn takes no room
            }
            timeline.choose(0);
            await new Promise((resolve) => setTimeout(resolve, 400));
            const { geometries, textures, programs } = scene.stats;
            return { geometries, textures, programs, buffers: window.buffers,
                nodes: document.querySelectorAll("*").length };
        }, count);
        const first = await change(3);
        assert.ok(first.geometries > 0 && first.buffers > 0);
        assert.deepEqual(await change(100), first);
        for (const colorScheme of ["dark", "light", "dark", "light"]) await page.emulateMedia({ colorScheme });
        for (let k = 0; k < 5; k++) await page.setViewportSize({ width: 700 - 20 * k, height: 600 - 40 * k });
        assert.deepEqual(await change(3), first);
        check();
    });

    test("that loses the picture says so, and draws it again", async (t) => {
        const { page } = await open(t, "lost", simple(hundred));
        await page.evaluate(() => {
            const context = document.querySelector(".stage canvas").getContext("webgl2");
            window.lost = context.getExtension("WEBGL_lose_context");
            window.lost.loseContext();
        });
        await page.getByText("The browser has taken the picture away").waitFor();
        await page.evaluate(() => window.lost.restoreContext());
        await page.getByText("The browser has taken the picture away").waitFor({ state: "hidden" });
        const colors = await page.evaluate(async () => {
            const image = await createImageBitmap(await window.neuralsim.scene.savePicture());
            const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
            context.drawImage(image, 0, 0);
            const { data } = context.getImageData(0, 0, image.width, image.height);
            return new Set(new Uint32Array(data.buffer)).size;
        });
        assert.ok(colors > 20, `${colors} colours`);
    });

    test("that cannot unpack the data says which ones can", async (t) => {
        const context = await browser.newContext();
        t.after(() => context.close());
        await context.addInitScript(() => { delete window.DecompressionStream; });
        const page = await context.newPage();
        await page.goto(pathToFileURL(template).href);
        await page.getByText("this browser cannot unpack it; Chrome 111").waitFor();
    });

    test("is given as many dots as it can draw in time, and more again when it can", async (t) => {
        const { page } = await open(t, "dots", simple(hundred));
        const ratios = await page.evaluate(() => {
            const { scene } = window.neuralsim;
            const draw = (interval, count) => {
                for (let k = 0; k < count; k++) {
                    scene.change();
                    scene.draw(interval);
                }
                return scene.stats.ratio;
            };
            return [draw(16, 2), draw(100, 25), draw(10, 120)];
        });
        assert.ok(ratios[1] < ratios[0], ratios.join());
        assert.equal(ratios[2], ratios[0]);
    });
});
