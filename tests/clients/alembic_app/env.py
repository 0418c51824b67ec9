"""Alembic's environment. The queue's indexes are no part of the models: without include_object, autogenerate tries to drop them."""

from alembic import context
from sqlalchemy import create_engine

from alembic_app.models import Base


def include_object(item, name, kind, reflected, compare_to):
    return not (kind == "index" and name.startswith("xqueue_"))


def include_name(name, kind, parents):
    # Other objects of the database belong to other applications.
    return kind != "table" or name in Base.metadata.tables


engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
with engine.connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        version_table="alembic_jobs_version",
        include_object=include_object,
        include_name=include_name,
    )
    with context.begin_transaction():
        context.run_migrations()
engine.dispose()
