// Query builders and ORMs of Node, each with a model on a queue table: Knex, Sequelize, TypeORM, Drizzle.

import assert from "node:assert/strict";
import { load, run } from "./tap.mjs";

const { PGHOST: host, PGPORT: port, PGUSER: user, PGDATABASE: database } = process.env;
const undo = new Error("undo");

/** What each has to do: `query` runs SQL in a transaction or without one, `put` saves a model, `take` gives models. */
function tests({ query, transaction, put, take, count }) {
    const ack = (id, within) => query("SELECT xqueue.ack(NULL::%, ?::bigint)", [id], within);
    return {
        async "a saved model is a task; a task is taken as a model"() {
            await put("a");
            const [job] = await take();
            assert.deepEqual([job.url, job.status], ["a", "T"]);
            assert.equal((await take()).length, 0);
            await ack(job.id);
            assert.equal(await count(), 0);
        },

        async "put and ack belong to the application's transaction"() {
            await assert.rejects(transaction(async (within) => {
                await put("a", within);
                throw undo;
            }), undo);
            assert.equal(await count(), 0);
            await transaction((within) => put("a", within));
            const [job] = await take();
            await assert.rejects(transaction(async (within) => {
                await ack(job.id, within);
                throw undo;
            }), undo);
            assert.equal(await count(), 1);
            await transaction((within) => ack(job.id, within));
            assert.equal(await count(), 0);
        },

        async "a batch is put by the library and given back"() {
            await put("a");
            await put("b");
            assert.deepEqual((await take(5)).map((job) => job.url), ["a", "b"]);
            await query("SELECT xqueue.give_back()", []);
            for (const job of await take(5)) {
                await ack(job.id);
            }
            assert.equal(await count(), 0);
        },

        async "an error has its code"() {
            const error = await ack(1000000).catch((error) => error);
            assert.equal((error.original ?? error.driverError ?? error.cause ?? error).code, "P0002");
        },
    };
}

const numbered = (sql) => {
    let number = 0;
    return sql.replaceAll("?", () => `$${++number}`);
};

async function withTable(db, name, table, use) {
    await db(`CREATE TABLE ${table} (id bigserial PRIMARY KEY, url text NOT NULL)`);
    try {
        await db(`SELECT xqueue.upgrade('${table}')`);
        await run(name, tests(use), () => db(`DELETE FROM ${table}`));
    } finally {
        await db(`DROP TABLE ${table}`);
    }
}

async function knex() {
    const knex = (await load("knex")).default({ client: "pg", connection: { host, port, user, database }, pool: { min: 1, max: 1 } });
    const table = "knex_jobs";
    await withTable((sql) => knex.raw(sql), "Knex", table, {
        query: (sql, values, within = knex) => within.raw(sql.replace("%", table), values),
        transaction: (work) => knex.transaction(work),
        put: (url, within = knex) => within(table).insert({ url }),
        take: async (count = 1) => (await knex.raw(`SELECT * FROM xqueue.take(NULL::${table}, '0', ?)`, [count])).rows,
        count: async () => Number((await knex(table).count())[0].count),
    });
    await knex.destroy();
}

async function sequelize() {
    const { Sequelize, DataTypes, QueryTypes } = await load("sequelize").then((library) => library.default ?? library);
    const pg = await load("pg");
    const options = { dialect: "postgres", dialectModule: pg.default ?? pg, host, port, username: user, database, logging: false, pool: { max: 1 } };
    const db = new Sequelize(options);
    const table = "sequelize_jobs";
    const Job = db.define("Job", {
        id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
        url: DataTypes.TEXT,
        status: DataTypes.TEXT,
        owner: DataTypes.UUID,
    }, { tableName: table, timestamps: false });
    const fields = ["url"];
    await withTable((sql) => db.query(sql), "Sequelize", table, {
        query: (sql, replacements, transaction) => db.query(sql.replace("%", table), { replacements, transaction }),
        transaction: (work) => db.transaction(work),
        put: (url, transaction) => Job.create({ url }, { fields, transaction }),
        take: (count = 1) => db.query(`SELECT * FROM xqueue.take(NULL::${table}, '0', :count)`,
            { model: Job, mapToModel: true, replacements: { count }, type: QueryTypes.SELECT }),
        count: () => Job.count(),
    });
    await db.close();
}

async function typeorm() {
    const { DataSource, EntitySchema } = await load("typeorm");
    const table = "typeorm_jobs";
    const Job = new EntitySchema({
        name: "Job",
        tableName: table,
        columns: {
            id: { type: "bigint", primary: true, generated: "increment" },
            url: { type: "text" },
            status: { type: "text", insert: false, update: false },
            owner: { type: "uuid", nullable: true, insert: false, update: false },
        },
    });
    const db = new DataSource({ type: "postgres", host, port: Number(port), username: user, database, entities: [Job], synchronize: false, poolSize: 1 });
    await db.initialize();
    await withTable((sql) => db.query(sql), "TypeORM", table, {
        query: (sql, values, within = db.manager) => within.query(numbered(sql.replace("%", table)), values),
        transaction: (work) => db.transaction(work),
        put: (url, within = db.manager) => within.save(Job, { url }),
        take: async (count = 1) => {
            const rows = await db.query(`SELECT * FROM xqueue.take(NULL::${table}, '0', $1)`, [count]);
            return rows.map((row) => db.manager.create(Job, row));
        },
        count: () => db.manager.count(Job),
    });
    await db.destroy();
}

async function drizzle() {
    const { drizzle } = await load("drizzle-orm/node-postgres");
    const { bigserial, pgTable, text, uuid } = await load("drizzle-orm/pg-core");
    const { sql } = await load("drizzle-orm");
    const { Pool } = (await load("pg")).default;
    const pool = new Pool({ max: 1 });
    const db = drizzle(pool);
    const table = "drizzle_jobs";
    const jobs = pgTable(table, {
        id: bigserial({ mode: "number" }).primaryKey(),
        url: text().notNull(),
        status: text().notNull().default("R"),
        owner: uuid(),
    });
    await withTable((text) => pool.query(text), "Drizzle", table, {
        query: (text, [id], within = db) =>
            within.execute(id === undefined ? sql.raw(text) : sql`SELECT xqueue.ack(NULL::${jobs}, ${id}::bigint)`),
        transaction: (work) => db.transaction(work),
        put: (url, within = db) => within.insert(jobs).values({ url }),
        take: async (count = 1) => (await db.execute(sql`SELECT * FROM xqueue.take(NULL::${jobs}, '0', ${count})`)).rows,
        count: () => db.$count(jobs),
    });
    await pool.end();
}

for (const library of [knex, sequelize, typeorm, drizzle]) {
    await library();
}
process.exit();
