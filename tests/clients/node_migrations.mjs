// Migrations that turn a table into a queue and back, with Knex, Sequelize, TypeORM or Drizzle, as the argument says. Tools that
// compare models with the database have to leave the queue's indexes alone.

import assert from "node:assert/strict";
import { load, run, server } from "./tap.mjs";

const { PGUSER: user, PGDATABASE: database } = process.env;
const pg = (await load("pg")).default;
const db = new pg.Client(server);
await db.connect();

/** The names of a table's columns. */
async function columns(table) {
    const attributes = "pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped ORDER BY attnum";
    const { rows } = await db.query(`SELECT attname AS name FROM ${attributes}`, [table]);
    return rows.map((row) => row.name).join(" ");
}

/** Asserts that an inserted row is a task, and that check finds no problem. */
async function works(table) {
    await db.query(`INSERT INTO ${table} (url) VALUES ('a')`);
    const { rows: [{ task }] } = await db.query("SELECT xqueue.take($1::text) AS task", [table]);
    assert.equal(task.url, "a");
    await db.query("SELECT xqueue.ack($1::text, $2)", [table, task]);
    const { rows: [{ problems }] } = await db.query("SELECT xqueue.check($1::text)->'problems' AS problems", [table]);
    assert.deepEqual(problems, []);
}

/** Asserts that a migration unmakes the queue, and makes it again. */
async function remade(table, { down, up }) {
    await works(table);
    await down();
    assert.equal(await columns(table), "id url");
    await up();
    await works(table);
}

async function knex() {
    const knex = (await load("knex")).default({ client: "pg", connection: { ...server, user, database }, pool: { min: 1, max: 1 } });
    const makeJobs = {
        up: (knex) => knex.raw("CREATE TABLE knex_migrated (id bigserial PRIMARY KEY, url text NOT NULL)"),
        down: (knex) => knex.schema.dropTable("knex_migrated"),
    };
    const makeQueue = {
        up: (knex) => knex.raw("SELECT xqueue.upgrade('knex_migrated')"),
        down: (knex) => knex.raw("SELECT xqueue.downgrade('knex_migrated', drop_columns => true)"),
    };
    const migrations = { "1_jobs": makeJobs, "2_queue": makeQueue };
    const migrationSource = {
        getMigrations: async () => Object.keys(migrations),
        getMigrationName: (name) => name,
        getMigration: (name) => migrations[name],
    };
    const config = { migrationSource, tableName: "knex_migrated_names" };
    await run({
        async "migrations make the queue and unmake it"() {
            await knex.migrate.latest(config);
            await remade("knex_migrated", { down: () => knex.migrate.down(config), up: () => knex.migrate.up(config) });
            await knex.migrate.rollback(config, true);
            assert.equal(await columns("knex_migrated"), "");
        },
    });
    await knex.destroy();
    await db.query("DROP TABLE IF EXISTS knex_migrated, knex_migrated_names, knex_migrated_names_lock");
}

async function sequelize() {
    const { Sequelize, DataTypes } = await load("sequelize").then((library) => library.default ?? library);
    const sequelize = new Sequelize({ dialect: "postgres", dialectModule: pg, ...server, username: user, database, logging: false });
    const Job = sequelize.define("Job", {
        id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
        url: { type: DataTypes.TEXT, allowNull: false },
        status: { type: DataTypes.TEXT, allowNull: false, defaultValue: "R" },
        owner: DataTypes.UUID,
    }, { tableName: "sequelize_migrated", timestamps: false });
    // sequelize-cli and umzug call migrations with these arguments.
    const makeJobs = {
        up: (queryInterface, DataTypes) => queryInterface.createTable("sequelize_migrated", {
            id: { type: DataTypes.BIGINT, primaryKey: true, autoIncrement: true },
            url: { type: DataTypes.TEXT, allowNull: false },
        }),
        down: (queryInterface) => queryInterface.dropTable("sequelize_migrated"),
    };
    const makeQueue = {
        up: (queryInterface) => queryInterface.sequelize.query("SELECT xqueue.upgrade('sequelize_migrated')"),
        down: (queryInterface) =>
            queryInterface.sequelize.query("SELECT xqueue.downgrade('sequelize_migrated', drop_columns => true)"),
    };
    const queryInterface = sequelize.getQueryInterface();
    await run({
        async "migrations make the queue and unmake it"() {
            await makeJobs.up(queryInterface, DataTypes);
            await makeQueue.up(queryInterface);
            const { down, up } = makeQueue;
            await remade("sequelize_migrated", { down: () => down(queryInterface), up: () => up(queryInterface) });
        },

        async "sync leaves the queue as it is; sync with alter is refused"() {
            await Job.sync();
            await works("sequelize_migrated");
            await assert.rejects(Job.sync({ alter: true }), /cannot alter type of a column used in a trigger definition/);
            await works("sequelize_migrated");
            await makeQueue.down(queryInterface);
            await makeJobs.down(queryInterface);
        },
    });
    await sequelize.close();
    await db.query("DROP TABLE IF EXISTS sequelize_migrated");
}

async function typeorm() {
    const { DataSource, EntitySchema, Table } = await load("typeorm");
    class MakeJobs1700000000001 {
        up(queryRunner) {
            return queryRunner.createTable(new Table({
                name: "typeorm_migrated",
                columns: [
                    { name: "id", type: "bigint", isPrimary: true, isGenerated: true, generationStrategy: "increment" },
                    { name: "url", type: "text" },
                ],
            }));
        }

        down(queryRunner) {
            return queryRunner.dropTable("typeorm_migrated");
        }
    }
    class MakeQueue1700000000002 {
        async up(queryRunner) {
            await queryRunner.query("SELECT xqueue.upgrade('typeorm_migrated')");
        }

        async down(queryRunner) {
            await queryRunner.query("SELECT xqueue.downgrade('typeorm_migrated', drop_columns => true)");
        }
    }
    const job = {
        name: "Job",
        tableName: "typeorm_migrated",
        columns: {
            id: { type: "bigint", primary: true, generated: "increment" },
            url: { type: "text" },
            status: { type: "text", default: "R", insert: false, update: false },
            owner: { type: "uuid", nullable: true, insert: false, update: false },
        },
    };
    const indices = [
        { name: "xqueue_typeorm_migrated_ready_idx", columns: ["id"], synchronize: false },
        { name: "xqueue_typeorm_migrated_taken_idx", columns: ["owner"], synchronize: false },
    ];
    const open = (entity) => new DataSource({
        type: "postgres",
        ...server, username: user, database,
        entities: [new EntitySchema(entity)],
        migrations: [MakeJobs1700000000001, MakeQueue1700000000002],
        migrationsTableName: "typeorm_migrated_names",
        synchronize: false,
    }).initialize();
    /** Returns the statements that migration:generate would write. */
    const differences = async (source) =>
        (await source.driver.createSchemaBuilder().log()).upQueries.map(({ query }) => query);
    const source = await open({ ...job, indices });
    await run({
        async "migrations make the queue and unmake it"() {
            await source.runMigrations();
            await remade("typeorm_migrated", { down: () => source.undoLastMigration(), up: () => source.runMigrations() });
        },

        async "migration:generate finds nothing where the entity names the queue's indexes, and would drop them where it does not"() {
            assert.deepEqual(await differences(source), []);
            const other = await open(job);
            assert.deepEqual(await differences(other),
                ["ready", "taken"].map((name) => `DROP INDEX "public"."xqueue_typeorm_migrated_${name}_idx"`));
            await assert.rejects(other.synchronize(), { code: "2BP01" });
            await other.destroy();
            await works("typeorm_migrated");
        },
    });
    await source.destroy();
    await db.query("DROP TABLE IF EXISTS typeorm_migrated, typeorm_migrated_names");
}

async function drizzle() {
    const { drizzle } = await load("drizzle-orm/node-postgres");
    const { bigserial, index, pgTable, text, uuid } = await load("drizzle-orm/pg-core");
    const kit = await load("drizzle-kit/api").then((library) => library.default ?? library);
    const pool = new pg.Pool({ ...server, max: 1 });
    const columnsOfJobs = {
        id: bigserial({ mode: "number" }).primaryKey(),
        url: text().notNull(),
        status: text().notNull().default("R"),
        owner: uuid(),
    };
    const jobs = pgTable("drizzle_migrated", columnsOfJobs);
    const withIndexes = pgTable("drizzle_migrated", columnsOfJobs, (table) => [
        index("xqueue_drizzle_migrated_ready_idx").on(table.id),
        index("xqueue_drizzle_migrated_taken_idx").on(table.owner),
    ]);
    // A custom migration. The columns exist already, because the model has them.
    const makeQueue = `
        SELECT xqueue.upgrade('drizzle_migrated', '{"fields": {"status": "status", "owner": "owner"}}')`;
    /** Returns the statements that drizzle-kit push would run. */
    const push = (jobs) => kit.pushSchema({ jobs }, drizzle(pool), ["public"], ["drizzle_migrated"]);
    await run({
        async "generated and custom migrations make the queue; drizzle-kit generate finds nothing left to do"() {
            const before = kit.generateDrizzleJson({});
            const after = kit.generateDrizzleJson({ jobs }, before.id);
            for (const statement of await kit.generateMigration(before, after)) {
                await db.query(statement);
            }
            await db.query(makeQueue);
            assert.deepEqual(await kit.generateMigration(after, kit.generateDrizzleJson({ jobs }, after.id)), []);
            await works("drizzle_migrated");
            await db.query("SELECT xqueue.downgrade('drizzle_migrated', drop_columns => true)");
            await db.query(makeQueue);
            await works("drizzle_migrated");
        },

        async "drizzle-kit push finds nothing where the model has the queue's indexes, and would drop them where it does not"() {
            const { statementsToExecute, apply } = await push(jobs);
            assert.deepEqual(statementsToExecute, ["ready", "taken"].map((name) => `DROP INDEX "xqueue_drizzle_migrated_${name}_idx";`));
            await assert.rejects(apply(), (error) => (error.cause ?? error).code === "2BP01");
            assert.deepEqual((await push(withIndexes)).statementsToExecute, []);
            await works("drizzle_migrated");
        },
    });
    await pool.end();
    await db.query("DROP TABLE IF EXISTS drizzle_migrated");
}

await { Knex: knex, Sequelize: sequelize, TypeORM: typeorm, Drizzle: drizzle }[process.argv[2]]();
process.exit();
