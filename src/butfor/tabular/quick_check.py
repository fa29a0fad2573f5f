"""What a run can tell about its own sampler at the price of a few draws and no model rows.

The inputs of a run need not come from the population that Q describes: that they differ is what the run is to find. So
nothing is tested here; a sentence is said only where counterfactuals could hardly be right whatever the inputs are, or
where a wrong sampler and a real signal look alike. `check_sampler` on held-out rows of the reference tells them apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from butfor.core.draw.blocks import Block, Job, Problem, draw_all
from butfor.core.draw.samplers import info_of
from butfor.core.draw.streams import stream
from butfor.core.test.sampler_checks import filled, spread_ranks
from butfor.core.types import Bools, Floats, Ints
from butfor.tabular.splice import TableSampler

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
