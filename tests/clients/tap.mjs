// Helpers shared by the Node programs: loading a library, unnumbered TAP lines, a consumer's work, PgBouncer's address.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const libraries = createRequire(process.env.NODE_LIBRARIES);
const execute = promisify(execFile);

/** The server, and PgBouncer in transaction mode in front of it. */
const { PGHOST, PGPORT, POOLER_HOST, POOLER_PORT } = process.env;
export const server = { host: PGHOST, port: Number(PGPORT) };
export const pooler = { host: POOLER_HOST, port: Number(POOLER_PORT) };

/** Loads a library from the folder in which `run` has installed it. */
export const load = (name) => import(pathToFileURL(libraries.resolve(name)));

/** Runs each test by its name. A test must leave the table, if any, empty. cleanUp prepares for the test after a failed one. */
export async function run(tests, table, cleanUp = () => {}) {
    const psql = async (sql) => table && (await execute("psql", ["-XAtqc", `${sql} ${table}`])).stdout;
    for (const [name, test] of Object.entries(tests)) {
        try {
            await test();
            assert.ok(!await psql("SELECT * FROM"), "tasks are left");
            console.log(`ok - ${name}`);
        } catch (error) {
            console.log(`not ok - ${name}\n${error.stack}`);
            await cleanUp();
            await psql("DELETE FROM");
        }
    }
}

/** Tests a consumer on four tasks. The program `attempt` does the work. At c the consumer is asked to stop. */
export async function testLoop(table, consume) {
    const work = {
        stopped: false,
        async do(step) {
            await execute(process.env.XQUEUE_ATTEMPT, [table, step]).catch(({ stderr }) => {
                throw new Error(stderr || "the work failed");
            });
            work.stopped = step === "c";
        },
    };
    await work.do("begin");
    await consume(work);
    await work.do("end");
}
