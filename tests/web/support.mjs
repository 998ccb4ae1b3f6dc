// What tests of pages share: the program, a browser, and pages in it that must not complain.

import { execFile, spawn } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { promisify } from "node:util";

export const root = join(dirname(fileURLToPath(import.meta.url)), "../..");
export const program = process.env.NEURALSIM_PROGRAM ?? join(root, "build/neuralsim");

const patience = 30000; // ms for anything that must happen

// ---- the browser -------------------------------------------------------------------------------

// A program by its name or path, or null.
function findProgram(name) {
    const places = name.includes("/") ? [""] : (process.env.PATH ?? "").split(delimiter);
    for (const place of places) {
        try {
            const path = join(place, name);
            accessSync(path, constants.X_OK);
            return path;
        } catch {
            // not here
        }
    }
    return null;
}

export function findChromium() {
    const names = [process.env.CHROMIUM, "chromium", "chromium-browser", "google-chrome"];
    for (const name of names) {
        const path = name ? findProgram(name) : null;
        if (path) return path;
    }
    return null;
}

// playwright-core, as the page's own packages have it, or null.
export function findPlaywright() {
    try {
        return createRequire(join(root, "web/package.json"))("playwright-core");
    } catch {
        return null;
    }
}

// A browser that draws in 3D without a graphics card, to be closed.
export async function openBrowser(more = []) {
    return await findPlaywright().chromium.launch({
        executablePath: findChromium(),
        args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
            "--ignore-gpu-blocklist", ...more],
    });
}

// ---- pages -------------------------------------------------------------------------------------

// Open an address in a new page. Everything that goes wrong in it is collected, as is every request
// that `mayAsk` does not allow; check() throws when there was any.
async function watchPage(browser, address, mayAsk) {
    const page = await browser.newPage();
    const messages = [], faults = [];
    page.setDefaultTimeout(patience);
    page.on("console", (message) => {
        messages.push(message.text());
        if (message.type() === "error") faults.push(`console: ${message.text()}`);
    });
    page.on("pageerror", (error) => faults.push(`error: ${error.stack ?? error}`));
    page.on("request", (request) => {
        if (!mayAsk(request.url())) faults.push(`asked for ${request.url()}`);
    });
    await page.goto(address, { waitUntil: "load" });
    const check = () => {
        if (faults.length > 0) throw new Error(`${address}:\n${faults.join("\n")}`);
    };
    check();
    return { page, messages, check };
}

// A file, which asks for nothing but itself.
export function openPage(browser, path) {
    const address = pathToFileURL(path).href;
    return watchPage(browser, address, (url) =>
        url.split("#")[0] === address || url.startsWith("data:") || url.startsWith("blob:"));
}

// A page of a server, which asks nobody else.
export function openServed(browser, address) {
    return watchPage(browser, address, (url) =>
        url.startsWith(address) || url.startsWith("data:") || url.startsWith("blob:"));
}

// ---- the program -------------------------------------------------------------------------------

// A folder that goes when the test (or, given { after }, the suite) ends.
export function temporaryFolder(t) {
    const folder = mkdtempSync(join(tmpdir(), "neuralsim_web_"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    return folder;
}

// Run the program to its end, from the project's folder; what it wrote to standard output. Fails with
// what it said when it does.
export async function run(...args) {
    try {
        const options = { cwd: root, timeout: 2 * patience, maxBuffer: 1 << 28 };
        return (await promisify(execFile)(program, args, options)).stdout;
    } catch (error) {
        throw new Error(`neuralsim ${args.join(" ")}: ${error.stderr || error.message}`);
    }
}

// Start it and go on; ended when the test ends, or by stop(), which gives its exit code.
export function start(t, ...args) {
    const child = spawn(program, args, { cwd: root, stdio: ["ignore", "pipe", "inherit"] });
    const ended = new Promise((resolve) => child.on("close", (code) => resolve(code)));
    t.after(() => {
        child.kill("SIGKILL");
        return ended;
    });
    child.stdout.setEncoding("utf8");
    return {
        output: child.stdout,
        stop(signal = "SIGTERM") {
            child.kill(signal);
            return ended;
        },
    };
}

// `neuralsim view` of a file or folder: its address, and stop().
export async function serve(t, path) {
    const server = start(t, "view", path, "--no-browser");
    let text = "";
    for await (const part of server.output) {
        text += part;
        if (text.includes("\n")) break;
    }
    if (!/^http:\/\/127\.0\.0\.1:\d+\/[0-9a-f]{32}\/\n$/.test(text)) throw new Error(`address: '${text}'`);
    return { address: text.trim(), stop: server.stop };
}

// Wait until a function gives something other than null, false or an error.
export async function until(what, ask) {
    const begin = Date.now();
    for (;;) {
        const value = await Promise.resolve().then(ask).catch(() => null);
        if (value) return value;
        if (Date.now() - begin > patience) throw new Error(`waited in vain: ${what}`);
        await new Promise((resolve) => setTimeout(resolve, 20));
    }
}
