"""What docs/deploy.md shows: parsed, linted, and run where it can be run here."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo
from ruamel.yaml import YAML

from pybatchq import service
from pybatchq.cli import main
from pybatchq.handlers import Registry
from pybatchq.settings import Settings
from pybatchq.testing import drain
from tests.support.api import serving
from tests.support.console import add, dead, install_command, process, query
from tests.support.image import image_environment, stages
from tests.support.processes import ROOT, environment
from tests.support.servers import Databases
from tests.support.tools import promtool, tool, variables_read
from tests.support.working import ended, working

PAGE = (ROOT / "docs" / "deploy.md").read_text()
GRACE_S = Settings.from_env({}).grace_s
ROLE = "batchq_test_"  # the page's app_ may be somebody's on a server that is not ours
STATUSES = "select status, count(*) from batchq.jobs group by 1 order by 1"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def block(language: str, within: str) -> str:
    """The one block of a language that holds this text."""
    (found,) = [text for text in blocks(language) if within in text]
    return found


def manifests() -> list[dict[str, Any]]:
    return list(YAML(typ="safe").load_all(block("yaml", "apiVersion")))


def test_every_variable_and_command_of_the_page_is_there() -> None:
    assert set(re.findall(r"BATCHQ_[A-Z_]+", PAGE)) <= variables_read()
    named = set(re.findall(r"(?:^|\bbin/|`|-- )batchq ([a-z][a-z-]+)", PAGE, re.MULTILINE))
    assert {"install", "worker", "api", "version"} <= named
    assert named <= set(main.commands)


@pytest.mark.parametrize("text", blocks("sh"))
def test_shell_blocks_are_shell(text: str) -> None:
    subprocess.run(["sh", "-n", "-c", text], check=True)


def test_an_image_on_top_is_sound(tmp_path: Path) -> None:
    text = block("dockerfile", "FROM batchq")
    (tmp_path / "Dockerfile").write_text(text)
    done = subprocess.run(
        [tool("hadolint"), "Dockerfile"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    (copied,) = stages(text)[0].all("COPY")
    assert copied.split()[-1].rstrip("/") == stages()[-1].one("WORKDIR")


def test_the_unit_is_one(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    text = block("ini", "[Service]").replace("/opt/batchq/bin/batchq", "/bin/true")
    unit = tmp_path / "batchq-worker@1.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )
    # what it does not know it ignores, and says so
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_knows_the_grace_and_the_exit_codes() -> None:
    unit = ConfigParser(interpolation=None)
    unit.read_string(block("ini", "[Service]"))
    service_section = unit["Service"]
    assert float(service_section["TimeoutStopSec"]) >= GRACE_S + 5
    codes = [service.EXIT_CODES["cut short"], service.EXIT_CODES["left behind"]]
    assert service_section["SuccessExitStatus"] == " ".join(map(str, codes))


def test_the_pooler_pools_transactions() -> None:
    pooler = ConfigParser()
    pooler.read_string(block("ini", "[pgbouncer]"))
    assert pooler["pgbouncer"]["pool_mode"] == "transaction"


def test_kubernetes_stops_and_probes_as_the_image_does() -> None:
    install, worker = (one["spec"]["template"]["spec"] for one in manifests())
    for pod in (install, worker):
        ((command,),) = (one["args"] for one in pod["containers"])
        assert command in main.commands
    assert worker["terminationGracePeriodSeconds"] >= GRACE_S + 5
    (container,) = worker["containers"]
    (port,) = container["ports"]
    assert port["containerPort"] == int(image_environment()["BATCHQ_HEALTH_PORT"])
    paths = [container[f"{kind}Probe"]["httpGet"]["path"] for kind in ("liveness", "readiness")]
    assert paths == ["/health", "/ready"]
    labels = manifests()[1]["spec"]["template"]["metadata"]["labels"]
    assert manifests()[1]["spec"]["selector"]["matchLabels"] == labels


def test_prometheus_takes_its_settings(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docs" / "alerts.yml", tmp_path)
    (tmp_path / "prometheus.yml").write_text(block("yaml", "scrape_configs"))
    promtool("check", "config", "prometheus.yml", cwd=tmp_path)


@pytest.fixture
def roles(db: str) -> Iterator[None]:
    """The page's roles, by other names, gone at the end."""
    statements = block("sql", "create role").replace("app_", ROLE)
    names = re.findall(r"create role (\w+)", statements)
    with psycopg.connect(db, autocommit=True) as conn:
        conn.execute(statements.encode())
        yield
        for name in names:
            conn.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def acting(dsn: str, role: str) -> str:
    """A session of ours that has this role's rights."""
    return make_conninfo(dsn, options=f"-c role={ROLE}{role}")


def test_a_producer_and_an_operator_need_no_more(db: str, roles: None) -> None:
    with psycopg.connect(acting(db, "web"), autocommit=True) as web:
        web.execute("select batchq.enqueue('k')")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            web.execute("select batchq.lease()")
    dead(db, queue="mail")
    done = process("redrive", "--all", "--yes", dsn=acting(db, "ops"))
    assert done.returncode == 0, done.stderr
    assert query(db, STATUSES) == [("pending", 2)]


async def test_a_worker_and_an_api_need_no_more(db: str, roles: None) -> None:
    registry = Registry()
    registry.handler("k")(handle)
    async with serving(acting(db, "api")) as api, working(acting(db, "worker"), registry):
        assert (await api.get("/ready")).status == 200
        job_id = await api.enqueue("k")
        async with await psycopg.AsyncConnection.connect(db, autocommit=True) as conn:
            await ended(conn, job_id)
        assert (
            await api.post(f"/jobs/{await api.enqueue('k', queue='idle')}/cancel")
        ).status == 200
        assert (await api.get("/metrics")).status == 200


async def handle(payload: Any) -> None:
    pass


def test_a76_the_commands_for_a_backup_bring_every_job_back(
    server: Databases, db: str, tmp_path: Path
) -> None:
    add(db, n=3)
    add(db, n=2, delay=3600)
    dead(db)
    path = f"{install_command(tmp_path)}:{server.bin_dir}:{os.environ['PATH']}"
    with server.fresh() as restored:
        env = environment(db, PATH=path, RESTORED_URL=restored, PYTHONPATH=str(ROOT))
        done = subprocess.run(
            ["sh", "-ec", block("sh", "pg_dump")],
            cwd=tmp_path, env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert query(restored, STATUSES) == query(db, STATUSES)
        registry = Registry()
        registry.handler("k")(handle)
        asyncio.run(drain(restored, registry))
        assert dict(query(restored, STATUSES))["completed"] == 3
