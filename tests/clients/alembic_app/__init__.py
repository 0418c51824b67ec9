"""Migrations of a table that is a queue, with Alembic."""
