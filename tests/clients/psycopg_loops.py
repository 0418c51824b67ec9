"""psycopg 3: consumers' loops without and with asyncio and a pool, and both recipes for PgBouncer."""

import asyncio
import time

import psycopg
from psycopg.rows import class_row, scalar_row
from psycopg.types.json import Jsonb
from psycopg_pool import AsyncConnectionPool

from tap import POOLER, Work, equal, run


class Job:
    def __init__(self, id, url, status, owner, attempts, reason):
        self.id, self.url, self.status, self.owner, self.attempts, self.reason = id, url, status, owner, attempts, reason


def connect(**options):
    return psycopg.connect("", autocommit=True, row_factory=class_row(Job), **options)


def consume(work):
    while not work.stopped:
        try:
            with connect() as db:
                take_tasks(db, work)
        except psycopg.OperationalError:
            time.sleep(0.2)  # the server restarts, or ended the connection: its tasks are ready again


# No row if the task was taken away meanwhile.
RELEASE = "SELECT xqueue.release('psycopg_jobs', %s, error => %s, if_held => true)"


def take_tasks(db, work):
    while not work.stopped:
        for job in db.execute("SELECT * FROM xqueue.take(NULL::psycopg_jobs, %s, %s)", ("5s", 10)).fetchall():
            if work.stopped:
                # Unstarted tasks are ready again immediately, and use up no attempt.
                db.execute("SELECT xqueue.give_back()")
                return
            try:
                work(job.url)
                with db.transaction():  # this transaction writes the results too
                    db.execute("SELECT xqueue.ack('psycopg_jobs', %s)", (job.id,))
            except Exception as error:
                db.execute(RELEASE, (job.id, str(error)))


async def consume_async(pool, work):
    while not work.stopped:
        try:
            async with pool.connection() as db:
                await take_tasks_async(db, work)
        except psycopg.OperationalError:
            await asyncio.sleep(0.2)


async def take_tasks_async(db, work):
    while not work.stopped:
        cursor = await db.execute("SELECT * FROM xqueue.take(NULL::psycopg_jobs, %s, %s)", ("5s", 10))
        for job in await cursor.fetchall():
            if work.stopped:
                return  # The pool's reset gives back unstarted tasks.
            try:
                await asyncio.to_thread(work, job.url)
                async with db.transaction():
                    await db.execute("SELECT xqueue.ack('psycopg_jobs', %s)", (job.id,))
            except Exception as error:
                await db.execute(RELEASE, (job.id, str(error)))


async def give_back(db):
    await db.execute("SELECT xqueue.give_back()")


def put(db, *urls):
    db.execute("SELECT xqueue.put('psycopg_jobs', %s)", (Jsonb([{"url": url} for url in urls]),))


def states(db):
    """Returns the remaining tasks with their states."""
    return "".join(job.url + job.status for job in db.execute("SELECT * FROM psycopg_jobs ORDER BY id"))


def value(db, statement, *parameters):
    return db.cursor(row_factory=scalar_row).execute(statement, parameters).fetchone()


def sync_loop(_):
    """psycopg: a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun"""
    with connect() as db:
        put(db, *"abcd")
    work = Work("psycopg_jobs")
    consume(work)
    equal(work.urls, work.expected)
    with connect() as db:
        equal(value(db, work.query_left), work.left)
        db.execute("DELETE FROM psycopg_jobs")


def async_loop(_):
    """psycopg: the same with asyncio, on connections of a pool"""
    async def main():
        async with AsyncConnectionPool(
            "", min_size=1, max_size=1, open=False,
            kwargs={"autocommit": True, "row_factory": class_row(Job)},
            check=AsyncConnectionPool.check_connection,  # a connection that a restart has ended is replaced
            reset=give_back,                             # tasks do not stay with a connection that goes back to the pool
        ) as pool:
            await consume_async(pool, work)
            async with pool.connection() as db:
                equal((await (await db.execute("SELECT * FROM psycopg_jobs WHERE status = 'T'")).fetchall()), [])

    with connect() as db:
        put(db, *"abcd")
    work = Work("psycopg_jobs")
    asyncio.run(main())
    equal(work.urls, work.expected)
    with connect() as db:
        equal(value(db, work.query_left), work.left)
        db.execute("DELETE FROM psycopg_jobs")


def one_transaction(_):
    """psycopg: through PgBouncer, take, work and ack in one transaction"""
    # PgBouncer before 1.21 does not know prepared statements.
    with connect(**POOLER, prepare_threshold=None) as db:
        for _ in range(8):  # enough repetitions for psycopg to prepare the statement
            put(db, "a")
            with db.transaction():
                [job] = db.execute("SELECT * FROM xqueue.take(NULL::psycopg_jobs, %s)", ("5s",)).fetchall()
                db.execute("SELECT xqueue.ack('psycopg_jobs', %s)", (job.id,))
        equal(states(db), "")


def identified(_):
    """psycopg: through PgBouncer, an identified session takes and acks in two transactions"""
    with connect(**POOLER, prepare_threshold=None) as db:
        put(db, "a")
        session = value(db, "SELECT xqueue.identify(grace => '1 min', local => true)")
        with db.transaction():
            db.execute("SELECT xqueue.identify(%s, local => true)", (session,))
            [job] = db.execute("SELECT * FROM xqueue.take(NULL::psycopg_jobs, %s)", ("5s",)).fetchall()
        with db.transaction():
            db.execute("SELECT xqueue.identify(%s, local => true)", (session,))
            db.execute("SELECT xqueue.ack('psycopg_jobs', %s)", (job.id,))
        equal(states(db), "")
        db.execute("DELETE FROM xqueue.session WHERE uuid = %s", (session,))


def clean_up():
    with connect() as db:
        db.execute("DELETE FROM psycopg_jobs")


with connect() as db:
    db.execute("CREATE TABLE psycopg_jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, url text NOT NULL)")
    db.execute("""SELECT xqueue.upgrade('psycopg_jobs', '{"features": {"retry": true}}')""")
try:
    run([sync_loop, async_loop, one_transaction, identified], None, clean_up)
finally:
    with connect() as db:
        db.execute("DROP TABLE psycopg_jobs")
