// Pages of real motions and fits, as a person uses them. What is drawn is compared with tables that the
// program writes by another way.

import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { chain } from "./chain.mjs";
import { openBrowser, openPage, run, temporaryFolder, until } from "./support.mjs";

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

const ready = (page) => page.waitForFunction(() => window.neuralsim?.curves && window.neuralsim.scene);
const time = (page) => page.evaluate(() => window.neuralsim.timeline.time);
const poseAt = (page, at, track, link) => page.evaluate(([at, track, link]) => {
    window.neuralsim.timeline.set(at);
    return window.neuralsim.scene.linkPose(track, link);
}, [at, track, link]);

// Save something by a button; the text of the file.
async function save(page, button) {
    const [download] = await Promise.all([page.waitForEvent("download"), button.click()]);
    return { name: download.suggestedFilename(), bytes: readFileSync(await download.path()) };
}

describe("a simulated robot", () => {
    const chosen = ["models/quadruped.urdf", "--ground", "--time", "0.6", "--dt", "0.002"];
    const path = join(temporaryFolder({ after }), "run.html");
    let browser, table;
    before(async () => {
        browser = await openBrowser();
        await run("simulate", ...chosen, "--html", path);
        table = readTable(await run("simulate", ...chosen, "--observe", "link/*/pose", "contact/**"));
    });
    after(() => browser.close());

    test("stands where the table says, at every time", async () => {
        const { page, check } = await openPage(browser, path);
        await ready(page);
        const links = await page.evaluate(() => window.neuralsim.timeline.payload.scene.links.map((l) => l.name));
        assert.equal(links.length, 13);
        for (let row = 0; row < table.t.length; row += 60) {
            for (const [number, link] of links.entries()) {
                const wanted = parts.map((part) => table[`link/${link}/pose/${part}`][row]);
                const drawn = await poseAt(page, table.t[row], 0, number);
                assert.ok(distance(drawn, wanted) < 1e-6, `${link} at ${table.t[row]} s: ${drawn} ${wanted}`);
            }
        }
        // Between two rows a body is between its places there.
        const [a, b] = [100, 101].map((row) => table["link/" + links[0] + "/pose/z"][row]);
        const middle = await poseAt(page, (table.t[100] + table.t[101]) / 2, 0, 0);
        assert.ok(Math.abs(middle[2] - (a + b) / 2) < 1e-6);
        check();
    });

    test("shows the forces it stands on", async () => {
        const { page, check } = await openPage(browser, path);
        await ready(page);
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
        check();
    });

    test("plays, pauses, goes on by rows and by keys", async () => {
        const { page, check } = await openPage(browser, path);
        await ready(page);
        assert.equal(await time(page), 0);
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

    test("can be scrubbed by the slider, and curves follow", async () => {
        const { page, check } = await openPage(browser, path);
        await ready(page);
        await page.getByRole("slider", { name: "time" }).click(); // in its middle
        const at = await time(page), end = table.t.at(-1);
        assert.ok(Math.abs(at - end / 2) < 0.05 * end, `${at} of ${end}`);
        check();
    });

    test("axes and names can be had, and the view reset", async () => {
        const { page, check } = await openPage(browser, path);
        await ready(page);
        for (const name of ["axes of joints", "names and frames of links", "follow the robot"]) {
            const button = page.getByRole("button", { name });
            const was = await button.getAttribute("aria-pressed");
            await button.click();
            assert.notEqual(await button.getAttribute("aria-pressed"), was, name);
        }
        await page.getByText("RL_calf", { exact: true }).first().waitFor();
        await page.getByRole("button", { name: "reset the view" }).click();
        const png = await save(page, page.getByRole("button", { name: "save the picture as PNG" }));
        assert.equal(png.bytes.subarray(1, 4).toString(), "PNG");
        check();
    });

    test("has any quantity as a curve, with the table's numbers", async () => {
        const { page, check } = await openPage(browser, path);
        await ready(page);
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
        const { page, check } = await openPage(browser, path);
        await ready(page);
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
    let browser;
    before(async () => {
        browser = await openBrowser();
        await run("fit", "examples/pendulum_fit.yaml", "-o", folder);
    });
    after(() => browser.close());

    test("shows what was recorded, before and after, as the table of predictions has it", async () => {
        const table = readTable(readFileSync(join(folder, "predictions.csv"), "utf8"));
        const { page, check } = await openPage(browser, join(folder, "report.html"));
        await ready(page);
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

        const boxes = page.locator(".legend input[type=checkbox]");
        assert.equal(await boxes.count(), 3);
        await page.evaluate(() => window.neuralsim.timeline.set(2));
        for (let k = 0; k < 3; k++) {
            assert.equal(await page.evaluate((k) => window.neuralsim.scene.visible(k), k), true);
            await boxes.nth(k).uncheck();
            assert.equal(await page.evaluate((k) => window.neuralsim.scene.visible(k), k), false);
        }
        check();
    });

    test("saves its figures as SVG and PNG, and their numbers", async () => {
        const result = JSON.parse(readFileSync(join(folder, "result.json"), "utf8"));
        const { page, check } = await openPage(browser, join(folder, "report.html"));
        await ready(page);
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
        const png = await save(page, loss.getByRole("button", { name: "PNG" }));
        assert.equal(png.bytes.subarray(1, 4).toString(), "PNG");
        check();
    });

    test("saves a curve as SVG with the numbers of its CSV", async () => {
        const { page, check } = await openPage(browser, join(folder, "report.html"));
        await ready(page);
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
        const browser = await openBrowser();
        t.after(() => browser.close());
        const { page, check } = await openPage(browser, path);
        page.on("dialog", () => assert.fail("a dialog"));
        await ready(page);
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
parameters: {${JSON.stringify(`link/${names.link}/mass`)}: {start: 2}, "joint/*/damping": {start: 0.1, lower: 0}}
fit: {windows: 10, states: recorded}
`);
        await run("fit", join(folder, "fit.yaml"), "-o", join(folder, "out"));
        const browser = await openBrowser();
        t.after(() => browser.close());
        const { page, check } = await openPage(browser, join(folder, "out/report.html"));
        await ready(page);
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
        const browser = await openBrowser();
        t.after(() => browser.close());
        const { page, check } = await openPage(browser, path);
        await ready(page);
        const sizes = await page.evaluate(() => ({
            rows: window.neuralsim.timeline.times.length,
            last: window.neuralsim.timeline.payload.scene.links.findIndex(({ name }) => name === "l29"),
            packed: document.getElementById("viewer-bytes").textContent.length,
        }));
        assert.equal(sizes.rows, 10001);
        assert.ok(statSync(path).size - sizes.packed < 3e6);
        for (const [row, at] of table.t.entries()) {
            const wanted = parts.map((part) => table[`link/l29/pose/${part}`][row]);
            const drawn = await poseAt(page, at, 0, sizes.last);
            assert.ok(distance(drawn, wanted) < 1e-6, `at ${at} s: ${drawn} ${wanted}`);
        }
        check();
    });
});
