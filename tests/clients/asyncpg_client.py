"""asyncpg, which prepares every statement and wants each parameter in the type that the server infers."""

import asyncio
from datetime import timedelta
import json

import asyncpg

from tap import equal, run

TABLE = "asyncpg_jobs"


async def connect():
    db = await asyncpg.connect()
    # Binary, because asyncpg reads rows of a table's type only in this form. The first byte of a jsonb is its version.
    await db.set_type_codec("jsonb", schema="pg_catalog", format="binary",
                            encoder=lambda value: b"\1" + json.dumps(value).encode(),
                            decoder=lambda value: json.loads(value[1:]))
    return db


async def put(db, *urls):
    """The ids of new tasks."""
    tasks = await db.fetch(f"SELECT id FROM xqueue.put(NULL::{TABLE}, $1) ORDER BY id", [{"url": url} for url in urls])
    return [task["id"] for task in tasks]


async def until(condition, seconds=20):
    """Polls until condition() is true."""
    async with asyncio.timeout(seconds):
        while not await condition():
            await asyncio.sleep(0.01)


async def is_empty(db):
    equal(await db.fetchval(f"SELECT count(*) FROM {TABLE}"), 0)


async def state(db, state):
    return (await db.fetchval("SELECT xqueue.stats($1)", TABLE))["tasks"][state]


async def json_and_rows(db):
    """asyncpg: tasks as jsonb and as records with their types"""
    task = await db.fetchval("SELECT xqueue.put($1, $2)", TABLE, {"url": "a", "options": {"depth": 1}})
    equal((task["url"], task["status"]), ("a", "R"))
    row = await db.fetchrow(f"SELECT * FROM xqueue.take(NULL::{TABLE}, $1)", timedelta(seconds=5))
    equal((row["id"], row["status"], row["options"]), (task["id"], "T", {"depth": 1}))
    equal(row["owner"], await db.fetchval("SELECT xqueue.identify()"))
    equal(await db.fetchval("SELECT xqueue.take($1)", TABLE), None)
    equal((await db.fetchval("SELECT xqueue.ack($1, $2::bigint)", TABLE, row["id"]))["id"], row["id"])
    await is_empty(db)


async def ids(db):
    """asyncpg: ack of a number, a list, a text, an object, and of the task itself"""
    ids = await put(db, *"abcdefgh")
    rows = await db.fetch(f"SELECT t, t.id FROM xqueue.take(NULL::{TABLE}, count => $1) AS t ORDER BY id", 8)
    equal([row["id"] for row in rows], ids)
    await db.execute("SELECT xqueue.ack($1, $2::bigint)", TABLE, ids[0])
    equal(len(await db.fetch("SELECT xqueue.ack($1, $2::bigint[])", TABLE, ids[1:3])), 2)
    equal(len(await db.fetch("SELECT xqueue.ack($1, $2)", TABLE, str(ids[3]))), 1)
    equal(len(await db.fetch("SELECT xqueue.ack($1, $2::jsonb)", TABLE, {"id": ids[4]})), 1)
    equal(len(await db.fetch("SELECT xqueue.ack($1, $2)", TABLE, f"{ids[5]},{ids[6]}")), 2)
    equal(len(await db.fetch(f"SELECT xqueue.ack($1::{TABLE})", rows[7]["t"])), 1)
    await is_empty(db)


async def transactions(db):
    """asyncpg: put and ack belong to the application's transaction"""
    class Undo(Exception):
        pass

    for error, left in [(Undo, 0), (None, 1)]:
        try:
            async with db.transaction():
                await put(db, "a")
                if error:
                    raise error
        except Undo:
            pass
        equal(await state(db, "ready"), left)
    [id] = await db.fetchrow(f"SELECT id FROM xqueue.take(NULL::{TABLE})")
    try:
        async with db.transaction():
            await db.execute("SELECT xqueue.ack($1, $2::bigint)", TABLE, id)
            raise Undo
    except Undo:
        pass
    equal(await state(db, "taken"), 1)
    await db.execute("SELECT xqueue.ack($1, $2::bigint)", TABLE, id)
    await is_empty(db)


async def errors(db):
    """asyncpg: errors have their class, SQLSTATE and hint"""
    [id] = await put(db, "a")
    for error, key in [(asyncpg.NoDataFoundError, id + 1000), (asyncpg.ObjectNotInPrerequisiteStateError, id)]:
        try:
            await db.execute("SELECT xqueue.ack($1, $2::bigint)", TABLE, key)
            raise AssertionError("it did not fail")
        except error as e:
            assert e.hint, e
    await db.execute(f"SELECT xqueue.delete('{TABLE}', $1::bigint)", id)


async def waiting(db):
    """asyncpg: a waiting take is cancelled by a timeout, and its connection takes the next task"""
    other = await connect()

    async def ended():
        return (await db.fetchval("SELECT xqueue.stats($1)", TABLE))["consumers"] == 0

    try:
        await other.fetchval("SELECT xqueue.take($1, $2)", TABLE, timedelta(minutes=1), timeout=0.1)
        raise AssertionError("it did not end")
    except TimeoutError:
        await until(ended)  # asyncpg does not wait until its cancel arrives
    [id] = await put(db, "a")
    equal((await other.fetchval("SELECT xqueue.take($1)", TABLE))["id"], id)
    await other.execute("SELECT xqueue.ack($1, $2::bigint)", TABLE, id)
    await other.close()


def main():
    loop = asyncio.new_event_loop()
    wait = loop.run_until_complete
    db = wait(connect())
    wait(db.execute(f"CREATE TABLE {TABLE} (id bigserial PRIMARY KEY, url text, options jsonb)"))
    wait(db.execute(f"SELECT xqueue.upgrade('{TABLE}')"))

    def in_loop(test):
        def run_it(db):
            wait(test(db))
        run_it.__doc__ = test.__doc__
        return run_it

    tests = [json_and_rows, ids, transactions, errors, waiting]
    try:
        run([in_loop(test) for test in tests], db, lambda: wait(db.execute(f"DELETE FROM {TABLE}")))
    finally:
        wait(db.execute(f"DROP TABLE {TABLE}"))
        wait(db.close())


main()
