"""psycopg 3: parameters, errors, transactions, pipeline mode, waiting, a consumer with asyncio, PgBouncer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
import uuid

import psycopg
from psycopg import errors
from psycopg.rows import class_row, scalar_row
from psycopg.types.json import Json, Jsonb
from psycopg_pool import AsyncConnectionPool

from client import POOLER, Work, run
from tap import equal, until

TABLE = "psycopg_jobs"


class Job:
    def __init__(self, id, url, status, owner, attempts, reason):
        self.id, self.url, self.status, self.owner, self.attempts, self.reason = id, url, status, owner, attempts, reason


def connect(**options):
    return psycopg.connect("", autocommit=True, row_factory=class_row(Job), **options)


# No row if the task was taken away meanwhile.
RELEASE = "SELECT xqueue.release('psycopg_jobs', %s, error => %s, if_held => true)"


async def consume(pool, work):
    while not work.stopped:
        try:
            async with pool.connection() as db:
                await take_tasks(db, work)
        except psycopg.OperationalError:
            await asyncio.sleep(0.2)


async def take_tasks(db, work):
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


db = psycopg.connect("", autocommit=True, row_factory=scalar_row)


def value(statement, *parameters):
    return db.execute(statement, parameters).fetchone()


def put(*urls):
    """The ids of new tasks."""
    return [value("SELECT xqueue.put(%s, %s)", TABLE, Jsonb({"url": url}))["id"] for url in urls]


def take(db, count=1):
    return db.execute("SELECT xqueue.take(%s, count => %s)", (TABLE, count)).fetchall()


def ack(db, key):
    return sorted(task["id"] for task in db.execute("SELECT xqueue.ack(%s, %s)", (TABLE, key)).fetchall())


def put_and_take_parameters():
    """put takes a dict as Jsonb, as Json with a cast, and a list; take's timeout is a text or a timedelta, its count an int"""
    a, = put("a")
    b = value(f"SELECT id FROM xqueue.put(NULL::{TABLE}, %s::jsonb)", Json({"url": "b"}))
    batch = db.execute("SELECT xqueue.put(%s, %s)", (TABLE, Jsonb([{"url": "c"}, {"url": "d"}]))).fetchall()
    c, d = sorted(task["id"] for task in batch)
    equal(value(f"SELECT id FROM xqueue.take(NULL::{TABLE}, %s)", "5s"), a)
    equal(value(f"SELECT id FROM xqueue.take(NULL::{TABLE}, %s, %s)", timedelta(seconds=5), 1), b)
    task = value("SELECT xqueue.take(%s, %s, %s)", TABLE, "0", 1)
    equal((task["id"], task["url"], task["status"]), (c, "c", "T"))
    equal(uuid.UUID(task["owner"]), value("SELECT xqueue.identify()"))
    equal([task["url"] for task in take(db, 5)], ["d"])
    equal(value("SELECT xqueue.take(%s, %s)", TABLE, timedelta(milliseconds=1)), None)
    equal(ack(db, [a, b, c, d]), [a, b, c, d])


def ack_parameters():
    """ack of an int, a str, a list, an object and a row"""
    ids = put(*"abcdefg")
    equal(len(take(db, 7)), 7)
    for key, acked in [(ids[0], ids[:1]), (str(ids[1]), ids[1:2]), (ids[2:4], ids[2:4]), ("{%d}" % ids[4], ids[4:5]),
                       (Jsonb({"id": ids[5]}), ids[5:6])]:
        equal(ack(db, key), acked)
    equal(value(f"SELECT (xqueue.ack(t)).id FROM {TABLE} t WHERE id = %s", ids[6]), ids[6])


def fails(db, error, statement, *parameters):
    """Asserts that the statement fails with this class of error, with its SQLSTATE and a hint."""
    try:
        db.execute(statement, parameters)
    except psycopg.Error as e:
        equal((type(e), e.sqlstate, bool(e.diag.message_hint)), (error, error.sqlstate, True))
    else:
        raise AssertionError(f"{statement} did not fail")


def error_classes():
    """errors have their class, SQLSTATE and hint"""
    [id] = put("a")
    for error, key in [(errors.NoDataFound, id + 1000), (errors.ObjectNotInPrerequisiteState, id),
                       (errors.NullValueNotAllowed, None), (errors.InvalidTextRepresentation, "one")]:
        fails(db, error, f"SELECT xqueue.ack('{TABLE}', %s)", key)
    fails(db, errors.UndefinedColumn, f"SELECT xqueue.put('{TABLE}', %s)", Jsonb({"nothing": 1}))
    take(db)
    ack(db, id)


def implicit_transaction():
    """without autocommit, rollback gives a taken task back and commit acks it"""
    [id] = put("a")
    with psycopg.connect("", row_factory=scalar_row) as other:
        equal(take(other)[0]["id"], id)
        equal(take(db), [])
        other.rollback()
        equal(value("SELECT xqueue.take(%s, %s)->>'id'", TABLE, "20s"), str(id))
        db.execute("SELECT xqueue.give_back()")
        take(other)
        with other.transaction(force_rollback=True):  # a savepoint
            ack(other, id)
        ack(other, id)
        other.commit()


def pipeline():
    """put, take and ack in one pipeline, and a pipeline that fails as a whole"""
    with db.pipeline():
        put_ = db.execute("SELECT xqueue.put(%s, %s)", (TABLE, Jsonb({"url": "a"})))
        take_ = db.execute("SELECT xqueue.take(%s, %s)", (TABLE, timedelta(seconds=5)))
        ack_ = db.execute(f"SELECT xqueue.ack(t) FROM {TABLE} t WHERE url = %s", ("a",))
    id = put_.fetchone()["id"]
    equal(take_.fetchone()["id"], id)
    equal(len(ack_.fetchall()), 1)
    try:
        with db.pipeline():
            db.execute("SELECT xqueue.put(%s, %s)", (TABLE, Jsonb({"url": "b"})))
            db.execute("SELECT xqueue.ack(%s, %s)", (TABLE, id))
    except errors.NoDataFound:
        return
    raise AssertionError("ack of a task that is gone did not fail")


def prepared():
    """prepared statements, binary results, client-side binding and executemany"""
    for cursor in (db.cursor(binary=True), psycopg.ClientCursor(db), psycopg.RawCursor(db)):
        cursor.row_factory = scalar_row
        first, second = ("$1", "$2") if isinstance(cursor, psycopg.RawCursor) else ("%s", "%s")
        for _ in range(8):  # psycopg prepares it after five executions; later PostgreSQL plans it once
            cursor.execute(f"SELECT xqueue.put({first}, {second})", (TABLE, Jsonb({"url": "a"})))
            cursor.execute(f"SELECT id FROM xqueue.take(NULL::{TABLE}, {first})", (timedelta(seconds=5),))
            id = cursor.fetchone()
            cursor.execute(f"SELECT xqueue.ack({first}, {second})", (TABLE, id))
            equal(cursor.fetchone()["id"], id)
    with db.cursor() as cursor:
        cursor.executemany("SELECT xqueue.put(%s, %s)", [(TABLE, Jsonb({"url": str(n)})) for n in range(10)])
        ids = [task["id"] for task in take(db, 20)]
        equal(len(ids), 10)
        cursor.executemany("SELECT xqueue.ack(%s, %s)", [(TABLE, id) for id in ids])


def waiting():
    """a blocked take is woken by a put, and ended by cancel()"""
    with psycopg.connect("", autocommit=True, row_factory=scalar_row) as other, ThreadPoolExecutor() as threads:
        def blocked():
            task = threads.submit(
                lambda: other.execute("SELECT xqueue.take(%s, %s)", (TABLE, timedelta(minutes=1))).fetchone())
            until(lambda: value("SELECT xqueue.stats(%s)", TABLE)["consumers"] == 1)
            return task

        task = blocked()
        [id] = put("a")
        equal(task.result(20)["id"], id)
        ack(other, id)
        task = blocked()
        other.cancel_safe()
        equal(type(task.exception(20)), errors.QueryCanceled)


def next_():
    """CALL xqueue.next with autocommit, and its error without"""
    a, b = put("a", "b")
    task = value("CALL xqueue.next(%s, %s)", TABLE, "5s")
    equal(task["id"], a)
    task = db.execute("CALL xqueue.next(%s, %s, task => %s)", (TABLE, timedelta(seconds=5), Jsonb(task))).fetchone()
    equal(task["id"], b)
    equal(value("CALL xqueue.next(%s, %s, task => %s)", TABLE, timedelta(0), Jsonb(task)), None)
    with psycopg.connect("") as other:
        other.execute("SELECT 1")
        fails(other, errors.InvalidTransactionTermination, "CALL xqueue.next(%s, %s)", TABLE, "0")


def loop():
    """a consumer's loop with asyncio, on connections of a pool, outlives a restart, a task taken away and failures"""
    async def main():
        async with AsyncConnectionPool(
            "", min_size=1, max_size=1, open=False,
            kwargs={"autocommit": True, "row_factory": class_row(Job)},
            check=AsyncConnectionPool.check_connection,  # a connection that a restart has ended is replaced
            reset=give_back,                             # tasks do not stay with a connection that goes back to the pool
        ) as pool:
            await consume(pool, work)
            await asyncio.to_thread(work, "end")

    work = Work(TABLE)
    asyncio.run(main())


def pgbouncer():
    """through PgBouncer, take and ack in one transaction, and in two transactions of an identified session"""
    insert = f"INSERT INTO {TABLE} (url) VALUES ('a')"
    # PgBouncer before 1.21 does not know prepared statements.
    with connect(**POOLER, prepare_threshold=None) as db:
        for _ in range(8):  # enough repetitions for psycopg to prepare the statement
            db.execute(insert)
            with db.transaction():
                [job] = db.execute("SELECT * FROM xqueue.take(NULL::psycopg_jobs, %s)", ("5s",)).fetchall()
                db.execute("SELECT xqueue.ack('psycopg_jobs', %s)", (job.id,))
        db.execute(insert)
        db.row_factory = scalar_row
        session = db.execute("SELECT xqueue.identify(grace => '1 min', local => true)").fetchone()

        def in_session(statement, parameter):
            with db.transaction():
                db.execute("SELECT xqueue.identify(%s, local => true)", (session,))
                return db.execute(statement, (parameter,)).fetchone()["id"]

        id = in_session("SELECT xqueue.take('psycopg_jobs', %s)", "5s")
        equal(in_session("SELECT xqueue.ack('psycopg_jobs', %s)", id), id)


run(put_and_take_parameters, ack_parameters, error_classes, implicit_transaction, pipeline, prepared,
    waiting, next_, loop, pgbouncer, table=TABLE)
