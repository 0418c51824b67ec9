// What the Node programs share: loading a library, tests that print TAP lines without numbers, waiting for a condition.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";

const libraries = createRequire(process.env.NODE_LIBRARIES);

/** Loads a library from where `run` has installed it. */
export const load = (name) => import(pathToFileURL(libraries.resolve(name)));

/** Runs each test by its name. After one that fails, cleanUp is for the others. */
export async function run(client, tests, cleanUp) {
    for (const [name, test] of Object.entries(tests)) {
        try {
            await test();
            console.log(`ok - ${client}: ${name}`);
        } catch (error) {
            console.log(`not ok - ${client}: ${name}\n${error.stack}`);
            await cleanUp();
        }
    }
}

/** Polls until condition() is true. */
export async function until(condition) {
    const deadline = Date.now() + 20000;
    while (!(await condition())) {
        assert(Date.now() < deadline, "waited for 20 s in vain");
        await sleep(10);
    }
}
