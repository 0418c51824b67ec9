"""asyncpg: a consumer's loop on connections of a pool, and both recipes for PgBouncer."""

import asyncio
from datetime import timedelta

import asyncpg

from tap import POOLER, Work, equal, run


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
    await db.executemany("INSERT INTO asyncpg_jobs (url) VALUES ($1)", [(url,) for url in urls])


async def states(db):
    """Returns the remaining tasks with their states."""
    return "".join(row["url"] + row["status"] for row in await db.fetch("SELECT * FROM asyncpg_jobs ORDER BY id"))


async def loop(db):
    """asyncpg: a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun"""
    await put(db, *"abcd")
    work = Work("asyncpg_jobs")
    async with create_pool() as pool:
        await consume(pool, work)
        equal(work.urls, work.expected)
        equal(await pool.fetchval(work.query_left), work.left)


def through_pgbouncer():
    # PgBouncer before 1.21 does not know prepared statements.
    return asyncpg.connect(**POOLER, statement_cache_size=0)


async def one_transaction(_):
    """asyncpg: through PgBouncer, take, work and ack in one transaction"""
    db = await through_pgbouncer()
    await put(db, "a", "b")
    for url in "ab":
        async with db.transaction():
            [job] = await take(db, timedelta(seconds=5))
            equal(job["url"], url)
            await ack(db, job)
    equal(await states(db), "")
    await db.close()


async def identified(_):
    """asyncpg: through PgBouncer, an identified session takes and acks in two transactions"""
    db = await through_pgbouncer()
    await put(db, "a")
    session = await db.fetchval("SELECT xqueue.identify(grace => '1 min', local => true)")
    async with db.transaction():
        await db.execute("SELECT xqueue.identify($1, local => true)", session)
        [job] = await take(db, timedelta(seconds=5))
    async with db.transaction():
        await db.execute("SELECT xqueue.identify($1, local => true)", session)
        await ack(db, job)
    equal(await states(db), "")
    await db.execute("DELETE FROM xqueue.session WHERE uuid = $1", session)
    await db.close()


async def execute(statement):
    db = await asyncpg.connect()
    await db.execute(statement)
    await db.close()


def on_connection(test):
    async def with_connection():
        db = await asyncpg.connect()
        try:
            await test(db)
        finally:
            await db.close()

    def call(_):
        asyncio.run(with_connection())

    call.__doc__ = test.__doc__
    return call


def clean_up(_=None):
    asyncio.run(execute("DELETE FROM asyncpg_jobs"))


asyncio.run(execute("""
    CREATE TABLE asyncpg_jobs (id bigserial PRIMARY KEY, url text);
    SELECT xqueue.upgrade('asyncpg_jobs', '{"features": {"retry": true}}')"""))
try:
    run([on_connection(loop)], None, clean_up)
    clean_up()
    run([on_connection(one_transaction), on_connection(identified)], None, clean_up)
finally:
    asyncio.run(execute("DROP TABLE asyncpg_jobs"))
