"""The public edge for tables: one call from a model and its rows to features with a guarantee."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from butfor.core.draw.blocks import Problem, table_problem
from butfor.core.draw.samplers import HasNotes
from butfor.core.result.result import Result
from butfor.core.types import Subset
from butfor.models.rows import check_aligned, is_series
from butfor.models.wrap import model_name
from butfor.run.run import RunContext, run
from butfor.run.settings import Settings
from butfor.tabular.bind import bind_model, bind_sampler
from butfor.tabular.quick_check import quick_check
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table, as_frame, items_of

KEEP = (3, 2**22)  # counterfactuals of each hypothesis that are kept, and the values of all of them


def explain(model: object, X: object, sampler: object, subsets: object, settings: Settings) -> Result:
    """Which features of each row of `X` matter to the model; `butfor.explain` has the words."""
    X = X if is_series(X) else as_frame(X, "data")
    check_aligned(settings.y, as_frame(X, "data"))
    wrapped = bind_model(model, X)  # what it cannot take is refused before anything is fitted
    table, fitted = bind_sampler(X, sampler)
    groups = column_subsets(table, subsets)
    problem = table_problem(items_of(table), table.index, groups, fitted, settings.seed)
    context = RunContext(
        problem=problem,
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=default_batch_rows(table),
        describe=partial(name_row, table),
        sampler_notes=partial(_sampler_notes, problem, table, groups),
        metadata=table.metadata(),
        keep=KEEP,
    )
    return run(context, settings)


def default_batch_rows(table: Table) -> int:
    """Rows the model gets at a time where the user does not say: about four megabytes, at most 10,000."""
    return int(np.clip(2**19 // table.values.shape[1], 256, 10_000))


def name_row(table: Table, row: int) -> str:
    """What a row is called in an error."""
    return f"row {row} of the data (index {table.index[row]!r})"


def _sampler_notes(problem: Problem, table: Table, groups: Sequence[Subset]) -> list[str]:
    """What looks wrong about the sampler on a quick look at its draws, and what it says of itself."""
    notes, sampler = quick_check(problem), problem.sampler
    if isinstance(sampler, HasNotes):
        notes += sampler.notes(table.show(table.values), groups, problem.seed)
    return notes
