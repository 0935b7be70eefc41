"""What the guides say is there: settings, handlers, exit codes."""

from __future__ import annotations

import re
from pathlib import Path

from pybatchq import handlers, service

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs" / "worker.md").read_text()
API = (ROOT / "docs" / "api.md").read_text()
SETTINGS = (ROOT / "pybatchq" / "settings.py").read_text()


def test_every_setting_is_in_a_guide_and_every_one_there_is_a_setting() -> None:
    read = set(re.findall(r'"(BATCHQ_[A-Z_]+|DATABASE_URL)"', SETTINGS))
    rows = re.compile(r"^\| (`.*?) \|", re.MULTILINE)
    shown = set(re.findall(r"`([A-Z_]+)`", " ".join(rows.findall(GUIDE) + rows.findall(API))))
    assert read == {name for name in shown if name.startswith("BATCHQ_") or name == "DATABASE_URL"}


def test_every_exit_code_is_in_the_guide() -> None:
    (said,) = re.findall(r"Exit codes: (.*?)\n\n", GUIDE, re.DOTALL)
    codes = {int(code) for code in re.findall(r"(?:^|; )(\d+) ", said.replace("\n", " "))}
    assert codes == {0, 1, 2, 3, *service.EXIT_CODES.values()}


def test_the_handlers_of_the_guide_can_be_registered() -> None:
    (shown,) = re.findall(r"```python\n(from dataclasses.*?)```", GUIDE, re.DOTALL)
    registry = handlers.Registry()
    scope = {"handler": registry.handler, "__name__": __name__}
    exec(shown.replace("from pybatchq import handler", ""), scope)  # the guide's own text
    assert {kind: one.runs_in for kind, one in registry.by_kind.items()} == {
        "resize": "loop", "report": "thread", "train": "process",
    }  # fmt: skip
    assert registry.by_kind["resize"].decode(b'{"path": "a"}') == scope["Resize"]("a")  # type: ignore[operator]
