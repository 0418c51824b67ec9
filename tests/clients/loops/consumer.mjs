// A consumer of the queue "jobs" with node-postgres: fetches pages and stores their lengths, until SIGTERM.
// The queue: a table jobs (id, url) with feature retry, and pages (job, length). PGHOST, PGDATABASE and so on name the server.

import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";

// No row if the task was taken away meanwhile.
const RELEASE = "SELECT xqueue.release('jobs', $1, error => $2, if_held => true)";
let stopping = false;
process.on("SIGTERM", () => { stopping = true; });

/** Stands for slow work that can fail. */
async function work(task) {
    if (!task.url.includes("://")) throw new Error(`${task.url} is no URL`);
    return task.url.length;
}

async function consume(db) {
    while (!stopping) {
        const { rows } = await db.query("SELECT xqueue.take('jobs', '5s', 10) AS task");
        for (const { task } of rows) {
            if (stopping) break;
            try {
                const length = await work(task);
                await db.query("BEGIN");
                await db.query("INSERT INTO pages VALUES ($1, $2)", [task.id, length]);
                await db.query("SELECT xqueue.ack('jobs', $1)", [task.id]);
                await db.query("COMMIT");
            } catch (error) {
                await db.query("ROLLBACK");
                await db.query(RELEASE, [task.id, error.message]);
            }
        }
    }
    await db.query("SELECT xqueue.give_back()");
}

while (!stopping) {
    const db = new pg.Client();
    db.on("error", () => {}); // The query that finds the connection lost throws as well.
    try {
        await db.connect();
        await consume(db);
    } catch (error) { // The server has given back the tasks of this connection.
        console.error(error.message);
        await sleep(1000);
    } finally {
        await db.end().catch(() => {});
    }
}
