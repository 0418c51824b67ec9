"""SQLAlchemy's ORM: a queue is a declarative model; saving puts, a SELECT from take gives entities."""

from datetime import datetime, timedelta, timezone
from typing import Optional
import uuid

from sqlalchemy import FetchedValue, Text, bindparam, create_engine, delete, func, inspect, select, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from tap import equal, run, until

TABLE = f"sqlalchemy_{uuid.uuid4().hex}"


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
    runat: Mapped[Optional[datetime]]


take = select(Job).from_statement(text(f"SELECT * FROM xqueue.take(NULL::{TABLE}, '5s')"))
take_now = select(Job).from_statement(text(f"SELECT * FROM xqueue.take(NULL::{TABLE})"))


def ack(session, id):
    return session.scalar(select(func.xqueue.ack(TABLE, id)))


def put(engine, *urls):
    with Session(engine) as session, session.begin():
        jobs = [Job(url=url) for url in urls]
        session.add_all(jobs)
        session.flush()
        return [job.id for job in jobs]


def is_empty(engine):
    with Session(engine) as session:
        equal(session.scalar(select(func.count(Job.id))), 0)


def save(engine):
    """SQLAlchemy: saving an object puts it"""
    with Session(engine) as session:
        job = Job(url="a", options={"depth": 1})
        session.add(job)
        session.commit()
        equal((job.status, job.owner, job.runat), ("R", None, None))
        taken = session.scalars(take).one()
        equal((taken.id, taken.options), (job.id, {"depth": 1}))
        ack(session, job.id)
        session.commit()
    is_empty(engine)


def save_many(engine):
    """SQLAlchemy: objects saved together are taken in their order, and one that is rolled back is no task"""
    ids = put(engine, *"abc")
    with Session(engine) as session:
        session.add(Job(url="d"))
        session.flush()
        session.rollback()
        equal([session.scalars(take).one().id for _ in ids], ids)
        equal(session.scalars(take_now).all(), [])
        equal(len(session.scalars(select(func.xqueue.ack(TABLE, ids))).all()), 3)
        session.commit()
    is_empty(engine)


def save_later(engine):
    """SQLAlchemy: an object saved with a runat waits, and is ready when it is set to R"""
    with Session(engine) as session:
        job = Job(url="a", runat=datetime.now(timezone.utc) + timedelta(hours=1))
        session.add(job)
        session.commit()
        equal(job.status, "W")
        equal(session.scalars(take_now).all(), [])
        job.status, job.runat = "R", None
        session.commit()
        equal(session.scalars(select(Job).where(Job.status == "R")).one(), job)
        equal(session.scalars(take).one(), job)
        ack(session, job.id)
        session.commit()
    is_empty(engine)


def take_entities(engine):
    """SQLAlchemy: take gives entities, and ack commits with another object"""
    [id] = put(engine, "a")
    with Session(engine) as session:
        job = session.scalars(take).one()
        assert inspect(job).persistent
        equal((job.id, job.url, job.status), (id, "a", "T"))
        equal(job.owner, session.scalar(select(func.xqueue.identify())))
        session.add(Page(job=job.id))
        equal(ack(session, job.id)["id"], id)
        session.commit()
        equal(session.scalars(select(Page.job)).all(), [id])
    is_empty(engine)


def take_then_work(engine):
    """SQLAlchemy: take, work and ack in three transactions of one connection"""
    [id] = put(engine, "a")
    with engine.connect() as connection, Session(connection) as session:
        job = session.scalars(take).one()
        session.commit()
        job.options = {"done": True}
        session.commit()
        equal(session.scalar(select(func.xqueue.peek(TABLE, id)))["options"], {"done": True})
        ack(session, id)
        session.commit()
    is_empty(engine)


def rollback(engine):
    """SQLAlchemy: a rollback undoes take and ack"""
    [id] = put(engine, "a")
    with Session(engine) as session:
        job = session.scalars(take).one()
        ack(session, job.id)
        session.rollback()
        equal((job.status, job.owner), ("R", None))
        ack(session, session.scalars(take).one().id)
        session.commit()
    is_empty(engine)


def release(engine):
    """SQLAlchemy: release with a timedelta gives an entity"""
    [id] = put(engine, "a")
    statement = text(f"SELECT * FROM xqueue.release(NULL::{TABLE}, :id, delay => :delay)")
    with Session(engine) as session:
        session.scalars(take).one()
        with_delay = statement.bindparams(bindparam("id", id), bindparam("delay", timedelta(milliseconds=50)))
        job = session.scalars(select(Job).from_statement(with_delay).execution_options(populate_existing=True)).one()
        equal((job.id, job.status), (id, "W"))
        session.commit()
        equal(session.scalars(take).one(), job)
        ack(session, id)
        session.commit()
    is_empty(engine)


def errors(engine):
    """SQLAlchemy: an error keeps SQLSTATE and hint"""
    with Session(engine) as session:
        try:
            ack(session, 1000000)
        except DBAPIError as e:
            equal(e.orig.sqlstate, "P0002")
            assert e.orig.diag.message_hint
        else:
            raise AssertionError("ack of a task that does not exist did not fail")


def pool(engine):
    """SQLAlchemy: a connection in the pool keeps its task, dispose gives it back"""
    [id] = put(engine, "a")
    other = create_engine("postgresql+psycopg://")
    with Session(other) as session, session.begin():
        session.scalars(take).one()
    with Session(engine) as session:
        equal(session.get(Job, id).status, "T")
        session.commit()
        other.dispose()
        equal(until(lambda: session.scalars(take_now).one_or_none()).id, id)
        ack(session, id)
        session.commit()
    is_empty(engine)


def sound(engine):
    """SQLAlchemy: check finds nothing wrong"""
    with Session(engine) as session:
        equal(session.scalar(select(func.xqueue.check(TABLE)))["problems"], [])


def clean_up():
    with engine.begin() as connection:
        connection.execute(delete(Job))


engine = create_engine("postgresql+psycopg://")
with engine.begin() as connection:
    connection.execute(text(
        f"CREATE TABLE {TABLE} "
        "(id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, url text NOT NULL, options jsonb)"))
    connection.execute(select(func.xqueue.upgrade(TABLE, func.jsonb('{"features": {"delayed": true}}'))))
    Page.__table__.create(connection)
try:
    run([save, save_many, save_later, take_entities, take_then_work, rollback, release, errors, pool, sound],
        engine, clean_up)
finally:
    Base.metadata.drop_all(engine)
    engine.dispose()
