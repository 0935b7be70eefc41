"""batchq for Python: a durable job queue that lives inside PostgreSQL."""

__version__ = "0.1.0"
