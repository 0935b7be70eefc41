"""Outcomes of attempts on their way into the database."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pybatchq.endings import Ending, clean
from pybatchq.types import WorkItem

Completed = tuple[int, int, str | None]
Failed = tuple[int, int, str, bool, timedelta | None]
Released = tuple[int, int, timedelta | None]


@dataclass(slots=True)
class Outcomes:
    """What ended and was not settled yet. Kept until the database has answered."""

    completed: list[Completed] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    released: list[Released] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.completed) + len(self.failed) + len(self.released)

    def add(self, item: WorkItem, ending: Ending) -> None:
        """Note how an attempt ended."""
        event, text, permanent, wait_s, _ = ending
        if event == "completed":
            self.completed.append((item.job_id, item.lease_id, text))
        elif event == "failed":
            wait = None if wait_s is None else _wait(wait_s)
            self.failed.append((item.job_id, item.lease_id, text or "", permanent, wait))
        elif event == "released":
            self.release(item, wait_s)

    def release(self, item: WorkItem, delay_s: float | None = None) -> None:
        wait = None if delay_s is None else _wait(delay_s)
        self.released.append((item.job_id, item.lease_id, wait))

    def take(self) -> Outcomes:
        """All of them; this object is empty afterwards."""
        taken = Outcomes(self.completed, self.failed, self.released)
        self.completed, self.failed, self.released = [], [], []
        return taken

    def put_back(self, taken: Outcomes) -> None:
        """Those of a settlement that got no answer. Handing one in twice does no harm."""
        self.completed[:0] = taken.completed
        self.failed[:0] = taken.failed
        self.released[:0] = taken.released

    def only(self, job_id: int, lease_id: int) -> Outcomes:
        """Those of one lease."""
        lease = (job_id, lease_id)
        return Outcomes(
            [one for one in self.completed if one[:2] == lease],
            [one for one in self.failed if one[:2] == lease],
            [one for one in self.released if one[:2] == lease],
        )

    def is_failure(self) -> bool:
        """Whether all that is here are plain failures, without a wait of their own."""
        return (
            not self.completed and not self.released and all(one[4] is None for one in self.failed)
        )

    def as_failure(self, error: str) -> Outcomes:
        """The same leases, failed for good with this error."""
        leases = [
            *(one[:2] for one in self.completed),
            *(one[:2] for one in self.failed),
            *(one[:2] for one in self.released),
        ]
        text = clean(error, 500)
        return Outcomes(failed=[(job, lease, text, True, None) for job, lease in leases])

    def singly(self) -> list[Outcomes]:
        """Each outcome by itself, to find the one that the database refuses."""
        return [
            *(Outcomes(completed=[one]) for one in self.completed),
            *(Outcomes(failed=[one]) for one in self.failed),
            *(Outcomes(released=[one]) for one in self.released),
        ]

    def arguments(self) -> dict[str, Any]:
        """As arguments of settle_and_lease; those of a kind that is empty are left out."""
        arguments: dict[str, Any] = {}
        if self.completed:
            ids, leases, results = zip(*self.completed, strict=True)
            arguments = {"completed_ids": ids, "completed_leases": leases}
            if any(result is not None for result in results):
                arguments["results"] = list(results)
        if self.failed:
            ids, leases, errors, permanents, waits = zip(*self.failed, strict=True)
            arguments |= {
                "failed_ids": ids,
                "failed_leases": leases,
                "errors": list(errors),
                "permanents": list(permanents),
                "retry_ins": list(waits),
            }
        if self.released:
            ids, leases, delays = zip(*self.released, strict=True)
            arguments |= {
                "released_ids": ids,
                "released_leases": leases,
                "delays": list(delays),
            }
        return arguments


def _wait(seconds: float) -> timedelta:
    """A wait as the database takes it; over ten years is the database's to refuse."""
    return timedelta(seconds=min(max(seconds, 0.0), 86_400 * 4000))
