"""The words of the bench: a case has contestants; each run of one gives a sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

VALUE = "value"
BEST = "the best"
"""As the subject of a target: whichever contestant came out best."""


class BenchError(Exception):
    """A measurement that cannot be trusted; the text says why."""


class NotRunError(Exception):
    """A contestant that cannot take part here; the text is the reason that gets printed."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What the server spent on a sample. Per job, except `cpu_s`."""

    cpu_s: float
    cpu_us_per_job: float
    wal_bytes_per_job: float
    dead_tuples_per_job: float


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of one contestant: its value in the unit of the case, and figures beside it."""

    value: float
    details: dict[str, float] = field(default_factory=dict)
    cost: Cost | None = None

    def figure(self, name: str) -> float:
        return self.value if name == VALUE else self.details[name]


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    run: Callable[[], Sample]
    once: bool = False
    """Run in the first round only: the slow ones, shown for contrast."""


@dataclass(frozen=True, slots=True)
class Target:
    """A promise about a contestant, or BEST: `figure` (or its ratio to a rival's) against a limit.

    Without a limit nothing is promised: the ratio is printed for comparison.
    """

    subject: str
    relation: Literal[">=", "<="]
    limit: float | None
    rival: str | None = None
    figure: str = VALUE

    def best_of(self, medians: Mapping[str, float]) -> str:
        """The contestant that comes nearest to what is wanted."""
        choose = max if self.relation == ">=" else min
        return choose(medians, key=medians.__getitem__)

    def holds(self, measured: float) -> bool:
        if self.limit is None:
            return True
        return measured >= self.limit if self.relation == ">=" else measured <= self.limit

    def text(self) -> str:
        sign = "≥" if self.relation == ">=" else "≤"
        limit = "" if self.limit is None else f"{sign} {self.limit:,g}"
        what = "" if self.figure == VALUE else self.figure
        rival = f"of {self.rival}" if self.rival else ""
        return " ".join(part for part in (what, limit, rival) if part)


@dataclass(frozen=True, slots=True)
class Case:
    """Contestants that are run in turn, round after round, and what must come out."""

    title: str
    unit: str
    contestants: list[Contestant]
    targets: list[Target] = field(default_factory=list)
    rounds: int | None = None
    """Rounds of a case that is long in itself; `--rounds` on the command line wins."""
