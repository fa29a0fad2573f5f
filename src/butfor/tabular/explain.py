"""Tables: one call from a model and its rows to features with a guarantee."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np

from butfor.evaluation.hypotheses import Hypotheses, Job, draw, table_hypotheses
from butfor.evaluation.items import TableItems, digest
from butfor.evaluation.samplers import HasNotes, Sampler, info_of, method
from butfor.inference.adaptive import LEAST_CLUSTERS
from butfor.inference.features import Fit
from butfor.models import Wrapped
from butfor.models.trees import Unreadable, readable
from butfor.models.wrap import check_aligned, is_series, model_name
from butfor.results.result import Result
from butfor.results.words import Note, Severity
from butfor.run.control import SEEN_DRAWS
from butfor.run.run import Redrawn, Reference, RunContext, run
from butfor.run.tests import ReadModel
from butfor.settings import Settings
from butfor.streams import stream
from butfor.tabular.calibration import (
    LEAST_RANKED,
    MOST_RANKED,
    ConditionalFaults,
    conditional_faults,
    draw_ranks,
    filled,
    spread_ranks,
)
from butfor.tabular.donors import describe, reference_rows
from butfor.tabular.enough import kept_columns
from butfor.tabular.fixed import Cell, fixed_cells, fixed_columns
from butfor.tabular.residual import residual
from butfor.tabular.residual.trees import grow
from butfor.tabular.splice import Conditional, TableSampler, align_columns, bind_model, bind_sampler, is_data
from butfor.tabular.subsets import (
    ColumnTree,
    column_subsets,
    column_tree,
    is_nested,
    named_tree,
    single_subsets,
    stand_still,
)
from butfor.tabular.table import Table, as_frame, as_table, clustered, items_of
from butfor.types import Array, Batch, Bools, Floats, InputError, Ints, Model, Subset

KEEP = (3, 2**22)  # counterfactuals of each hypothesis that are kept, and the values of all of them
ONE_LABEL = (
    "target='truth' is valid only where the reference is of each input's own label, and y has several; explain the "
    "inputs of one label against a reference of that label, use target='predicted', or give a sampler that you know to "
    "describe inputs of their label: butfor.tabular.auto(rows_of_that_label)"
)
MOST_WHOLE = 5_000  # rows of the reference that whole inputs are compared with


def explain(model: object, X: object, sampler: object, subsets: object, options: Mapping[str, object]) -> Result:
    """Explain the rows of a table; `butfor.explain` documents it."""
    settings = Settings.of(options, test="sequential")  # refuses what cannot be, before anything is read or fitted
    X = X if is_series(X) else as_frame(X, "data")
    frame = as_frame(X, "data")
    check_aligned(settings.y, frame)
    check_aligned(settings.groups, frame, "groups")
    if settings.target == "truth" and is_data(sampler) and len(set(np.asarray(settings.y).reshape(-1).tolist())) > 1:
        raise InputError(ONE_LABEL)
    wrapped = bind_model(model, X)  # what it cannot take is refused before anything is fitted
    table, fitted = bind_sampler(X, sampler, reference_groups=settings.reference_groups)
    tree = subset_tree(table, fitted, subsets)
    alike = np.unique(table.values, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)
    named = alike if settings.groups is None else np.asarray(settings.groups, dtype=object).astype(str)
    learns = settings.test.name == "sequential" or (settings.test.name == "irt" and not settings.test.early_stop)
    learns &= info_of(fitted).calibrated and len(np.unique(named)) >= LEAST_CLUSTERS and settings.family == "run"
    if learns and options.get("rule") is None:
        settings = replace(settings, rule="adaptive")  # METHODS 12
    items = replace(items_of(table), spans=_spans(table, fitted))
    hypotheses = table_hypotheses(items, table.index, tree.subsets, fitted, settings.seed)
    hypotheses = replace(hypotheses, layers=tree.layers(len(table.values)))
    reference = _reference(hypotheses, table, tree, settings.seed, named=not isinstance(subsets, str | None))
    controlled = settings.control and reference is not None and reference.controls is not None
    context = RunContext(
        hypotheses=hypotheses,
        wrapped=wrapped,
        model_name=model_name(model),
        batch_rows=default_batch_rows(table),
        describe=partial(name_row, table),
        sampler_notes=partial(_notes, hypotheses, table, tree, settings.groups, controlled),
        inputs=table.record(),
        keep=KEEP,
        reference=reference,
        alike=alike,
        immovable=tree.immovable,
        read_model=read_model(model, wrapped, hypotheses, table, settings) if options.get("test") is None else None,
    )
    return run(context, settings)


def read_model(
    model: object, wrapped: Wrapped, hypotheses: Hypotheses, table: Table, settings: Settings
) -> Callable[[Model, Floats], ReadModel] | None:
    """Return how to read a model that is an ensemble of trees (METHODS 13); None: it has to be evaluated."""
    if not settings.exact:
        return None
    from butfor.tabular.exact_trees import not_read, read_trees

    try:
        trees = readable(model)
    except Unreadable as error:
        note = not_read(error)
        return lambda *_: ReadModel(notes=(note,))
    if trees is None:
        return None
    size = settings.options.batch_rows or default_batch_rows(table)
    return partial(read_trees, trees, hypotheses, table, wrapped.columns, size)


def subset_tree(table: Table, sampler: Sampler, subsets: object) -> ColumnTree:
    """Return what to test: columns that others fix in the reference with these, unless the user names them."""
    reference = replace(table, values=sampler.reference_values) if isinstance(sampler, TableSampler) else None
    fixed: Mapping[int, Cell] = {} if reference is None else fixed_columns(reference)
    if subsets is None:
        subsets = "zoom" if info_of(sampler).calibrated and reference is not None else "columns"
    if is_nested(subsets):
        assert isinstance(subsets, Mapping)
        return replace(named_tree(table, subsets), fixed=fixed)
    if not isinstance(subsets, str) or subsets != "zoom":
        if isinstance(subsets, str) and subsets == "columns":
            subsets = single_subsets(table, fixed_cells(fixed, np.arange(len(table.columns))))
        flat = column_subsets(table, subsets)
        return ColumnTree(flat, np.zeros(len(flat), np.int64), np.full(len(flat), -1), fixed)
    if reference is None:
        raise InputError(
            "subsets='zoom' makes its tree from reference data, and this sampler has none; give reference data, or "
            "your own tree as a mapping of mappings of columns"
        )
    return column_tree(reference, stand_still(reference.values, table.values), fixed)


def _reference(
    hypotheses: Hypotheses, table: Table, tree: ColumnTree, seed: int, rows: Ints | None = None, *, named: bool
) -> Reference | None:
    """Return what the run needs of the reference that its sampler was fitted on, or of some rows; None: it has none.

    Groups of columns that the user has `named` may be enough for a decision, as single columns may.
    """
    sampler = hypotheses.sampler
    if not isinstance(sampler, TableSampler):
        return None
    if rows is None:
        rows = np.sort(stream(seed, "whole", "rows").permutation(sampler.rows)[:MOST_WHOLE])

    def controls(most: int, first: int, sampler: TableSampler = sampler) -> list[Hypotheses]:
        part = ColumnTree(tree.subsets[:first], tree.resolution[:first], tree.parent[:first])
        made = held_out_hypotheses(sampler, table, part.subsets, seed, most)
        return [] if made is None else [replace(made, layers=part.layers(len(made.items)))]

    every, items_at = rows, partial(_reference_items, sampler, table)

    def without(bad: Ints) -> Reference:
        fewer = _reference(hypotheses, table, tree, seed, np.delete(every, bad), named=named)
        assert fewer is not None
        return fewer

    return Reference(
        items_at(every),
        fit_of,
        None if sampler.refit is None else controls,
        tree.root,
        partial(rank_faults, sampler, table, tree.subsets, seed),
        partial(redrawn_rows, sampler, table, tree.subsets, seed),
        partial(_weights, hypotheses, sampler, seed),
        partial(kept_columns, hypotheses, table, tree.subsets if named else (), every, items_at, fit_of),
        without=without,
    )


def redrawn_rows(
    sampler: TableSampler, table: Table, subsets: Sequence[Subset], seed: int, usable: Bools, most: int
) -> Redrawn | None:
    """Return reference rows, each with versions of it redrawn part by part; None: too few, no parts, or no likeness.

    Parts are the largest of `usable` subsets (S,) that do not overlap, each redrawn given what the others are by then
    (a Gibbs sweep; half of the versions go backwards): fair draws leave a row one of the reference's kind, and far from
    the row that a model may remember. The fit has seen the rows: its means, and so those of fair draws, are theirs.
    """
    rng, parts, used = stream(seed, "seen", "rows"), list[Subset](), set[int]()
    for subset in (subset for subset, right in zip(subsets, usable, strict=True) if right):
        index = set(subset.index.tolist())
        if len(parts) < MOST_PARTS and len(index) < table.values.shape[1] and not index & used:
            parts.append(subset)
            used |= index
    rows = rng.permutation(sampler.rows)
    if sampler.clusters is not None:
        rows = rows[np.unique(sampler.clusters[rows], return_index=True)[1]]
    rows = np.sort(rows[:MOST_CONTROLS])
    versions = 1 + min(most // len(rows) - 1, SEEN_DRAWS)
    if len(rows) < LEAST_CONTROL_ROWS or versions < 2 or not parts:
        return None
    items = _reference_items(sampler, table, np.repeat(rows, versions))
    values = items.values.reshape(len(rows), versions, -1).copy()
    for chains, order in ((slice(1, None, 2), parts), (slice(2, None, 2), parts[::-1])):
        swept = values[:, chains].reshape(-1, values.shape[2])
        for subset in order if len(swept) else ():
            swept[:, subset.index] = items.draw(sampler, swept, subset, 1, rng)[:, 0]
        values[:, chains] = swept.reshape(len(rows), -1, values.shape[2])
    flat = values.reshape(-1, values.shape[2])
    numbers = filled(flat.astype(np.float64))
    sd = numbers.std(axis=0)
    numbers = (numbers - numbers.mean(axis=0)) / np.where(sd > 0, sd, 1.0)
    numbers = numbers.reshape(values.shape)
    return None if _told_apart(numbers, rng) else Redrawn(replace(items, values=flat), numbers)


TOLD_APART, SPLITTING, LEAF = 2.0, 100, 100  # standard errors; trees; leaves of a tree at most


def _told_apart(rows: Floats, rng: np.random.Generator) -> bool:
    """Tell whether trees can tell real rows from redrawn ones, of rows (n, versions, columns), the real ones first.

    Where they can (two clusters that draws bridge), so can a model, whether or not it knows the rows.
    """
    count, versions = rows.shape[:2]
    real = np.tile(np.r_[1.0, np.full(versions - 1, -1 / (versions - 1))], count)[:, None]
    clusters = np.repeat(np.arange(count), versions)
    leaf = max(3, count * versions // LEAF)
    seen = grow(rows.reshape(count * versions, -1), real, clusters, leaf, SPLITTING, rng).left_out.reshape(count, -1)
    apart = seen[:, 0] - seen[:, 1:].mean(axis=1)
    return bool(apart.mean() * np.sqrt(count) > TOLD_APART * apart.std())


def rank_faults(sampler: TableSampler, table: Table, subsets: Sequence[Subset], seed: int) -> ConditionalFaults | None:
    """Return which subsets' draws do not follow the other columns of the reference (METHODS 18 b); None: not known."""
    rows = sampler.reference_values.astype(np.float64)
    if method(sampler.conditional, "held_out_ranks") is not None:
        return conditional_faults(rows, subsets, sampler.held_out_ranks, seed, clusters=sampler.clusters)
    split = _split_and_fit(sampler, seed)  # no fits without a row: the rows that the control holds out
    if split is None or len(split[0]) < LEAST_RANKED:
        return None
    held_out, others = split
    some = held_out[:MOST_RANKED]
    fitted: Sampler = align_columns(others, table)  # type: ignore[assignment]  # a TableSampler, as it was
    hypotheses = table_hypotheses(_reference_items(sampler, table, some), some.tolist(), subsets, fitted, seed)
    share = len(some) / others.rows
    return conditional_faults(rows, subsets, lambda subset: (some, draw_ranks(hypotheses, subset)), seed, share)


def _spans(table: Table, sampler: Sampler) -> Floats:
    """Return the range of each column, by which distances are measured (Gower); 0: a category."""
    values = table.values
    if isinstance(sampler, TableSampler):
        values = np.concatenate([sampler.reference_values, values])
    low, high = np.nanmin(values, axis=0, initial=np.inf), np.nanmax(values, axis=0, initial=-np.inf)
    spans = (high - low).astype(np.float64)  # of a column that is missing altogether: -inf
    categories = np.array([column.kind == "category" for column in table.kinds])
    return np.where(categories, 0.0, np.where(spans > 0, spans, 1.0))


def default_batch_rows(table: Table) -> int:
    """Return the rows of one batch where the user names none: about four megabytes, at most 10,000."""
    return int(np.clip(2**19 // table.values.shape[1], 256, 10_000))


def name_row(table: Table, row: int) -> str:
    return f"row {row} of the data (index {table.index[row]!r})"


def _notes(
    hypotheses: Hypotheses, table: Table, tree: ColumnTree, groups: object, controlled: bool
) -> list[Note | str]:
    sampler, reference = hypotheses.sampler, None
    if isinstance(sampler, TableSampler):
        reference = sampler.reference_values.astype(np.float64)
    notes: list[Note | str] = [*draw_notes(hypotheses, reference, controlled), *row_notes(table, reference, groups)]
    if reference is not None and (still := stand_still(reference, table.values)).any():
        notes.append(Note("constant-columns", "info", {"columns": [table.columns[j] for j in np.flatnonzero(still)]}))
    # columns that others fix: tested with them, or, where the user names them alone, never chosen
    names, tested = table.columns, {tuple(sorted(subset.index.tolist())) for subset in tree.subsets}
    for cell in fixed_cells(tree.fixed, np.arange(len(names))):
        if len(cell) > 1 and cell in tested:
            by = {names[j]: [names[k] for k in tree.fixed[j]] for j in cell if j in tree.fixed}
            notes.append(Note("fixed-together", "limit", {"columns": [names[j] for j in cell], "by": by}))
    for subset in (subset for subset, still in zip(tree.subsets, tree.immovable.tolist(), strict=True) if still):
        by = {names[j]: [names[k] for k in tree.fixed[j]] for j in subset.index.tolist()}
        notes.append(Note("fixed-alone", "warning", {"subset": subset.name, "by": by}))
    if reference is not None and isinstance(sampler, TableSampler) and sampler.clusters is None:
        notes += reference_notes(table, reference)
    if isinstance(sampler, HasNotes):
        notes += sampler.notes(table.show(table.values), tree.subsets, hypotheses.seed)
    return notes


MOST_SAMPLERS = 4  # of this process that are kept for the same reference
_samplers: OrderedDict[bytes, TableSampler] = OrderedDict()


def auto(reference: object, *, groups: object = None, seed: int = 0) -> TableSampler:
    """Return the sampler that `butfor.explain` makes of reference data: `residual`, fitted once for the same data.

    It is fitted as it is used, subset by subset, and kept: a second call with the same reference, in this process, has
    its fits already. Where much depends on it, choose a sampler yourself and check it with `butfor.check_sampler`;
    every run shows what the same test chooses of held-out rows of the reference (`result.control`).

    Parameters
    ----------
    reference : array or DataFrame
        Rows as they look when there is nothing to report.
    groups : array-like, optional
        A label for each row, equal for rows that are not independent of each other, such as those of one person.
    seed : int, default=0
        Picks the rows of a large reference on which choices are made.

    Returns
    -------
    TableSampler
        A callable `(inputs, subset, draws, rng) -> rows`.

    Examples
    --------
    >>> import numpy as np
    >>> auto(np.random.default_rng(0).normal(size=(100, 2)))
    residual(100 reference rows, 2 columns)
    """
    data = as_frame(reference, "reference")
    table = clustered(as_table(data, "reference"), groups)
    about = repr((table.columns, [column.record() for column in table.kinds], table.labels is None, seed))
    clusters = np.array([] if groups is None else table.clusters)
    key = digest({"values": table.values, "about": about, "clusters": clusters})
    if key not in _samplers:
        fitted = residual(data, groups=groups, seed=seed)
        _samplers[key] = replace(fitted, why=Note("sampler-residual", "info"))
    _samplers.move_to_end(key)
    while len(_samplers) > MOST_SAMPLERS:
        _samplers.popitem(last=False)
    return _samplers[key]


DRAWS = 39  # ends of the ranks are then 2.5 % each
LEAST_INPUTS = 50
CORRELATED = 0.7  # of a column with its linear prediction: from here on the others are said to predict it


def draw_notes(hypotheses: Hypotheses, reference: Floats | None, controlled: bool) -> list[Note]:
    """Return notes on counterfactuals that can hardly be right, from a few draws and no model evaluations.

    Nothing is tested: inputs may differ from the population of the reference, which is what a run is to find. Draws
    come from streams of their own, for inputs of the first block. Whether draws scatter too little or too much is left
    to the control of the run where there is one.
    """
    enough = max(64, 5 * hypotheses.items.block(0, 1).shape[1])  # inputs: this is to cost little beside the model
    rng, calibrated = stream(hypotheses.seed, "quick check"), info_of(hypotheses.sampler).calibrated
    jobs = [
        Job(block, DRAWS, "quick check", ask=np.arange(enough) if block.stop > enough else None)
        for block in hypotheses.blocks[:100]
        if block.start == 0
    ]
    names: dict[str, list[str]] = {code: [] for code, _ in DRAW_NOTES}
    inputs: Floats | None = None
    every = hypotheses.items.block(0, len(hypotheses.items))
    still = np.zeros(every.shape[1], bool) if reference is None else stand_still(reference, every)  # said elsewhere
    for drawn in (draw(hypotheses, job) for job in jobs):
        subset, columns = drawn.job.block.subset, np.asarray(drawn.job.block.subset.index)
        pool = filled(np.asarray(drawn.values, dtype=np.float64).reshape(len(drawn.inputs), DRAWS + 1, -1))
        if inputs is None:  # the same in all jobs
            inputs = filled(np.asarray(drawn.inputs, dtype=np.float64))
            predicted = predictable(inputs)
        observed, draws = pool[:, 0], pool[:, 1:]
        equal = (draws == pool[:, :1]).sum(axis=1)
        wrong = {"draws-repeat": not still[columns].all() and (equal == DRAWS).all(axis=1).mean() > 0.5}
        if not calibrated and len(inputs) >= 10:
            few = _few_whole_numbers(observed)
            if few.any() and reference is not None:
                few &= _few_whole_numbers(filled(reference)[:, columns])
            wrong["draws-fractions"] = (few & ((draws % 1 != 0).mean(axis=(0, 1)) > 0.5)).any()
        if len(columns) == 1 and predicted[columns[0]]:
            wrong["draws-independent"] = _independent(inputs, columns, observed[:, 0], draws[:, :, 0])
        if len(inputs) >= LEAST_INPUTS and not controlled:
            below = (draws < pool[:, :1]).sum(axis=1)
            ranks = [spread_ranks(below[:, j], equal[:, j], DRAWS + 1, rng) for j in range(len(columns))]
            wrong["draws-narrow"] = any((u < 0.025).mean() > 0.1 and (u > 0.975).mean() > 0.1 for u in ranks)
            wrong["draws-wide"] = any((np.abs(u - 0.5) < 0.25).mean() > 0.75 for u in ranks)  # 0.5 if Q is right
        for code in (code for code, is_wrong in wrong.items() if is_wrong):
            names[code].append(subset.name)
    return [Note(code, severity, {"subsets": names[code]}) for code, severity in DRAW_NOTES if names[code]]


DRAW_NOTES: tuple[tuple[str, Severity], ...] = (
    ("draws-repeat", "limit"),
    ("draws-fractions", "warning"),
    ("draws-independent", "warning"),
    ("draws-narrow", "warning"),
    ("draws-wide", "limit"),
)


def _few_whole_numbers(values: Floats) -> Bools:
    """Return which columns (d,) hold at most ten different values, all whole: grades or codes."""
    whole = (values % 1 == 0).all(axis=0)
    return np.array([one and len(np.unique(column)) <= 10 for one, column in zip(whole, values.T, strict=True)])


def predictable(inputs: Floats) -> Bools:
    """Return which columns (d,) a linear prediction from the others may match; all where that is not clear.

    The share of a column's variance that the others explain is 1 - 1 / C, C its entry of the inverse correlations.
    """
    count, width = inputs.shape
    if count < max(LEAST_INPUTS, 5 * width) or width < 2:
        return np.zeros(width, bool)
    centred = inputs - inputs.mean(axis=0)
    size = np.sqrt(np.einsum("ij,ij->j", centred, centred))
    if not size.all():
        return np.ones(width, bool)
    scaled = centred / size
    try:
        explained = 1 - 1 / np.diag(np.linalg.inv(scaled.T @ scaled))
    except np.linalg.LinAlgError:
        return np.ones(width, bool)
    return np.asarray(~(explained < 0.9 * CORRELATED**2))  # NaN too: it is looked at more closely


def _independent(inputs: Floats, columns: Ints, observed: Floats, draws: Floats) -> bool:
    """Tell whether the linear prediction of a column from the others matches its observed values, but not its draws."""
    rest = np.column_stack([np.ones(len(inputs)), np.delete(inputs, columns, axis=1)])
    fitted = rest @ np.linalg.lstsq(rest, observed, rcond=None)[0]
    if np.ptp(fitted) == 0 or np.ptp(observed) == 0 or np.ptp(draws) == 0:
        return False
    centred = fitted - fitted.mean()
    with_data = np.corrcoef(fitted, observed)[0, 1]
    with_draws = (centred @ draws.mean(axis=1)) / (len(inputs) * centred.std() * draws.std())  # over all draws
    return bool(with_data > CORRELATED and with_draws < 0.5 * with_data)


LEAST_ROWS, MOST_ROWS = 20, 5_000
SHARE = 0.2  # of rows that share half of their columns with another row
MIXED = 5  # times that rows are mixed, to know that share by chance


def row_notes(table: Table, reference: Floats | None, groups: object) -> list[Note]:
    """Return notes on inputs that repeat each other, and on columns that number the rows."""
    values = table.values[:MOST_ROWS].astype(np.float64)
    if len(values) < LEAST_ROWS:
        return []
    categories = np.array([column.kind == "category" for column in table.kinds])
    notes = [Note("repeated-inputs", "warning")] if groups is None and _repeat(values, categories) else []
    for j, name in enumerate(table.columns if reference is not None and len(reference) >= LEAST_ROWS else ()):
        assert reference is not None
        here, other = values[:, j], reference[:, j]
        if table.kinds[j].kind == "category" or np.isnan([*here, *other]).any():
            continue
        if here.min() > other.max() or here.max() < other.min():
            steps = [np.diff(np.sort(part)) for part in (here, other)]
            if all(step.min() > 0 and step.max() <= 3 * np.median(step) for step in steps):  # as of an index or a clock
                return [*notes, Note("index-column", "warning", {"column": name})]
    return notes


LEAST_CLUSTERS_SEEN, ALIKE = 10, 0.5  # values of a key, and the share of other columns' variance between its rows


def reference_notes(table: Table, reference: Floats) -> list[Note]:
    """Return a note where rows of the reference repeat each other, with the column that tells which, if there is one.

    A key has many values, each in several rows that are much alike in most other columns: the share of variance
    between its values, each row left out of its value's mean, is above a half.
    """
    rows = filled(reference[:MOST_ROWS])
    spread = rows.var(axis=0)
    if len(rows) < LEAST_ROWS:
        return []
    for j, name in enumerate(table.columns):
        _, key, count = np.unique(rows[:, j], return_inverse=True, return_counts=True)
        others = np.flatnonzero((spread > 0) & (np.arange(len(spread)) != j))
        if len(count) < LEAST_CLUSTERS_SEEN or count.min() < 2 or 2 * len(count) > len(rows) or len(others) < 2:
            continue
        sums = np.stack([np.bincount(key, column) for column in rows[:, others].T], axis=1)
        error = (rows[:, others] - (sums / count[:, None])[key]) * (count / (count - 1))[key][:, None]
        if np.mean((error**2).mean(axis=0) < (1 - ALIKE) * spread[others]) > 0.5:
            return [Note("clustered-reference", "warning", {"column": name})]
    many = [10 * len(np.unique(column)) >= len(rows) for column in rows.T]  # values: few are equal by chance
    repeats = sum(many) > 1 and _repeat(reference[:MOST_ROWS, many], np.zeros(sum(many), bool))
    return [Note("clustered-reference", "warning", {"column": None})] if repeats else []


def _repeat(values: Floats, categories: Bools) -> bool:
    """Tell whether far more rows agree in half of the columns of many values than would by chance.

    Categories (d,) may go together, as a car's make and model do, without telling anything of who was asked twice.
    """
    order = np.argsort(values, axis=0)
    ordered = np.take_along_axis(values, order, axis=0)  # missing ones last
    same = (ordered[1:] == ordered[:-1]) | np.isnan(ordered[:-1])
    many = 1 + (~same & ~np.isnan(ordered[1:])).sum(axis=0) >= 5  # different values, that tell one row from another
    if many.sum() < 2:
        return False
    again = np.zeros(values.shape, bool)  # which values of a column another row has, too
    again[1:] |= same
    again[:-1] |= same
    telling, shared = values[:, many], np.bincount(order[:, many].reshape(-1), again[:, many].reshape(-1))
    if np.mean(2 * shared >= many.sum()) <= SHARE:
        return False  # the usual case: too few rows have enough values that any other row has
    alike, rng, by_chance = _share_alike(telling), stream(0, "belonging"), list[float]()
    for _ in range(MIXED if alike > SHARE else 0):  # of few rows with coarse columns one share is mostly luck
        mixed = rng.permuted(telling, axis=0)  # every column by itself, but categories together
        mixed[:, categories[many]] = telling[:, categories[many]]
        by_chance.append(_share_alike(mixed))
    return alike > max(SHARE, 3 * float(np.mean(by_chance or 0)))


def _share_alike(values: Floats) -> float:
    """Return the share of rows that agree in half of the columns, not all, with a neighbour in some sorted order."""
    width, alike = values.shape[1], np.zeros(len(values), bool)
    for first in range(width):
        order = np.lexsort([values[:, (first - k) % width] for k in range(1, width + 1)])
        equal = (values[order][1:] == values[order][:-1]).sum(axis=1)
        partly = (2 * equal >= width) & (equal < width)
        alike[order[1:][partly]] = alike[order[:-1][partly]] = True
    return float(alike.mean())


MOST_CONTROLS = 200
ONE_SPLIT = 500  # rows of a reference from which on a third is held out; a half of fewer
MOST_FITTED = 5_000  # rows that a sampler is fitted on for the control
MOST_PARTS = 16  # that are redrawn to tell whether the model knows the reference
LEAST_CONTROL_ROWS = 20  # of a reference: with fewer there is too little to hold out
_fits: WeakKeyDictionary[Conditional, dict[int, tuple[Ints, TableSampler]]] = WeakKeyDictionary()


def held_out_hypotheses(
    sampler: Sampler, table: Table, subsets: Sequence[Subset], seed: int, most: int = MOST_CONTROLS
) -> Hypotheses | None:
    """Return held-out rows of the reference, shown as those of `table`, with a sampler fitted to the others."""
    split = _split_and_fit(sampler, seed)
    if split is None:
        return None
    assert isinstance(sampler, TableSampler)
    held_out, others = np.sort(split[0][:most]), split[1]
    fitted: Sampler = align_columns(others, table)  # type: ignore[assignment]  # a TableSampler, as it was
    names = tuple(sampler.reference.index[i] for i in held_out)
    return table_hypotheses(_reference_items(sampler, table, held_out), names, subsets, fitted, seed)


def _split_and_fit(sampler: Sampler, seed: int) -> tuple[Ints, TableSampler] | None:
    """Return rows of the reference in random order and a sampler fitted to others; None: no refit, or too few rows."""
    if not isinstance(sampler, TableSampler) or sampler.refit is None:
        return None
    clusters = sampler.clusters
    count = sampler.rows if clusters is None else len(np.unique(clusters))
    if count < LEAST_CONTROL_ROWS:
        return None
    known = _fits.setdefault(sampler.conditional, {})
    if seed not in known:
        held_out, kept = hold_out(sampler.rows, stream(seed, "control", "rows"), clusters)
        known[seed] = held_out, sampler.refit(sampler.reference.take(kept))
    return known[seed]


def hold_out(rows: int, rng: np.random.Generator, clusters: Ints | None = None) -> tuple[Ints, Ints]:
    """Return rows to hold out, in random order, and rows to fit on: a half of fewer than 500, a third of more.

    Of a cluster of rows (`clusters`, (rows,)) that is held out one row is left, which is independent of the others.

    >>> held_out, kept = hold_out(6, np.random.default_rng(0), np.array([0, 0, 0, 1, 1, 1]))
    >>> len(held_out), kept.tolist()
    (1, [3, 4, 5])
    """
    codes = np.arange(rows) if clusters is None else np.unique(clusters, return_inverse=True)[1].reshape(-1)
    place = rng.permutation(int(codes.max()) + 1)[codes]  # rows of a cluster get one place
    mixed = rng.permutation(rows)
    mixed = mixed[np.argsort(place[mixed], kind="stable")]
    count = rows // 2 if rows < ONE_SPLIT else rows // 3
    count = int(np.searchsorted(place[mixed], place[mixed[count]], "left")) or int((place == 0).sum())
    first = np.sort(np.unique(place[mixed[:count]], return_index=True)[1])
    return mixed[first], np.sort(mixed[count:][:MOST_FITTED])


LEAST_WEIGHED = 20  # inputs from which on control rows are weighted to them, and control rows that must count then
MOST_ODDS = 20.0


def _weights(hypotheses: Hypotheses, sampler: TableSampler, seed: int, controls: Hypotheses) -> Floats | None:
    """Return weights (n, S) by which control rows stand where the inputs are, given the columns outside each subset.

    They are the odds of a logistic regression, inputs against reference rows that are not among the control's; 1 for a
    subset for which fewer than 20 control rows would count. None where there are too few inputs.
    """
    from sklearn.linear_model import LogisticRegression

    inputs = filled(hypotheses.items.block(0, len(hypotheses.items)).astype(np.float64))
    if len(inputs) < LEAST_WEIGHED or len(controls.items) < 2 * LEAST_WEIGHED:
        return None
    rng = stream(seed, "control", "weights")
    names = set(controls.input_names)
    others = np.array([i for i, name in enumerate(sampler.reference.index) if name not in names])
    others = others[rng.permutation(len(others))[:MOST_RANKED]]
    inputs = inputs[rng.permutation(len(inputs))[:MOST_RANKED]]
    rows = sampler.in_data_order(sampler.reference.values[others]).astype(np.float64)
    both, at = np.vstack([filled(rows), inputs]), controls.items.block(0, len(controls.items)).astype(np.float64)
    middle, sd = both.mean(axis=0), both.std(axis=0)
    features, at = (np.clip((x - middle) / np.where(sd > 0, sd, 1.0), -5, 5) for x in (both, filled(at)))
    is_input = np.arange(len(both)) >= len(rows)
    weights = np.ones((len(at), len(controls.subset_names)))
    for k, subset in enumerate(controls.subsets):
        rest = np.setdiff1d(np.arange(features.shape[1]), subset.index)
        if rest.size and len(rows):
            fitted = LogisticRegression(C=0.1, max_iter=50).fit(features[:, rest], is_input)
            odds = np.exp(np.clip(fitted.decision_function(at[:, rest]), -10, 10))
            odds = np.minimum(odds / np.median(odds), MOST_ODDS)
            if odds.sum() ** 2 / (odds**2).sum() >= LEAST_WEIGHED:
                weights[:, k] = odds / odds.mean()
    return weights


def _reference_items(sampler: TableSampler, table: Table, rows: Ints) -> TableItems:
    """Return rows of the sampler's reference as the model gets those of the data: in their order, with their types."""
    values: Array = sampler.in_data_order(sampler.reference.values[rows]).astype(table.values.dtype)
    plain = table.labels is None and table.kinds[0].dtype is None
    return TableItems(values, None if plain else partial(_shown, table, sampler.reference.take(rows)))


def _shown(table: Table, reference: Table, values: Array, rows: Ints | None) -> Batch:
    """Return rows as those of the data are shown, but with the labels of the reference."""
    shown = table.show(values)
    if rows is None or reference.row_labels is None or table.labels is None:
        return shown
    return shown.set_axis(reference.row_labels.take(rows), axis=0)


MOST_COLUMNS = 1_000
RIDGE = 1e-3  # of the mean square of a feature: keeps columns that say the same from making it singular
Leverages = list[tuple[Floats, float]]  # of each subset: at each input (n,), and at the mean of them


def fit_of(hypotheses: Hypotheses) -> Fit | None:
    """Return how well the sampler of a table is known; None: it was not fitted on a reference, as far as is known."""
    sampler = hypotheses.sampler
    if not isinstance(sampler, TableSampler):
        return None
    inputs = hypotheses.items.block(0, len(hypotheses.items))
    subsets = {block.subset.name: block.subset for block in hypotheses.blocks}
    order = [subsets[name] for name in hypotheses.subset_names]
    known = [one for one in (sampler.leverages(inputs, subset) for subset in order) if one is not None]
    leverages = known if len(known) == len(order) else _regression_leverages(sampler, inputs, order)
    copies = sampler.copies
    each = copies * np.stack([at_inputs for at_inputs, _ in leverages], axis=1)  # (n, S), as hypotheses stand
    mean = copies * np.maximum([mean for _, mean in leverages], 1 / sampler.rows)  # donors' mean is never known better
    return Fit(max(int(sampler.rows / copies), 1), mean, each.reshape(-1))


def _regression_leverages(sampler: TableSampler, inputs: Array, subsets: list[Subset]) -> Leverages:
    """Return the leverages of a linear regression of each subset on all other columns."""
    count, width = inputs.shape
    margin = (np.full(count, 1 / sampler.rows), 1 / sampler.rows)
    if info_of(sampler).ignores_dependence:
        return [margin] * len(subsets)
    if width > MOST_COLUMNS:  # a regression on so many is known no better than its residual
        return [(np.ones(count), 1.0)] * len(subsets)
    basis = describe(reference_rows(sampler.reference), np.arange(width))
    features = basis(sampler.reference.values.astype(np.float64))
    middle = features.mean(axis=0)
    gram = (features - middle).T @ (features - middle)
    gram[np.diag_indices_from(gram)] += RIDGE * max(float(np.trace(gram)) / max(len(gram), 1), 1e-12)
    precision = np.linalg.inv(gram)
    sizes = [1 if levels is None else len(levels) for levels in basis.categories]
    column_of = np.repeat(np.arange(width), np.add(sizes, basis.gaps))
    z = basis(sampler.in_reference_order(inputs).astype(np.float64)) - middle
    z = np.vstack([z, z.mean(axis=0)])  # at these rows, and last at the mean of them
    projected = z @ precision
    length = (projected * z).sum(axis=1)
    leverages = []
    for subset in subsets:
        if len(subset.index) == width:
            leverages.append(margin)
            continue
        # Without the features of the subset: z'Pz - (Pz)_S' P_SS^-1 (Pz)_S, whatever z_S is (Schur complement).
        inside = np.flatnonzero(np.isin(column_of, sampler.in_reference(subset).index))
        part = projected[:, inside]
        solved = np.linalg.solve(precision[np.ix_(inside, inside)], part.T).T if inside.size else part
        leverage = 1 / sampler.rows + np.maximum(length - (part * solved).sum(axis=1), 0.0)
        leverages.append((leverage[:-1], float(leverage[-1])))
    return leverages
