"""Result -> one row per hypothesis, as columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.draw.blocks import Problem
from butfor.core.draw.items import TableItems
from butfor.core.test.evidence import Evidence
from butfor.core.types import Array, Bools, Ints

if TYPE_CHECKING:
    from butfor.core.result.result import Result

LEAST_INPUTS = 10  # so many inputs, at least, and what leaves the family hardly depends on any one of them


def columns(result: Result) -> dict[str, Array]:
    """What is known of every hypothesis, by column."""
    found: dict[str, Array] = {
        "input": names_column(result.input_names)[result.input_of],
        "subset": names_column(result.subset_names)[result.subset_of],
        "resolution": resolution_of(result),
        "value": _values(result),
        "observed": result.evidence.observed,
        "draws": result.evidence.draws,
        result.evidence.kind: result.evidence.values,
        "chosen": result.chosen,
        "effect": result.effects.effect,
        "effect_low": result.effects.low,
        "effect_high": result.effects.high,
        "surprise": result.evidence.surprise,
        "status": _status(result),
    }
    if result.decided is not None:
        decided = result.decided
        found |= {"flip": decided.share, "flip_low": decided.low, "flip_high": decided.high}
        found["necessary"] = decided.necessary
        if decided.stay is not None:
            stay = decided.stay
            found |= {"stay": stay.share, "stay_low": stay.low, "stay_high": stay.high, "sufficient": stay.sufficient}
    if result.output_names is not None:
        found["output"] = names_column(result.output_names)[result.evidence.classes]
    return found


def resolution_of(result: Result) -> Ints:
    """The resolution of every hypothesis (H,): 0 where there is one only."""
    layers = result.problem.layers
    return np.zeros(len(result.chosen), np.int64) if layers is None else layers.resolution


def _values(result: Result) -> Array:
    """What is observed in the subset: of single columns of a table; None elsewhere."""
    problem, found = result.problem, np.full(len(result.chosen), None, dtype=object)
    if not isinstance(problem.items, TableItems):
        return found
    cells = np.asarray(problem.items.shown(problem.items.values), dtype=object)
    single = {name: int(index[0]) for name, index in subset_index(problem).items() if len(index) == 1}
    for place, name in enumerate(result.subset_names):
        if name in single:
            rows = result.subset_of == place
            found[rows] = cells[result.input_of[rows], single[name]]
    return found


def subset_index(problem: Problem) -> dict[str, Any]:
    """The index of every subset of a table, by name."""
    return {block.subset.name: block.subset.index for block in problem.blocks}


def _status(result: Result) -> Array:
    """Why a hypothesis is not established, where that is known better than "not established"."""
    control = result.control
    wrong = np.zeros(len(result.chosen), bool)
    if control is not None and control.calibrated is not None:
        wrong = ~control.calibrated[result.subset_of]
    told = result.provenance.get("untested", ())
    untested = np.isin(np.arange(len(result.chosen)), np.array([row for row in told if isinstance(row, int)], np.int64))
    cases = [result.chosen, untested, wrong, ~result.evidence.drawable, ~result.tested, result.evidence.open]
    words = ["established", "untested", "not calibrated", "hardly picked", "no variation", "open"]
    return np.select(cases, words, default="not established").astype(object)


def feature_columns(result: Result) -> dict[str, Array]:
    """What is known of every subset over all inputs, by column."""
    size = len(result.subset_names)
    resolution = np.zeros(size, np.int64)
    resolution[result.subset_of] = resolution_of(result)
    counted = np.bincount(result.subset_of, weights=result.chosen, minlength=size).astype(np.int64)
    found: dict[str, Array] = {"subset": names_column(result.subset_names), "resolution": resolution}
    over = result.over_inputs
    if over is None:
        known = ~np.isnan(result.effects.effect)
        total = np.bincount(result.subset_of[known], weights=result.effects.effect[known], minlength=size)
        count = np.bincount(result.subset_of[known], minlength=size)
        mean = np.divide(total, count, out=np.full(size, np.nan), where=count > 0)
        nothing = np.full(size, np.nan)
        found |= {"p": nothing, "chosen": np.zeros(size, bool), "effect": mean, "effect_low": nothing}
        found["effect_high"] = nothing
    else:
        found |= {"p": over.p, "chosen": over.chosen, "effect": over.effect, "effect_low": over.low}
        found["effect_high"] = over.high
    found |= {"inputs_chosen": counted, "inputs": np.bincount(result.subset_of, minlength=size)}
    if result.decided is not None:
        needed = np.bincount(result.subset_of, weights=result.decided.necessary, minlength=size)
        found["inputs_necessary"] = needed.astype(np.int64)
    return found


def names_column(names: tuple[Any, ...]) -> Array:
    """Names one by one, whatever they are: NumPy would make text of numbers among text, and rows of tuples."""
    column = np.empty(len(names), dtype=object)
    column[:] = [_writable(name) for name in names]
    kinds = {type(name) for name in names}
    return np.array(names) if len(kinds) == 1 and kinds <= {int, float, bool} else column


def _writable(name: object) -> object:
    """A name as tables and files can hold it: half a surrogate pair, which they cannot, is spelt out."""
    if not isinstance(name, str) or name.isascii():
        return name
    return name.encode("utf-8", "backslashreplace").decode("utf-8")


def family_members(evidence: Evidence, rule: str, family: str, inputs: int) -> Bools:
    """Hypotheses the rule is applied to: those with evidence and, for BH over a run of many inputs, some variation.

    Dropping what does not vary needs independence (METHODS 6), and within one input there is none: under
    f = 1[max x > c] one large feature keeps the others from varying, and BH over what is left gave false discoveries in
    36 % of single inputs at alpha 0.1. The other rules promise their level under any dependence, so they never drop.
    """
    return evidence.varied & evidence.drawable if drops_unvarying(rule, family, inputs) else evidence.drawable


def drops_unvarying(rule: str, family: str, inputs: int) -> bool:
    """Whether hypotheses that never vary leave the family before the selection."""
    return rule == "bh" and family == "run" and inputs >= LEAST_INPUTS
