"""The sample alerts: they parse, name metrics that exist, and fire when they should.

A worker's series are scrapes of its real collector, a minute apart. Prometheus itself, by promtool,
evaluates the rules.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from pybatchq.metrics import Exposition, Gauge, WorkerMetrics
from tests.support.api import serving
from tests.support.console import add
from tests.support.processes import ROOT
from tests.support.tools import promtool

RULES = ROOT / "docs" / "alerts.yml"
MINUTES = 75

# A Prometheus series to its values, one a minute; None where it was not there.
Series = dict[str, list[float | None]]
Step = Callable[[int, WorkerMetrics, dict[str, float]], None]

WORKER = 'instance="w:8080",job="workers"'
API = 'instance="a:8080",job="api"'
WARNING = {"severity": "warning"}
CRITICAL = {"severity": "critical"}


def rules() -> dict[str, str]:
    """The expression of each alert."""
    loaded = YAML(typ="safe").load(RULES.read_text())
    return {rule["alert"]: rule["expr"] for group in loaded["groups"] for rule in group["rules"]}


def named() -> set[str]:
    """The metrics that the rules name."""
    return set(re.findall(r"batchq_\w+", " ".join(rules().values())))


def exposed(metrics: WorkerMetrics, gauges: dict[str, float]) -> Exposition:
    asked = {name: lambda name=name: gauges[name] for name in get_args(Gauge)}
    return Exposition(metrics, info={"worker": "w:1"}, gauges=asked)


def scraped(step: Step) -> Series:
    """What Prometheus stores of a worker that does so each minute."""
    metrics, gauges = WorkerMetrics(), dict.fromkeys(get_args(Gauge), 0.0)
    gauges["connected"] = 1
    exposition = exposed(metrics, gauges)
    series: Series = {}
    for minute in range(MINUTES):
        step(minute, metrics, gauges)
        for family in text_string_to_metric_families(exposition.render().decode()):
            for one in family.samples:
                if not one.name.startswith("batchq_"):
                    continue
                labels = [f"{key}={json.dumps(value)}" for key, value in one.labels.items()]
                name = f"{one.name}{{{','.join([WORKER, *labels])}}}"
                series.setdefault(name, [None] * minute).append(one.value)
    return series


def idle(minute: int, metrics: WorkerMetrics, gauges: dict[str, float]) -> None:
    metrics.ended("mail", "completed", 0.1)


def away(minute: int, metrics: WorkerMetrics, gauges: dict[str, float]) -> None:
    gauges["connected"] = minute < 50


def refused(minute: int, metrics: WorkerMetrics, gauges: dict[str, float]) -> None:
    metrics.refused += minute == 55


def blocked(minute: int, metrics: WorkerMetrics, gauges: dict[str, float]) -> None:
    gauges["loop_blocked"] = 7 if minute == 58 else 0.1


def unknown(minute: int, metrics: WorkerMetrics, gauges: dict[str, float]) -> None:
    metrics.unknown_kinds += 1


def growing(a_minute: float) -> list[float | None]:
    """A counter."""
    return [n * a_minute for n in range(MINUTES)]


def api(**changes: list[float | None] | None) -> Series:
    """The API's series, of two processes that tell the same. None: they tell nothing."""
    names = {
        "ready": 'batchq_queue_depth{%s,queue="default",state="ready"}',
        "oldest": 'batchq_queue_oldest_ready_seconds{%s,queue="default"}',
        "workers": "batchq_workers{%s}",
        "completed": 'batchq_jobs_completed_total{%s,queue="default",kind="mail"}',
        "fails": 'batchq_jobs_failed_total{%s,queue="default",kind="mail"}',
        "rarely": 'batchq_jobs_completed_total{%s,queue="default",kind="rare"}',
        "rare": 'batchq_jobs_failed_total{%s,queue="default",kind="rare"}',
        "dead": 'batchq_jobs_dead_letters_total{%s,queue="default",kind="mail"}',
        "age": "batchq_counters_age_seconds{%s}",
        "fine": 'batchq_http_requests_total{%s,method="POST",route="/jobs",status="201"}',
        "errors": 'batchq_http_requests_total{%s,method="POST",route="/jobs",status="503"}',
    }
    steady: dict[str, list[float | None]] = {
        "ready": [5], "oldest": [1], "workers": [1], "age": [6],
        "completed": growing(19), "fails": growing(1), "rarely": [0], "rare": growing(0.25),
        "dead": growing(0.1), "fine": growing(100), "errors": growing(1),
    }  # fmt: skip
    series: Series = {}
    for name, template in names.items():
        values = changes.get(name, steady[name])
        if values is not None:
            filled = values * MINUTES if len(values) == 1 else values
            series[template % API] = filled
            series[template % API.replace("a:", "b:")] = filled
    return series


def firing(alert: str, labels: dict[str, str]) -> str:
    """The series that Prometheus keeps of an alert."""
    found = {"alertname": alert, "alertstate": "firing", **labels}
    return f"ALERTS{{{','.join(f'{k}={json.dumps(v)}' for k, v in found.items())}}}"


QUEUE = {"queue": "default"}
ME = {"instance": "w:8080", "job": "workers"}
CASES: dict[str, tuple[Step, Series, list[str]]] = {
    "nothing": (idle, api(), []),
    "failures": (
        idle,
        api(fails=growing(3)),
        [firing("BatchqFailures", QUEUE | {"kind": "mail"} | WARNING)],
    ),
    "dead letters": (idle, api(dead=growing(0.3)), [firing("BatchqDeadLetters", QUEUE | WARNING)]),
    "no upkeep": (idle, api(age=[400]), [firing("BatchqNoUpkeep", CRITICAL)]),
    "a backlog": (idle, api(ready=[20_000]), [firing("BatchqBacklog", QUEUE | WARNING)]),
    "waiting": (idle, api(oldest=[400]), [firing("BatchqWaiting", QUEUE | WARNING)]),
    "no worker": (idle, api(workers=[0]), [firing("BatchqNoWorker", CRITICAL)]),
    "no worker and no job": (idle, api(workers=[0], ready=[0]), []),
    "no metrics": (idle, {}, [firing("BatchqNoMetrics", CRITICAL)]),
    "errors of the API": (idle, api(errors=growing(10)), [firing("BatchqApiErrors", CRITICAL)]),
    "the database is away": (away, api(), [firing("BatchqDatabaseAway", ME | CRITICAL)]),
    "refused outcomes": (refused, api(), [firing("BatchqRefused", WARNING)]),
    "a blocked loop": (blocked, api(), [firing("BatchqLoopBlocked", ME | WARNING)]),
    "unknown kinds": (unknown, api(), [firing("BatchqUnknownKinds", WARNING)]),
}


def test_a75_the_rules_parse() -> None:
    assert f"{len(rules())} rules found" in promtool("check", "rules", "--lint=all", str(RULES))


def test_a75_each_alert_has_a_case_that_fires_it() -> None:
    fired = " ".join(alert for _, _, alerts in CASES.values() for alert in alerts)
    assert set(re.findall(r'alertname="(\w+)"', fired)) == set(rules())


@pytest.mark.parametrize("case", CASES)
def test_a75_an_alert_fires_when_it_should_and_no_other_does(case: str, tmp_path: Path) -> None:
    step, given, alerts = CASES[case]
    series = {**scraped(step), **given}
    shutil.copy(RULES, tmp_path)
    test = {
        "rule_files": [RULES.name],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": " ".join("_" if v is None else str(v) for v in row)}
                    for name, row in series.items()
                ],
                "promql_expr_test": [
                    {
                        "expr": 'ALERTS{alertstate="firing"}',
                        "eval_time": "60m",
                        "exp_samples": [{"labels": alert, "value": 1} for alert in alerts],
                    }
                ],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(json.dumps(test))
    promtool("test", "rules", "test.yml", cwd=tmp_path)


def test_a75_what_the_rules_name_of_a_worker_is_what_it_tells() -> None:
    series = scraped(lambda _minute, metrics, _gauges: metrics.ended("k", "failed", 1))
    assert {name for name in named() if name.startswith("batchq_worker_")} <= {
        name.partition("{")[0] for name in series
    }


async def test_a75_what_the_rules_name_of_the_api_is_what_it_tells(db: str) -> None:
    add(db)
    async with serving(db) as api:
        await api.get("/ready")
        page = (await api.get("/metrics")).text
    samples = [one for family in text_string_to_metric_families(page) for one in family.samples]
    ours = {name for name in named() if not name.startswith("batchq_worker_")}
    assert ours <= {sample.name for sample in samples}
    told = {sample.labels["state"] for sample in samples if sample.name == "batchq_queue_depth"}
    assert "ready" in told
    statuses = {one.labels["status"] for one in samples if one.name == "batchq_http_requests_total"}
    assert "200" in statuses
