"""The public edge for tables: one call from a model and its rows to features with a guarantee.

What a run can tell about its own sampler at the price of a few draws and no model rows.

The inputs of a run need not come from the population that Q describes: that they differ is what the run is to find. So
nothing is tested here; a sentence is said only where counterfactuals could hardly be right whatever the inputs are, or
where a wrong sampler and a real signal look alike. `check_sampler` on held-out rows of the reference tells them apart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from weakref import WeakKeyDictionary

import numpy as np

from butfor.evaluation.hypotheses import Block, Job, Problem, draw_all, table_problem
from butfor.evaluation.items import TableItems, digest
from butfor.evaluation.samplers import HasNotes, Sampler, info_of
from butfor.inference.adaptive import LEAST_CLUSTERS
from butfor.inference.features import Fit
from butfor.models import Wrapped
from butfor.models.trees import Unreadable, readable
from butfor.models.wrap import check_aligned, is_series, model_name
from butfor.results.result import Result
from butfor.results.words import Note
from butfor.run.run import Reference, RunContext, run
from butfor.run.tests import ReadModel
from butfor.settings import Settings
from butfor.streams import stream
from butfor.tabular.calibration import filled, spread_ranks
from butfor.tabular.donors import Description, describe, reference_rows
from butfor.tabular.residual import residual
from butfor.tabular.splice import Conditional, TableSampler, align_columns, bind_model, bind_sampler, is_data
from butfor.tabular.subsets import ColumnTree, column_subsets, column_tree, is_nested, named_tree, stand_still
from butfor.tabular.table import Table, as_frame, as_table, items_of
from butfor.types import Array, Batch, Bools, Floats, InputError, Ints, Model, Subset, distinct

DRAWS = 39  # ends of the ranks are then 2.5 % each
LEAST_INPUTS = 50
MOST_SUBSETS = 100
ENOUGH_INPUTS = 64  # that are drawn for, or five for each column: this is to cost little beside the cheapest model
TOLD = 0.7  # correlation of a column with its linear prediction from which on the others are said to tell it
MOST_CODES = 10  # values of a column that stands for grades or kinds
ASK = "butfor.check_sampler on held-out rows of the reference tells which"


@dataclass(frozen=True, eq=False)
class DrawnValues:
    """Some inputs, and versions of one subset of them (n, 1 + draws, columns), version 0 being the observed values."""

    name: str
    columns: Ints
    inputs: Floats  # (n, d)
    values: Floats
    coded: Bools  # (columns,) a few whole numbers only, in the inputs and in the reference
    told: Bools  # (d,) columns that the others may tell
    rng: np.random.Generator

    @property
    def drawn(self) -> Floats:
        return self.values[:, 1:]

    @cached_property
    def standing(self) -> tuple[Ints, Ints]:
        """How many draws lie below each observed value (n, columns), and how many are equal to it."""
        below, equal = self.drawn < self.values[:, :1], self.drawn == self.values[:, :1]
        return below.sum(axis=1), equal.sum(axis=1) if equal.any() else np.zeros(self.values[:, 0].shape, np.int64)

    @cached_property
    def ranks(self) -> list[Floats]:
        """Where observed values stand among their draws, from 0 to 1, by column; nowhere where inputs are too few."""
        columns = range(len(self.columns)) if len(self.inputs) >= LEAST_INPUTS else ()
        below, ties = self.standing
        return [spread_ranks(below[:, j], ties[:, j], DRAWS + 1, self.rng) for j in columns]


def quick_check(problem: Problem) -> list[str]:
    """Sentences for the summary where the sampler of a table looks wrong.

    Draws for the inputs of the first block, in streams of their own: the run's draws stay as they were.
    """
    pools: list[DrawnValues] = []
    reference, info, rng = _reference(problem.sampler), info_of(problem.sampler), stream(problem.seed, "quick check")
    first = [block for block in problem.blocks[:MOST_SUBSETS] if block.start == 0]
    width = problem.items.block(0, 1).shape[1] if first else 0
    jobs = (Job(block, DRAWS, "quick check", ask=_first_inputs(block, width)) for block in first)
    for drawn in draw_all(problem, jobs):
        subset = drawn.job.block.subset
        values = filled(np.asarray(drawn.values, dtype=np.float64).reshape(len(drawn.inputs), DRAWS + 1, -1))
        inputs = pools[0].inputs if pools else filled(np.asarray(drawn.inputs, dtype=np.float64))  # the same in all
        told = pools[0].told if pools else _told_by_others(inputs)
        coded = _coded(values[:, 0])
        if coded.any() and reference is not None:
            coded &= _coded(reference[:, subset.index])
        pools.append(DrawnValues(subset.name, np.asarray(subset.index), inputs, values, coded, told, rng))
    asked = {said: test for said, test in WRONG.items() if test is not _fractions or not info.calibrated}
    found = {sentence: [pool.name for pool in pools if test(pool)] for sentence, test in asked.items()}
    return [sentence.format(_listed(names)) for sentence, names in found.items() if names]


def _first_inputs(block: Block, width: int) -> Ints | None:
    """The inputs of a block that are drawn for; None: all."""
    enough = max(ENOUGH_INPUTS, 5 * width)
    return np.arange(enough) if block.stop - block.start > enough else None


def _reference(sampler: object) -> Floats | None:
    """What the sampler was fitted on (m, d); None: not known."""
    if not isinstance(sampler, TableSampler) or sampler.reference is None:
        return None
    return filled(np.asarray(sampler.in_data_order(sampler.reference.values), dtype=np.float64))


def _coded(values: Floats) -> Bools:
    """Columns (d,) of a few whole numbers only."""
    whole = (values % 1 == 0).all(axis=0)
    return np.array([one and len(np.unique(column)) <= MOST_CODES for one, column in zip(whole, values.T, strict=True)])


def _told_by_others(inputs: Floats) -> Bools:
    """Columns (d,) that a linear prediction from the others may go with; all of them where that is not told so easily.

    The share of a column's variance that the others explain is 1 - 1 / C, C its place in the inverse correlations.
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
    return np.asarray(~(explained < 0.9 * TOLD**2))  # NaN too: it is looked at more closely


def _stuck(pool: DrawnValues) -> bool:
    return bool((pool.standing[1] == DRAWS).all(axis=1).mean() > 0.5)


def _fractions(pool: DrawnValues) -> bool:
    if len(pool.inputs) < 10 or not pool.coded.any():
        return False  # mostly so, at once
    broken = (pool.drawn % 1 != 0).mean(axis=(0, 1)) > 0.5
    return bool((pool.coded & broken).any())


def _loose(pool: DrawnValues) -> bool:
    """The linear prediction of a column from the others goes with its observed values, but not with its draws."""
    if len(pool.columns) > 1 or not pool.told[pool.columns[0]]:
        return False
    count = len(pool.inputs)
    rest = np.column_stack([np.ones(count), np.delete(pool.inputs, pool.columns, axis=1)])
    fitted = rest @ np.linalg.lstsq(rest, pool.values[:, 0, 0], rcond=None)[0]
    if np.ptp(fitted) == 0 or np.ptp(pool.values[:, 0]) == 0 or np.ptp(pool.drawn) == 0:
        return False
    drawn, middle = pool.drawn[:, :, 0], fitted - fitted.mean()
    with_data = np.corrcoef(fitted, pool.values[:, 0, 0])[0, 1]
    with_draws = (middle @ drawn.mean(axis=1)) / (count * middle.std() * drawn.std())  # over all draws of all inputs
    return bool(with_data > TOLD and with_draws < 0.5 * with_data)


def _at_both_ends(pool: DrawnValues) -> bool:
    return any(_share(u < 0.025) > 0.1 and _share(u > 0.975) > 0.1 for u in pool.ranks)


def _in_the_middle(pool: DrawnValues) -> bool:
    return any(_share(np.abs(u - 0.5) < 0.25) > 0.75 for u in pool.ranks)  # 0.5 if Q is right


def _share(where: Bools) -> float:
    return int(np.count_nonzero(where)) / len(where)


WRONG: dict[str, Callable[[DrawnValues], bool]] = {
    "Counterfactuals of {} are the observed values again for most inputs: little can be found there.": _stuck,
    "Counterfactuals of {} have fractions where the data has a few whole numbers only: no real row looks like that; "
    "use a sampler for mixed columns.": _fractions,
    "In the data {} can be told from the other columns, in counterfactuals it cannot: unless the reference differs in "
    f"just that, the sampler ignores how columns hang together; {ASK}.": _loose,
    "Observed values of {} lie beyond nearly all of their draws at both ends: extreme inputs, or a sampler that is too "
    f"narrow; {ASK}.": _at_both_ends,
    "Observed values of {} crowd in the middle of their draws: inputs more alike than the reference, or a sampler that "
    f"is too wide; {ASK}.": _in_the_middle,
}


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


LEAST_ROWS = 20
MANY = 5  # values of a column that tell one row from another
SHARE = 0.2  # of rows that share half of those columns with another row
MOST_ROWS = 5_000


def belonging_notes(table: Table, reference: Array | None, groups: object) -> list[str]:
    """Sentences on inputs that repeat each other, and on columns that number the rows."""
    values = table.values[:MOST_ROWS].astype(np.float64)
    if len(values) < LEAST_ROWS:
        return []
    notes = []
    if groups is None and _belong(values):
        notes.append(
            "Many inputs agree in half of their columns with another input, as several rows of one person do: the "
            "promise needs inputs that are independent of each other. Name what belongs together: groups=data['person']"
        )
    numbering = [] if reference is None else _numbering(table, values, reference.astype(np.float64))
    if numbering:
        notes.append(
            f"Column {numbering[0]!r} has another value in every row and lies on one side in all inputs and on the "
            "other in the reference, like an index or a time: leave it out, or it will be the answer"
        )
    return notes


def _belong(values: Floats) -> bool:
    """Whether far more rows agree in half of the columns of many values than would by chance."""
    order = np.argsort(values, axis=0)
    ordered = np.take_along_axis(values, order, axis=0)  # missing ones last
    same = (ordered[1:] == ordered[:-1]) | np.isnan(ordered[:-1])
    many = 1 + (~same & ~np.isnan(ordered[1:])).sum(axis=0) >= MANY
    if many.sum() < 2:
        return False
    again = np.zeros(values.shape, bool)  # which values of a column another row has, too
    again[1:] |= same
    again[:-1] |= same
    telling, rows = values[:, many], np.bincount(order[:, many].reshape(-1), again[:, many].reshape(-1))
    if np.mean(2 * rows >= many.sum()) <= SHARE:
        return False  # mostly so: too few rows have enough values that any other row has
    mixed = stream(0, "belonging").permuted(telling, axis=0)  # every column by itself
    return _share_of_columns(telling) > max(SHARE, 3 * _share_of_columns(mixed))


def _distinct(column: Floats) -> int:
    return len(np.unique(column[~np.isnan(column)]))


def _share_of_columns(values: Floats) -> float:
    """Rows that agree in half of the columns, but not in all, with the row beside them, by any order of the columns."""
    width, found = values.shape[1], np.zeros(len(values), bool)
    for first in range(width):
        order = np.lexsort([values[:, (first - k) % width] for k in range(1, width + 1)])
        equal = (values[order][1:] == values[order][:-1]).sum(axis=1)
        alike = (2 * equal >= width) & (equal < width)
        found[order[1:][alike]] = found[order[:-1][alike]] = True
    return float(found.mean())


def _numbering(table: Table, values: Floats, reference: Floats) -> list[str]:
    """Columns without a value that comes twice, in which all inputs lie on one side of the reference."""
    found = []
    for j, name in enumerate(table.columns):
        own, other = values[:, j], reference[:, j]
        if len(other) < LEAST_ROWS or table.kinds[j].kind == "category" or np.isnan([*own, *other]).any():
            continue
        apart = own.min() > other.max() or own.max() < other.min()
        if apart and _distinct(own) == len(own) and _distinct(other) == len(other) and _even(own) and _even(other):
            found.append(name)
    return found


def _even(column: Floats) -> bool:
    """Whether steps between neighbours are all alike, as those of an index or of a clock are."""
    steps = np.diff(np.sort(column))
    return bool(steps.max() <= 3 * np.median(steps))


MOST_CONTROLS = 200
ONE_SPLIT = 500  # rows of a reference from which on one split is enough
MOST_FITTED = 5_000  # rows that a sampler is fitted on for the control
FOLDS = 3
LEAST_CONTROL_ROWS = 20  # of a reference: with fewer there is too little to hold out


def control_problems(sampler: TableSampler, table: Table, tree: ColumnTree, seed: int) -> list[Problem]:
    """Those of a run from coarse to fine."""
    made = held_out_problems(sampler, table, tree.subsets, seed)
    return [replace(problem, layers=tree.layers(len(problem.items))) for problem in made]


def held_out_problems(sampler: Sampler, table: Table, subsets: Sequence[Subset], seed: int) -> list[Problem]:
    """One problem for each split of the sampler's reference: rows held out, and a sampler fitted to the others.

    None where it cannot be fitted again. Rows are shown to the model as those of `table`, the data, are.
    """
    reference = sampler.reference if isinstance(sampler, TableSampler) and sampler.refit is not None else None
    if reference is None or len(reference.values) < LEAST_CONTROL_ROWS:
        return []
    assert isinstance(sampler, TableSampler)
    made = []
    for held, others in _fitted(sampler, seed):
        fitted: Sampler = align_columns(others, table)  # type: ignore[assignment]  # a TableSampler, as it was
        items = reference_items(sampler, table, held)
        made.append(table_problem(items, tuple(reference.index[i] for i in held), subsets, fitted, seed))
    return made


_known: WeakKeyDictionary[Conditional, dict[int, list[tuple[Ints, TableSampler]]]] = WeakKeyDictionary()


def _fitted(sampler: TableSampler, seed: int) -> list[tuple[Ints, TableSampler]]:
    """Rows held out and a sampler of the others, for each split; made once for a sampler and a seed."""
    assert sampler.reference is not None
    assert sampler.refit is not None
    known = _known.setdefault(sampler.conditional, {})
    if seed not in known:
        splits = _splits(len(sampler.reference.values), stream(seed, "control", "rows"))
        known[seed] = [(held, sampler.refit(sampler.reference.take(kept))) for held, kept in splits]
    return known[seed]


def _splits(rows: int, rng: np.random.Generator) -> list[tuple[Ints, Ints]]:
    """Rows to test and rows to fit on, for each fit."""
    mixed = rng.permutation(rows)
    if rows >= ONE_SPLIT:
        return [(np.sort(mixed[:MOST_CONTROLS]), np.sort(mixed[MOST_CONTROLS:][:MOST_FITTED]))]
    most = -(-MOST_CONTROLS // FOLDS)
    folds = np.array_split(mixed, FOLDS)
    return [(np.sort(fold[:most]), np.delete(np.arange(rows), fold)) for fold in folds]


def reference_items(sampler: TableSampler, table: Table, rows: Ints) -> TableItems:
    """Some rows of the sampler's reference, as the model gets those of the data: in their order, with their types."""
    assert sampler.reference is not None
    values: Array = sampler.in_data_order(sampler.reference.values[rows]).astype(table.values.dtype)
    plain = table.labels is None and table.kinds[0].dtype is None
    return TableItems(values, None if plain else partial(_shown, table, sampler.reference.take(rows)))


def _shown(table: Table, own: Table, values: Array, rows: Ints | None) -> Batch:
    """Rows as those of the data are shown, but with their own labels."""
    shown = table.show(values)
    if rows is None or own.row_labels is None or table.labels is None:
        return shown
    return shown.set_axis(own.row_labels.take(rows), axis=0)


MOST_COLUMNS = 1_000
RIDGE = 1e-3  # of the mean square of a feature: keeps columns that say the same from making it singular


def fit_of(problem: Problem) -> Fit | None:
    """How well the sampler of a table is known; None: it was not fitted on a reference, as far as is known."""
    sampler = problem.sampler
    if not isinstance(sampler, TableSampler) or sampler.reference is None:
        return None
    inputs = problem.items.block(0, len(problem.items))
    subsets = {block.subset.name: block.subset for block in problem.blocks}
    order = [subsets[name] for name in problem.subset_names]
    found = _own(sampler, inputs, order) or _of_a_regression(sampler, inputs, order)
    copies = _copies(sampler.reference.values)
    each = copies * np.stack([own for own, _ in found], axis=1)  # (n, S), as hypotheses stand
    mean = copies * np.maximum([mean for _, mean in found], 1 / sampler.rows)  # donors' mean is never known better
    return Fit(max(int(sampler.rows / copies), 1), mean, each.reshape(-1))


def _copies(rows: Array) -> float:
    """How often a row of the reference stands in it: copies (oversampling, a bootstrap) tell nothing new.

    Kish's effective size is (sum c)^2 / sum c^2 for counts c. Rows of columns that all have few values may be equal by
    chance, and count as different.
    """
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    telling = any(2 * len(np.unique(column)) >= len(counts) for column in rows.T)  # equal rows: not equal by chance
    if not telling or len(counts) < 10:
        return 1.0
    return float((counts**2).sum() / len(rows))


Leverages = list[tuple[Floats, float]]  # of each subset: at each input (n,), and at the mean of them


def _own(sampler: TableSampler, inputs: Array, subsets: list[Subset]) -> Leverages | None:
    """What the law itself says."""
    found = [sampler.leverages(inputs, subset) for subset in subsets]
    known = [one for one in found if one is not None]
    return known if len(known) == len(subsets) else None


def _of_a_regression(sampler: TableSampler, inputs: Array, subsets: list[Subset]) -> Leverages:
    """Those of a linear regression of any column on all others."""
    count, width = inputs.shape
    margin = (np.full(count, 1 / sampler.rows), 1 / sampler.rows)
    if info_of(sampler).ignores_dependence:
        return [margin] * len(subsets)
    if width > MOST_COLUMNS:  # a regression on so many is known no better than its residual
        return [(np.ones(count), 1.0)] * len(subsets)
    looked = _linear(sampler).at(sampler.in_reference_order(inputs))
    return [
        margin if len(subset.index) == width else looked.leverages(sampler.in_reference(subset), sampler.rows)
        for subset in subsets
    ]


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear regression of any column on all others."""

    describe: Description
    owner: Ints  # the column that each feature is of
    middle: Floats
    precision: Floats  # the inverse of the features' products

    def at(self, inputs: Array) -> LinearAt:
        """At these rows, and last at the mean of them."""
        features = self.describe(inputs.astype(np.float64)) - self.middle
        features = np.vstack([features, features.mean(axis=0)])
        turned = features @ self.precision
        return LinearAt(turned, (turned * features).sum(axis=1), self)


@dataclass(frozen=True, eq=False)
class LinearAt:
    """z'P and z'Pz of some rows and of their mean, P the precision of all features."""

    turned: Floats
    length: Floats
    fit: Linear

    def leverages(self, subset: Subset, rows: int) -> tuple[Floats, float]:
        """Without the features of the subset: z'Pz - (Pz)_S' P_SS^-1 (Pz)_S, whatever z_S is (Schur complement)."""
        own = np.flatnonzero(np.isin(self.fit.owner, subset.index))
        part = self.turned[:, own]
        solved = np.linalg.solve(self.fit.precision[np.ix_(own, own)], part.T).T if own.size else part
        found = 1 / rows + np.maximum(self.length - (part * solved).sum(axis=1), 0.0)
        return found[:-1], float(found[-1])


def _linear(sampler: TableSampler) -> Linear:
    table = sampler.reference
    assert table is not None
    rows = reference_rows(table)
    every = np.arange(len(table.columns))
    shape = describe(rows, every)
    features = shape(table.values.astype(np.float64))
    middle = features.mean(axis=0)
    centred = features - middle
    gram = centred.T @ centred
    gram[np.diag_indices_from(gram)] += RIDGE * max(float(np.trace(gram)) / max(len(gram), 1), 1e-12)
    owner = [j for k, j in enumerate(every) for _ in range(_width(shape, k))]
    return Linear(shape, np.array(owner), middle, np.linalg.inv(gram))


def _width(shape: Description, k: int) -> int:
    levels = shape.categories[k]
    return (1 if levels is None else len(levels)) + shape.gaps[k]


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
        inputs=table.record(),
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
    from butfor.tabular.exact_trees import not_read, read_trees

    try:
        found = readable(model)
    except Unreadable as error:
        note = not_read(error)
        return lambda *_: ReadModel(notes=(note,))
    if found is None:
        return None
    size = settings.options.batch_rows or default_batch_rows(table)
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
        controls=None if sampler.refit is None else partial(control_problems, sampler, table, tree, seed),
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


MOST_HELD = 4  # samplers of this process that are kept for the same reference
_held: OrderedDict[bytes, TableSampler] = OrderedDict()


def auto(reference: object, *, seed: int = 0) -> TableSampler:
    """The sampler that `butfor.explain` makes of reference data: `residual`, fitted once for the same data.

    It is fitted as it is used, subset by subset, and kept: a second call with the same reference, in this process, has
    its fits already. Give a sampler of your own choice, and check it with `butfor.check_sampler`, where much depends on
    it; every run shows what the same test says of rows of the reference's own kind (`result.control`).

    Parameters
    ----------
    reference : rows as they look when there is nothing to report.
    seed : picks the rows of a large reference on which choices are made.

    Examples
    --------
    >>> import numpy as np
    >>> auto(np.random.default_rng(0).normal(size=(100, 2)))
    residual(100 reference rows, 2 columns)
    """
    data = as_frame(reference, "reference")
    table = as_table(data, "reference")
    about = repr((table.columns, [column.record() for column in table.kinds], table.labels is None, seed))
    key = digest({"values": table.values, "about": about})
    if key not in _held:
        _held[key] = replace(residual(data, seed=seed), why=Note("sampler-residual", "info"))
    _held.move_to_end(key)
    while len(_held) > MOST_HELD:
        _held.popitem(last=False)
    return _held[key]
