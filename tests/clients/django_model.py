"""Django: a model on a queue table, its migrations, and the queue's calls inside its transactions."""

import os

import django
from django.conf import settings

from tap import equal, run, until

settings.configure(
    INSTALLED_APPS=["django_app"],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    DATABASES={"default": {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": os.environ["PGDATABASE"],
        "HOST": os.environ["PGHOST"],
        "PORT": os.environ["PGPORT"],
        "USER": os.environ["PGUSER"],
    }},
)
django.setup()

from django.core.management import call_command
from django.db import connection, connections, transaction

from django_app.models import Job


def value(sql, *parameters):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0]


def ack(job):
    with connection.cursor() as cursor:
        cursor.execute("SELECT xqueue.ack('django_jobs', %s)", [job.pk])


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
    ack(taken)
    equal(Job.objects.count(), 0)
    Job.objects.bulk_create([Job(url="b"), Job(url="c")])
    equal([job.url for job in Job.take(count=5)], ["b", "c"])
    equal(value("SELECT xqueue.give_back()"), 2)
    for job in Job.take(count=5):
        ack(job)


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
            ack(job)
            raise ValueError
    except ValueError:
        pass
    equal(Job.objects.filter(status="T").count(), 1)
    ack(job)
    equal(Job.objects.count(), 0)


def partial_save(_):
    """Django: save() of one's own fields leaves the queue's alone"""
    Job.objects.create(url="a")
    [job] = Job.take()
    job.url = "b"
    job.save(update_fields=["url"])
    job.refresh_from_db()
    equal((job.url, job.status), ("b", "T"))
    ack(job)


def errors(_):
    """Django: errors keep their SQLSTATE and hint"""
    try:
        ack(Job(pk=10))
        raise AssertionError("it did not fail")
    except django.db.DatabaseError as error:
        equal(error.__cause__.sqlstate, "P0002")
        assert error.__cause__.diag.message_hint


def lost_consumer(_):
    """Django: close() of a connection gives its tasks back"""
    Job.objects.create(url="a")
    other = connections.create_connection("default")
    with other.cursor() as cursor:
        cursor.execute("SELECT xqueue.take('django_jobs')")
    equal(Job.objects.filter(status="T").count(), 1)
    other.close()
    until(lambda: Job.objects.filter(status="R").count() == 1)
    [job] = Job.take()
    ack(job)


try:
    run([migrations, lifecycle, transactions, partial_save, errors, lost_consumer], None, lambda: Job.objects.all().delete())
finally:
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS django_jobs, django_migrations")
