"""The benchmark of batchq: see README.md in this folder."""
