"""Progress of a run: evaluations of the model counted, a callback for programs, a bar on standard error for people."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from butfor.types import Bools, InputError


@dataclass(frozen=True)
class WorkerState:
    """The work of one worker: tasks, rows given to the model, and seconds that took."""

    name: str  # the process and the thread
    units: int = 0
    rows: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Progress:
    """One report: the stage, model rows (of the stage "report": files) done of how many, and how many are chosen so far
    (None: not known).

    The rows of a sequential test are not known beforehand: `left` is an estimate, made anew after every round.
    """

    stage: str
    rows: int
    total: int | None
    chosen: int | None = None
    chosen_rows: Bools | None = field(default=None, compare=False)  # (H,) which, where the test says so as it goes
    seconds: float = field(default=0.0, compare=False)  # since the stage began
    left: int | None = field(default=None, compare=False)  # about how many rows more, where there is no total
    workers: tuple[WorkerState, ...] = field(default=(), compare=False)  # of those that have done something

    @property
    def rows_per_second(self) -> float | None:
        """Over the stage so far; None at its very beginning."""
        return self.rows / self.seconds if self.seconds > 0 else None


Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Report nothing."""


@contextmanager
def reporting(progress: bool | Report | None) -> Iterator[Report]:
    """Give the callback to call: the user's, a bar for True, nothing for None or False."""
    if not (progress is None or isinstance(progress, bool) or callable(progress)):
        raise InputError(f"progress must be True, False or a function of what is done, got {progress!r:.60}")
    if callable(progress):
        yield progress
    elif progress:
        with bar() as report:
            yield report
    else:
        yield silent


@contextmanager
def bar() -> Iterator[Report]:
    """Give the callback of a rich progress bar on standard error: rows, rate, time left, discoveries."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[what]}  {task.fields[rate]}  {task.fields[chosen]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        tasks: dict[str, int] = {}

        def report(now: Progress) -> None:
            if now.stage not in tasks:
                what = "files" if now.stage == "report" else "" if now.stage.startswith("validate") else "rows"
                tasks[now.stage] = bars.add_task(now.stage, total=now.total, what=what, rate="", chosen="")
            task = next(task for task in bars.tasks if task.id == tasks[now.stage])
            rate = f"{task.speed:,.0f}/s" if task.speed else ""
            chosen = "" if now.chosen is None else f"{now.chosen} chosen"
            chosen += f"  {len(now.workers)} workers" if now.workers else ""
            total = now.rows + now.left if now.total is None and now.left is not None else now.total
            bars.update(task.id, completed=now.rows, total=total, rate=rate, chosen=chosen)

        yield report


class Rows(int):
    """Model rows of a run and its control, together a whole number.

    >>> rows = Rows(5_000, control=2_000)
    >>> rows == 5_000, rows.run, rows.control
    (True, 3000, 2000)
    """

    control: int

    def __new__(cls, total: int, control: int = 0) -> Rows:
        rows = super().__new__(cls, total)
        rows.control = control
        return rows

    @property
    def run(self) -> int:
        return int(self) - self.control


class Meter:
    """Counts the model's rows over a run and reports how far it is."""

    def __init__(self, report: Report, rows: int, workers: Callable[[], tuple[WorkerState, ...]] = tuple) -> None:
        self.rows, self.asked = rows, rows  # evaluated; evaluated or remembered
        self._report, self._workers = report, workers
        self._chosen: int | None = None
        self.stage("first look", None)

    def stage(self, name: str, total: int | None) -> None:
        """Begin another stage, of `total` rows where that is known."""
        self._stage, self._total, self._done = name, total, 0
        self._began, self._left = time.monotonic(), None  # type: tuple[float, int | None]
        if name != "effects":  # of the same hypotheses as the test before it; others may be of other ones
            self._chosen_rows: Bools | None = None

    def count(self, requested: int, evaluated: int, deduplicated: int) -> None:
        """Count rows that were requested, given to the model, or done because they are equal to others of a call."""
        self.asked += requested
        self._done += deduplicated
        self.count_evaluated(evaluated)

    def count_evaluated(self, rows: int) -> None:
        self.rows += rows
        self._done += rows
        self._left = None if self._left is None else max(self._left - rows, 0)
        if self._report is not silent:
            now = (self._stage, self._done, self._total, self._chosen, self._chosen_rows)
            self._report(Progress(*now, time.monotonic() - self._began, self._left, self._workers()))

    def set_left(self, rows: int) -> None:
        self._left = rows

    def set_chosen(self, chosen: int) -> None:
        self._chosen = chosen

    def set_chosen_rows(self, chosen: Bools) -> None:
        self._chosen, self._chosen_rows = int(chosen.sum()), chosen
