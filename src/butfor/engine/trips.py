"""What came of work that was given away, and what each worker has done so far."""

from __future__ import annotations

from dataclasses import dataclass

from butfor.core.evaluate.workplace import UnitResult


@dataclass(frozen=True, eq=False)
class Trip:
    """What came of some units, and how long that took."""

    results: tuple[UnitResult, ...]
    seconds: float
    worker: str


@dataclass(frozen=True)
class WorkerState:
    """What a worker has done: units, rows given to the model, and seconds that took."""

    name: str  # the process and the thread
    units: int = 0
    rows: int = 0
    seconds: float = 0.0

    def after(self, trip: Trip) -> WorkerState:
        """With one trip more."""
        rows = self.rows + sum(result.rows[1] for result in trip.results)
        return WorkerState(self.name, self.units + len(trip.results), rows, self.seconds + trip.seconds)
