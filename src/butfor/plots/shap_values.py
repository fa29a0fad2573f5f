"""A result as a shap.Explanation, so that SHAP's own plots show it."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.plots.style import class_name, leaves, of_class, values, written
from butfor.results.result import Result
from butfor.types import InputError

MARK = " *"  # behind the value of what is established
ZERO_WIDTH_SPACE = "\u200b"


def to_shap(result: Result, *, groups: bool = False) -> Any:
    """The effects of a result on a table as `shap.Explanation`; established ones have a star behind their value.

    `values` are effects (inputs, subsets), `lower_bounds` and `upper_bounds` their intervals, `data` the values of
    columns. Effects given the rest of the row do not add up to the output, so `base_values` are what is left: outputs
    minus the sum of effects. SHAP's waterfall then ends at the output; its steps are ours.

    Parameters
    ----------
    result : of `butfor.explain`.
    groups : whether groups of columns are columns of their own, beside the single ones.
    """
    try:
        import shap  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise InputError("to_shap needs shap, which is not installed: pip install shap") from error
    size, count = len(result.subset_names), len(result.input_names)
    if len(result.chosen) != size * count or not np.isfinite(result.effects.effect).all():
        raise InputError(
            "to_shap needs an effect of every subset for every input; run butfor.explain on a table with effects='all'"
        )
    subsets = np.arange(size) if groups else leaves(result)
    effect, low, high, observed, chosen = (
        _matrix(result, part, subsets)
        for part in (*_effects(result), result.evidence.observed, result.chosen.astype(np.float64))
    )
    told = np.full((count, size), None, dtype=object)
    told[result.input_of, result.subset_of] = values(result)
    told = told[:, subsets]
    shown = [
        [_shown(value, bool(sure)) for value, sure in zip(*row, strict=True)]
        for row in zip(told, chosen > 0, strict=True)
    ]
    return shap.Explanation(
        values=effect,
        base_values=observed[:, 0] - effect.sum(axis=1),
        data=np.array([[_numeric(value) for value in row] for row in told], np.float64),
        display_data=np.array(shown, dtype=object),
        lower_bounds=low,
        upper_bounds=high,
        feature_names=[str(result.subset_names[j]) for j in subsets],
        output_names=None if result.output_names is None else class_name(of_class(result)),
    )


def _shown(value: object, sure: bool) -> str:
    """A value as it is to be read, marked where its effect is established.

    SHAP's bars cut zeros off the end of what they write, 580 to 58: a space without width keeps them.
    """
    text = "" if value is None else written(value)
    return text + (MARK if sure else ZERO_WIDTH_SPACE if text.endswith("0") else "")


def _effects(result: Result) -> tuple[Any, Any, Any]:
    return result.effects.effect, result.effects.low, result.effects.high


def _matrix(result: Result, values: Any, subsets: Any) -> Any:
    """What is known of hypotheses (H,) as (inputs, subsets)."""
    found = np.zeros((len(result.input_names), len(result.subset_names)))
    found[result.input_of, result.subset_of] = values
    return found[:, subsets]


def _numeric(value: object) -> float:
    """A value for SHAP's colours; what is no number has none."""
    return float(value) if isinstance(value, int | float | np.number) else float("nan")
