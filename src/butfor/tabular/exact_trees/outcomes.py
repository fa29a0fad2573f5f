"""All that may come of a hypothesis on a table and a tree ensemble: steps of one column, or donors of several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from weakref import WeakKeyDictionary

import numpy as np

from butfor.evaluation.calls import outputs_of
from butfor.evaluation.hypotheses import Block, CounterfactualBatch, Job, Listed, Problem, listed_block
from butfor.evaluation.items import TableItems
from butfor.evaluation.samplers import ListsSupport
from butfor.models.trees import Readable, Unreadable
from butfor.run.tests import ReadModel
from butfor.streams import stream
from butfor.tabular.exact_trees.laws import Chances, ColumnLaw, column_law, donated, donors_of, group_sums
from butfor.tabular.exact_trees.steps import StepFunctions, Steps, TreeIndex, in_columns
from butfor.tabular.splice import TableSampler
from butfor.tabular.table import Table
from butfor.types import Array, Floats, Model, Subset

PAIRS = 2**18  # inputs x trees of one pass over all columns
MOST_INPUTS = 2_048
MOST_WORK = 2 * 10**9  # inputs x donors x trees of all groups: beyond it drawing is quicker
WALKED = 16  # small trees that take as long as one that has to be walked
LISTED_VALUES = 2**22  # outputs of listed values that are held at a time


@dataclass(frozen=True, eq=False)
class TreeOutcomes:
    """Knows single columns whose law is known, and groups whose donors are few enough to be listed."""

    steps: StepFunctions
    laws: WeakKeyDictionary[object, dict[tuple[int, ...], ColumnLaw | None]] = field(default_factory=WeakKeyDictionary)

    def split(self, problem: Problem) -> tuple[list[Block], list[Block]]:
        """Blocks whose hypotheses it knows, and the others."""
        known = self._known(problem)
        mine = [block for block in problem.blocks if id(block.subset) in known]
        return mine, [block for block in problem.blocks if id(block.subset) not in known]

    def _known(self, problem: Problem) -> set[int]:
        """Subsets, by identity: all single columns, then groups as long as listing them is not too much work."""
        found, groups = set(), []
        walked = 0 if self.steps.walker is None else len(self.steps.walker.trees)
        trees = len(self.steps.index.splits.ensemble.roots) + (WALKED - 1) * walked
        for subset in problem.subsets:
            if self._by_steps(problem, subset) is not None or _lists(problem, subset):
                found.add(id(subset))
            elif (size := donors_of(problem.sampler, subset)) is not None:
                groups.append((size * trees * len(problem.items), id(subset)))
        work = 0
        for more, subset_id in sorted(groups):
            work += more
            if work > MOST_WORK:
                break
            found.add(subset_id)
        return found

    def _by_steps(self, problem: Problem, subset: Subset) -> ColumnLaw | None:
        """The law of a column that can be read off its steps; looked up once for a sampler."""
        known, key = self.laws.setdefault(problem.sampler, {}), tuple(np.asarray(subset.index).tolist())
        if key not in known:
            by_levels = key[0] in self.steps.index.splits.levels
            alone = len(key) == 1 and not by_levels and not _lists(problem, subset)
            known[key] = column_law(problem.sampler, subset, problem.items.block(0, 1).dtype) if alone else None
        return known[key]

    def listed(self, problem: Problem, blocks: Sequence[Block]) -> Iterator[tuple[Listed, Floats]]:
        """What is listed for the hypotheses of these blocks, and outputs (n, versions, outputs), the observed first."""
        laws = {id(block.subset): self._by_steps(problem, block.subset) for block in blocks}
        single = [block for block in blocks if laws[id(block.subset)] is not None]
        for together in _alike(single, self._inputs_at_once()):
            yield from self._along_columns(problem, together, {k: law for k, law in laws.items() if law is not None})
        for block in blocks:
            if laws[id(block.subset)] is None:
                yield from self._of_group(problem, block)

    def _inputs_at_once(self) -> int:
        trees = len(self.steps.index.splits.ensemble.roots)
        return int(np.clip(PAIRS // trees, 64, MOST_INPUTS))

    def _along_columns(
        self, problem: Problem, blocks: list[Block], laws: dict[int, ColumnLaw]
    ) -> Iterator[tuple[Listed, Floats]]:
        """Single columns of the same inputs."""
        inputs = problem.items.block(blocks[0].start, blocks[0].stop)
        pieces = self.steps.index.pieces(inputs)
        by_column = {int(np.asarray(block.subset.index)[0]): block for block in blocks}
        for j, steps in self.steps.along(pieces, list(by_column)):
            chances = laws[id(by_column[j].subset)](inputs, self.steps.index.cuts[j], steps.starts)
            yield self._of_steps(by_column[j], inputs, inputs[:, j], steps, chances)

    def _of_steps(
        self, block: Block, inputs: Array, observed: Array, steps: Steps, chances: Chances
    ) -> tuple[Listed, Floats]:
        own = steps.own  # what the step with the observed value has: sums are exact
        sums, mass, values = [own[:, None], steps.sums], [chances.mass], [observed[:, None], chances.values]
        if chances.missing.any():
            sums.append(steps.missing[:, None])
            mass.append(chances.missing[:, None])
            values.append(np.full((len(inputs), 1), np.nan))
        if chances.own:
            sums.append(own[:, None])
            mass.append(np.full((len(inputs), 1), chances.own))
            values.append(observed[:, None])
        outputs = self.steps.index.outputs(np.concatenate(sums, axis=1))
        drawn = np.concatenate(values, axis=1).astype(inputs.dtype, copy=False)
        return _listed(block, inputs, drawn[:, :, None], np.concatenate(mass, axis=1)), outputs

    def _of_group(self, problem: Problem, block: Block) -> Iterator[tuple[Listed, Floats]]:
        """Listed values of several columns, or of one with categories, a few inputs at a time."""
        columns, sampler = np.asarray(block.subset.index), problem.sampler
        if _lists(problem, block.subset):
            found = listed_block(problem, block)
            values = found.batch.values.reshape(len(found.batch.inputs), found.batch.versions, -1)
            yield found, self._outputs(found.batch.inputs, columns, values)
            return
        assert isinstance(sampler, TableSampler)
        size = max(1, LISTED_VALUES // (donors_of(sampler, block.subset) or 1) // len(columns))
        for part in _parts(block, size):
            inputs = problem.items.block(part.start, part.stop)
            drawn, mass = donated(sampler, inputs, block.subset)
            values = np.concatenate([inputs[:, None, columns], drawn], axis=1)
            yield _listed(part, inputs, values, mass), self._outputs(inputs, columns, values)

    def _outputs(self, inputs: Array, columns: Array, values: Array) -> Floats:
        pieces = self.steps.index.pieces(inputs)
        return self.steps.index.outputs(group_sums(self.steps, pieces, columns, values))


def _lists(problem: Problem, subset: Subset) -> bool:
    sampler = problem.sampler
    if isinstance(sampler, TableSampler | ListsSupport):  # the class first: to look for a protocol takes long
        return bool(sampler.lists(subset))
    return False


def _listed(block: Block, inputs: Array, values: Array, mass: Floats) -> Listed:
    """As a list of versions (n, 1 + m, columns), the observed one first."""
    count, versions = values.shape[:2]
    batch = CounterfactualBatch(
        Job(block, versions - 1, "trees"), inputs, values.reshape(count * versions, -1), versions, mass=mass
    )
    tiny = np.full(count, np.finfo(np.float64).tiny)  # no p-value is 0, however far out a distribution goes
    return Listed(batch, tiny, np.zeros(count))


def _parts(block: Block, size: int) -> Iterator[Block]:
    """A block in parts of at most so many inputs."""
    if block.stop - block.start <= size:
        yield block
        return
    for a in range(block.start, block.stop, size):
        b = min(a + size, block.stop)
        yield replace(block, start=a, stop=b, rows=block.rows[a - block.start : b - block.start])


def _alike(blocks: Sequence[Block], most: int) -> Iterator[list[Block]]:
    """Blocks of single columns put together to the same inputs, as many inputs at a time as may be."""
    by_subset: dict[int, list[Block]] = {}
    for block in blocks:
        by_subset.setdefault(id(block.subset), []).append(block)
    whole = [
        replace(own[0], stop=own[-1].stop, rows=np.concatenate([block.rows for block in own])) if own[1:] else own[0]
        for own in by_subset.values()
    ]
    for _, same in groupby(whole, key=lambda block: (block.start, block.stop)):
        for parts in zip(*(_parts(block, most) for block in same), strict=True):
            yield list(parts)


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
