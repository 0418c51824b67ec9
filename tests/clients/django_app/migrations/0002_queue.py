"""The queue: xqueue.upgrade adds the columns, and Django only records them in its state."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_app", "0001_initial")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    """SELECT xqueue.upgrade('django_jobs', '{"features": {"retry": true}}')""",
                    "SELECT xqueue.downgrade('django_jobs', drop_columns => true)",
                )
            ],
            state_operations=[
                migrations.AddField("Job", "status", models.TextField(db_default="R", editable=False)),
                migrations.AddField("Job", "owner", models.UUIDField(null=True, editable=False)),
            ],
        ),
    ]
