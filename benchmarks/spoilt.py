"""The negative control on samplers that are wrong on purpose: how often it flags them, and good ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from benchmarks.figures import Figures
from butfor import Result, explain
from butfor.streams import stream
from butfor.tabular import residual
from butfor.tabular.splice import TableSampler
from butfor.tabular.table import Table
from butfor.types import Array, Floats, Ints, Subset

REFERENCE, INPUTS, PLANS = 300, 50, 40
Spoil = Callable[[Array, Array, np.random.Generator], Array]  # good draws (n, draws, columns), the reference


@dataclass(frozen=True, eq=False)
class Spoilt:
    """Draws of a good conditional distribution, changed for one subset."""

    law: Any
    reference: Array
    spoil: Spoil
    columns: tuple[int, ...]
    takes_missing: bool = True
    calibrated: bool = True

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        """New values of the subset's columns."""
        drawn: Array = self.law.values(inputs, subset, draws, rng)
        if tuple(np.asarray(subset.index).tolist()) != self.columns:
            return drawn
        known = self.reference[:, list(self.columns)]
        return self.spoil(drawn.reshape(len(inputs), draws, -1), known, rng).reshape(drawn.shape)


def halved(drawn: Array, _: Array, __: np.random.Generator) -> Array:
    """Half of the noise."""
    middle = drawn.mean(axis=1, keepdims=True)
    return np.asarray(middle + 0.5 * (drawn - middle))


def apart(drawn: Array, reference: Array, rng: np.random.Generator) -> Array:
    """Columns that belong together, each from a row of its own."""
    rows: Ints = np.asarray(rng.integers(len(reference), size=drawn.shape))
    return np.asarray(np.take_along_axis(reference[None], rows, axis=1))


def numbers(rng: np.random.Generator, rows: int) -> Floats:
    """Four columns with a common cause."""
    return np.asarray(rng.standard_normal((rows, 1)) + 0.7 * rng.standard_normal((rows, 4)))


def plans(rng: np.random.Generator, rows: int) -> Floats:
    """A plan and its tariff, which follows from it, and two columns beside."""
    plan = rng.integers(0, PLANS, rows)
    return np.column_stack([plan, (plan * 7) % PLANS, rng.standard_normal((rows, 2))]).astype(np.float64)


def weighted(rows: Any) -> Floats:
    """A model that reads all columns."""
    return np.asarray(np.asarray(rows) @ np.array([1.0, -0.5, 0.5, 0.2]))


def fits_plan(rows: Any) -> Floats:
    """A model that is sure only where plan and tariff go together."""
    rows = np.asarray(rows)
    return np.asarray(((rows[:, 0] * 7) % PLANS == rows[:, 1]) * 3.0 + 0.1 * rows[:, 2])


@dataclass(frozen=True)
class Fault:
    """Rows, a model, how the sampler is spoilt, for which columns, what their subset is called, and the good ones."""

    rows: Callable[[np.random.Generator, int], Floats]
    model: Callable[[Any], Floats]
    spoil: Spoil
    columns: tuple[int, ...]
    subset: str
    good: tuple[str, ...]  # a column that another one fixes is not: no regression finds it


FAULTS = {
    "one column's noise halved": Fault(numbers, weighted, halved, (1,), "b", ("a", "c", "d")),
    "coupled columns redrawn apart": Fault(plans, fits_plan, apart, (0, 1), "both", ("c", "d")),
}
SUBSETS = {"both": {"a": ["x0"], "b": ["x1"]}, "c": ["x2"], "d": ["x3"]}


def run(runs: int = 100, seed: int = 0) -> Figures:
    """For every fault: runs in which its subset is called not calibrated, is chosen, and good subsets called wrong."""
    return {"faults": [_measured(name, fault, runs, seed) for name, fault in FAULTS.items()]}


def _measured(name: str, fault: Fault, runs: int, seed: int) -> Figures:
    caught = chosen = wrong = good = 0
    for number in range(seed, seed + runs):
        result = one_run(fault, stream(number, "spoilt", name), number)
        assert result.control is not None
        assert result.control.calibrated is not None
        place = list(result.subset_names).index(fault.subset)
        verdict = result.control.calibrated
        caught += not verdict[place]
        chosen += bool(result.chosen[result.subset_of == place].any())
        beside = [j for j, subset in enumerate(result.subset_names) if subset in fault.good]
        wrong += int((~verdict[beside]).sum())
        good += len(beside)
    return {"name": name, "runs": runs, "caught": caught, "chosen": chosen, "wrong": wrong, "good": good}


def one_run(fault: Fault, rng: np.random.Generator, seed: int) -> Result:
    """Inputs of the reference's own kind, by the spoilt sampler."""
    reference, inputs = fault.rows(rng, REFERENCE), fault.rows(rng, INPUTS)
    with warnings.catch_warnings(action="ignore"):
        return explain(fault.model, inputs, spoilt(reference, fault), subsets=SUBSETS, seed=seed)


def spoilt(reference: Floats | Table, fault: Fault) -> TableSampler:
    """The residual sampler with one subset spoilt, and so again on other rows."""
    good = residual(reference.values if isinstance(reference, Table) else reference)
    assert good.reference is not None
    law = Spoilt(good.conditional, good.reference.values, fault.spoil, fault.columns)
    return replace(good, conditional=law, name="spoilt", refit=lambda rows: spoilt(rows, fault))
