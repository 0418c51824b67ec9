// postgres.js, which describes each statement and sends parameters in the types that the server infers.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { load, pooler, run, server, testLoop } from "./tap.mjs";

const postgres = (await load("postgres")).default;
const { PGDATABASE: database, PGUSER: username } = process.env;
// One connection, because tasks belong to it. It does not end while the application works on them.
const connect = (options) => postgres({ ...server, database, username, max: 1, max_lifetime: null, onnotice() {}, ...options });
const sql = connect();
const table = "postgres_js_jobs";
const value = async (query) => Object.values((await query)[0] ?? {})[0];
const put = (...urls) => sql`SELECT id FROM xqueue.put(NULL::${sql(table)}, ${sql.json(urls.map((url) => ({ url })))}) ORDER BY id`;
const take = (client, count = 1) => client`SELECT * FROM xqueue.take(NULL::${sql(table)}, '5s', ${count})`;

async function consume(sql, work) {
    while (!work.stopped) {
        try {
            await takeTasks(sql, work);
        } catch (error) {
            // The server restarts, or ended the connection: its tasks are ready again. The next query connects again.
            console.log(error.message);
            await sleep(200);
        }
    }
}

async function takeTasks(sql, work) {
    while (!work.stopped) {
        for (const job of await sql`SELECT * FROM xqueue.take(NULL::postgres_js_jobs, '5s', 10)`) {
            if (work.stopped) break;
            try {
                await work.do(job.url);
                await sql.begin(async (tx) => { // this transaction writes the results too
                    await tx`SELECT xqueue.ack('postgres_js_jobs', ${job.id}::bigint)`;
                });
            } catch (error) {
                // No row if the task was taken away meanwhile.
                const released = await sql`
                    SELECT xqueue.release('postgres_js_jobs', ${job.id}::bigint,
                        error => ${error.message}, if_held => true)`;
                if (released.length === 0) break; // the others can be lost too: postgres.js has reconnected
            }
        }
        await sql`SELECT xqueue.give_back()`; // unstarted tasks are ready again immediately
    }
}

const tests = {
    async "put an object, take it with its types, ack its id"() {
        const task = await value(sql`SELECT xqueue.put(${table}, ${sql.json({ url: "a", options: { depth: [1] } })})`);
        assert.equal(task.status, "R");
        const [row] = await take(sql);
        assert.deepEqual([row.url, row.options, row.status], ["a", { depth: [1] }, "T"]);
        await sql`SELECT xqueue.ack(${table}, ${row.id}::bigint)`;
    },

    async "ack by text, by an untyped array, by object, as JSON, by typed array and by row"() {
        await put(..."abcdefghi");
        const ids = (await take(sql, 9)).map((row) => row.id).sort((a, b) => a - b);
        const ack = async (id) => (await sql`SELECT xqueue.ack(${table}, ${id})`).length;
        assert.equal(await ack(ids[0]), 1);
        assert.equal(await ack(ids.slice(1, 3)), 2); // sent as 2,3
        assert.equal(await ack(`{${ids[3]}}`), 1);
        assert.equal(await ack(JSON.stringify({ id: ids[4] })), 1);
        assert.equal((await sql`SELECT xqueue.ack(${table}, ${sql.json({ id: ids[5] })}::jsonb)`).length, 1);
        assert.equal((await sql`SELECT xqueue.ack(${table}, ${ids.slice(6, 8)}::bigint[])`).length, 2);
        assert.equal((await sql`SELECT xqueue.ack(j) FROM postgres_js_jobs j`).length, 1);
    },

    async "errors have code and hint"() {
        await assert.rejects(sql`SELECT xqueue.ack(${table}, '9')`, { code: "P0002", hint: /./ });
        await assert.rejects(sql`SELECT xqueue.ack(${table}, 'nine')`, { code: "22P02", hint: /./ });
    },

    async "a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun"() {
        await testLoop(table, (work) => consume(sql, work));
    },

    async "through PgBouncer, take and ack in one transaction, and in two transactions of an identified session"() {
        const pooled = connect({ ...pooler, prepare: false }); // PgBouncer before 1.21 does not know prepared statements
        await put(..."abc");
        for (const url of "ab") {
            await pooled.begin(async (tx) => {
                const [job] = await take(tx);
                assert.equal(job.url, url);
                await tx`SELECT xqueue.ack('postgres_js_jobs', ${job.id}::bigint)`;
            });
        }
        const session = await value(pooled`SELECT xqueue.identify(grace => '1 min', local => true)`);
        const inSession = (work) => pooled.begin(async (tx) => {
            await tx`SELECT xqueue.identify(${session}, local => true)`;
            return work(tx);
        });
        const [job] = await inSession((tx) => take(tx));
        await inSession((tx) => tx`SELECT xqueue.ack('postgres_js_jobs', ${job.id}::bigint)`);
        await pooled.end();
    },

    async "CALL next, which acks the task it is given"() {
        await sql.begin((tx) => tx`SELECT xqueue.put(${table}, ${sql.json({ url: "a" })})`);
        await put("b");
        const first = await value(sql`CALL xqueue.next(${table}, '5s')`);
        const second = await value(sql`CALL xqueue.next(${table}, '5s', task => ${sql.json(first)})`);
        assert.deepEqual([first.url, second.url], ["a", "b"]);
        assert.equal(await value(sql`CALL xqueue.next(${table}, '0', task => ${sql.json(second)})`), null);
    },
};

await run(tests, table);
process.exit();
