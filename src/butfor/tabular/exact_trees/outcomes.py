"""All that may come of a hypothesis on a table and a tree ensemble: steps of one column, or donors of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from weakref import WeakKeyDictionary

import numpy as np

from butfor.core.draw.blocks import Block, CounterfactualBatch, Job, Problem
from butfor.core.draw.listing import Listed, listed_block
from butfor.core.draw.samplers import ListsSupport
from butfor.core.types import Array, Floats, Subset
from butfor.tabular.exact_trees.donors import donated, donors_of
from butfor.tabular.exact_trees.groups import group_sums
from butfor.tabular.exact_trees.laws import Chances, ColumnLaw, column_law
from butfor.tabular.exact_trees.steps import StepFunctions, Steps
from butfor.tabular.splice import TableSampler

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
