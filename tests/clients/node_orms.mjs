// Query builders and ORMs of Node, each with a model on a queue table: Knex, Sequelize, TypeORM, Drizzle. The argument names one.
// The tests are in orm_tests.mjs. Tasks belong to a connection, so each library has a pool of one connection, which stays open
// while it is idle.

import { testLibrary } from "./orm_tests.mjs";
import { load } from "./tap.mjs";

const { PGUSER: user, PGDATABASE: database } = process.env;

const numbered = (sql) => {
    let number = 0;
    return sql.replaceAll("?", () => `$${++number}`);
};

async function openKnex({ host, port }) {
    const knex = (await load("knex")).default({
        client: "pg",
        connection: { host, port, user, database },
        pool: { min: 1, max: 1 },
    });
    return {
        query: async (sql, values = [], within = knex) => (await within.raw(sql.replace("%", "knex_jobs"), values)).rows,
        transaction: (work) => knex.transaction(work),
        put: (url, within = knex) => within("knex_jobs").insert({ url }),
        take: async (timeout, count, within = knex) =>
            (await within.raw("SELECT * FROM xqueue.take(NULL::knex_jobs, ?, ?)", [timeout, count])).rows,
        count: async () => Number((await knex("knex_jobs").count())[0].count),
        close: () => knex.destroy(),
    };
}

async function openSequelize({ host, port }) {
    const { Sequelize, DataTypes, QueryTypes } = await load("sequelize").then((library) => library.default ?? library);
    const pg = await load("pg");
    const db = new Sequelize({
        dialect: "postgres",
        dialectModule: pg.default ?? pg,
        host, port, username: user, database,
        logging: false,
        pool: { min: 1, max: 1 },
        // Without these two Sequelize sets variables when it connects, which a pooler in transaction mode does not keep.
        keepDefaultTimezone: true,
        dialectOptions: { clientMinMessages: "ignore" },
    });
    const Job = db.define("Job", {
        id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
        url: DataTypes.TEXT,
        status: DataTypes.TEXT,
        owner: DataTypes.UUID,
    }, { tableName: "sequelize_jobs", timestamps: false });
    const fields = ["url"];
    return {
        query: async (sql, replacements = [], transaction) =>
            (await db.query(sql.replace("%", "sequelize_jobs"), { replacements, transaction }))[0],
        transaction: (work) => db.transaction(work),
        put: (url, transaction) => Job.create({ url }, { fields, transaction }),
        take: (timeout, count, transaction) => db.query(
            "SELECT * FROM xqueue.take(NULL::sequelize_jobs, :timeout, :count)",
            { model: Job, mapToModel: true, replacements: { timeout, count }, type: QueryTypes.SELECT, transaction },
        ),
        count: () => Job.count(),
        close: () => db.close(),
    };
}

async function openTypeorm({ host, port }) {
    const { DataSource, EntitySchema } = await load("typeorm");
    const Job = new EntitySchema({
        name: "Job",
        tableName: "typeorm_jobs",
        columns: {
            id: { type: "bigint", primary: true, generated: "increment" },
            url: { type: "text" },
            status: { type: "text", insert: false, update: false },
            owner: { type: "uuid", nullable: true, insert: false, update: false },
        },
    });
    const db = new DataSource({
        type: "postgres",
        host, port, username: user, database,
        entities: [Job],
        synchronize: false,
        poolSize: 1,
        extra: { idleTimeoutMillis: 0 },
    });
    await db.initialize();
    return {
        query: (sql, values = [], within = db.manager) => within.query(numbered(sql.replace("%", "typeorm_jobs")), values),
        transaction: (work) => db.transaction(work),
        put: (url, within = db.manager) => within.save(Job, { url }),
        take: async (timeout, count, within = db.manager) => {
            const rows = await within.query("SELECT * FROM xqueue.take(NULL::typeorm_jobs, $1, $2)", [timeout, count]);
            return rows.map((row) => within.create(Job, row));
        },
        count: () => db.manager.count(Job),
        close: () => db.destroy(),
    };
}

async function openDrizzle({ host, port }) {
    const { drizzle } = await load("drizzle-orm/node-postgres");
    const { bigserial, pgTable, text, uuid } = await load("drizzle-orm/pg-core");
    const { sql } = await load("drizzle-orm");
    const { Pool } = (await load("pg")).default;
    const pool = new Pool({ host, port, max: 1, idleTimeoutMillis: 0 });
    // Without listeners a lost connection ends the process.
    pool.on("error", () => {});
    pool.on("connect", (client) => client.on("error", () => {}));
    const db = drizzle(pool);
    const jobs = pgTable("drizzle_jobs", {
        id: bigserial({ mode: "number" }).primaryKey(),
        url: text().notNull(),
        status: text().notNull().default("R"),
        owner: uuid(),
    });
    const statement = (text, values) =>
        sql.join(text.replace("%", "drizzle_jobs").split("?").flatMap((part, n) =>
            n < values.length ? [sql.raw(part), sql`${values[n]}`] : [sql.raw(part)]));
    return {
        query: async (text, values = [], within = db) => (await within.execute(statement(text, values))).rows,
        transaction: (work) => db.transaction(work),
        put: (url, within = db) => within.insert(jobs).values({ url }),
        take: async (timeout, count, within = db) =>
            (await within.execute(sql`SELECT * FROM xqueue.take(NULL::${jobs}, ${timeout}, ${count})`)).rows,
        count: () => db.$count(jobs),
        close: () => pool.end(),
    };
}

const libraries = { Knex: openKnex, Sequelize: openSequelize, TypeORM: openTypeorm, Drizzle: openDrizzle };
const [name] = process.argv.slice(2);
await testLibrary(`${name.toLowerCase()}_jobs`, libraries[name]);
process.exit(); // failed tests can leave open connections, which keep the process alive
