// Helpers shared by the Node programs: loading a library, unnumbered TAP lines, a restart of the server, PgBouncer's address.

import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const libraries = createRequire(process.env.NODE_LIBRARIES);

/** The server, and PgBouncer in transaction mode in front of it. */
const { PGHOST, PGPORT, POOLER_HOST, POOLER_PORT } = process.env;
export const server = { host: PGHOST, port: Number(PGPORT) };
export const pooler = { host: POOLER_HOST, port: Number(POOLER_PORT) };

/** Loads a library from the folder in which `run` has installed it. */
export const load = (name) => import(pathToFileURL(libraries.resolve(name)));

/** Runs each test by its name. After a failed test, cleanUp prepares for the next. */
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

/**
 * The work of a consumer under test, with the tasks a, b, c, d. The first attempt at a restarts the server. During the second
 * attempt another consumer takes a away. b fails. At c the consumer is asked to stop.
 */
export class Work {
    urls = [];
    stopped = false;
    // If the server cannot be restarted, the first attempt at a is the one that loses its task.
    restart = process.env.XQUEUE_RESTART;
    expected = this.restart ? ["a", "a", "b", "c"] : ["a", "b", "c"];

    // The expected result of queryLeft at the end. A restart uses up an attempt, like the end of the consumer's session.
    left = this.restart ? "b R 2 the work failed, d R 1" : "b R 1 the work failed, d R 0";

    constructor(table) {
        this.table = table;
        this.queryLeft =
            `SELECT string_agg(concat_ws(' ', url, status, attempts, reason), ', ' ORDER BY id) AS jobs FROM ${table}`;
    }

    async do(url) {
        this.urls.push(url);
        if (this.restart && this.urls.length === 1) {
            await promisify(execFile)(this.restart);
        } else if (url === "a") {
            await promisify(execFile)(process.env.XQUEUE_TAKE_AWAY, [this.table, url]);
        } else if (url === "b") {
            throw new Error("the work failed");
        } else {
            this.stopped = true;
        }
    }
}
