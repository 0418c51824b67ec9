"""asyncpg, which prepares every statement and wants each parameter in the type that the server infers."""

import asyncio
from datetime import timedelta
import json

import asyncpg

from client import POOLER, Work, run
from tap import equal

TABLE = "asyncpg_jobs"


async def connect():
    db = await asyncpg.connect()
    # Binary, because asyncpg reads rows of a table's type only in this form. The first byte of a jsonb is its version.
    await db.set_type_codec("jsonb", schema="pg_catalog", format="binary",
                            encoder=lambda value: b"\1" + json.dumps(value).encode(),
                            decoder=lambda value: json.loads(value[1:]))
    return db


async def take(db, timeout, count=1):
    return await db.fetch("SELECT * FROM xqueue.take(NULL::asyncpg_jobs, $1, $2)", timeout, count)


async def ack(db, job):
    await db.execute("SELECT xqueue.ack('asyncpg_jobs', $1::bigint)", job["id"])


# No row if the task was taken away meanwhile.
RELEASE = "SELECT xqueue.release('asyncpg_jobs', $1::bigint, error => $2, if_held => true)"


async def consume(pool, work):
    while not work.stopped:
        try:
            async with pool.acquire() as db:
                await take_tasks(db, work)
        except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.CannotConnectNowError,
                asyncpg.AdminShutdownError, OSError):
            await asyncio.sleep(0.2)  # the server restarts, or ended the connection: its tasks are ready again


async def take_tasks(db, work):
    while not work.stopped:
        for job in await take(db, timedelta(seconds=5), 10):
            if work.stopped:
                return  # The pool's reset gives back unstarted tasks.
            try:
                await asyncio.to_thread(work, job["url"])
                async with db.transaction():  # this transaction writes the results too
                    await ack(db, job)
            except Exception as error:
                await db.execute(RELEASE, job["id"], str(error))


async def give_back(db):
    await db.execute("SELECT xqueue.give_back()")


def create_pool():
    # asyncpg's own reset leaves tasks with the connection.
    return asyncpg.create_pool(min_size=1, max_size=1, reset=give_back)


async def put(db, *urls):
    """The ids of new tasks."""
    tasks = await db.fetch(f"SELECT id FROM xqueue.put(NULL::{TABLE}, $1) ORDER BY id", [{"url": url} for url in urls])
    return [task["id"] for task in tasks]


async def json_and_rows(db):
    """tasks as jsonb and as records with their types"""
    task = await db.fetchval("SELECT xqueue.put($1, $2)", TABLE, {"url": "a", "options": {"depth": 1}})
    equal((task["url"], task["status"]), ("a", "R"))
    [row] = await take(db, timedelta(seconds=5))
    equal((row["id"], row["status"], row["options"]), (task["id"], "T", {"depth": 1}))
    equal(row["owner"], await db.fetchval("SELECT xqueue.identify()"))
    equal(await db.fetchval("SELECT xqueue.take($1)", TABLE), None)
    equal((await db.fetchval("SELECT xqueue.ack($1, $2::bigint)", TABLE, row["id"]))["id"], row["id"])


async def ids(db):
    """ack of a number, a list, a text, an object, and of the task itself"""
    ids = await put(db, *"abcdefgh")
    rows = await db.fetch(f"SELECT t, t.id FROM xqueue.take(NULL::{TABLE}, count => $1) AS t ORDER BY id", 8)
    equal([row["id"] for row in rows], ids)
    await db.execute("SELECT xqueue.ack($1, $2::bigint)", TABLE, ids[0])
    equal(len(await db.fetch("SELECT xqueue.ack($1, $2::bigint[])", TABLE, ids[1:3])), 2)
    equal(len(await db.fetch("SELECT xqueue.ack($1, $2)", TABLE, str(ids[3]))), 1)
    equal(len(await db.fetch("SELECT xqueue.ack($1, $2::jsonb)", TABLE, {"id": ids[4]})), 1)
    equal(len(await db.fetch("SELECT xqueue.ack($1, $2)", TABLE, f"{ids[5]},{ids[6]}")), 2)
    equal(len(await db.fetch(f"SELECT xqueue.ack($1::{TABLE})", rows[7]["t"])), 1)


async def errors(db):
    """errors have their class, SQLSTATE and hint"""
    [id] = await put(db, "a")
    for error, key in [(asyncpg.NoDataFoundError, id + 1000), (asyncpg.ObjectNotInPrerequisiteStateError, id)]:
        try:
            await ack(db, {"id": key})
            raise AssertionError("it did not fail")
        except error as e:
            assert e.hint, e
    await db.execute(f"SELECT xqueue.delete('{TABLE}', $1::bigint)", id)


async def waiting(db):
    """a waiting take is cancelled by a timeout, and its connection takes the next task"""
    other = await connect()
    try:
        await other.fetchval("SELECT xqueue.take($1, $2)", TABLE, timedelta(minutes=1), timeout=0.1)
        raise AssertionError("it did not end")
    except TimeoutError:
        async with asyncio.timeout(20):  # asyncpg does not wait until its cancel arrives
            while (await db.fetchval("SELECT xqueue.stats($1)", TABLE))["consumers"] > 0:
                await asyncio.sleep(0.01)
    [id] = await put(db, "a")
    equal((await other.fetchval("SELECT xqueue.take($1)", TABLE))["id"], id)
    await ack(other, {"id": id})
    await other.close()


async def loop(_):
    """a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun"""
    work = Work(TABLE)
    async with create_pool() as pool:
        await consume(pool, work)
        work("end")


def through_pgbouncer():
    # PgBouncer before 1.21 does not know prepared statements.
    return asyncpg.connect(**POOLER, statement_cache_size=0)


async def pgbouncer(db):
    """through PgBouncer, take and ack in one transaction"""
    await put(db, "a", "b")
    pooled = await through_pgbouncer()
    for url in "ab":
        async with pooled.transaction():
            [job] = await take(pooled, timedelta(seconds=5))
            equal(job["url"], url)
            await ack(pooled, job)
    await pooled.close()


def on_connection(test):
    async def with_connection():
        db = await connect()
        await test(db)
        db.terminate()

    def call():
        asyncio.run(with_connection())

    call.__doc__ = test.__doc__
    return call


run(*map(on_connection, [json_and_rows, ids, errors, waiting, loop, pgbouncer]), table=TABLE)
