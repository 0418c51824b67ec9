"""Alembic: migrations that turn a table into a queue and back, and autogenerate, which finds no difference."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, text

from alembic_app.models import Base
from client import run
from tap import equal

URL = "postgresql+psycopg://"
config = Config()
config.set_main_option("script_location", str(Path(__file__).parent / "alembic_app"))
config.set_main_option("sqlalchemy.url", URL)
engine = create_engine(URL)


def is_queue():
    with engine.connect() as connection:
        return connection.scalar(text("SELECT count(*) FROM xqueue.queues WHERE queue::text = 'alembic_jobs'")) == 1


def round_trip():
    """migrations make the queue and unmake it"""
    for move, target, queue in [(command.upgrade, "0001", False), (command.upgrade, "0002", True),
                                (command.downgrade, "0001", False), (command.upgrade, "head", True)]:
        move(config, target)
        equal(is_queue(), queue)


def no_drift():
    """autogenerate finds no difference between the models and the queue"""
    command.check(config)


try:
    run(round_trip, no_drift)
finally:
    Base.metadata.drop_all(engine)
    with engine.begin() as connection:
        connection.execute(text("DROP TABLE IF EXISTS alembic_jobs_version"))
    engine.dispose()
