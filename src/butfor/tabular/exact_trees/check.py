"""The self-check: what was read off a model against what it says, on the inputs and on rows with drawn values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.draw.items import TableItems
from butfor.core.draw.samplers import ListsSupport
from butfor.core.draw.streams import stream
from butfor.core.evaluate.probe import outputs_of
from butfor.core.test.outcomes import ReadModel
from butfor.core.types import Array, Floats, Model, Subset
from butfor.models.trees import Readable, Unreadable
from butfor.tabular.exact_trees.index import TreeIndex
from butfor.tabular.exact_trees.outcomes import TreeOutcomes
from butfor.tabular.exact_trees.source import in_columns
from butfor.tabular.exact_trees.steps import StepFunctions
from butfor.tabular.splice import TableSampler
from butfor.tabular.table import Table

ROWS = 1_000  # that the model is asked beside the inputs
CLOSE, CLOSE_SINGLE = 1e-9, 2e-5  # of the outputs' size: sums in another order, in float64 and in float32
EXACT = "Exact: the model is an ensemble of trees, and p-values are computed from its trees and the sampler, not drawn."
NOT_READ = "The model is an ensemble of trees, but {why}, so p-values come from draws."


def read_trees(
    model: Readable, problem: Problem, table: Table, columns: tuple[object, ...] | None, batch_rows: int,
    ask: Model, outputs: Floats,
) -> ReadModel:  # fmt: skip
    """The trees of a model, where they say what it says; `outputs` are the model's on all inputs."""
    reference = _reference(problem, table)
    if reference is None:
        return ReadModel()
    try:
        rows = _drawn_rows(problem, reference)
        known = np.concatenate([table.values, reference, rows])
        order = _order(table, columns, by_place=model.by_place)
        index = TreeIndex(in_columns(model, model.read(), table, known, order), table.values.shape[1])
        steps = StepFunctions(index)
        found = TreeOutcomes(steps)
        if not found.split(problem)[0]:
            return ReadModel()
        inputs = problem.items.block(0, len(problem.items))
        ours = index.outputs(steps.sums(index.pieces(np.concatenate([inputs, rows]))))
        _compare(index, ours[: len(inputs)], outputs)
    except Unreadable as error:
        return ReadModel(notes=(NOT_READ.format(why=error),))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:  # another version of a library
        why = f"reading it raised {type(error).__name__} ({error})"
        return ReadModel(notes=(NOT_READ.format(why=" ".join(why.split())),))
    assert isinstance(problem.items, TableItems)
    items = _without_labels(replace(problem.items, values=rows), table)
    said = outputs_of(ask, items, batch_rows, lambda row: f"row {row} of the self-check")
    try:
        _compare(index, ours[len(inputs) :], said)
    except Unreadable as error:
        return ReadModel(notes=(NOT_READ.format(why=error),), rows=len(rows))
    return ReadModel(found, (EXACT,), len(rows))


def _without_labels(items: TableItems, table: Table) -> TableItems:
    """Rows that have no labels of their own, shown as those of the data are."""
    show: Callable[[Array, object], object] | None = (
        None if items.show is None else lambda values, _: table.show(values)
    )
    return replace(items, show=show)


def _order(table: Table, columns: tuple[object, ...] | None, *, by_place: bool) -> Array | None:
    """The places of the model's columns in the table, where they stand in another order."""
    if columns is None or table.labels is None or tuple(columns) == tuple(table.labels):
        return None
    places = {name: place for place, name in enumerate(table.labels)}
    if set(places) != set(columns):
        if by_place:
            raise Unreadable("the data has other columns than it was fitted on")
        return None
    return np.array([places[name] for name in columns])


def _reference(problem: Problem, table: Table) -> Array | None:
    """Rows that the sampler was fitted on, those of the data where it lists values; None: nothing is known of it."""
    sampler = problem.sampler
    if isinstance(sampler, TableSampler) and sampler.reference is not None:
        return sampler.in_data_order(sampler.reference.values).astype(table.values.dtype)
    return table.values if isinstance(sampler, ListsSupport) else None


def _drawn_rows(problem: Problem, reference: Array) -> Array:
    """Rows of the reference, and inputs in which one subset each is drawn."""
    inputs = problem.items.block(0, len(problem.items))
    rng = stream(problem.seed, "trees", "check")
    parts = [reference[rng.permutation(len(reference))[: ROWS // 2]].astype(inputs.dtype)]
    width = inputs.shape[1]
    drawn = [Subset("", np.array([column])) for column in range(width)]
    if not isinstance(problem.sampler, TableSampler):
        drawn = [subset for subset in problem.subsets if problem.sampler.lists(subset)]  # type: ignore[attr-defined]
    drawn = [drawn[place] for place in rng.permutation(len(drawn))[: ROWS - len(parts[0])]]
    each = max(1, (ROWS - len(parts[0])) // max(1, len(drawn)))
    for subset in drawn:
        rows = inputs[rng.integers(len(inputs), size=each)].copy()
        rows[:, subset.index] = _new_values(problem, rows, subset, rng)
        parts.append(rows)
    return np.concatenate(parts)


def _new_values(problem: Problem, rows: Array, subset: Subset, rng: np.random.Generator) -> Array:
    """One value of the subset for each row: drawn, or any of those that are listed."""
    sampler = problem.sampler
    if isinstance(sampler, TableSampler):
        return sampler.values(rows, subset, 1, rng).reshape(len(rows), -1)
    assert isinstance(sampler, ListsSupport)
    listed, _ = problem.items.support(sampler, rows, subset, "self-check")
    values = np.asarray(listed).reshape(len(rows), -1, len(subset.index))
    return np.asarray(values[np.arange(len(rows)), rng.integers(values.shape[1], size=len(rows))])


def _compare(index: TreeIndex, ours: Floats, said: Floats) -> None:
    """Refuse what does not agree to rounding; ours comes as the test asks, not by a way of its own."""
    if ours.shape != said.shape:
        raise Unreadable(f"its trees give {ours.shape[1]} outputs and the model {said.shape[1]}")
    close = CLOSE_SINGLE if index.splits.ensemble.single else CLOSE
    size = max(float(np.abs(said).max()), float(np.abs(ours).max()), 1e-300)
    wrong = int((np.abs(ours - said) > close * size).any(axis=1).sum())
    if wrong:
        raise Unreadable(f"what was read off it differs from what it says on {wrong} of {len(ours)} rows")
