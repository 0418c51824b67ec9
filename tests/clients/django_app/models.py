"""The model: fields of the application, and those of the queue, which only the queue changes."""

from django.db import models


class Job(models.Model):
    url = models.TextField()
    status = models.TextField(db_default="R", editable=False)
    owner = models.UUIDField(null=True, editable=False)

    class Meta:
        db_table = "django_jobs"

    @classmethod
    def take(cls, timeout="0", count=1):
        return list(cls.objects.raw("SELECT * FROM xqueue.take(NULL::django_jobs, %s::interval, %s)", [timeout, count]))
