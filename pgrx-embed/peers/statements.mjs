// What the libraries of graphile-worker and pg-boss would send to the server, printed in sections as in the .sql files
// here: node statements.mjs NAME FOLDER, where FOLDER is the library's package.

import { pathToFileURL } from "node:url";

const [name, folder] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(`${folder}/${file}`));

// withValues puts text in the place of the parameters $1, $2, ….
const withValues = (text, ...values) => text.replace(/\$(\d+)/g, (_, n) => values[n - 1]);

// keysOf makes an UPDATE … RETURNING, whose first column is the key, a statement that selects of the keys: all in one array, or
// how many there are and one of them.
function keysOf(text, selected = "array_agg(taken_key) AS ids") {
    const start = text.toLowerCase().lastIndexOf("update ");
    return `${text.slice(0, start).trimEnd()}, taken (taken_key) AS (${text.slice(start)}) SELECT ${selected} FROM taken`;
}

async function graphileWorker() {
    const { batchGetJobs } = await load("dist/sql/getJobs.js");
    const { batchCompleteJobs } = await load("dist/sql/completeJobs.js");
    const sent = [];
    const client = {
        query: async (query) => {
            sent.push(query.text);
            return { rows: [{ id: 1, identifier: "measure" }] };
        },
    };
    const run = (callback) => callback(client);
    run.withRetries = run;
    const worker = { preparedStatements: true, useNodeTime: false };
    const options = {
        escapedWorkerSchema: "graphile_worker",
        workerSchema: "graphile_worker",
        resolvedPreset: { worker },
        logger: console,
    };
    const text = async (what) => {
        await what;
        return sent.pop();
    };
    const take = async (count) =>
        withValues(await text(batchGetJobs(options, run, { measure: 1 }, "measure", null, count)), "'measure'", "'{1}'");
    const ack = (jobs) => text(batchCompleteJobs(options, run, "measure", jobs));
    return {
        tables: "graphile_worker._private_jobs",
        empty: "TRUNCATE graphile_worker._private_jobs RESTART IDENTITY",
        fill: `SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
            SELECT json_populate_record(null::graphile_worker.job_spec, '{"identifier": "measure", "payload": {"n": 1}}')
            FROM generate_series(1, {count})), false)`,
        task: `{"identifier": "measure", "payload": {"n": 1}}`,
        put: `SELECT * FROM graphile_worker.add_job('measure', '{"n": 1}')`,
        take: await take(1),
        ack: withValues(await ack([{ id: 1 }]), ":id"),
        "put many": `SELECT id FROM graphile_worker.add_jobs(
            array(select json_populate_recordset(null::graphile_worker.job_spec, :tasks::json)), false)`,
        "take if any": keysOf(await take(1), "count(taken_key) AS found, max(taken_key) AS id"),
        "take many": keysOf(await take("{many}")),
        "ack many": withValues(await ack([{ id: 1 }, { id: 2 }]), ":ids"),
    };
}

async function pgBoss() {
    const plans = await load("dist/plans.js");
    const schema = "pgboss";
    const table = "job_common";
    const queue = "measure";
    const put = plans.insertJobs(schema, { table, name: queue });
    const take = (limit) => plans.fetchNextJob({ schema, table, name: queue, policy: "standard", limit }).text;
    const ack = plans.completeJobs(schema, table, false, false);
    return {
        install: plans.createQueue(schema, queue, { policy: "standard" }),
        tables: "pgboss.job_common",
        count: "SELECT count(*) FROM pgboss.job_common WHERE state < 'completed'",
        empty: "TRUNCATE pgboss.job_common CASCADE",
        fill: withValues(put, `(SELECT json_agg(json_build_object('data', json_build_object('n', 1)))
            FROM generate_series(1, {count}))`),
        task: `{"data": {"n": 1}}`,
        put: withValues(put, `'[{"data": {"n": 1}}]'`),
        take: take(1),
        ack: withValues(ack, `'${queue}'`, "ARRAY[:id]", "NULL"),
        "put many": withValues(put, ":tasks"),
        "take many": keysOf(take("{many}")),
        "ack many": withValues(ack, `'${queue}'`, ":ids", "NULL"),
    };
}

// The schema as the libraries install it, and then the sections.
async function schemaOf() {
    if (name === "graphile-worker") {
        const { migrations } = await load("dist/generated/sql.js");
        const texts = Object.values(migrations).map((text) => text.replace(/:GRAPHILE_WORKER_SCHEMA\b/g, "graphile_worker"));
        return ["CREATE SCHEMA graphile_worker", ...texts, "SELECT graphile_worker.add_job('measure')"].join(";\n");
    }
    const plans = await load("dist/plans.js");
    return plans.create("pgboss", 1, { createSchema: true });
}

const sections = name === "graphile-worker" ? await graphileWorker() : await pgBoss();
sections.install = [await schemaOf(), sections.install ?? ""].join(";\n");
for (const [title, text] of Object.entries(sections)) {
    console.log(`-- ${title} --\n${text}\n`);
}
