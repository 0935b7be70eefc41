"""Runs a case: contestants in turn, round after round; then weighs what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bench.support.context import REPOSITORY
from bench.support.model import BEST, VALUE, Case, Contestant, NotRunError, Sample, Target
from bench.support.stats import Summary, paired_ratio, summarise


@dataclass(frozen=True, slots=True)
class Verdict:
    target: Target
    measured: Summary | None
    """A value, or a ratio where the target names a rival; None when one of them did not run."""

    failed: bool = False
    """The subject was run and failed: no promise is kept by that."""

    @property
    def word(self) -> str:
        if self.failed:
            return "FAILED"
        if self.measured is None:
            return "not run"
        if self.target.limit is None:
            return "ratio"
        return "ok" if self.target.holds(self.measured.median) else "SHORT"


@dataclass(slots=True)
class Outcome:
    """The samples of a case, and the reasons of those who did not run or who failed."""

    case: Case
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def figures(self, contestant: str, name: str = VALUE) -> list[float]:
        return [sample.figure(name) for sample in self.samples.get(contestant, [])]

    def summary(self, contestant: str, name: str = VALUE) -> Summary | None:
        figures = self.figures(contestant, name)
        return summarise(figures) if figures else None

    def verdicts(self) -> list[Verdict]:
        return [
            Verdict(target, self._weigh(target), self._subject(target) in self.failed)
            for target in self.case.targets
        ]

    def _subject(self, target: Target) -> str:
        """A contestant's name; where the best is wanted and none has samples, any that failed."""
        if target.subject != BEST:
            return target.subject
        found = {name: self.summary(name, target.figure) for name in self.samples}
        medians = {name: summary.median for name, summary in found.items() if summary is not None}
        return target.best_of(medians) if medians else next(iter(self.failed), BEST)

    def _weigh(self, target: Target) -> Summary | None:
        ours = self.figures(self._subject(target), target.figure)
        if not ours:
            return None
        if target.rival is None:
            return summarise(ours)
        theirs = self.figures(target.rival, target.figure)
        return paired_ratio(ours, theirs) if theirs else None


Step = Callable[[str, int], None]


def run_case(case: Case, rounds: int, step: Step) -> Outcome:
    """Every contestant once a round. Each round starts one further on, so that nobody always
    follows the same neighbour. `step` hears (contestant, round) before each run.

    A contestant that fails is left out from then on, with its reason; the others go on.
    """
    outcome = Outcome(case)
    for number in range(rounds):
        for contestant in _turned(case.contestants, number):
            if contestant.name in {*outcome.not_run, *outcome.failed}:
                continue
            if contestant.once and number:
                continue
            step(contestant.name, number + 1)
            try:
                sample = contestant.run()
            except NotRunError as reason:
                outcome.not_run[contestant.name] = str(reason)
            except Exception as error:  # noqa: BLE001 - one cell must not cost the hour before it
                outcome.failed[contestant.name] = reason_of(error)
                outcome.samples.pop(contestant.name, None)
            else:
                outcome.samples.setdefault(contestant.name, []).append(sample)
    return outcome


def reason_of(error: Exception) -> str:
    """One line for the report, without the folder that this checkout happens to be in."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text.replace(f"{REPOSITORY}/", "")


def _turned(contestants: list[Contestant], number: int) -> list[Contestant]:
    start = number % len(contestants)
    return contestants[start:] + contestants[:start]
