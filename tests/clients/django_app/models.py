"""The model: fields of the application, and those of the queue, which only the queue changes."""

from django.db import connections, models


class Job(models.Model):
    url = models.TextField()
    status = models.TextField(db_default="R", editable=False)
    owner = models.UUIDField(null=True, editable=False)

    class Meta:
        db_table = "django_jobs"

    @classmethod
    def take(cls, timeout="0", count=1, using="default"):
        take = "SELECT * FROM xqueue.take(NULL::django_jobs, %s::interval, %s)"
        return list(cls.objects.using(using).raw(take, [timeout, count]))

    def ack(self):
        # On the connection that has taken it.
        with connections[self._state.db or "default"].cursor() as cursor:
            cursor.execute("SELECT xqueue.ack('django_jobs', %s)", [self.pk])

    def release(self, error):
        # Gives 0 if the task was taken away meanwhile.
        with connections[self._state.db or "default"].cursor() as cursor:
            cursor.execute("SELECT xqueue.release('django_jobs', %s, error => %s, if_held => true)",
                           [self.pk, str(error)])
            return cursor.rowcount
