"""SQLAlchemy's ORM: a queue is a declarative model; saving puts, a SELECT from take gives entities."""

import time
from typing import Optional
import uuid

from sqlalchemy import FetchedValue, Text, cast, create_engine, func, inspect, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import NullPool

from client import POOLER, Work, run
from tap import equal

TABLE = "sqlalchemy_jobs"


class Base(DeclarativeBase):
    pass


class Page(Base):
    __tablename__ = f"{TABLE}_pages"
    id: Mapped[int] = mapped_column(primary_key=True)
    job: Mapped[int]


class Job(Base):
    __tablename__ = TABLE
    id: Mapped[int] = mapped_column(primary_key=True)
    url: Mapped[str]
    options: Mapped[Optional[dict]] = mapped_column(JSONB)
    status: Mapped[str] = mapped_column(Text, server_default=FetchedValue())
    owner: Mapped[Optional[uuid.UUID]]


take = select(Job).from_statement(text("SELECT * FROM xqueue.take(NULL::sqlalchemy_jobs, '5s')"))
take_batch = select(Job).from_statement(text("SELECT * FROM xqueue.take(NULL::sqlalchemy_jobs, '5s', 10)"))


def ack(session, id):
    return session.scalar(select(func.xqueue.ack(TABLE, id)))


def put(engine, *urls):
    """The ids of new tasks."""
    with Session(engine) as session, session.begin():
        jobs = [Job(url=url) for url in urls]
        session.add_all(jobs)
        session.flush()
        return [job.id for job in jobs]


def save():
    """saving an object puts it, and a rollback does not"""
    with Session(engine) as session:
        job = Job(url="a", options={"depth": 1})
        session.add(job)
        session.commit()
        equal((job.status, job.owner), ("R", None))
        session.add(Job(url="b"))
        session.flush()
        session.rollback()
        [taken] = session.scalars(take_batch).all()
        equal((taken.id, taken.options), (job.id, {"depth": 1}))
        ack(session, job.id)
        session.commit()


def take_entities():
    """take gives entities; ack commits with another object, and a rollback undoes take and ack"""
    [id] = put(engine, "a")
    with Session(engine) as session:
        job = session.scalars(take).one()
        assert inspect(job).persistent
        equal((job.id, job.url, job.status), (id, "a", "T"))
        equal(job.owner, session.scalar(select(func.xqueue.identify())))
        ack(session, id)
        session.rollback()
        equal((job.status, job.owner), ("R", None))
        equal(session.scalars(take).one().id, id)
        session.add(Page(job=id))
        equal(ack(session, id)["id"], id)
        session.commit()
        equal(session.scalars(select(Page.job)).all(), [id])


def errors():
    """an error keeps SQLSTATE and hint"""
    with Session(engine) as session:
        try:
            ack(session, 1000000)
        except DBAPIError as e:
            equal(e.orig.sqlstate, "P0002")
            assert e.orig.diag.message_hint
        else:
            raise AssertionError("ack of a task that does not exist did not fail")


def objects():
    """put takes a dict as jsonb; ack takes the entity's row, and an object as jsonb"""
    ids = put(engine, "a")
    with Session(engine) as session, session.begin():
        ids.append(session.scalar(select(func.xqueue.put(TABLE, cast({"url": "b"}, JSONB))))["id"])
        session.scalars(take_batch).all()
        equal(session.scalars(select(Job).from_statement(
            text("SELECT (xqueue.ack(j)).* FROM sqlalchemy_jobs j WHERE id = :id").bindparams(id=ids[0]))).one().url, "a")
        equal(session.scalar(select(func.xqueue.ack(TABLE, cast({"id": ids[1]}, JSONB))))["url"], "b")


def consume(engine, work):
    while not work.stopped:
        try:
            # One connection, because tasks belong to it; pool_pre_ping replaces it after a restart.
            with engine.connect() as connection, Session(connection) as session:
                take_tasks(session, work)
        except OperationalError:
            time.sleep(0.2)  # the server restarts, or ended the connection: its tasks are ready again


# No row if the task was taken away meanwhile.
release_own = text("SELECT xqueue.release('sqlalchemy_jobs', :id, error => :error, if_held => true)")


def take_tasks(session, work):
    while not work.stopped:
        jobs = session.scalars(take_batch, execution_options={"populate_existing": True}).all()
        session.commit()
        for id, url in [(job.id, job.url) for job in jobs]:
            if work.stopped:
                break
            try:
                work(url)
                session.add(Page(job=id))
                ack(session, id)
                session.commit()
            except Exception as error:
                session.rollback()
                is_released = session.execute(release_own, {"id": id, "error": str(error)}).first()
                session.commit()
                if not is_released:
                    break  # the others can be lost too, with the connection: SQLAlchemy has reconnected
        # Unstarted tasks are ready again immediately; the connection would keep them in the pool.
        session.execute(select(func.xqueue.give_back()))
        session.commit()


def loop():
    """a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun"""
    work = Work(TABLE)
    with Session(engine) as session:
        ids = session.scalars(select(Job.id).order_by(Job.id)).all()
    consume(engine, work)
    with Session(engine) as session:
        equal(session.scalars(select(Page.job).where(Page.job.in_(ids))).all(), [ids[2]])
    work("end")


def through_pgbouncer():
    # PgBouncer is the pool. Before 1.21 it does not know prepared statements.
    return create_engine(
        "postgresql+psycopg://", poolclass=NullPool, connect_args={"prepare_threshold": None, **POOLER})


def pgbouncer():
    """through PgBouncer, take and ack in one transaction"""
    pooled = through_pgbouncer()
    put(pooled, *"abcdefgh")
    for url in "abcdefgh":  # enough repetitions for psycopg to prepare the statement
        with Session(pooled) as session, session.begin():
            job = session.scalars(take).one()
            equal(job.url, url)
            ack(session, job.id)


engine = create_engine("postgresql+psycopg://", pool_pre_ping=True)
with engine.begin() as connection:
    Page.__table__.create(connection)
try:
    run(save, take_entities, errors, objects, loop, pgbouncer, table=TABLE)
finally:
    Page.__table__.drop(engine)
    engine.dispose()
