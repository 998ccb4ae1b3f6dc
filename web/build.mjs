// Bundle src/main.js and src/style.css into a folder: page.js, page.css, and page.sha256, the hash by
// which a page allows this one script to run (Content-Security-Policy) and no other.
//
//     node build.mjs FOLDER

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2] ?? join(here, "dist");
mkdirSync(folder, { recursive: true });

await build({
    entryPoints: { page: join(here, "src/main.js") },
    outdir: folder,
    bundle: true,
    minify: true,
    format: "iife",
    target: ["es2022"],
    charset: "ascii",
    legalComments: "none",
    logLevel: "warning",
});

const script = readFileSync(join(folder, "page.js"));
if (script.toString().toLowerCase().includes("</script")) {
    throw new Error("the bundle holds </script and cannot stand in a page");
}
writeFileSync(join(folder, "page.sha256"), createHash("sha256").update(script).digest("base64"));
