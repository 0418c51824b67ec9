"""The model: columns of the application, and those of the queue, which only the queue changes."""

from typing import Optional
import uuid

from sqlalchemy import FetchedValue, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column


class Base(DeclarativeBase):
    pass


class Job(Base):
    __tablename__ = "alembic_jobs"

    id: Mapped[int] = mapped_column(primary_key=True)
    url: Mapped[str] = mapped_column(Text)
    status: Mapped[str] = mapped_column(Text, server_default=FetchedValue())
    owner: Mapped[Optional[uuid.UUID]]
