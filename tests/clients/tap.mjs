// Helpers shared by the Node programs: loading a library, unnumbered TAP lines, a consumer's work, PgBouncer's address.

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

/** The work of a consumer under test, which the program `attempt` does. At c the consumer is asked to stop. */
export class Work {
    urls = "";
    stopped = false;
    expected = process.env.XQUEUE_URLS;
    left = process.env.XQUEUE_LEFT;

    constructor(table) {
        this.table = table;
        this.queryLeft =
            `SELECT string_agg(concat_ws(' ', url, status, attempts, reason), ', ' ORDER BY id) AS jobs FROM ${table}`;
    }

    async do(url) {
        this.urls += url;
        this.stopped = url === "c";
        await promisify(execFile)(process.env.XQUEUE_ATTEMPT, [this.table, this.urls]).catch(() => {
            throw new Error("the work failed");
        });
    }
}
