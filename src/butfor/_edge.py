"""What every public function of tables needs between the user and the core: rows named, counted, batched."""

from __future__ import annotations

import numpy as np

from butfor._progress import Progress, Report, silent
from butfor.core.calls import Dress, Memory
from butfor.core.draws import Problem
from butfor.core.types import Floats
from butfor.tabular.table import Table


def default_batch_rows(table: Table) -> int:
    """Rows the model gets at a time where the user does not say: about four megabytes, at most 10,000."""
    return int(np.clip(2**19 // table.values.shape[1], 256, 10_000))


def dressing(table: Table) -> Dress | None:
    """How the model is shown rows of the matrix: with the types, the column names and the row labels of the user's."""
    plain = table.labels is None and table.kinds[0].dtype is None
    return None if plain else table.show


def name_row(table: Table, row: int) -> str:
    return f"row {row} of the data (index {table.index[row]!r})"


def remembering(problem: Problem, observed: Floats, again: bool = True) -> Memory | None:
    """A memory for the subsets whose draws the sampler says repeat (or can be listed); None if there are none.

    Nor is there one for images and texts where a hypothesis is not drawn for `again`: equal texts of a call are one
    row of it anyway.
    """
    says = getattr(problem.sampler, "repeats", getattr(problem.sampler, "lists", None))
    if says is None or not (again or isinstance(problem.inputs, np.ndarray)):
        return None
    subsets = {id(block.subset): block.subset for block in problem.blocks}.values()
    never = {subset.name for subset in subsets if not says(subset)}
    names = frozenset(subset.name for subset in subsets) - never
    return Memory(observed, names) if names else None


class Meter:
    """Counts the model's rows over a run and tells the user's callback how far it is."""

    def __init__(self, report: Report, rows: int) -> None:
        self.rows, self.asked = rows, rows
        self._report = report
        self._stage, self._total, self._done, self._chosen = "", None, 0, None  # type: tuple[str, int | None, int, int | None]

    def stage(self, name: str, total: int | None) -> None:
        """What follows is another stage, of `total` rows where that is known."""
        self._stage, self._total, self._done = name, total, 0

    def ask(self, rows: int) -> None:
        """So many rows more are asked for, evaluated or remembered."""
        self.asked += rows

    def spare(self, rows: int) -> None:
        """So many rows more are done without being evaluated: others are equal to them."""
        self._done += rows

    def tick(self, rows: int) -> None:
        """So many rows more are done."""
        self.rows += rows
        self._done += rows
        if self._report is not silent:
            self._report(Progress(self._stage, self._done, self._total, self._chosen))

    def tell(self, chosen: int) -> None:
        """So many are chosen by now."""
        self._chosen = chosen
