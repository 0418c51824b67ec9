// node-pg, which sends every parameter as text without a type.

import assert from "node:assert/strict";
import { load, pooler, run } from "./tap.mjs";

const { Client } = (await load("pg")).default;
const table = "node_jobs";

async function connect(options) {
    const client = new Client(options);
    client.on("error", () => {}); // Without a listener a lost connection ends the process.
    await client.connect();
    return client;
}

const db = await connect();
const values = async (client, sql, ...parameters) =>
    (await client.query({ text: sql, values: parameters, rowMode: "array" })).rows.map((row) => row[0]);
const value = async (...call) => (await values(...call))[0];
const put = (task) => value(db, `SELECT xqueue.put('${table}', $1)`, task);
const take = (client) => value(client, `SELECT xqueue.take('${table}', '5s')`);
const ack = (id) => values(db, `SELECT xqueue.ack('${table}', $1)`, id);

const tests = {
    async "put an object, take it parsed, ack its number"() {
        const { id, status } = await put({ url: "a", options: { depth: [1, 2] } });
        assert.equal(status, "R");
        const task = await take(db);
        assert.deepEqual([task.id, task.url, task.options, task.status], [id, "a", { depth: [1, 2] }, "T"]);
        assert.deepEqual(await ack(id), [task]);
    },

    async "put a list; ack an array, a string, an object and a row"() {
        const tasks = await values(
            db,
            `SELECT xqueue.put('${table}', $1)`,
            JSON.stringify([..."abcde"].map((url) => ({ url }))), // node-pg would turn an array into {…}
        );
        const ids = tasks.map((task) => task.id).sort((a, b) => a - b);
        const { rows } = await db.query(`SELECT * FROM xqueue.take(NULL::${table}, $1, $2)`, ["5s", 5]);
        assert.deepEqual(rows.map((row) => row.id), ids.map(String)); // node-pg reads bigint as a string
        assert.equal((await ack(ids.slice(0, 2))).length, 2);
        assert.equal((await ack(String(ids[2]))).length, 1);
        assert.equal((await ack({ id: ids[3] })).length, 1);
        assert.equal((await values(db, `SELECT xqueue.ack(j) FROM ${table} j`)).length, 1);
    },

    async "all parameters, with the casts of docs/consuming.md and by name"() {
        const { id } = await value(db, "SELECT xqueue.put($1::text, $2)", table, { url: "a" });
        assert.equal((await value(db, "SELECT xqueue.take($1::text, $2, $3)", table, "5s", 1)).id, id);
        const released = await value(db, "SELECT xqueue.release($1::text, $2::bigint, delay => $3)", table, id, "1 hour");
        assert.equal(released.status, "W");
        await db.query(`UPDATE ${table} SET status = $1, runat = $2`, ["R", null]);
        assert.equal((await value(db, "SELECT xqueue.take($1::text, timeout => $2)", table, "5s")).id, id);
        assert.equal((await values(db, `SELECT id FROM xqueue.ack(NULL::${table}, $1)`, id)).length, 1);
    },

    async "an error has code and hint, and the connection goes on"() {
        const { id } = await put({ url: "a" });
        const hint = /./;
        await assert.rejects(ack(id + 1000), { code: "P0002", hint });
        await assert.rejects(ack(id), { code: "55000", hint });
        await assert.rejects(ack("one"), { code: "22P02" });
        await assert.rejects(ack(null), { code: "22004", hint });
        await assert.rejects(put({ nothing: 1 }), { code: "42703", hint });
        await take(db);
        await ack(id);
    },

    async "through PgBouncer, take and ack in one transaction"() {
        // node-postgres sends statements without a name, which need no support for prepared statements in PgBouncer.
        const pooled = await connect(pooler);
        await put({ url: "a" });
        await pooled.query("BEGIN");
        const { rows: [job] } = await pooled.query("SELECT * FROM xqueue.take(NULL::node_jobs, $1)", ["5s"]);
        await pooled.query("SELECT xqueue.ack('node_jobs', $1)", [job.id]);
        await pooled.query("COMMIT");
        await pooled.end();
    },

    async "CALL next, which acks the task it is given"() {
        await put({ url: "a" });
        const task = await value(db, "CALL xqueue.next($1::text, $2)", table, "5s");
        assert.equal(task.url, "a");
        assert.equal(await value(db, "CALL xqueue.next($1::text, $2, task => $3)", table, "0", task), null);
    },
};

await run(tests, table, () => db.query("ROLLBACK"));
process.exit(); // failed tests can leave open connections, which keep the process alive
