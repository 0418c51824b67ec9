// The tests that each query builder and ORM of Node passes with a model on a queue table.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { pooler, run, server, testLoop } from "./tap.mjs";

const undo = new Error("undo");

// No row if the task was taken away meanwhile.
const RELEASE = "SELECT xqueue.release(NULL::%, ?, error => ?, if_held => true)";

/** A consumer's loop. All its statements use one connection, the only connection of the library's pool. */
export async function consume({ query, transaction, take }, work) {
    while (!work.stopped) {
        try {
            for (const job of await take("5s", 10)) {
                if (work.stopped) break;
                try {
                    await work.do(job.url);
                    await transaction(async (within) => { // this transaction writes the results too
                        await query("SELECT xqueue.ack(NULL::%, ?)", [job.id], within);
                    });
                } catch (error) {
                    const released = await query(RELEASE, [job.id, error.message]);
                    if (released.length === 0) break; // the others can be lost too: the pool has reconnected
                }
            }
            await query("SELECT xqueue.give_back()"); // unstarted tasks are ready again immediately
        } catch (error) {
            // The server restarts, or ended the connection: its tasks are ready again, and the pool connects again.
            console.log(error.message);
            await sleep(200);
        }
    }
}

/**
 * `open` connects the library to a server, and returns functions. `query` runs SQL inside or outside a transaction and returns
 * rows, `put` saves a model, and `take` returns models.
 */
function tests(table, open, db) {
    const { query, transaction, put, take, count } = db;
    const ack = (id, within) => query("SELECT xqueue.ack(NULL::%, ?)", [id], within);
    return {
        async "a saved model is a task; a task is taken as a model"() {
            await put("a");
            const [job] = await take("0", 1);
            assert.deepEqual([job.url, job.status], ["a", "T"]);
            assert.equal((await take("0", 1)).length, 0);
            await ack(job.id);
        },

        async "put and ack belong to the application's transaction"() {
            await assert.rejects(transaction(async (within) => {
                await put("a", within);
                throw undo;
            }), undo);
            assert.equal(await count(), 0);
            await transaction((within) => put("a", within));
            const [job] = await take("0", 1);
            await assert.rejects(transaction(async (within) => {
                await ack(job.id, within);
                throw undo;
            }), undo);
            assert.equal(await count(), 1);
            await transaction((within) => ack(job.id, within));
        },

        async "a batch is put by the library, given back, and acked by id, list, object and row"() {
            for (const url of "abcde") {
                await put(url);
            }
            assert.equal((await take("0", 5)).map((job) => job.url).join(""), "abcde");
            await query("SELECT xqueue.give_back()");
            const ids = (await take("0", 5)).map((job) => job.id);
            await ack(ids[0]);
            await query("SELECT xqueue.ack(NULL::%, ?)", [`{${ids[1]},${ids[2]}}`]);
            await query("SELECT xqueue.ack(NULL::%, ?)", [JSON.stringify({ id: Number(ids[3]) })]);
            await query("SELECT xqueue.ack(j) FROM % j");
        },

        async "an error has its code"() {
            const error = await ack(1000000).catch((error) => error);
            assert.equal((error.original ?? error.driverError ?? error.cause ?? error).code, "P0002");
        },

        async "a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun"() {
            await testLoop(table, (work) => consume(db, work));
        },

        async "through PgBouncer, take and ack in one transaction, and in two transactions of an identified session"() {
            const pooled = await open(pooler);
            for (const url of "abc") {
                await pooled.put(url);
            }
            for (const url of "ab") {
                await pooled.transaction(async (within) => {
                    const [job] = await pooled.take("5s", 1, within);
                    assert.equal(job.url, url);
                    await pooled.query("SELECT xqueue.ack(NULL::%, ?)", [job.id], within);
                });
            }
            const [{ session }] = await pooled.query("SELECT xqueue.identify(grace => '1 min', local => true) AS session");
            const inSession = (work) => pooled.transaction(async (within) => {
                await pooled.query("SELECT xqueue.identify(?, local => true)", [session], within);
                return work(within);
            });
            const [job] = await inSession((within) => pooled.take("5s", 1, within));
            await inSession((within) => pooled.query("SELECT xqueue.ack(NULL::%, ?)", [job.id], within));
            await pooled.close();
        },
    };
}

/** Runs all tests with the library's queue. */
export async function testLibrary(table, open) {
    await run(tests(table, open, await open(server)), table);
}
