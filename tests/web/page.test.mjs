// Pages of real motions and fits, as a person uses them. What is drawn is compared with tables that the
// program writes by another way.

import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { chain } from "./chain.mjs";
import { openBrowser, openPage, root, run, temporaryFolder, until } from "./support.mjs";

const browser = await openBrowser();
after(() => browser.close());

// A table as columns by name.
function readTable(text) {
    const [names, ...rows] = text.trim().split("\n").map((line) => line.split(","));
    return Object.fromEntries(names.map((name, c) => [name, rows.map((row) => Number(row[c]))]));
}

// Largest distance between a pose and another; a quaternion and its negative are the same.
function distance(a, b) {
    const turn = [1, -1].map((sign) => Math.max(...[3, 4, 5, 6].map((k) => Math.abs(a[k] - sign * b[k]))));
    return Math.max(...[0, 1, 2].map((k) => Math.abs(a[k] - b[k])), Math.min(...turn));
}

const parts = ["x", "y", "z", "qw", "qx", "qy", "qz"];

const time = (page) => page.evaluate(() => window.neuralsim.timeline.time);

// A page of ours, ready to be used.
async function open(path) {
    const opened = await openPage(browser, path);
    await opened.page.waitForFunction(() => window.neuralsim?.curves && window.neuralsim.scene);
    return opened;
}

// The same for one test.
async function openFor(t, path) {
    const opened = await open(path);
    t.after(() => opened.page.close());
    return opened;
}

// Poses as drawn: for each time, for each link.
const posesAt = (page, times, track, links) => page.evaluate(([times, track, links]) => times.map((at) => {
    window.neuralsim.timeline.set(at);
    return links.map((link) => window.neuralsim.scene.linkPose(track, link));
}), [times, track, links]);

// Save something by a button; the text of the file.
async function save(page, button) {
    const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
    return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

// A picture's size, how many colours it has, and that of its first dot.
const decode = (page, bytes) => page.evaluate(async (text) => {
    const image = new Image();
    image.src = `data:image/png;base64,${text}`;
    await image.decode();
    const { naturalWidth: width, naturalHeight: height } = image;
    const context = new OffscreenCanvas(width, height).getContext("2d");
    context.drawImage(image, 0, 0);
    const dots = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
    return { width, height, colors: new Set(dots).size, first: dots[0] };
}, bytes.toString("base64"));

describe("a simulated robot", () => {
    const chosen = ["models/quadruped.urdf", "--ground", "--time", "0.6", "--dt", "0.002"];
    const path = join(temporaryFolder({ after }), "run.html");
    let page, check, table;
    before(async () => {
        await run("simulate", ...chosen, "--html", path);
        table = readTable(await run("simulate", ...chosen, "--observe", "link/*/pose", "contact/**"));
        ({ page, check } = await open(path));
    });
    after(() => page.close());

    test("stands where the table says, at every time", async () => {
        const links = await page.evaluate(() => window.neuralsim.timeline.payload.scene.links.map((l) => l.name));
        assert.equal(links.length, 13);
        const rows = [...table.t.keys()].filter((row) => row % 60 === 0);
        const drawn = await posesAt(page, rows.map((row) => table.t[row]), 0, [...links.keys()]);
        for (const [k, row] of rows.entries()) {
            for (const [number, link] of links.entries()) {
                const wanted = parts.map((part) => table[`link/${link}/pose/${part}`][row]);
                const pose = drawn[k][number];
                assert.ok(distance(pose, wanted) < 1e-6, `${link} at ${table.t[row]} s: ${pose} ${wanted}`);
            }
        }
        // Between two rows a body is between its places there.
        const [a, b] = [100, 101].map((row) => table["link/" + links[0] + "/pose/z"][row]);
        const [[middle]] = await posesAt(page, [(table.t[100] + table.t[101]) / 2], 0, [0]);
        assert.ok(Math.abs(middle[2] - (a + b) / 2) < 1e-6);
        check();
    });

    test("shows the forces it stands on", async () => {
        const normals = Object.keys(table).filter((name) => name.endsWith("/force/normal"));
        const totals = table.t.map((_, row) => normals.reduce((sum, name) => sum + table[name][row], 0));
        const total = Math.max(...totals), row = totals.indexOf(total); // the ground is level
        const contacts = await page.evaluate((at) => {
            window.neuralsim.timeline.set(at);
            return window.neuralsim.scene.contacts(0);
        }, table.t[row]);
        assert.ok(contacts.length > 0 && total > 1);
        const drawn = contacts.reduce((sum, { force }) => sum + force[2], 0);
        assert.ok(Math.abs(drawn - total) < 1e-4 * total, `${drawn} N, not ${total} N`);
        await page.getByRole("button", { name: "contacts and forces" }).click();
        assert.deepEqual(await page.evaluate(() => window.neuralsim.scene.contacts(0)), []);
        await page.getByRole("button", { name: "contacts and forces" }).click();
        check();
    });

    test("plays, pauses, goes on by rows and by keys", async () => {
        await page.evaluate(() => window.neuralsim.timeline.set(0));
        await page.getByLabel("speed").selectOption("0.1");
        await page.getByRole("button", { name: "play", exact: true }).click();
        await until("time passes", async () => await time(page) > 0.01);
        await page.getByRole("button", { name: "pause", exact: true }).click();
        const rested = await time(page);
        const frames = await page.evaluate(() => window.neuralsim.scene.frames);
        assert.ok(frames > 1);
        await page.waitForTimeout(300);
        assert.equal(await time(page), rested);

        await page.locator("body").click({ position: { x: 2, y: 2 } });
        await page.keyboard.press("Home");
        assert.equal(await time(page), 0);
        await page.keyboard.press("ArrowRight");
        assert.ok(Math.abs(await time(page) - table.t[1]) < 1e-9);
        await page.keyboard.press("End");
        assert.ok(Math.abs(await time(page) - table.t.at(-1)) < 1e-9);
        check();
    });

    test("has a list of its keys, which do what it says", async () => {
        const dialog = page.getByRole("dialog", { name: "Keys" });
        const button = page.getByRole("button", { name: "keys", exact: true });
        await button.focus();
        await page.keyboard.press("?");
        await dialog.waitFor();
        assert.equal(await dialog.locator("dt").count(), await dialog.locator("dd").count());
        const listed = await dialog.locator("dt").allTextContents();
        for (const key of ["space", "[ ]", "i j k l", "f", "r", "c", "a", "n", "?"]) {
            assert.ok(listed.includes(key), key);
        }
        await page.keyboard.press("a"); // does nothing behind the list
        await page.keyboard.press("Escape");
        await dialog.waitFor({ state: "hidden" });
        assert.ok(await button.evaluate((element) => element === document.activeElement));

        const pressed = (name) => page.getByRole("button", { name, exact: true }).getAttribute("aria-pressed");
        for (const [key, name] of [["a", "axes of joints"], ["n", "names and frames of links"],
            ["c", "contacts and forces"], ["f", "follow the robot"]]) {
            const was = await pressed(name);
            await page.keyboard.press(key);
            assert.notEqual(await pressed(name), was, key);
            await page.keyboard.press(key);
            assert.equal(await pressed(name), was, key);
        }
        const eye = () => page.evaluate(() => window.neuralsim.scene.camera.three.position.toArray());
        await page.keyboard.press("r");
        const first = await eye();
        await page.keyboard.press("l");
        assert.notDeepEqual(await eye(), first);
        await page.keyboard.press("r");
        assert.ok((await eye()).every((x, k) => Math.abs(x - first[k]) < 1e-9));
        await page.evaluate(() => window.neuralsim.timeline.set(0.2));
        await page.keyboard.press("[");
        await page.evaluate(() => window.neuralsim.timeline.set(0.4));
        await page.keyboard.press("]");
        const stretch = () => page.evaluate(() => [window.neuralsim.timeline.from, window.neuralsim.timeline.to]);
        assert.deepEqual(await stretch(), [0.2, 0.4]);
        await page.keyboard.press("w");
        assert.ok((await stretch())[1] > 0.59);
        check();
    });

    test("plays only the stretch one drags over, again and again", async () => {
        const plot = await page.locator(".curve-plot .u-over").first().boundingBox();
        const at = (share) => [plot.x + share * plot.width, plot.y + plot.height / 2];
        await page.mouse.move(...at(0.25));
        await page.mouse.down();
        await page.mouse.move(...at(0.4), { steps: 3 });
        await page.mouse.move(...at(0.5));
        await page.mouse.up();
        const end = table.t.at(-1);
        const { from, to } = await page.evaluate(() => window.neuralsim.timeline);
        assert.ok(Math.abs(from / end - 0.25) < 0.01 && Math.abs(to / end - 0.5) < 0.01, `${from} ${to}`);
        // Where the slider shows it.
        const [slider, stretch] = await Promise.all([".spans", ".spans .stretch"].map((part) =>
            page.locator(part).boundingBox()));
        assert.ok(Math.abs(stretch.x - slider.x - from / end * slider.width) < 1);
        assert.ok(Math.abs(stretch.width - (to - from) / end * slider.width) < 1);

        const seen = await page.evaluate(() => new Promise((resolve) => {
            const { timeline } = window.neuralsim, times = [];
            timeline.addEventListener("time", function note() {
                times.push(timeline.time);
                if (times.length < 3 || times.at(-1) >= times.at(-2)) return;
                timeline.removeEventListener("time", note);
                timeline.setPlaying(false);
                resolve(times);
            });
            timeline.setSpeed(0.5);
            timeline.setPlaying(true);
        }));
        assert.ok(seen.every((t) => t >= from && t <= to), `${seen} not in ${from} to ${to}`);
        await page.getByRole("button", { name: "whole time" }).click();
        assert.equal(await page.evaluate(() => window.neuralsim.timeline.to), end);
        check();
    });

    test("can be scrubbed by the slider, and curves follow", async () => {
        await page.getByRole("slider", { name: "time" }).click(); // in its middle
        const at = await time(page), end = table.t.at(-1);
        assert.ok(Math.abs(at - end / 2) < 0.05 * end, `${at} of ${end}`);
        check();
    });

    test("axes and names can be had, and the view reset", async () => {
        for (const name of ["axes of joints", "names and frames of links", "follow the robot"]) {
            const button = page.getByRole("button", { name });
            const was = await button.getAttribute("aria-pressed");
            await button.click();
            assert.notEqual(await button.getAttribute("aria-pressed"), was, name);
        }
        await page.getByText("RL_calf", { exact: true }).first().waitFor();
        await page.getByRole("button", { name: "reset the view" }).click();
        const png = await save(page, page.getByRole("button", { name: "save the picture as PNG" }));
        assert.match(png.name, /^simulation-.*s\.png$/);
        const picture = await decode(page, png.bytes);
        const stage = await page.locator(".stage").boundingBox();
        assert.ok(picture.width >= stage.width - 1);
        assert.ok(Math.abs(picture.width / picture.height - stage.width / stage.height) < 0.02);
        assert.ok(picture.colors > 100, `${picture.colors} colours`);
        check();
    });

    test("has any quantity as a curve, with the table's numbers", async () => {
        const { y, x } = await page.evaluate(() => {
            const { curves } = window.neuralsim;
            const panel = curves.show(["link/trunk/pose/z"]);
            const [series] = curves.panels()[panel].series;
            return { x: [...series.x], y: [...series.y] };
        });
        const wanted = table["link/trunk/pose/z"];
        assert.equal(y.length, wanted.length);
        for (let k = 0; k < y.length; k++) {
            assert.ok(Math.abs(y[k] - wanted[k]) < 1e-6 && Math.abs(x[k] - table.t[k]) < 1e-6);
        }
        check();
    });

    test("fits on a phone, by day and by night", async () => {
        const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        await page.emulateMedia({ colorScheme: "light" });
        const light = await paper();
        await page.emulateMedia({ colorScheme: "dark" });
        assert.notEqual(await paper(), light);
        await page.setViewportSize({ width: 390, height: 844 });
        await until("no sideways scrolling", () => page.evaluate(() =>
            document.scrollingElement.scrollWidth <= window.innerWidth));
        const canvas = await page.locator("canvas").first().boundingBox();
        assert.ok(canvas.width > 300 && canvas.width <= 390 && canvas.height > 200);
        const play = await page.getByRole("button", { name: "play", exact: true }).boundingBox();
        assert.ok(play.width >= 40 && play.height >= 40);
        await page.setViewportSize({ width: 1280, height: 720 });
        await page.emulateMedia({ colorScheme: null });
        check();
    });

    test("names all that can be pressed or set, for who cannot see it", async () => {
        // Found and judged in one task of the page: the legend is made anew when the colours change.
        const nameless = await page.evaluate(() => [...document.querySelectorAll("button, input, select, [role=img]")]
            .filter((e) => !e.getAttribute("aria-label") && e.textContent.trim() === "" && !(e.labels?.length > 0))
            .map((e) => e.outerHTML));
        assert.deepEqual(nameless, []);
    });

    test("is printed without what cannot be pressed on paper", async () => {
        await page.emulateMedia({ media: "print", colorScheme: "dark" });
        await page.evaluate(() => window.dispatchEvent(new Event("beforeprint")));
        for (const part of [".bar", ".scrub", ".curve-bar", ".curve-head .save", ".stage > canvas:first-child"]) {
            assert.ok(await page.locator(part).first().isHidden(), part);
        }
        const paper = await page.locator(".scene-paper").evaluate((canvas) => {
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            return { first: data[0], colors: new Set(new Uint32Array(data.buffer)).size };
        });
        assert.ok(await page.locator(".scene-paper").isVisible());
        assert.ok(paper.colors > 100 && paper.first > 200, `${paper.colors} colours from ${paper.first}`); // light
        const color = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
        assert.equal(color, "rgb(255, 255, 255)");
        await page.evaluate(() => window.dispatchEvent(new Event("afterprint")));
        await page.emulateMedia({ media: null, colorScheme: null });
        check();
    });

    test("says so where there is no 3D, and plays on", async (t) => {
        const poor = await openBrowser(["--disable-gpu", "--disable-3d-apis"]);
        t.after(() => poor.close());
        const { page } = await openPage(poor, path);
        await page.getByText("The robot cannot be drawn").waitFor();
        await page.getByRole("button", { name: "play", exact: true }).click();
        await until("time passes", async () => await time(page) > 0.01);
    });
});

describe("the report of a fit", () => {
    const folder = temporaryFolder({ after });
    let page, check;
    before(async () => {
        await run("fit", "examples/pendulum_fit.yaml", "-o", folder);
        ({ page, check } = await open(join(folder, "report.html")));
    });
    after(() => page.close());

    test("shows what was recorded, before and after, as the table of predictions has it", async () => {
        const table = readTable(readFileSync(join(folder, "predictions.csv"), "utf8"));
        const panels = await page.evaluate(() => {
            const { curves, timeline } = window.neuralsim;
            const panel = curves.show(["joint/joint1/position"]);
            return { series: curves.panels()[panel].series.map(({ role, x, y }) => ({ role, x: [...x], y: [...y] })),
                spans: timeline.episode.spans };
        });
        assert.deepEqual(panels.series.map(({ role }) => role), ["recorded", "before", "after"]);
        const rows = table.traj.map((traj, k) => k).filter((k) => table.traj[k] === 0);
        for (const { role, x, y } of panels.series) {
            const wanted = table[role === "recorded" ? "q1" : `q1/${role}`];
            assert.equal(y.length, rows.length);
            for (const [k, row] of rows.entries()) {
                assert.ok(Math.abs(x[k] - table.t[row]) < 1e-6);
                if (Number.isNaN(wanted[row])) assert.ok(Number.isNaN(y[k]) || y[k] === null);
                else assert.ok(Math.abs(y[k] - wanted[row]) < 1e-6, `${role} at ${x[k]}: ${y[k]} ${wanted[row]}`);
            }
        }
        assert.deepEqual(panels.spans.map(({ role }) => role), ["test"]);

        check();
    });

    test("hides a track in 3D and in all curves", async () => {
        await page.evaluate(() => window.neuralsim.timeline.set(2));
        const boxes = page.locator(".legend input[type=checkbox]");
        assert.equal(await boxes.count(), 3);
        // How many dots of a panel have the colour of "before", which is like no other.
        const orange = () => page.locator(".curve-plot canvas").first().evaluate(async (canvas) => {
            await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            let count = 0;
            for (let k = 0; k < data.length; k += 4) {
                count += data[k + 3] > 128 && data[k] > data[k + 1] + 80 && data[k + 1] > data[k + 2] + 50;
            }
            return count;
        });
        const roles = () => page.evaluate(() => window.neuralsim.curves.panels().map(({ series }) =>
            series.map(({ role }) => role)));
        assert.ok(await orange() > 50);
        for (const [k, role] of ["recorded", "before", "after"].entries()) {
            const visible = () => page.evaluate((k) => window.neuralsim.scene.visible(k), k);
            assert.equal(await visible(), true);
            await boxes.nth(k).uncheck();
            assert.equal(await visible(), false);
            for (const shown of await roles()) assert.ok(!shown.includes(role));
            if (role === "before") assert.equal(await orange(), 0);
        }
        assert.equal(await page.locator(".curve-entry:visible").count(), 0);
        // By key, and still so in another episode.
        await page.keyboard.press("1");
        assert.ok((await roles()).every((shown) => shown.join() === "recorded"));
        await page.getByLabel("episode").selectOption({ index: 1 });
        assert.ok((await roles()).every((shown) => shown.join() === "recorded"));
        await page.getByLabel("episode").selectOption({ index: 0 });
        for (const k of [1, 2]) await boxes.nth(k).check();
        assert.ok(await orange() > 50);
        check();
    });

    test("saves its figures as SVG and PNG, and their numbers", async () => {
        const result = JSON.parse(readFileSync(join(folder, "result.json"), "utf8"));
        const figures = await page.locator("figure.figure").evaluateAll((list) => list.map((figure) => figure.id));
        for (const name of ["loss", "parameters", "correlation", "errors_test", "timing"]) {
            assert.ok(figures.includes(`figure-${name}`), `no figure ${name} among ${figures}`);
        }
        const loss = page.locator("#figure-loss");
        const svg = await save(page, loss.getByRole("button", { name: "SVG" }));
        assert.equal(svg.name, "loss.svg");
        const points = await page.evaluate((text) => {
            const picture = new DOMParser().parseFromString(text, "image/svg+xml");
            if (picture.querySelector("parsererror")) throw new Error(picture.documentElement.textContent);
            return [...picture.querySelectorAll("polyline")]
                .reduce((sum, line) => sum + line.getAttribute("points").trim().split(/\s+/).length, 0);
        }, svg.bytes.toString());
        assert.equal(points, result.history.length);
        const csv = await save(page, loss.getByRole("button", { name: "CSV" }));
        const numbers = readTable(csv.bytes.toString());
        assert.deepEqual(Object.values(numbers).at(-1).map(Number), result.history.map(({ value }) => value));
        await page.emulateMedia({ colorScheme: "dark" });
        await page.evaluate(() => {
            const { createObjectURL } = URL;
            URL.createObjectURL = (blob) => {
                if (blob.type === "image/svg+xml") window.drawn = blob.text();
                return createObjectURL(blob);
            };
        });
        const png = await save(page, loss.getByRole("button", { name: "PNG" }));
        assert.doesNotMatch(await page.evaluate(() => window.drawn), /prefers-color-scheme/); // which some ask
        await page.emulateMedia({ colorScheme: null });
        const picture = await decode(page, png.bytes);
        assert.equal(picture.first, 0xffffffff); // on white paper
        assert.ok(picture.width > 400 && picture.colors > 10);
        check();
    });

    test("saves a curve as SVG with the numbers of its CSV", async () => {
        const svg = await save(page, page.locator(".viewer-curves").getByRole("button", { name: "SVG" }).first());
        assert.match(svg.name, /\.svg$/);
        const drawn = await page.evaluate((text) => {
            const picture = new DOMParser().parseFromString(text, "image/svg+xml");
            if (picture.querySelector("parsererror")) throw new Error(picture.documentElement.textContent);
            const { x, y } = window.neuralsim.curves.panels()[0].series.find(({ role }) => role === "recorded");
            return { data: [...x].map((t, k) => [t, y[k]]),
                lines: [...picture.querySelectorAll("polyline, path")].map((line) =>
                    (line.getAttribute("points") ?? line.getAttribute("d")).match(/-?[\d.]+/g).map(Number)) };
        }, svg.bytes.toString());
        // The line of all recorded samples, whose places are an affine map of the numbers.
        const line = drawn.lines.find((numbers) => numbers.length === 2 * drawn.data.length);
        assert.ok(line, `lines of ${drawn.lines.map(({ length }) => length / 2)} points`);
        for (const c of [0, 1]) {
            const from = drawn.data.map((point) => point[c]), to = from.map((_, k) => line[2 * k + c]);
            const low = from.indexOf(Math.min(...from)), high = from.indexOf(Math.max(...from));
            const unit = (to[high] - to[low]) / (from[high] - from[low]);
            assert.ok(Math.abs(unit * (from[high] - from[low])) > 50);
            for (const [k, value] of from.entries()) {
                assert.ok(Math.abs(to[low] + unit * (value - from[low]) - to[k]) < 0.02);
            }
        }
        check();
    });
});

describe("parts of one recording", () => {
    test("are marked where they are, on the slider and behind the curves", async (t) => {
        const folder = temporaryFolder(t);
        writeFileSync(join(folder, "fit.yaml"), `model: ${root}/models/double_pendulum.urdf
integrator: rk4
timestep: 0.02
data:
  train: [{file: ${root}/examples/pendulum_recording.csv, trajectories: 0, to: 60%}]
  test: [{file: ${root}/examples/pendulum_recording.csv, trajectories: 0, from: 60%}]
parameters: {link/link1/mass: {initial: 2}}
train: {window: 25, initial_state: recorded}
`);
        await run("fit", join(folder, "fit.yaml"), "-o", join(folder, "out"));
        const { page, check } = await openFor(t, join(folder, "out/report.html"));
        const { spans, first, last } = await page.evaluate(() => {
            const { episode, first, last } = window.neuralsim.timeline;
            return { spans: episode.spans, first, last };
        });
        assert.deepEqual(spans.map(({ role }) => role), ["train", "test"]);
        const change = (spans[1].from - first) / (last - first);
        assert.ok(change > 0.5 && change < 0.7);
        const [slider, marked] = await Promise.all([".spans", ".spans .test"].map((part) =>
            page.locator(part).boundingBox()));
        assert.ok(Math.abs((marked.x - slider.x) / slider.width - change) < 0.01);
        // Test data is on darker paper, in the canvas and in the picture that is saved.
        const dark = await page.locator(".curve-plot").first().evaluate((plot) => {
            const canvas = plot.querySelector("canvas"), over = plot.querySelector(".u-over");
            const scale = canvas.width / canvas.clientWidth, wide = over.offsetWidth * scale;
            const corner = [over.offsetLeft * scale, (over.offsetTop + 3) * scale];
            const { data } = canvas.getContext("2d").getImageData(...corner, wide, 1);
            return Array.from({ length: Math.floor(wide) }, (_, k) => data[4 * k + 3] > 0);
        });
        const begin = dark.findIndex((_, k) => dark.slice(k, k + 20).every(Boolean)) / dark.length;
        assert.ok(Math.abs(begin - change) < 0.02, `darker from ${begin} on, not ${change}`);
        const svg = await save(page, page.locator(".viewer-curves").getByRole("button", { name: "SVG" }).first());
        const [train, test] = await page.evaluate((text) => {
            const picture = new DOMParser().parseFromString(text, "image/svg+xml");
            return [...picture.querySelectorAll("rect[fill-opacity]")].map((rect) =>
                ({ x: Number(rect.getAttribute("x")), width: Number(rect.getAttribute("width")) }));
        }, svg.bytes.toString());
        assert.ok(Math.abs(train.width / (train.width + test.width) - change) < 0.01);
        assert.ok(Math.abs(train.x + train.width - test.x) < 0.1);
        check();
    });
});

describe("names that mean something to a browser", () => {
    const evil = "</script><script>window.bad = 1</script><img src=x onerror='window.bad = 2'>";
    const names = { link: `${evil} "quoted" & 'so'`, joint: "関節 العربية </script>", model: `</title>${evil}` };
    const escape = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
        .replaceAll('"', "&quot;").replaceAll("'", "&apos;");
    const urdf = `<robot name="${escape(names.model)}">
  <link name="base"/>
  <link name="${escape(names.link)}"><inertial><origin xyz="0 0 -0.5"/><mass value="1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin xyz="0 0 -0.25"/><geometry><box size="0.1 0.1 0.5"/></geometry></visual></link>
  <joint name="${escape(names.joint)}" type="continuous"><parent link="base"/>
    <child link="${escape(names.link)}"/><axis xyz="0 1 0"/></joint>
</robot>`;

    test("are text and run nothing", async (t) => {
        const folder = temporaryFolder(t);
        const model = join(folder, "a' \"b\" \u4e16\u754c <i>.urdf");
        const path = join(folder, "page <script> \u4e16\u754c.html");
        writeFileSync(model, urdf);
        await run("simulate", model, "--time", "0.1", "--q0", "1", "--html", path);
        const { page, check } = await openFor(t, path);
        page.on("dialog", () => assert.fail("a dialog"));
        await page.getByRole("button", { name: "names and frames of links" }).click();
        assert.equal(await page.title(), names.model);
        assert.equal(await page.locator("h1").textContent(), names.model);
        await page.getByText(names.link, { exact: true }).first().waitFor({ state: "attached" });
        const shown = await page.evaluate(() => {
            const { curves, timeline } = window.neuralsim;
            const { quantities } = timeline.episode;
            curves.show([quantities.find(({ name }) => name.includes("\u95a2\u7bc0")).name]);
            return { bad: window.bad, scripts: document.scripts.length, images: document.images.length,
                link: timeline.payload.scene.links.at(-1).name };
        });
        assert.deepEqual(shown, { bad: undefined, scripts: 3, images: 0, link: names.link });
        await page.getByText(names.joint.slice(0, 2)).first().waitFor();
        check();
    });

    test("are text in the report of a fit, too", async (t) => {
        const folder = temporaryFolder(t);
        writeFileSync(join(folder, "m.urdf"), urdf);
        await run("simulate", join(folder, "m.urdf"), "--time", "1", "--dt", "0.01", "--q0", "1", "-o",
            join(folder, "data.csv"), "--index-names");
        writeFileSync(join(folder, "fit.yaml"), `title: ${JSON.stringify(evil)}
model: m.urdf
timestep: 0.01
data: {train: [data.csv]}
parameters: {${JSON.stringify(`link/${names.link}/mass`)}: {initial: 2}, "joint/*/damping": {initial: 0.1, lower: 0}}
train: {window: 10, initial_state: recorded}
`);
        await run("fit", join(folder, "fit.yaml"), "-o", join(folder, "out"));
        const { page, check } = await openFor(t, join(folder, "out/report.html"));
        assert.equal(await page.locator("h1").textContent(), evil);
        assert.equal(await page.evaluate(() => window.bad), undefined);
        assert.equal(await page.locator("img").count(), 0);
        await page.getByText(`link/${names.link}/mass`).first().waitFor();
        check();
    });
});

describe("a long motion of many bodies", () => {
    test("is in the page to the last step, in a file that stays small", async (t) => {
        const folder = temporaryFolder(t);
        const path = join(folder, "chain.html"), model = join(folder, "chain.urdf");
        writeFileSync(model, chain(30));
        const chosen = [model, "--steps", "10000", "--dt", "0.001", "--q0", ...Array(30).fill("0.1")];
        await run("simulate", ...chosen, "--html", path);
        const table = readTable(await run("simulate", ...chosen, "--observe", "link/l29/pose", "--every", "1000"));
        const { page, check } = await openFor(t, path);
        const sizes = await page.evaluate(() => ({
            rows: window.neuralsim.timeline.times.length,
            last: window.neuralsim.timeline.payload.scene.links.findIndex(({ name }) => name === "l29"),
            packed: document.getElementById("viewer-bytes").textContent.length,
        }));
        assert.equal(sizes.rows, 10001);
        assert.ok(statSync(path).size - sizes.packed < 3e6);
        const drawn = await posesAt(page, table.t, 0, [sizes.last]);
        for (const [row, [pose]] of drawn.entries()) {
            const wanted = parts.map((part) => table[`link/l29/pose/${part}`][row]);
            assert.ok(distance(pose, wanted) < 1e-6, `at ${table.t[row]} s: ${pose} ${wanted}`);
        }
        check();
    });

    test("is drawn at once for each track, which has one colour in 3D, legend and curves", async (t) => {
        const folder = temporaryFolder(t);
        const [path, model, starts] = ["chains.html", "chain.urdf", "starts.csv"].map((name) => join(folder, name));
        writeFileSync(model, chain(30));
        const names = Array.from({ length: 30 }, (_, k) => `q${k}`);
        writeFileSync(starts, [names, ...[0.1, 0.12, 0.05].map((q) => names.map(() => q))].join("\n") + "\n");
        await run("simulate", model, "--steps", "100", "--dt", "0.001", "--batch", starts, "--html", path);
        const { page, check } = await openFor(t, path);
        const colors = await page.evaluate(() => {
            const { scene, curves } = window.neuralsim;
            const swatches = [...document.querySelectorAll(".legend .swatch")];
            return [0, 1, 2].map((k) => [`#${scene.robots[k].bodies[0].mesh.material.color.getHexString()}`,
                swatches[k].style.getPropertyValue("--track"), curves.panels()[0].series[k].color[0]]);
        });
        assert.equal(new Set(colors.flat()).size, 3);
        for (const same of colors) assert.equal(new Set(same).size, 1, same.join());
        // 31 bodies in three tracks: a draw for each would be 93.
        await page.getByRole("button", { name: "play", exact: true }).click();
        await until("frames", () => page.evaluate(() => window.neuralsim.scene.frames > 3));
        const { calls } = await page.evaluate(() => window.neuralsim.scene.stats);
        assert.ok(calls > 3 && calls < 20, `${calls} draws`);
        check();
    });
});
