"""The public edge for tables: one call from a model and its rows to features with a guarantee."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from butfor.core.arrays import distinct
from butfor.core.draw.blocks import Problem, table_problem
from butfor.core.draw.samplers import HasNotes, Sampler, info_of
from butfor.core.draw.streams import stream
from butfor.core.result.result import Result
from butfor.core.select.weights import LEAST_CLUSTERS
from butfor.core.test.outcomes import ReadModel
from butfor.core.types import Floats, InputError, Ints, Model, Subset
from butfor.models import Wrapped
from butfor.models.rows import check_aligned, is_series
from butfor.models.trees import Unreadable, readable
from butfor.models.wrap import model_name
from butfor.run.context import Reference, RunContext
from butfor.run.run import run
from butfor.run.settings import Settings
from butfor.tabular.belonging import belonging_notes
from butfor.tabular.bind import bind_model, bind_sampler, is_data
from butfor.tabular.control import control_problems, reference_items
from butfor.tabular.fit import fit_of
from butfor.tabular.quick_check import quick_check
from butfor.tabular.splice import TableSampler
from butfor.tabular.subsets import column_subsets
from butfor.tabular.table import Table, as_frame, items_of
from butfor.tabular.zoom import ColumnTree, column_tree, is_nested, named_tree, stand_still

KEEP = (3, 2**22)  # counterfactuals of each hypothesis that are kept, and the values of all of them
ONE_LABEL = (
    "target='truth' is valid only where the reference is of each input's own label, and y has several; explain the "
    "inputs of one label against a reference of that label, use target='predicted', or give a sampler that you know to "
    "describe inputs of their label: butfor.tabular.auto(rows_of_that_label)"
)
MOST_WHOLE = 5_000  # rows of the reference that whole inputs are compared with


def explain(model: object, X: object, sampler: object, subsets: object, options: Mapping[str, object]) -> Result:
    """Which features of each row of `X` matter to the model; `butfor.explain` has the words."""
    settings = Settings.of(options, test="sequential")  # refuses what cannot be, before anything is read or fitted
    X = X if is_series(X) else as_frame(X, "data")
    frame = as_frame(X, "data")
    check_aligned(settings.y, frame)
    check_aligned(settings.groups, frame, "groups")
    if settings.target == "truth" and is_data(sampler) and len(set(np.asarray(settings.y).reshape(-1).tolist())) > 1:
        raise InputError(ONE_LABEL)
    wrapped = bind_model(model, X)  # what it cannot take is refused before anything is fitted
    table, fitted = bind_sampler(X, sampler)
    tree = subset_tree(table, fitted, subsets)
    alike = np.unique(table.values, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    settings = _suited(settings, options, fitted, alike)
    items = replace(items_of(table), spans=_spans(table, fitted))
    problem = table_problem(items, table.index, tree.subsets, fitted, settings.seed)
    problem = replace(problem, layers=tree.layers(len(table.values)))
    context = RunContext(
        problem=problem,
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=default_batch_rows(table),
        describe=partial(name_row, table),
        sampler_notes=partial(sampler_notes_of, problem, table, tree.subsets, settings.groups),
        metadata=table.metadata(),
        keep=KEEP,
        reference=reference_of(problem, table, tree, settings.seed),
        alike=alike,
        read_model=read_model(model, wrapped, problem, table, settings) if options.get("test") is None else None,
    )
    return run(context, settings)


def read_model(
    model: object, wrapped: Wrapped, problem: Problem, table: Table, settings: Settings
) -> Callable[[Model, Floats], ReadModel] | None:
    """How to look into a model that is an ensemble of trees (METHODS 13); None: it has to be asked."""
    if not settings.exact:
        return None
    try:
        found = readable(model)
    except Unreadable as error:
        from butfor.tabular.exact_trees.check import NOT_READ

        note = NOT_READ.format(why=error)
        return lambda *_: ReadModel(notes=(note,))
    if found is None:
        return None
    from butfor.tabular.exact_trees.check import read_trees

    size = settings.batch_rows or default_batch_rows(table)
    return partial(read_trees, found, problem, table, wrapped.columns, size)


def _suited(settings: Settings, options: Mapping[str, object], sampler: Sampler, alike: Ints) -> Settings:
    """Weights are learned by default where the sampler is calibrated and there are enough inputs (METHODS 12)."""
    named = alike if settings.groups is None else np.asarray(settings.groups, dtype=object).astype(str)
    clusters = len(distinct(named))
    able = settings.test.name == "sequential" or (settings.test.name == "irt" and not settings.test.early_stop)
    learns = info_of(sampler).calibrated and able and clusters >= LEAST_CLUSTERS and settings.family == "run"
    return replace(settings, rule="adaptive") if options.get("rule") is None and learns else settings


def subset_tree(table: Table, sampler: Sampler, subsets: object) -> ColumnTree:
    """What is tested: a tree of the reference's columns, the user's own tree, or one layer of subsets."""
    reference = sampler.reference if isinstance(sampler, TableSampler) else None
    if subsets is None:
        subsets = "zoom" if info_of(sampler).calibrated and reference is not None else "columns"
    if is_nested(subsets):
        assert isinstance(subsets, Mapping)
        return named_tree(table, subsets)
    if not isinstance(subsets, str) or subsets not in ("zoom", "columns"):
        return _flat(column_subsets(table, subsets))
    if subsets == "columns":
        return _flat(column_subsets(table, None))
    if reference is None:
        raise InputError(
            "subsets='zoom' makes its tree from reference data, and this sampler has none; give reference data, or "
            "your own tree as a mapping of mappings of columns"
        )
    assert isinstance(sampler, TableSampler)
    ordered = replace(table, values=sampler.in_data_order(reference.values))
    return column_tree(ordered, stand_still(ordered.values, table.values))


def _flat(subsets: list[Subset]) -> ColumnTree:
    return ColumnTree(subsets, np.zeros(len(subsets), np.int64), np.full(len(subsets), -1))


def reference_of(problem: Problem, table: Table, tree: ColumnTree, seed: int) -> Reference | None:
    """What the run needs of the reference that its sampler was fitted on; None: it has none, as far as is known."""
    sampler = problem.sampler
    if not isinstance(sampler, TableSampler) or sampler.reference is None:
        return None
    rows = len(sampler.reference.values)
    some = stream(seed, "whole", "rows").permutation(rows)[:MOST_WHOLE]
    return Reference(
        items=reference_items(sampler, table, np.sort(some)),
        fit=fit_of,
        controls=None if sampler.again is None else partial(control_problems, sampler, table, tree, seed),
        root=tree.root,
    )


def _spans(table: Table, sampler: Sampler) -> Floats:
    """The range of each column, by which distances are measured (Gower); 0: a category."""
    values = table.values
    if isinstance(sampler, TableSampler) and sampler.reference is not None:
        values = np.concatenate([sampler.in_data_order(sampler.reference.values), values])
    low, high = np.nanmin(values, axis=0, initial=np.inf), np.nanmax(values, axis=0, initial=-np.inf)
    spans = (high - low).astype(np.float64)  # of a column that is missing altogether: -inf
    categories = np.array([column.kind == "category" for column in table.kinds])
    return np.where(categories, 0.0, np.where(spans > 0, spans, 1.0))


def default_batch_rows(table: Table) -> int:
    """Rows the model gets at a time where the user does not say: about four megabytes, at most 10,000."""
    return int(np.clip(2**19 // table.values.shape[1], 256, 10_000))


def name_row(table: Table, row: int) -> str:
    """What a row is called in an error."""
    return f"row {row} of the data (index {table.index[row]!r})"


def sampler_notes_of(problem: Problem, table: Table, subsets: Sequence[Subset], groups: object) -> list[str]:
    """What looks wrong about the sampler and the rows on a quick look, and what the sampler says of itself."""
    notes, sampler = quick_check(problem), problem.sampler
    reference = None
    if isinstance(sampler, TableSampler) and sampler.reference is not None:
        reference = sampler.in_data_order(sampler.reference.values)
    notes += belonging_notes(table, reference, groups)
    if isinstance(sampler, HasNotes):
        notes += sampler.notes(table.show(table.values), subsets, problem.seed)
    return notes
