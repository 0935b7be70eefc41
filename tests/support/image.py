"""What Dockerfile and compose.yaml say, and their commands run outside a container."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tests.support.processes import ROOT, environment

PATIENCE_S = 30
LOOK_EVERY_S = 0.05


@dataclass(frozen=True, slots=True)
class Stage:
    """The instructions of one FROM, in order: each with what stands behind it on one line."""

    base: str
    steps: tuple[tuple[str, str], ...]

    def all(self, instruction: str) -> list[str]:
        return [value for name, value in self.steps if name == instruction]

    def one(self, instruction: str) -> str:
        (value,) = self.all(instruction)
        return value


def stages(text: str | None = None) -> list[Stage]:
    """The stages of a Dockerfile, ours if none is given."""
    given = (ROOT / "Dockerfile").read_text() if text is None else text
    lines = [line for line in given.splitlines() if not line.startswith("#")]
    joined = re.sub(r"\\\n", "", "\n".join(lines))
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for line in filter(str.strip, joined.splitlines()):
        name, _, value = line.partition(" ")
        if name == "FROM":
            found.append((value.strip(), []))
        elif found:
            found[-1][1].append((name, value.strip()))
    return [Stage(base, tuple(steps)) for base, steps in found]


def image_environment() -> dict[str, str]:
    """What ENV sets in the image."""
    values = shlex.split(" ".join(stages()[-1].all("ENV")))
    return dict(value.split("=", 1) for value in values)


def exec_form(text: str) -> list[str]:
    """The program and its arguments; ValueError if it is for a shell."""
    words = json.loads(text)
    assert isinstance(words, list)
    return words


def health_check() -> list[str]:
    return exec_form(stages()[-1].one("HEALTHCHECK").partition(" CMD ")[2])


def compose(text: str | None = None) -> dict[str, Any]:
    """A compose file, ours if none is given, with its anchors resolved."""
    loaded: dict[str, Any] = YAML(typ="safe").load(text or (ROOT / "compose.yaml").read_text())
    return loaded


def with_defaults(value: str) -> str:
    """What compose makes of `${NAME:-default}` when nothing is set."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", value)


def service_environment(name: str) -> dict[str, str]:
    variables = compose()["services"][name].get("environment", {})
    return {key: with_defaults(str(value)) for key, value in variables.items()}


class Image:
    """The wheel and a virtual environment, made by the Dockerfile's own commands.

    folder: any account may read it. account: the user id that commands run as; None: ours.
    """

    def __init__(self, folder: Path, account: int | None) -> None:
        self.folder = folder
        self._identity: dict[str, Any] = {}
        if account is not None:
            self._identity = {"user": account, "group": account, "extra_groups": []}
        self.app = folder / "app"
        self.python = folder / "venv" / "bin" / "python"
        self.app.mkdir()
        build, final = stages()
        self._copy(build)
        self._run(build.one("RUN"), self._venv("build-venv"), folder / "src")
        (self.wheel,) = (folder / "dist").glob("*.whl")
        parts = [part.strip() for part in final.one("RUN").split("&&")]
        ours = [part for part in parts if not part.startswith(("groupadd", "useradd"))]
        self._run(" && ".join(ours), self._venv("venv"), self.app)

    def _copy(self, stage: Stage) -> None:
        for value in stage.all("COPY"):
            *sources, target = value.split()
            for source in sources:
                here, there = ROOT / source, self.folder / "src" / target
                if here.is_dir():
                    shutil.copytree(here, there, ignore=shutil.ignore_patterns("__pycache__"))
                else:
                    there.mkdir(exist_ok=True, parents=True)
                    shutil.copy(here, there)

    def _venv(self, name: str) -> Path:
        """A virtual environment; the pip beside its python is ours, working on it."""
        venv = self.folder / name
        subprocess.run([interpreter(), "-m", "venv", "--without-pip", venv], check=True)
        pip = venv / "bin" / "pip"
        ours = shlex.join([sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python")])
        pip.write_text(f'#!/bin/sh\nexec {ours} --quiet "$@"\n')
        pip.chmod(0o755)
        return venv

    def _run(self, command: str, venv: Path, cwd: Path) -> None:
        text = re.sub(r"--mount=\S+", "", command).replace("/dist", str(self.folder / "dist"))
        path = f"{venv / 'bin'}:{os.environ['PATH']}"
        env = {**os.environ, **image_environment(), "PATH": path}
        done = subprocess.run(
            ["sh", "-ec", text], cwd=cwd, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def environment(self, dsn: str | None, **variables: str) -> dict[str, str]:
        """That of a container, with nothing of this process's but where its programs are."""
        path = f"{self.python.parent}:{os.environ['PATH']}"
        kept = {k: v for k, v in environment(dsn).items() if k == "DATABASE_URL"}
        return {**image_environment(), "PATH": path, "HOME": "/app", **variables, **kept}

    def command(self, *arguments: str) -> list[str]:
        return [*exec_form(stages()[-1].one("ENTRYPOINT")), *arguments]

    def run(
        self, *arguments: str, dsn: str | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """`docker run --rm batchq …`, to its end."""
        return self._finish(self.command(*arguments), self.environment(dsn, **variables))

    def healthy(self, env: dict[str, str]) -> bool:
        """Whether HEALTHCHECK says so, in the environment of a container."""
        return self._finish(health_check(), env).returncode == 0

    def _finish(self, command: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.app, env=env, capture_output=True, text=True, timeout=PATIENCE_S,
            check=False, **self._identity,
        )  # fmt: skip

    @contextlib.contextmanager
    def started(
        self,
        log: Path,
        *arguments: str,
        dsn: str,
        variables: Mapping[str, str],
        before: Sequence[str] = (),
    ) -> Iterator[Container]:
        """`docker run batchq …`; it is gone at the end. before: what runs the command."""
        env = self.environment(dsn, **variables)
        with log.open("wb") as out:
            popen = subprocess.Popen(
                [*before, *self.command(*arguments)], cwd=self.app, env=env, stdout=out, stderr=out,
                **({} if before else self._identity),
            )  # fmt: skip
        try:
            yield Container(self, popen, env, log)
        finally:
            popen.kill()
            popen.wait()


@dataclass(frozen=True, slots=True)
class Container:
    """One process of the image, and what it wrote."""

    image: Image
    popen: subprocess.Popen[bytes]
    env: dict[str, str]
    log: Path

    def become_healthy(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.image.healthy(self.env):
            assert self.popen.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(LOOK_EVERY_S)

    def stop(self) -> int:
        """As `docker stop` begins; its exit code."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(PATIENCE_S)


def interpreter() -> str:
    """A Python that other accounts can run; ours, where only we can be anybody."""
    if os.geteuid() == 0 and (found := shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        fits = "import sys, venv; sys.exit(sys.version_info < (3, 11))"
        if subprocess.run([found, "-c", fits], check=False).returncode == 0:
            return found
    return sys.executable
