"""The queue."""

from alembic import op

revision, down_revision = "0002", "0001"


def upgrade():
    op.execute("SELECT xqueue.upgrade('alembic_jobs')")


def downgrade():
    op.execute("SELECT xqueue.downgrade('alembic_jobs', drop_columns => true)")
