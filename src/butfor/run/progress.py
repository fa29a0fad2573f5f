"""How far a run is: rows counted, a callback in the library, a bar on standard error for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from butfor.core.types import Bools


@dataclass(frozen=True)
class Progress:
    """One report: the stage, model rows done of how many, and how many are chosen so far (None: not known)."""

    stage: str
    rows: int
    total: int | None
    chosen: int | None = None
    chosen_rows: Bools | None = field(default=None, compare=False)  # (H,) which, where the test says so as it goes


Report = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Tell nobody."""


@contextmanager
def reporting(progress: bool | Report | None) -> Iterator[Report]:
    """The callback to call: the user's own, a bar for True, nothing for None or False."""
    if callable(progress):
        yield progress
    elif progress:
        with bar() as report:
            yield report
    else:
        yield silent


@contextmanager
def bar() -> Iterator[Report]:
    """A rich progress bar on standard error: rows, rate, time left, discoveries."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows  {task.fields[rate]}  {task.fields[found]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(file=sys.stderr), transient=True) as bars:
        tasks: dict[str, int] = {}

        def report(now: Progress) -> None:
            if now.stage not in tasks:
                tasks[now.stage] = bars.add_task(now.stage, total=now.total, rate="", found="")
            task = next(task for task in bars.tasks if task.id == tasks[now.stage])
            rate = f"{task.speed:,.0f}/s" if task.speed else ""
            found = "" if now.chosen is None else f"{now.chosen} chosen"
            bars.update(task.id, completed=now.rows, total=now.total, rate=rate, found=found)

        yield report


class Meter:
    """Counts the model's rows over a run and tells the user's callback how far it is."""

    def __init__(self, report: Report, rows: int) -> None:
        self.rows, self.asked = rows, rows
        self._report = report
        self._chosen_rows: Bools | None = None
        self._stage, self._total, self._done, self._chosen = "first look", None, 0, None  # type: tuple[str, int | None, int, int | None]

    def stage(self, name: str, total: int | None) -> None:
        """What follows is another stage, of `total` rows where that is known."""
        self._stage, self._total, self._done = name, total, 0
        if name != "effects":  # of the same hypotheses as the test before it; others may be of other ones
            self._chosen_rows = None

    def count_requested(self, rows: int) -> None:
        """So many rows more are asked for, evaluated or remembered."""
        self.asked += rows

    def count_deduplicated(self, rows: int) -> None:
        """So many rows more are done without being evaluated: others are equal to them."""
        self._done += rows

    def count_evaluated(self, rows: int) -> None:
        """So many rows more are done."""
        self.rows += rows
        self._done += rows
        if self._report is not silent:
            self._report(Progress(self._stage, self._done, self._total, self._chosen, self._chosen_rows))

    def set_chosen(self, chosen: int) -> None:
        """So many are chosen by now."""
        self._chosen = chosen

    def set_chosen_rows(self, chosen: Bools) -> None:
        """These are chosen by now (H,)."""
        self._chosen, self._chosen_rows = int(chosen.sum()), chosen
