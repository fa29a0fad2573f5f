"""Result -> one row per hypothesis, as columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.test.evidence import Evidence
from butfor.core.types import Array, Bools

if TYPE_CHECKING:
    from butfor.core.result.result import Result

LEAST_INPUTS = 10  # so many inputs, at least, and what leaves the family hardly depends on any one of them


def columns(result: Result) -> dict[str, Array]:
    """What is known of every hypothesis, by column."""
    found: dict[str, Array] = {
        "input": names_column(result.input_names)[result.input_of],
        "subset": names_column(result.subset_names)[result.subset_of],
        "observed": result.evidence.observed,
        "draws": result.evidence.draws,
        result.evidence.kind: result.evidence.values,
        "chosen": result.chosen,
        "effect": result.effects.effect,
        "effect_low": result.effects.low,
        "effect_high": result.effects.high,
        "status": _status(result),
    }
    if result.output_names is not None:
        found["output"] = names_column(result.output_names)[result.evidence.classes]
    return found


def _status(result: Result) -> Array:
    cases = [~result.evidence.drawable, ~result.tested, result.evidence.open]
    return np.select(cases, ["hardly picked", "no variation", "open"], default="tested").astype(object)


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
    drops = rule == "bh" and family == "run" and inputs >= LEAST_INPUTS
    return evidence.varied & evidence.drawable if drops else evidence.drawable
