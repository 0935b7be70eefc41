"""What an API's page for Prometheus says."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.support.api import Answer, Api

Labels = frozenset[tuple[str, str]]
Samples = dict[str, dict[Labels, float]]


class Scrape:
    """What one answer says."""

    def __init__(self, answer: Answer) -> None:
        assert answer.status == 200, answer.text
        self.text = answer.text
        self.samples: Samples = {}
        for family in text_string_to_metric_families(answer.text):
            for one in family.samples:
                labels = frozenset(one.labels.items())
                found = self.samples.setdefault(one.name, {})
                assert labels not in found, f"{one.name}{labels} is there twice"
                found[labels] = one.value

    def value(self, name: str, **labels: str) -> float:
        return self.samples[name][frozenset(labels.items())]

    def labels(self, name: str, label: str) -> set[str]:
        return {dict(labels)[label] for labels in self.samples.get(name, {})}


async def scraped(api: Api) -> Scrape:
    return Scrape(await api.get("/metrics"))
