// Plants bugs one at a time into a copy of the tree and sees whether the tests catch each. Started by scripts/planted.

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const here = path.dirname(fileURLToPath(import.meta.url));
const root = path.resolve(here, "../..");
const built = path.resolve(root, process.env.CARGO_TARGET_DIR ?? "target");
const place = path.join(built, "planted");
const tree = path.join(place, "tree");
const build = path.join(place, "target");
const report = path.join(root, "docs/planted-bugs.md");

const usage = `Plants the bugs of tests/planted/bugs.json one at a time into a copy of the tree; each has to make a test fail.

  scripts/planted --all                     every bug
  scripts/planted --count 5 --commit HASH   as many, chosen by a commit's hash
  scripts/planted NAME…                     these
  scripts/planted --list                    what there is

With --write the rows of these bugs in docs/planted-bugs.md are written anew.

Exits with 1 if a bug is not caught, does not build, or is not found in its file any more.`;

/** Longest time for the tests of one bug, ms: a bug that makes them hang is named so. */
const PATIENCE = 600_000;

function fail(words) {
    console.error(`planted: ${words}`);
    process.exit(2);
}

function parse(words) {
    const asked = { all: false, list: false, write: false, count: 0, commit: "", names: [] };
    while (words.length > 0) {
        const word = words.shift();
        if (word === "-h" || word === "--help") {
            console.log(usage);
            process.exit(0);
        } else if (["--all", "--list", "--write"].includes(word)) asked[word.slice(2)] = true;
        else if (word === "--count") asked.count = Number(words.shift());
        else if (word === "--commit") asked.commit = words.shift() ?? "";
        else if (word.startsWith("-")) fail(`there is no ${word}\n\n${usage}`);
        else asked.names.push(word);
    }
    if (asked.count !== 0 && !(asked.count >= 1)) fail("--count takes a number of bugs, at least 1");
    if (asked.count > 0 && asked.commit === "") fail("--count needs --commit HASH, by which they are chosen");
    return asked;
}

function chosen(asked, bugs) {
    if (asked.names.length > 0) {
        return asked.names.map((name) => bugs.find((bug) => bug.name === name) ?? fail(`there is no bug ${name}; see --list`));
    }
    if (asked.all) return bugs;
    if (asked.count === 0) {
        console.log(usage);
        process.exit(2);
    }
    const mark = (bug) => createHash("sha256").update(`${asked.commit} ${bug.name}`).digest("hex");
    const picked = new Set([...bugs].sort((a, b) => (mark(a) < mark(b) ? -1 : 1)).slice(0, asked.count));
    return bugs.filter((bug) => picked.has(bug));
}

/** Every bug must be where the list says it is, exactly once, and do something. */
function check(bugs) {
    const names = new Set();
    for (const bug of bugs) {
        if (names.has(bug.name)) fail(`two bugs are called ${bug.name}`);
        names.add(bug.name);
        const file = path.join(root, bug.file);
        if (!fs.existsSync(file)) fail(`${bug.name}: there is no ${bug.file} any more; mend tests/planted/bugs.json`);
        const found = fs.readFileSync(file, "utf8").split(bug.find).length - 1;
        if (found !== 1) {
            fail(`${bug.name}: its text stands ${found} times in ${bug.file}, not once; mend tests/planted/bugs.json:\n${bug.find}`);
        }
        if (bug.find === bug.replace) fail(`${bug.name} changes nothing`);
    }
}

/** The tree as it is now, as far as git knows it. What has not changed keeps its time, so that little is built anew. */
function copyTree() {
    const listed = spawnSync("git", ["-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
        cwd: root,
        maxBuffer: 1 << 28,
    });
    if (listed.status !== 0) fail(`git cannot list the files of ${root}`);
    const files = listed.stdout.toString().split("\0").filter((file) => file !== "" && fs.existsSync(path.join(root, file)));
    const wanted = new Set(files);
    if (fs.existsSync(tree)) {
        for (const copy of filesIn(tree)) {
            if (!wanted.has(path.relative(tree, copy))) fs.rmSync(copy);
        }
    }
    for (const file of files) write(file, fs.readFileSync(path.join(root, file)));
}

function* filesIn(folder) {
    for (const entry of fs.readdirSync(folder, { withFileTypes: true })) {
        const full = path.join(folder, entry.name);
        if (entry.isDirectory()) yield* filesIn(full);
        else yield full;
    }
}

function write(file, bytes) {
    const copy = path.join(tree, file);
    if (fs.existsSync(copy) && fs.readFileSync(copy).equals(bytes)) return;
    fs.mkdirSync(path.dirname(copy), { recursive: true });
    fs.writeFileSync(copy, bytes, { mode: fs.statSync(path.join(root, file)).mode });
}

/** Third-party libraries that were built already are taken over, as links. */
function seed() {
    const own = path.join(built, "debug");
    if (fs.existsSync(build) || !fs.existsSync(path.join(own, "deps"))) return;
    fs.mkdirSync(path.join(build, "debug"), { recursive: true });
    for (const part of ["deps", "build", ".fingerprint"]) {
        // Fingerprints are written in place, so they are no links.
        const how = part === "deps" ? "-al" : "-a";
        spawnSync("cp", [how, path.join(own, part), path.join(build, "debug", part)]);
    }
}

/** A bug has to be caught by what every commit runs: the long counts of the night are not handed on. */
const NIGHTLY = /^(PROPTEST_CASES|PILOTHOUSE_(CUTS|TWO_DEVICE_RUNS|RECORDING_CUTS|POWER_CUTS|FUZZ|SEED|NIGHTLY))$/;

/** Runs cargo in a session of its own, so that tests which hang end with it: `timeout` sends its signal to the whole group. */
function cargo(words) {
    const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !NIGHTLY.test(name)));
    const ran = spawnSync("timeout", ["--kill-after=5", `${PATIENCE / 1000}`, "cargo", ...words], {
        cwd: tree,
        encoding: "utf8",
        maxBuffer: 1 << 28,
        env: {
            ...env,
            CARGO_TARGET_DIR: build,
            // Built again for each bug, also where the rest is built only once.
            CARGO_INCREMENTAL: "1",
            RUST_BACKTRACE: "0",
            // The smallest case does not matter here.
            PROPTEST_MAX_SHRINK_ITERS: "0",
        },
    });
    return { ...ran, late: ran.status === 124 || ran.status === 137 };
}

/** Builds the bug's tests and runs them. */
function test(bug, filters) {
    // Built often and run once: what the workspace optimises for its long runs is not optimised here.
    const quick = ["pilothouse-orchestrator", "pilothouse-providers"].flatMap((name) => ["--config", `profile.dev.package.${name}.opt-level=0`]);
    const of = ["test", "--locked", ...quick, "-p", bug.package, ...bug.target];
    const compiled = cargo([...of, "--no-run"]);
    if (compiled.status !== 0) return { problem: "it does not build", output: compiled.stderr };
    const ran = cargo([...of, "--", ...filters]);
    const output = `${ran.stdout}\n${ran.stderr}`;
    const failed = [...output.matchAll(/^test (\S+)(?: - should panic)? \.\.\. FAILED$/gm)].map((found) => found[1]);
    const passed = [...output.matchAll(/^test result: .* (\d+) passed; (\d+) failed/gm)].reduce((sum, found) => sum + Number(found[1]) + Number(found[2]), 0);
    if (ran.late) return { problem: "its tests hang", failed, output };
    return { failed: failed.sort(), count: passed, output };
}

function seconds(since) {
    return ((performance.now() - since) / 1000).toFixed(0);
}

const asked = parse(process.argv.slice(2));
const bugs = JSON.parse(fs.readFileSync(path.join(here, "bugs.json"), "utf8"));
check(bugs);
if (asked.list) {
    for (const bug of bugs) console.log(`${bug.name.padEnd(34)} ${bug.file.padEnd(44)} ${bug.what}`);
    process.exit(0);
}
const todo = chosen(asked, bugs);
const begun = performance.now();
copyTree();
seed();

let wrong = 0;
const rows = [];
const sound = new Map();

/** Bugs that were not planted now keep the row they have; one without a row has never been caught. */
function writeReport() {
    const before = fs.existsSync(report) ? fs.readFileSync(report, "utf8").split("\n") : [];
    const row = (bug) => {
        const now = rows.find((row) => row.bug === bug);
        if (!now) return before.find((line) => line.startsWith(`| ${bug.name} |`)) ?? `| ${bug.name} | ${bug.what} | | not planted yet |`;
        const named = now.failed.slice(0, 3).map((name) => `\`${name}\``).join(", ");
        const more = now.failed.length > 3 ? ` and ${now.failed.length - 3} more` : "";
        const where = bug.file.replace("core/", "").replace("/src", "").replace(".rs", "");
        return `| ${bug.name} | ${bug.what} | ${where} | ${named || "**nothing**"}${more} |`;
    };
    fs.writeFileSync(
        report,
        [
            "# Planted bugs",
            "",
            "Bugs that `scripts/planted` puts into a copy of the tree, one at a time, and the tests that failed for each. Written by",
            "`scripts/planted --write`; the bugs stand in `tests/planted/bugs.json`.",
            "",
            "| bug | what it does | where | caught by |",
            "|---|---|---|---|",
            ...bugs.map(row),
            "",
        ].join("\n"),
    );
}

for (const bug of todo) {
    // Without a bug everything has to pass, or a failure would say nothing.
    if (!sound.has(bug.package)) {
        const filters = [...new Set(todo.filter((other) => other.package === bug.package).flatMap((other) => other.filter))];
        const clean = test(bug, filters);
        const fault = clean.problem ?? (clean.failed.length > 0 ? `they fail: ${clean.failed}` : clean.count === 0 ? "there are none" : null);
        if (fault) console.error(clean.output.slice(-4000));
        sound.set(bug.package, fault);
    }
    if (sound.get(bug.package)) {
        wrong += 1;
        console.log(`${bug.name.padEnd(34)}         NOT PLANTED: of its tests without a bug: ${sound.get(bug.package)}`);
        continue;
    }
    const since = performance.now();
    const source = fs.readFileSync(path.join(tree, bug.file), "utf8");
    write(bug.file, Buffer.from(source.replace(bug.find, () => bug.replace)));
    let result;
    try {
        result = test(bug, bug.filter);
    } finally {
        write(bug.file, Buffer.from(source));
    }
    const caught = result.failed?.length > 0;
    if (!caught) {
        wrong += 1;
        console.error(result.output.slice(-4000));
    }
    rows.push({ bug, failed: result.failed ?? [] });
    if (asked.write) writeReport();
    const by = caught ? `caught by ${result.failed[0]}${result.failed.length > 1 ? ` and ${result.failed.length - 1} more` : ""}` : `NOT CAUGHT: ${result.problem ?? "every test passes"}`;
    console.log(`${bug.name.padEnd(34)} ${seconds(since).padStart(4)} s  ${by}`);
}
console.log(`${todo.length - wrong} of ${todo.length} planted bugs caught in ${seconds(begun)} s`);

process.exit(wrong === 0 ? 0 : 1);
