"""The table, as for any model."""

from alembic import op
import sqlalchemy as sa

revision, down_revision = "0001", None


def upgrade():
    op.create_table("alembic_jobs", sa.Column("id", sa.Integer, primary_key=True), sa.Column("url", sa.Text, nullable=False))


def downgrade():
    op.drop_table("alembic_jobs")
