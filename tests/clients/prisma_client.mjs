// Prisma with the driver adapter for node-postgres: models, raw queries, transactions, and the effect of its pool on tasks.

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { load, pooler, run, server, testLoop } from "./tap.mjs";

const { PrismaPg } = await load("@prisma/adapter-pg");
const { PrismaClient } = (await load("./prisma/client")).default;
const { PGUSER: user, PGDATABASE: database } = process.env;
const undo = new Error("undo");

function connect({ host, port }) {
    // One connection, because tasks belong to it. It does not end while the application works on them.
    const pool = { host, port, user, database, max: 1, idleTimeoutMillis: 0 };
    return new PrismaClient({ adapter: new PrismaPg(pool) });
}

const db = connect(server);
const take = (client, timeout, count = 1) => client.$queryRaw`SELECT * FROM xqueue.take(NULL::prisma_jobs, ${timeout}, ${count})`;
const ack = (client, id) => client.$queryRaw`SELECT xqueue.ack('prisma_jobs', ${id})`;
// No row if the task was taken away meanwhile.
const release = (client, id, error) => client.$queryRaw`
    SELECT xqueue.release('prisma_jobs', ${id}, error => ${error.message}, if_held => true)`;

async function consume(db, work) {
    while (!work.stopped) {
        try {
            await takeTasks(db, work);
        } catch (error) {
            // The server restarts, or ended the connection: its tasks are ready again, and the pool connects again.
            console.log(error.message);
            await sleep(200);
        }
    }
}

async function takeTasks(db, work) {
    while (!work.stopped) {
        for (const job of await take(db, "5s", 10)) {
            if (work.stopped) break;
            try {
                await work.do(job.url);
                await db.$transaction(async (within) => { // this transaction writes the results too
                    await ack(within, job.id);
                });
            } catch (error) {
                const released = await release(db, job.id, error);
                if (released.length === 0) break; // the others can be lost too: the pool has reconnected
            }
        }
        await db.$queryRaw`SELECT xqueue.give_back()`; // unstarted tasks are ready again immediately
    }
}

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
    },

    async "put a list; ack an array, an object, a row"() {
        await db.job.createMany({ data: [{ url: "a" }, { url: "b" }] });
        const list = [{ url: "c" }, { url: "d" }];
        await db.$queryRaw`SELECT xqueue.put('prisma_jobs', ${JSON.stringify(list)})`; // of an array Prisma would make {…}
        const ids = (await take(db, "5s", 4)).map((job) => job.id);
        await ack(db, ids.slice(0, 2));
        await ack(db, { id: Number(ids[2]) });
        await db.$queryRaw`SELECT xqueue.ack(j) FROM prisma_jobs j WHERE id = ${ids[3]}`;
    },

    async "update of a taken object leaves status and owner"() {
        const { id } = await db.job.create({ data: { url: "a" } });
        const [job] = await take(db, "5s");
        assert.deepEqual(await db.job.update({ where: { id }, data: { url: "b" } }), { ...job, url: "b" });
        await ack(db, id);
    },

    async "a function that returns nothing is executed"() {
        await db.$executeRaw`SELECT xqueue.pause('prisma_jobs', '0')`;
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

    async "a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun"() {
        await testLoop("prisma_jobs", (work) => consume(db, work));
    },

    async "through PgBouncer, take and ack in one transaction, and in two transactions of an identified session"() {
        const pooled = connect(pooler);
        await pooled.job.createMany({ data: [{ url: "a" }, { url: "b" }, { url: "c" }] });
        for (const url of "ab") {
            await pooled.$transaction(async (within) => {
                const [job] = await take(within, "5s");
                assert.equal(job.url, url);
                await ack(within, job.id);
            });
        }
        const [{ session }] = await pooled.$queryRaw`SELECT xqueue.identify(grace => '1 min', local => true) AS session`;
        const inSession = (work) => pooled.$transaction(async (within) => {
            await within.$queryRaw`SELECT xqueue.identify(${session}::uuid, local => true)`;
            return work(within);
        });
        const [job] = await inSession((within) => take(within, "5s"));
        await inSession((within) => ack(within, job.id));
        await pooled.$disconnect();
    },
};

await run(tests, "prisma_jobs");
process.exit();
