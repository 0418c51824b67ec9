"""Django: a model on a queue table, its migrations, and the queue's calls inside its transactions."""

import os
import time

import django
from django.conf import settings

from tap import POOLER, Work, equal, run, until

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
from django.db import OperationalError, connection, connections, transaction

from django_app.models import Job
from psycopg.types.json import Jsonb


def value(sql, *parameters, using="default"):
    with connections[using].cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0]


def is_queue():
    return value("SELECT count(*) FROM xqueue.queues WHERE queue::text = 'django_jobs'") == 1


def migrations(_):
    """Django: migrations make the queue and unmake it, and leave nothing to migrate"""
    for target, queue in [("0001", False), ("0002", True), ("0001", False), ("0002", True)]:
        call_command("migrate", "django_app", target, verbosity=0)
        equal(is_queue(), queue)
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)


def lifecycle(_):
    """Django: save() puts, take gives models, ack deletes"""
    job = Job(url="a")
    job.save()
    job.refresh_from_db()
    equal((job.status, job.owner), ("R", None))
    [taken] = Job.take("5s")
    equal((taken.pk, taken.url, taken.status), (job.pk, "a", "T"))
    assert taken.owner
    equal(Job.take(), [])
    taken.ack()
    equal(Job.objects.count(), 0)
    Job.objects.bulk_create([Job(url="b"), Job(url="c")])
    equal([job.url for job in Job.take(count=5)], ["b", "c"])
    equal(value("SELECT xqueue.give_back()"), 2)
    for job in Job.take(count=5):
        job.ack()


def transactions(_):
    """Django: put and ack belong to atomic()"""
    for error, count in [(ValueError, 0), (None, 1)]:
        try:
            with transaction.atomic():
                Job.objects.create(url="a")
                if error:
                    raise error
        except ValueError:
            pass
        equal(value("SELECT xqueue.stats('django_jobs')->'tasks'->'ready'"), str(count))
    [job] = Job.take()
    try:
        with transaction.atomic():
            job.ack()
            raise ValueError
    except ValueError:
        pass
    equal(Job.objects.filter(status="T").count(), 1)
    job.ack()
    equal(Job.objects.count(), 0)


def partial_save(_):
    """Django: save() of one's own fields leaves the queue's alone"""
    Job.objects.create(url="a")
    [job] = Job.take()
    job.url = "b"
    job.save(update_fields=["url"])
    job.refresh_from_db()
    equal((job.url, job.status), ("b", "T"))
    job.ack()


def errors(_):
    """Django: errors keep their SQLSTATE and hint"""
    try:
        Job(pk=10).ack()
        raise AssertionError("it did not fail")
    except django.db.DatabaseError as error:
        equal(error.__cause__.sqlstate, "P0002")
        assert error.__cause__.diag.message_hint


def objects(_):
    """Django: ack takes an object as jsonb, a list, and rows of the table"""
    Job.objects.bulk_create([Job(url=url) for url in "abcd"])
    ids = [job.pk for job in Job.take(count=4)]
    value("SELECT xqueue.ack('django_jobs', %s::jsonb)", Jsonb({"id": ids[0]}))
    equal(len(Job.objects.raw("SELECT * FROM xqueue.ack(NULL::django_jobs, %s)", [ids[1:3]])), 2)
    equal(Job.objects.raw("SELECT (xqueue.ack(j)).* FROM django_jobs j WHERE id = %s", [ids[3]])[0].url, "d")
    equal(Job.objects.count(), 0)


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


def loop(_):
    """Django: a consumer's loop outlives a restart, a task taken away and failures, and gives back what it has not begun"""
    Job.objects.bulk_create([Job(url=url) for url in "abcd"])
    work = Work("django_jobs")
    consume(work)
    equal(work.urls, work.expected)
    equal(value(work.query_left), work.left)
    Job.objects.all().delete()


def one_transaction(_):
    """Django: through PgBouncer, take, work and ack in one transaction"""
    for _ in range(8):
        with transaction.atomic("pgbouncer"):
            Job.objects.using("pgbouncer").create(url="a")
        with transaction.atomic("pgbouncer"):
            [job] = Job.take("5s", using="pgbouncer")
            job.ack()
    equal(Job.objects.count(), 0)


def identified(_):
    """Django: through PgBouncer, an identified session takes and acks in two transactions"""
    Job.objects.create(url="a")
    session = value("SELECT xqueue.identify(grace => '1 min', local => true)", using="pgbouncer")
    with transaction.atomic("pgbouncer"):
        value("SELECT xqueue.identify(%s, local => true)", session, using="pgbouncer")
        [job] = Job.take("5s", using="pgbouncer")
    with transaction.atomic("pgbouncer"):
        value("SELECT xqueue.identify(%s, local => true)", session, using="pgbouncer")
        job.ack()
    equal(Job.objects.count(), 0)
    value("DELETE FROM xqueue.session WHERE uuid = %s RETURNING 1", session)


try:
    run([migrations, lifecycle, transactions, partial_save, errors, objects, loop, one_transaction, identified],
        None, lambda: Job.objects.all().delete())
finally:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS django_jobs, django_migrations")
