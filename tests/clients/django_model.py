"""Django: a model on a queue table, its migrations, and the queue's calls inside its transactions."""

import os
import time

import django
from django.conf import settings

from client import POOLER, Work, run
from tap import equal

server = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": os.environ["PGDATABASE"],
    "HOST": os.environ["PGHOST"],
    "PORT": os.environ["PGPORT"],
    "USER": os.environ["PGUSER"],
}
pgbouncer = {
    **server,
    "HOST": POOLER["host"],
    "PORT": POOLER["port"],
    "DISABLE_SERVER_SIDE_CURSORS": True,
    # Django's default, which PgBouncer before 1.21 needs: psycopg prepares no statements.
    "OPTIONS": {"prepare_threshold": None},
}
settings.configure(
    INSTALLED_APPS=["django_app"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={"default": server, "pgbouncer": pgbouncer},
)
django.setup()

from django.core.management import call_command
from django.db import OperationalError, connection, transaction

from django_app.models import Job
from psycopg.types.json import Jsonb


def value(sql, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0]


def migrations():
    """migrations make the queue and unmake it, and leave nothing to migrate"""
    for target, queues in [("0001", 0), ("0002", 1), ("0001", 0), ("0002", 1)]:
        call_command("migrate", "django_app", target, verbosity=0)
        equal(value("SELECT count(*) FROM xqueue.queues WHERE queue::text = 'django_jobs'"), queues)
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def lifecycle():
    """save() puts, take gives models, save() of one's own fields leaves the queue's alone, ack deletes"""
    job = Job(url="a")
    job.save()
    job.refresh_from_db()
    equal((job.status, job.owner), ("R", None))
    [taken] = Job.take("5s")
    equal((taken.pk, taken.url, taken.status), (job.pk, "a", "T"))
    assert taken.owner
    equal(Job.take(), [])
    taken.url = "b"
    taken.save(update_fields=["url"])
    taken.refresh_from_db()
    equal((taken.url, taken.status), ("b", "T"))
    taken.ack()


def errors():
    """errors keep their SQLSTATE and hint"""
    try:
        Job(pk=10).ack()
        raise AssertionError("it did not fail")
    except django.db.DatabaseError as error:
        equal(error.__cause__.sqlstate, "P0002")
        assert error.__cause__.diag.message_hint


def objects():
    """bulk_create puts; ack takes an object as jsonb, a list, and rows of the table"""
    Job.objects.bulk_create([Job(url=url) for url in "abcd"])
    jobs = Job.take(count=5)
    equal([job.url for job in jobs], ["a", "b", "c", "d"])
    ids = [job.pk for job in jobs]
    value("SELECT xqueue.ack('django_jobs', %s::jsonb)", Jsonb({"id": ids[0]}))
    equal(len(Job.objects.raw("SELECT * FROM xqueue.ack(NULL::django_jobs, %s)", [ids[1:3]])), 2)
    equal(Job.objects.raw("SELECT (xqueue.ack(j)).* FROM django_jobs j WHERE id = %s", [ids[3]])[0].url, "d")


def consume(work):
    while not work.stopped:
        try:
            take_tasks(work)
        except OperationalError:
            # The server restarts, or ended the connection: its tasks are ready again. The next query connects again.
            connection.close()
            time.sleep(0.2)


def take_tasks(work):
    while not work.stopped:
        for job in Job.take("5s", count=10):
            if work.stopped:
                break
            try:
                work(job.url)
                with transaction.atomic():  # this transaction writes the results too
                    job.ack()
            except Exception as error:
                if not job.release(error):
                    break  # the others can be lost too, with the connection: Django has reconnected
        # Unstarted tasks are ready again immediately, and use up no attempt.
        value("SELECT xqueue.give_back()")


def loop():
    """a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun"""
    work = Work("django_jobs")
    consume(work)
    work("end")


def through_pgbouncer():
    """through PgBouncer, take and ack in one transaction"""
    for _ in range(8):
        Job.objects.using("pgbouncer").create(url="a")
        with transaction.atomic("pgbouncer"):
            [job] = Job.take("5s", using="pgbouncer")
            job.ack()


try:
    run(migrations, lifecycle, errors, objects, loop, through_pgbouncer, table="django_jobs")
finally:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS django_jobs, django_migrations")
