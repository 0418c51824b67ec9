"""psycopg 3: parameters with and without types, errors, transactions, pipeline mode, waiting."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
import uuid

import psycopg
from psycopg import errors
from psycopg.rows import class_row, dict_row, scalar_row
from psycopg.types.json import Json, Jsonb

from tap import equal, run, until

TABLE = "psycopg_jobs"


def connect(**options):
    return psycopg.connect("", autocommit=True, row_factory=scalar_row, **options)


def put(db, *urls):
    """The ids of new tasks."""
    return [db.execute("SELECT xqueue.put(%s, %s)", (TABLE, Jsonb({"url": url}))).fetchone()["id"] for url in urls]


def take(db, count=1):
    return db.execute("SELECT xqueue.take(%s, count => %s)", (TABLE, count)).fetchall()


def tasks(db, state):
    return db.execute("SELECT xqueue.stats(%s)", (TABLE,)).fetchone()["tasks"][state]


def is_empty(db):
    until(lambda: tasks(db, "total") == 0)
    equal(db.execute(f"SELECT count(*) FROM {TABLE}").fetchone(), 0)


def put_json(db):
    """psycopg: put takes a dict as Jsonb, as Json with a cast, and a list"""
    equal(db.execute(f"SELECT xqueue.put('{TABLE}', %s)", (Jsonb({"url": "a"}),)).fetchone()["status"], "R")
    row = db.cursor(row_factory=dict_row).execute(
        f"SELECT * FROM xqueue.put(NULL::{TABLE}, %s::jsonb)", (Json({"url": "b"}),)).fetchone()
    equal((row["url"], row["status"], row["owner"]), ("b", "R", None))
    batch = db.execute("SELECT xqueue.put(%s, %s)", (TABLE, Jsonb([{"url": "c"}, {"url": "d"}]))).fetchall()
    equal(sorted(task["url"] for task in batch), ["c", "d"])
    db.execute("SELECT xqueue.ack(%s, %s)", (TABLE, [task["id"] for task in take(db, 10)]))
    is_empty(db)


def take_parameters(db):
    """psycopg: take's timeout and count as text, timedelta and int, as row and as jsonb"""
    ids = put(db, *"abc")
    rows = db.cursor(row_factory=dict_row)
    equal(rows.execute(f"SELECT * FROM xqueue.take(NULL::{TABLE}, %s)", ("5s",)).fetchone()["id"], ids[0])
    equal(db.execute(f"SELECT id FROM xqueue.take(NULL::{TABLE}, %s, %s)", (timedelta(seconds=5), 1)).fetchall(), ids[1:2])
    task = db.execute("SELECT xqueue.take(%s, %s, %s)", (TABLE, "0", 5)).fetchone()
    equal((task["id"], task["status"]), (ids[2], "T"))
    equal(uuid.UUID(task["owner"]), db.execute("SELECT xqueue.identify()").fetchone())
    equal(db.execute("SELECT xqueue.take(%s, %s)", (TABLE, timedelta(milliseconds=1))).fetchall(), [])
    db.execute("SELECT xqueue.ack(%s, %s)", (TABLE, ids))
    is_empty(db)


def ack_parameters(db):
    """psycopg: ack of an int, a str, a list, an object and a row"""
    ids = put(db, *"abcdefg")
    equal(len(take(db, 7)), 7)
    ack = "SELECT xqueue.ack(%s, %s)"
    for key, acked in [(ids[0], ids[:1]), (str(ids[1]), ids[1:2]), (ids[2:4], ids[2:4]), ("{%d}" % ids[4], ids[4:5]),
                       (Jsonb({"id": ids[5]}), ids[5:6])]:
        equal(sorted(task["id"] for task in db.execute(ack, (TABLE, key)).fetchall()), acked)
    equal(db.execute(f"SELECT (xqueue.ack(t)).id FROM {TABLE} t WHERE id = %s", (ids[6],)).fetchone(), ids[6])
    is_empty(db)


def fails(db, error, statement, *parameters):
    """Returns the expected error, which must be of this class."""
    try:
        db.execute(statement, parameters)
    except psycopg.Error as e:
        assert type(e) is error, f"expected {error}, got {type(e)}: {e}"
        return e
    raise AssertionError(f"{statement} did not fail")


def error_classes(db):
    """psycopg: errors have their class, SQLSTATE and hint"""
    [id] = put(db, "a")
    ack = f"SELECT xqueue.ack('{TABLE}', %s)"
    for error, statement, parameter in [
        (errors.NoDataFound, ack, id + 1000),
        (errors.ObjectNotInPrerequisiteState, ack, id),
        (errors.NullValueNotAllowed, ack, None),
        (errors.InvalidTextRepresentation, ack, "one"),
        (errors.UndefinedColumn, f"SELECT xqueue.put('{TABLE}', %s)", Jsonb({"nothing": 1})),
        (errors.InvalidParameterValue, f"SELECT xqueue.take('{TABLE}', %s)", timedelta(seconds=-1)),
        (errors.UndefinedTable, "SELECT xqueue.take(%s)", f"{TABLE}_not"),
    ]:
        e = fails(db, error, statement, parameter)
        equal(e.sqlstate, error.sqlstate)
        assert e.diag.message_hint, f"{e} has no hint"
    take(db)
    with connect() as other:
        e = fails(other, errors.ObjectInUse, ack, id)
        assert str(db.info.backend_pid) in e.diag.message_primary, e
        assert e.diag.message_hint
    db.execute(ack, (id,))
    is_empty(db)


def transaction(db):
    """psycopg: put belongs to the transaction; ack and an INSERT commit and roll back together"""
    db.execute("CREATE TEMP TABLE pages (job bigint PRIMARY KEY)")
    for force_rollback in (True, False):
        with db.transaction(force_rollback=force_rollback):
            [id] = put(db, "a")
        equal(db.execute(f"SELECT count(*) FROM {TABLE}").fetchone(), 0 if force_rollback else 1)
    take(db)
    for force_rollback in (True, False):
        with db.transaction(force_rollback=force_rollback):
            db.execute("INSERT INTO pages VALUES (%s)", (id,))
            db.execute("SELECT xqueue.ack(%s, %s)", (TABLE, id))
        count = 0 if force_rollback else 1
        equal(db.execute("SELECT count(*) FROM pages").fetchone(), count)
        equal(db.execute("SELECT count(*) FROM xqueue.peek(%s, %s)", (TABLE, id)).fetchone(), 1 - count)
    is_empty(db)


def implicit_transaction(db):
    """psycopg: without autocommit, rollback gives a taken task back and commit acks it"""
    [id] = put(db, "a")
    with psycopg.connect("", row_factory=scalar_row) as other:
        equal(take(other)[0]["id"], id)
        equal(take(db), [])
        other.rollback()
        equal(db.execute("SELECT xqueue.take(%s, %s)->>'id'", (TABLE, "20s")).fetchone(), str(id))
        db.execute("SELECT xqueue.release(%s, %s)", (TABLE, id))
        take(other)
        with other.transaction(force_rollback=True):  # a savepoint
            other.execute("SELECT xqueue.ack(%s, %s)", (TABLE, id))
        other.execute("SELECT xqueue.ack(%s, %s)", (TABLE, id))
        other.commit()
    is_empty(db)


def pipeline(db):
    """psycopg: put, take and ack in one pipeline, and after one that failed"""
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
        pass
    else:
        raise AssertionError("ack of a task that is gone did not fail")
    is_empty(db)


def prepared(db):
    """psycopg: prepared statements, binary results, client-side binding and executemany"""
    for cursor in (db.cursor(binary=True), psycopg.ClientCursor(db), psycopg.RawCursor(db)):
        cursor.row_factory = scalar_row
        raw = isinstance(cursor, psycopg.RawCursor)
        mark = (lambda n: f"${n}") if raw else (lambda n: "%s")
        for _ in range(8):  # psycopg prepares it after five executions; later PostgreSQL plans it once
            cursor.execute(f"SELECT xqueue.put({mark(1)}, {mark(2)})", (TABLE, Jsonb({"url": "a"})))
            cursor.execute(f"SELECT id FROM xqueue.take(NULL::{TABLE}, {mark(1)})", (timedelta(seconds=5),))
            id = cursor.fetchone()
            cursor.execute(f"SELECT xqueue.ack({mark(1)}, {mark(2)})", (TABLE, id))
            equal(cursor.fetchone()["id"], id)
    with db.cursor() as cursor:
        cursor.executemany("SELECT xqueue.put(%s, %s)", [(TABLE, Jsonb({"url": str(n)})) for n in range(10)])
    ids = [task["id"] for task in take(db, 20)]
    equal(len(ids), 10)
    with db.cursor() as cursor:
        cursor.executemany("SELECT xqueue.ack(%s, %s)", [(TABLE, id) for id in ids])
    is_empty(db)


def copy(db):
    """psycopg: COPY and INSERT make tasks, a row factory makes objects, a server-side cursor takes"""
    with db.cursor().copy(f"COPY {TABLE} (url) FROM STDIN") as rows:
        for url in "ab":
            rows.write_row((url,))
    db.execute(f"INSERT INTO {TABLE} (url) VALUES (%s)", ("c",))

    class Job:
        def __init__(self, **columns):
            self.__dict__.update(columns)

    job = db.cursor(row_factory=class_row(Job)).execute(f"SELECT * FROM xqueue.take(NULL::{TABLE})").fetchone()
    equal((job.url, job.status), ("a", "T"))
    with db.transaction(), db.cursor("taker") as cursor:
        cursor.execute("SELECT xqueue.take(%s, %s, %s)", (TABLE, timedelta(0), 2))
        equal([task["url"] for task in cursor], ["b", "c"])
    db.execute(f"SELECT xqueue.ack(t) FROM {TABLE} t")
    is_empty(db)


def waiting(db):
    """psycopg: a blocked take is woken by a put, and ended by cancel()"""
    with connect() as other, ThreadPoolExecutor() as threads:
        def blocked():
            task = threads.submit(
                lambda: other.execute("SELECT xqueue.take(%s, %s)", (TABLE, timedelta(minutes=1))).fetchone())
            until(lambda: db.execute("SELECT xqueue.stats(%s)", (TABLE,)).fetchone()["consumers"] == 1)
            return task

        task = blocked()
        [id] = put(db, "a")
        equal(task.result(20)["id"], id)
        other.execute("SELECT xqueue.ack(%s, %s)", (TABLE, id))
        task = blocked()
        other.cancel_safe()
        assert type(task.exception(20)) is errors.QueryCanceled
    is_empty(db)


def next_(db):
    """psycopg: CALL xqueue.next with autocommit, and its error without"""
    a, b = put(db, "a", "b")
    task = db.execute("CALL xqueue.next(%s, %s)", (TABLE, "5s")).fetchone()
    equal(task["id"], a)
    task = db.execute("CALL xqueue.next(%s, %s, task => %s)", (TABLE, timedelta(seconds=5), Jsonb(task))).fetchone()
    equal(task["id"], b)
    equal(db.execute("CALL xqueue.next(%s, %s, task => %s)", (TABLE, timedelta(0), Jsonb(task))).fetchone(), None)
    with psycopg.connect("") as other:
        other.execute("SELECT 1")
        e = fails(other, errors.InvalidTransactionTermination, "CALL xqueue.next(%s, %s)", TABLE, "0")
        assert e.diag.message_hint
    is_empty(db)


with connect() as db:
    db.execute(f"CREATE TABLE {TABLE} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, url text NOT NULL)")
    try:
        db.execute("SELECT xqueue.upgrade(%s)", (TABLE,))
        run([put_json, take_parameters, ack_parameters, error_classes, transaction, implicit_transaction, pipeline, prepared, copy,
             waiting, next_],
            db, lambda: db.execute(f"DELETE FROM {TABLE}"))
    finally:
        db.execute(f"DROP TABLE {TABLE}")
