"""A Django application with a model whose table is a queue."""
