// Prisma with the driver adapter for node-postgres: models, raw queries, transactions, what its pool does to tasks.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { load, run } from "./tap.mjs";

const { PrismaPg } = await load("@prisma/adapter-pg");
const { PrismaClient } = (await load("./prisma/client")).default;
const schema = `prisma_${randomUUID().replaceAll("-", "")}`;
const undo = new Error("undo");

function connect() {
    // One connection, as tasks belong to it, which does not end while the application works on them.
    const pool = { max: 1, idleTimeoutMillis: 0, options: `-c search_path=${schema}` };
    return new PrismaClient({ adapter: new PrismaPg(pool, { schema }) });
}

const db = connect();
const take = (client, timeout, count = 1) => client.$queryRaw`SELECT * FROM xqueue.take(NULL::jobs, ${timeout}, ${count})`;
const ack = (client, id) => client.$queryRaw`SELECT xqueue.ack('jobs', ${id})`;

const tests = {
    async "put and ack belong to the application's transaction; a task is as a model"() {
        await assert.rejects(db.$transaction(async (within) => {
            await within.job.create({ data: { url: "a" } });
            throw undo;
        }), undo);
        assert.equal(await db.job.count(), 0);
        const { id } = await db.$transaction((within) => within.job.create({ data: { url: "a" } }));
        const [job] = await take(db, "5s");
        assert.deepEqual(job, await db.job.findUnique({ where: { id } }));
        assert.deepEqual([job.url, job.status], ["a", "T"]);
        await assert.rejects(db.$transaction(async (within) => {
            await ack(within, id);
            throw undo;
        }), undo);
        await db.$transaction((within) => ack(within, id));
        assert.equal(await db.job.count(), 0);
    },

    async "put a list; ack an array, an object, a row"() {
        await db.job.createMany({ data: [{ url: "a" }, { url: "b" }] });
        const list = [{ url: "c" }, { url: "d" }];
        await db.$queryRaw`SELECT xqueue.put('jobs', ${JSON.stringify(list)})`; // of an array Prisma would make {…}
        const ids = (await take(db, "5s", 4)).map((job) => job.id);
        await ack(db, ids.slice(0, 2));
        await ack(db, { id: Number(ids[2]) });
        await db.$queryRaw`SELECT xqueue.ack(j) FROM jobs j WHERE id = ${ids[3]}`;
        assert.equal(await db.job.count(), 0);
    },

    async "update of a taken object leaves status and owner"() {
        const { id } = await db.job.create({ data: { url: "a" } });
        const [job] = await take(db, "5s");
        assert.deepEqual(await db.job.update({ where: { id }, data: { url: "b" } }), { ...job, url: "b" });
        await ack(db, id);
    },

    async "CALL next, which acks the task it is given"() {
        await db.job.create({ data: { url: "a" } });
        const [{ task }] = await db.$queryRaw`CALL xqueue.next('jobs', ${"5s"})`;
        assert.equal(task.url, "a");
        assert.deepEqual(await db.$queryRaw`CALL xqueue.next('jobs', '0', task => ${task})`, [{ task: null }]);
        assert.equal(await db.job.count(), 0);
    },

    async "a function that returns nothing is executed"() {
        await db.$executeRaw`SELECT xqueue.pause('jobs', '0')`;
    },

    async "an error has code and hint; the pool closes its connection, and a task taken is ready again"() {
        const { id } = await db.job.create({ data: { url: "a" } });
        const [{ owner }] = await take(db, "5s");
        const { code, meta } = await ack(db, 1000000).catch((error) => error);
        const { code: state, hint } = meta.driverAdapterError.cause;
        assert.deepEqual([code, state, typeof hint], ["P2010", "P0002", "string"]);
        const [job] = await take(db, "20s");
        assert.equal(job.id, id);
        assert.notEqual(job.owner, owner);
        await ack(db, id);
    },

    async "give_back and $disconnect make a task ready again"() {
        const { id } = await db.job.create({ data: { url: "a" } });
        const other = connect();
        await take(other, "5s");
        assert.deepEqual(await other.$queryRaw`SELECT xqueue.give_back()`, [{ give_back: 1 }]);
        await take(other, "5s");
        assert.deepEqual(await take(db, "0"), []);
        await other.$disconnect();
        assert.equal((await take(db, "20s"))[0].id, id);
        await ack(db, id);
    },
};

await db.$executeRawUnsafe(`CREATE SCHEMA ${schema}`);
try {
    await db.$executeRaw`CREATE TABLE jobs (id bigserial PRIMARY KEY, url text NOT NULL)`;
    await db.$queryRaw`SELECT xqueue.upgrade('jobs')`;
    await run("Prisma", tests, () => db.job.deleteMany());
} finally {
    await db.$executeRawUnsafe(`DROP SCHEMA ${schema} CASCADE`);
}
process.exit();
