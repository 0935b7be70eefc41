"""Dockerfile and compose.yaml: sound by their linters, and as they promise to be.

No Docker engine is needed; tests/integration/test_image_commands.py runs the commands.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from pybatchq.cli import main
from pybatchq.settings import Settings, parse_duration
from tests.support.image import (
    compose,
    exec_form,
    health_check,
    image_environment,
    service_environment,
    stages,
    with_defaults,
)
from tests.support.processes import ROOT
from tests.support.tools import tool, variables_read

SERVICES = compose()["services"]
OURS = ("install", "api", "worker")
SECRET = re.compile(r"password|passwd|secret|token|api_?key|database_url", re.IGNORECASE)


def test_a65_the_linters_have_no_complaint() -> None:
    for command in (
        [tool("hadolint"), "Dockerfile"],
        [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "compose.yaml"],
    ):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_linters_see_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM python:3.13-slim\nENTRYPOINT batchq\n")
    (tmp_path / "compose.yaml").write_text("services: {api: {image: a, port: [1]}}\n")
    for command in (
        [tool("hadolint"), "Dockerfile"],
        [tool("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", "compose.yaml"],
    ):
        assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode


def test_a66_two_stages_on_slim_python_and_only_the_first_sees_the_source() -> None:
    build, final = stages()
    assert build.base.split()[0] == final.base == "python:${PYTHON}-slim"
    assert "pip wheel" in build.one("RUN")
    assert not final.all("COPY")
    assert not final.all("ADD")
    assert "source=/dist" in final.one("RUN")


def test_a66_it_runs_as_nobody_special_by_number() -> None:
    final = stages()[-1]
    user, group = final.one("USER").split(":")
    assert int(user) >= 10_000
    assert f"useradd --uid {user} " in final.one("RUN")
    assert f"groupadd --gid {group} " in final.one("RUN")
    names = [name for name, _ in final.steps]
    assert "RUN" not in names[names.index("USER") :]


def test_a66_a_signal_reaches_python_and_the_api_is_what_runs_by_default() -> None:
    final = stages()[-1]
    assert exec_form(final.one("ENTRYPOINT")) == ["python", "-m", "pybatchq"]
    # an argument would outvote MODE; without one MODE chooses, and api is its default
    assert not final.all("CMD")
    assert "MODE" not in image_environment()
    assert not final.all("STOPSIGNAL")


def test_a66_output_is_not_held_back_and_the_authorities_are_found() -> None:
    env = image_environment()
    assert env["PYTHONUNBUFFERED"] == "1"
    assert env["SSL_CERT_FILE"] == "/etc/ssl/certs/ca-certificates.crt"
    assert 'test -s "$SSL_CERT_FILE"' in stages()[-1].one("RUN")


def test_a66_one_health_check_fits_every_mode() -> None:
    env = image_environment()
    settings = Settings.from_env(env)
    assert settings.health_port == int(env["BATCHQ_PORT"]) == 8080
    assert stages()[-1].one("EXPOSE") == "8080"
    assert settings.health_host == env["BATCHQ_HOST"] == "0.0.0.0"
    assert health_check()[0] == "python"


def test_a66_no_secret_is_in_the_image() -> None:
    for stage in stages():
        for value in (*stage.all("ENV"), *stage.all("ARG"), *stage.all("LABEL")):
            assert not SECRET.search(value)


def test_a66_the_context_is_what_is_copied_and_no_more() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    copied = {source for v in stages()[0].all("COPY") for source in v.split()[:-1]}
    assert rules[0] == "*"
    assert {rule[1:] for rule in rules if rule.startswith("!")} == copied
    assert {rule for rule in rules[1:] if not rule.startswith("!")} == {
        "**/__pycache__", "**/*.pyc",
    }  # fmt: skip
    assert all((ROOT / source).exists() for source in copied)


def test_a05_a65_a_database_an_api_workers_and_nothing_else() -> None:
    assert set(SERVICES) == {"database", *OURS}
    assert {SERVICES[name]["image"] for name in OURS} == {"batchq:local"}
    image, _, version = SERVICES["database"]["image"].partition(":")
    assert (image, int(version) >= 18) == ("postgres", True)
    # from 18 on the image keeps its data in a folder below this one, and refuses the old mount
    assert SERVICES["database"]["volumes"] == ["database:/var/lib/postgresql"]
    assert "database" in compose()["volumes"]


def test_a65_the_image_is_built_once_and_never_pulled() -> None:
    building = [name for name, service in SERVICES.items() if "build" in service]
    assert building == ["install"]
    assert (ROOT / SERVICES["install"]["build"] / "Dockerfile").exists()
    policies = {name: SERVICES[name]["pull_policy"] for name in OURS}
    assert policies == {"install": "build", "api": "never", "worker": "never"}


def test_a65_each_runs_the_command_of_its_name() -> None:
    for name in OURS:
        assert SERVICES[name]["command"] == [name]
    assert set(OURS) <= set(main.commands)


def test_a65_the_schema_is_there_before_anything_runs() -> None:
    assert SERVICES["install"]["depends_on"] == {"database": {"condition": "service_healthy"}}
    assert SERVICES["install"]["restart"] == "no"
    for name in ("api", "worker"):
        wanted = {"install": {"condition": "service_completed_successfully"}}
        assert SERVICES[name]["depends_on"] == wanted
    check = SERVICES["database"]["healthcheck"]["test"]
    assert check[:2] == ["CMD", "pg_isready"]
    # the image's first start, without its database, answers on the socket
    assert "--host=127.0.0.1" in check


def test_a65_workers_can_be_many() -> None:
    worker = SERVICES["worker"]
    for unique in ("container_name", "ports", "hostname", "deploy", "volumes"):
        assert unique not in worker
    assert not {"BATCHQ_NAME", "HOSTNAME"} & set(service_environment("worker"))


def test_a65_the_api_is_open_to_this_machine_alone() -> None:
    assert SERVICES["api"]["ports"] == ["127.0.0.1:8080:8080"]
    assert all("ports" not in SERVICES[name] for name in ("database", "install", "worker"))


def test_a65_what_stops_may_finish_and_what_ends_comes_back() -> None:
    for name in ("api", "worker"):
        grace_s = parse_duration(SERVICES[name]["stop_grace_period"])
        env = {**image_environment(), **service_environment(name)}
        assert grace_s is not None
        assert grace_s >= Settings.from_env(env).grace_s + 5
    for name in ("database", "api", "worker"):
        assert SERVICES[name]["restart"] == "unless-stopped"


def test_a65_ours_have_no_rights() -> None:
    for name in OURS:
        service = SERVICES[name]
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert "privileged" not in service
        assert "user" not in service  # the image's


def strings(value: Any) -> list[str]:
    match value:
        case dict():
            return [text for one in value.values() for text in strings(one)]
        case list():
            return [text for one in value for text in strings(one)]
        case _:
            return [str(value)]


def test_a65_as_printed_nothing_has_to_be_set() -> None:
    command = (ROOT / "compose.yaml").read_text().splitlines()[0]
    assert shlex.split(command, comments=False)[1:] == [
        "docker", "compose", "up", "--build", "--scale", "worker=3",
    ]  # fmt: skip
    for text in strings(compose()):
        assert "$" not in with_defaults(text)
    passwords = {
        service_environment("database")["POSTGRES_PASSWORD"],
        *(service_environment(name)["PGPASSWORD"] for name in OURS),
    }
    assert len(passwords) == 1
    assert all("@database/" in service_environment(name)["DATABASE_URL"] for name in OURS)


def test_every_variable_of_both_files_is_one_that_we_read() -> None:
    ours = {name for name in image_environment() if name.startswith("BATCHQ_")}
    for service in OURS:
        names = service_environment(service)
        ours |= {name for name in names if name.startswith(("BATCHQ_", "DATABASE_"))}
    assert ours <= variables_read()
