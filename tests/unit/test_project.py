"""What the project promises about itself."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OTHER_SERVERS = {"redis", "valkey", "pika", "amqp", "aio-pika", "kombu", "celery", "kafka", "nats"}


def test_a05_nothing_but_postgresql_is_needed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = list(project["dependencies"])
    for extra in project["optional-dependencies"].values():
        wanted += extra
    names = {re.split(r"[^\w-]", line.lower(), maxsplit=1)[0] for line in wanted}
    assert "psycopg" in names
    assert not [n for n in names if any(other in n for other in OTHER_SERVERS)]


def test_the_top_level_stays_small() -> None:
    allowed = {
        ".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "Dockerfile", "LICENSE",
        "Makefile", "README.md", "bench", "compose.yaml", "docs", "examples", "pybatchq",
        "pyproject.toml", "sql", "tests",
    }  # fmt: skip
    ours = {p.name for p in ROOT.iterdir() if p.name in allowed or not p.name.startswith(".")}
    made = {p for p in ours if p.endswith(".egg-info") or p in {"build", "dist", "__pycache__"}}
    assert ours - made <= allowed
