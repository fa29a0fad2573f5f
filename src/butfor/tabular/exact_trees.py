"""Exact tests of tree ensembles: the output is a step function of a column, so nothing has to be drawn (METHODS 13).

The splits of the model are brought to the columns of the table, whatever encodes them before the trees. Of a single
column the sampler gives the mass of each step; of a group it lists its donors. What was read is compared with the model
on the inputs and on 1,000 more rows before it is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from butfor.evaluation.calls import outputs_of
from butfor.evaluation.hypotheses import Block, CounterfactualBatch, Hypotheses, Job, listed_block
from butfor.evaluation.items import TableItems
from butfor.evaluation.samplers import method
from butfor.inference.exact import Support
from butfor.models.tree_steps import ColumnSplits, StepFunctions, Steps, TreeIndex
from butfor.models.trees import Ensemble, Readable, Unreadable, rounds_down_to
from butfor.results.words import Note
from butfor.run.tests import ReadModel
from butfor.streams import stream
from butfor.tabular.donors import ColumnDistribution, StepMass
from butfor.tabular.table import Table
from butfor.types import Array, Batch, Bools, Floats, Ints, Model, Subset

PAIRS = 2**18  # inputs x trees of one pass over all columns
MOST_INPUTS = 2_048
MOST_DONORS = 4_096  # values of a hypothesis that are listed
MOST_WORK = 2 * 10**9  # inputs x donors x trees of all groups: beyond it drawing is quicker
WALKED = 16  # small trees that take as long as one that has to be walked
LISTED_VALUES = 2**22  # outputs of listed values that are computed at a time


@dataclass(frozen=True, eq=False)
class TreeOutcomes:
    """Knows single columns whose distribution is known, and groups whose donors are few enough to be listed."""

    steps: StepFunctions
    known: WeakKeyDictionary[object, dict[tuple[int, ...], ColumnDistribution | None]] = field(
        default_factory=WeakKeyDictionary
    )

    def split(self, hypotheses: Hypotheses) -> tuple[list[Block], list[Block]]:
        """Return the blocks whose hypotheses it knows, and the others."""
        known, groups = set(), []  # subsets, by identity: all single columns, then groups while work allows
        walked = 0 if self.steps.walker is None else len(self.steps.walker.trees)
        trees = len(self.steps.index.splits.ensemble.roots) + (WALKED - 1) * walked
        for subset in hypotheses.subsets:
            if self._distribution(hypotheses, subset) is not None or _lists(hypotheses, subset):
                known.add(id(subset))
            elif (size := _donors(hypotheses, subset)) is not None:
                groups.append((size * trees * len(hypotheses.items), id(subset)))
        work = 0
        for more, subset_id in sorted(groups):
            work += more
            if work > MOST_WORK:
                break
            known.add(subset_id)
        mine = [block for block in hypotheses.blocks if id(block.subset) in known]
        return mine, [block for block in hypotheses.blocks if id(block.subset) not in known]

    def _distribution(self, hypotheses: Hypotheses, subset: Subset) -> ColumnDistribution | None:
        """Return the distribution of a column over its steps, looked up once for a sampler; None: it is not known."""
        known, key = self.known.setdefault(hypotheses.sampler, {}), tuple(np.asarray(subset.index).tolist())
        if key not in known:
            by_categories = key[0] in self.steps.index.splits.categories
            alone = len(key) == 1 and not by_categories and not _lists(hypotheses, subset)
            dtype = hypotheses.items.block(0, 1).dtype
            known[key] = column_distribution(hypotheses.sampler, subset, dtype) if alone else None
        return known[key]

    def listed(self, hypotheses: Hypotheses, blocks: Sequence[Block]) -> Iterator[tuple[CounterfactualBatch, Floats]]:
        """Yield what is listed of these blocks, and outputs (n, versions, outputs), the observed first."""
        each = {id(block.subset): self._distribution(hypotheses, block.subset) for block in blocks}
        known = {subset: distribution for subset, distribution in each.items() if distribution is not None}
        single = [block for block in blocks if id(block.subset) in known]
        size = int(np.clip(PAIRS // len(self.steps.index.splits.ensemble.roots), 64, MOST_INPUTS))
        for alike in _alike(single, size):
            inputs = hypotheses.items.block(alike[0].start, alike[0].stop)
            by_column = {int(np.asarray(block.subset.index)[0]): block for block in alike}
            for j, steps in self.steps.along(self.steps.index.pieces(inputs), list(by_column)):
                mass = known[id(by_column[j].subset)](inputs, self.steps.index.cuts[j], steps.starts)
                yield self._of_steps(by_column[j], inputs, inputs[:, j], steps, mass)
        for block in blocks:
            if id(block.subset) not in known:
                yield from self._of_group(hypotheses, block)

    def _of_steps(
        self, block: Block, inputs: Array, observed: Array, steps: Steps, chances: StepMass
    ) -> tuple[CounterfactualBatch, Floats]:
        unchanged, one = steps.observed[:, None], (len(inputs), 1)  # what the observed value's step has: sums are exact
        parts = [(unchanged, np.full(one, chances.observed), observed[:, None])] * bool(chances.observed)
        parts.append((steps.sums, chances.mass, chances.values))
        if chances.missing.any():
            parts.append((steps.missing[:, None], chances.missing[:, None], np.full(one, np.nan)))
        sums, mass, values = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        outputs = self.steps.index.outputs(np.concatenate([unchanged, sums], axis=1))
        drawn = np.concatenate([observed[:, None], values], axis=1).astype(inputs.dtype, copy=False)
        return _listed(block, inputs, drawn[:, :, None], mass), outputs

    def _of_group(self, hypotheses: Hypotheses, block: Block) -> Iterator[tuple[CounterfactualBatch, Floats]]:
        """Yield listed values of several columns, or of one with categories, a few inputs at a time."""
        columns, sampler, index = np.asarray(block.subset.index), hypotheses.sampler, self.steps.index

        def outputs(inputs: Array, values: Array) -> Floats:
            return index.outputs(self.steps.group_sums(index.pieces(inputs), columns, values))

        if _lists(hypotheses, block.subset):
            listed = listed_block(hypotheses, block)
            values = listed.values.reshape(len(listed.inputs), listed.versions, -1)
            yield listed, outputs(listed.inputs, values)
            return
        size = max(1, LISTED_VALUES // (_donors(hypotheses, block.subset) or 1) // len(columns))
        for part in _parts(block, size):
            inputs = hypotheses.items.block(part.start, part.stop)
            drawn, mass = sampler.donors(inputs, block.subset)  # type: ignore[attr-defined]
            values = np.concatenate([inputs[:, None, columns], drawn], axis=1)
            yield _listed(part, inputs, values, mass), outputs(inputs, values)


def column_distribution(sampler: object, subset: Subset, dtype: np.dtype[Any]) -> ColumnDistribution | None:
    """Return the distribution of one column given the others; draws for data of type `dtype` are rounded to it."""
    cdf = method(sampler, "cdf")
    distribution = None if cdf is None else cdf(subset)
    if distribution is None or dtype != np.float32:
        return distribution
    return lambda inputs, cuts, starts: distribution(inputs, rounds_down_to(cuts), starts)


def _lists(hypotheses: Hypotheses, subset: Subset) -> bool:
    lists = method(hypotheses.sampler, "lists")
    return lists is not None and bool(lists(subset))


def _donors(hypotheses: Hypotheses, subset: Subset) -> int | None:
    """Return how many values of a group may be drawn, the observed one included; None: too many, or not known."""
    count = method(hypotheses.sampler, "n_donors")
    size = None if count is None else count(subset)
    return None if size is None or size >= MOST_DONORS else size + 1


def _listed(block: Block, inputs: Array, values: Array, mass: Floats) -> CounterfactualBatch:
    """Return a list of versions (n, 1 + m, columns), the observed one first."""
    count, versions = values.shape[:2]
    tiny = np.full(count, np.finfo(np.float64).tiny)  # no p-value is 0, however far out a distribution goes
    support = Support(mass, tiny, np.zeros(count))
    job = Job(block, versions - 1, "trees")
    return CounterfactualBatch(job, inputs, values.reshape(count * versions, -1), support=support)


def _parts(block: Block, size: int) -> Iterator[Block]:
    for a in range(block.start, block.stop, size):
        b = min(a + size, block.stop)
        yield replace(block, start=a, stop=b, rows=block.rows[a - block.start : b - block.start])


def _alike(blocks: Sequence[Block], most: int) -> Iterator[list[Block]]:
    """Yield blocks of single columns with the same inputs, as many inputs at a time as may be."""
    by_subset: dict[int, list[Block]] = {}
    for block in blocks:
        by_subset.setdefault(id(block.subset), []).append(block)
    joined = [
        replace(parts[0], stop=parts[-1].stop, rows=np.concatenate([block.rows for block in parts]))
        for parts in by_subset.values()
    ]
    for _, same in groupby(joined, key=lambda block: (block.start, block.stop)):
        for alike in zip(*(_parts(block, most) for block in same), strict=True):
            yield list(alike)


PROBED = 200  # rows in which one column after the other is changed, to see what the model makes of it
CODES = 256  # integers that a split by categories may know
ROUNDING = 1e-12  # of a few operations, in parts of the numbers


def in_columns(model: Readable, ensemble: Ensemble, table: Table, known: Array, order: Ints | None) -> ColumnSplits:
    """Return the splits by the table's columns; `known` (m, columns) are its rows, `order` has the model's columns."""
    kinds = [column.kind for column in table.kinds]
    if "time" in kinds:
        raise Unreadable("times")
    rows = known[np.linspace(0, len(known) - 1, min(PROBED, len(known))).astype(np.int64)]

    def encode(values: Array) -> Floats:
        shown: Batch = table.show(values)
        return model.encode(shown if order is None else shown.iloc[:, order])

    columns = int(ensemble.feature.max(initial=0)) + 1
    source = _sources(encode, rows) if not model.by_position else np.arange(len(kinds)) if order is None else order
    if columns > len(source):
        raise Unreadable("too-few-columns", needed=columns, given=len(source))
    inner = ensemble.feature >= 0
    feature = np.where(inner, source[np.maximum(ensemble.feature, 0)], -1)
    if (inner & (feature < 0)).any():
        raise Unreadable("constant-column")
    threshold, missing_left = ensemble.threshold.copy(), ensemble.missing_left.copy()
    sets: list[Bools] = []
    category_row, categories, truncated = np.full(len(feature), -1), {}, set()
    used = feature[inner & (ensemble.category_row >= 0)] if model.by_position else feature[inner]
    by_code = [j for j in np.unique(feature[inner]).tolist() if kinds[j] == "category"]
    for j in np.union1d(used, by_code).astype(np.int64).tolist():  # splits that cannot be taken as they are
        nodes = np.flatnonzero(feature == j)
        by_set = kinds[j] == "category" or bool((ensemble.category_row[nodes] >= 0).any())
        column = _Column(ensemble, nodes, encode, rows[:1], j, known[:, j].astype(np.float64), len(source))
        if by_set:
            plain = model.by_position and kinds[j] != "category"  # numbers as they are
            categories[j] = column.categories(kinds[j], plain)
            truncated |= {j} if plain else set()
            category_row[nodes] = sum(len(part) for part in sets) + np.arange(len(nodes))
            sets.append(column.sets(categories[j], plain))
        elif not model.by_position:
            limits = table.kinds[j].limits
            scale = DOUBLES if limits is None else NumberLine(limits, integers=True)
            threshold[nodes], missing_left[nodes] = column.thresholds(scale)
    width = max((part.shape[1] for part in sets), default=0)
    padded = [np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in sets]
    category_sets = np.concatenate([np.zeros((0, width), bool), *padded])
    return ColumnSplits(
        ensemble, feature, threshold, missing_left, category_row, category_sets, categories, frozenset(truncated)
    )


def _sources(encode: Callable[[Array], Floats], rows: Array) -> Ints:
    """Return the column of the table that each of the model's columns is made of; -1: of none, it is constant."""
    first = encode(rows)
    source = np.full(first.shape[1], -1)
    for j in range(rows.shape[1]):
        changed = rows.copy()
        changed[:, j] = np.roll(rows[:, j], 1)
        with np.errstate(invalid="ignore"):
            after = encode(changed)
        differs = ~((after == first) | (np.isnan(after) & np.isnan(first))).all(axis=0)
        if (differs & (source >= 0)).any():
            raise Unreadable("joint-step")
        source[differs] = j
    return source


@dataclass(frozen=True, eq=False)
class _Column:
    """One column of the table, the nodes that split it, and what the model makes of its values."""

    ensemble: Ensemble
    nodes: Ints
    encode: Callable[[Array], Floats]
    row: Array  # (1, columns) any row: the other columns do not matter
    j: int
    known: Floats  # (m,) values in data and reference
    width: int  # of the model's columns

    def encoded(self, values: Floats) -> Floats:
        """Return (values, model's columns); NaN where the model cannot take a value."""
        rows = np.repeat(self.row, len(values), axis=0)
        rows[:, self.j] = values
        try:
            with np.errstate(all="ignore"):
                return self.encode(rows)
        except Exception:  # an encoder may refuse what it does not know
            if len(values) == 1:
                return np.full((1, self.width), np.nan)
            return np.concatenate([self.encoded(values[i : i + 1]) for i in range(len(values))])

    def categories(self, kind: str, plain: bool) -> Floats:
        """Return all that may go another way than others: codes, or the integers that a plain split knows."""
        if plain:
            return np.arange(self.ensemble.category_sets.shape[1], dtype=np.float64)
        present = self.known[~np.isnan(self.known)]
        count = int(present.max(initial=0)) + 1 if kind == "category" else CODES
        return np.unique(np.concatenate([present, np.arange(count, dtype=np.float64)]))

    def sets(self, categories: Floats, plain: bool) -> Bools:
        """Return which categories go left, then any other value, then a missing one, (nodes, categories + 2)."""
        values = np.append(categories, np.nan)
        if plain:
            inside = np.broadcast_to(values, (len(self.nodes), len(values)))
        else:
            inside = self.encoded(values)[:, self.ensemble.feature[self.nodes]].T
        left = self._goes_left(inside)
        return np.column_stack([left[:, :-1], self.ensemble.unknown_left[self.nodes], left[:, -1]])

    def _goes_left(self, values: Floats) -> Bools:
        """Return it of each node and value (nodes, values), on the model's scale."""
        ensemble, nodes = self.ensemble, self.nodes
        left = values <= ensemble.threshold[nodes][:, None]
        row, width = ensemble.category_row[nodes], ensemble.category_sets.shape[1]
        by_set = row >= 0
        if by_set.any():
            codes = np.where(np.isnan(values), -1, np.trunc(values)).astype(np.int64)[by_set]
            inside = (codes >= 0) & (codes < width)
            seen = ensemble.category_sets[row[by_set][:, None], np.clip(codes, 0, width - 1)]
            left[by_set] = np.where(inside, seen, ensemble.unknown_left[nodes[by_set]][:, None])
        return np.where(np.isnan(values), ensemble.missing_left[nodes][:, None], left)

    def thresholds(self, scale: NumberLine) -> tuple[Floats, Bools]:
        """Return thresholds on the table's scale, the largest values that the encoder keeps below, and missing."""
        inside, wanted = self.ensemble.feature[self.nodes], self.ensemble.threshold[self.nodes]
        missing = self._goes_left(self.encoded(np.array([np.nan]))[:, inside].T)[:, 0]
        present = np.unique(self.known)
        present = present[~np.isnan(present)]
        seen = self.encoded(present)[:, inside]
        if np.array_equal(seen, np.broadcast_to(present[:, None], seen.shape)) and len(present) > 2:
            return wanted, missing
        if (np.diff(seen, axis=0) < 0).any():
            raise Unreadable("decreasing-step")

        def keeps(positions: Ints) -> Bools:
            each, back = np.unique(scale.values(positions), return_inverse=True)
            return np.asarray(self.encoded(each)[back, inside] <= wanted)

        span = present[-1] - present[0]  # first looked for where a straight line leads, as of a scaler
        with np.errstate(all="ignore"):
            guess = np.nan_to_num(present[0] + (wanted - seen[0]) * span / (seen[-1] - seen[0]), nan=present[0])
        room = ROUNDING * (np.abs(guess) + span)
        first, last = scale.positions(np.array(scale.limits)).tolist()
        left = np.clip(scale.positions(guess - room) - 1, first, last)
        right = np.clip(scale.positions(guess + room) + 1, first, last)
        low, high = np.where(keeps(left), left, first - 1), np.where(keeps(right), last + 1, right)
        while (high - 1 > low).any():
            middle = low // 2 + high // 2 + (low % 2 + high % 2) // 2
            kept = keeps(middle)
            low, high = np.where(kept, middle, low), np.where(kept, high, middle)
        return np.where(low < first, -np.inf, np.where(low >= last, np.inf, scale.values(low))), missing  # inf: all


@dataclass(frozen=True)
class NumberLine:
    """All numbers that a column can hold, in order: doubles, or integers within limits."""

    limits: tuple[float, float]
    integers: bool = False

    def positions(self, values: Floats) -> Ints:
        values = np.clip(values, *self.limits)
        if self.integers:
            return np.rint(values).astype(np.int64)
        bits = values.view(np.int64)
        return np.where(bits >= 0, bits, -(bits & 0x7FFFFFFFFFFFFFFF))

    def values(self, positions: Ints) -> Floats:
        if self.integers:
            return positions.astype(np.float64)
        bits = np.where(positions >= 0, positions, np.bitwise_or(-positions, np.int64(-0x8000000000000000)))
        return bits.view(np.float64)


DOUBLES = NumberLine((-1e150, 1e150))  # beyond it squares overflow, and no column gets there
CHECKED_ROWS = 1_000  # rows beside the inputs on which the trees are compared with the model
CLOSE, CLOSE_SINGLE = 1e-9, 2e-5  # of the outputs' size: sums in another order, in float64 and in float32


def read_trees(
    model: Readable, hypotheses: Hypotheses, table: Table, columns: tuple[object, ...] | None, batch_rows: int,
    call: Model, outputs: Floats,
) -> ReadModel:  # fmt: skip
    """Return the trees of a model, where they agree with it; `outputs` are the model's on all inputs."""
    sampler, inputs = hypotheses.sampler, hypotheses.items.block(0, len(hypotheses.items))
    if method(sampler, "lists") is None:
        return ReadModel()  # neither what it may draw nor what it was fitted on is known
    try:
        known, rows = _check_rows(hypotheses, table, inputs)
        splits = in_columns(model, model.read(), table, known, _order(table, columns, by_position=model.by_position))
        steps = StepFunctions(TreeIndex(splits, table.values.shape[1]))
        outcomes = TreeOutcomes(steps)
        if not outcomes.split(hypotheses)[0]:
            return ReadModel()
        ours = steps.index.outputs(steps.sums(steps.index.pieces(np.concatenate([inputs, rows]))))
        _compare(splits, ours[: len(inputs)], outputs)
    except Unreadable as error:
        return ReadModel(notes=(not_read(error),))
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:  # another version of a library
        raised = Unreadable("raised", error=type(error).__name__, message=" ".join(str(error).split()))
        return ReadModel(notes=(not_read(raised),))
    items = hypotheses.items
    assert isinstance(items, TableItems)
    show = None if items.show is None else lambda values, _: table.show(values)  # rows without labels
    items = replace(items, values=rows, show=show)
    theirs = outputs_of(call, items, batch_rows, "row {} of the self-check".format)
    try:
        _compare(splits, ours[len(inputs) :], theirs)
    except Unreadable as error:
        return ReadModel(notes=(not_read(error),), rows=len(rows))
    return ReadModel(outcomes, (Note("trees-exact", "info"),), len(rows))


def not_read(error: Unreadable) -> Note:
    """Return the note on why p-values come from draws although the model is an ensemble of trees."""
    return Note("trees-not-read", "info", error.values)


def _order(table: Table, columns: tuple[object, ...] | None, *, by_position: bool) -> Array | None:
    """Return the positions of the model's columns in the table, where they stand in another order."""
    if columns is None or table.labels is None or tuple(columns) == tuple(table.labels):
        return None
    position = {name: k for k, name in enumerate(table.labels)}
    if set(position) != set(columns):
        if by_position:
            raise Unreadable("other-columns")
        return None
    return np.array([position[name] for name in columns])


def _check_rows(hypotheses: Hypotheses, table: Table, inputs: Array) -> tuple[Array, Array]:
    """Return known rows, and rows for the self-check: of the reference, and inputs in which one subset is drawn."""
    sampler: Any = hypotheses.sampler
    in_data_order, reference = method(sampler, "in_data_order"), table.values
    subsets = [Subset("", np.array([column])) for column in range(inputs.shape[1])]
    if in_data_order is None:  # a user's sampler: any of the values that it lists
        subsets = [subset for subset in hypotheses.subsets if _lists(hypotheses, subset)]
    else:
        reference = in_data_order(sampler.reference.values).astype(table.values.dtype)

    rng = stream(hypotheses.seed, "trees", "check")
    parts = [reference[rng.permutation(len(reference))[: CHECKED_ROWS // 2]].astype(inputs.dtype)]
    room = CHECKED_ROWS - len(parts[0])
    subsets = [subsets[k] for k in rng.permutation(len(subsets))[:room]]
    for subset in subsets:
        rows = inputs[rng.integers(len(inputs), size=max(1, room // len(subsets)))].copy()
        if in_data_order is not None:
            rows[:, subset.index] = np.asarray(sampler.values(rows, subset, 1, rng)).reshape(len(rows), -1)
        else:
            listed, _ = hypotheses.items.support(sampler, rows, subset, "self-check")
            values = np.asarray(listed).reshape(len(rows), -1, len(subset.index))
            rows[:, subset.index] = values[np.arange(len(rows)), rng.integers(values.shape[1], size=len(rows))]
        parts.append(rows)
    checked = np.concatenate(parts)
    return np.concatenate([table.values, reference, checked]), checked


def _compare(splits: ColumnSplits, ours: Floats, theirs: Floats) -> None:
    """Refuse what does not agree to rounding; ours are computed as the test computes them."""
    if ours.shape != theirs.shape:
        raise Unreadable("outputs", trees=ours.shape[1], model=theirs.shape[1])
    close = CLOSE_SINGLE if splits.ensemble.single else CLOSE
    size = max(float(np.abs(theirs).max()), float(np.abs(ours).max()), 1e-300)
    wrong = int((np.abs(ours - theirs) > close * size).any(axis=1).sum())
    if wrong:
        raise Unreadable("differs", wrong=wrong, rows=len(ours))
