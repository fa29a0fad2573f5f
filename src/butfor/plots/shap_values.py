"""A result as a shap.Explanation, so that SHAP's own plots show it."""

from __future__ import annotations

from typing import Any

import numpy as np

from butfor.plots.style import leaves
from butfor.results.result import Result
from butfor.results.view import output_class, value_text, values
from butfor.types import InputError

MARK = " *"  # behind the value of what is unusual
ZERO_WIDTH_SPACE = "\u200b"


def to_shap(result: Result, *, groups: bool = False) -> Any:
    """Return the effects of a result on a table as `shap.Explanation`.

    `values` are effects (inputs, subsets), `lower_bounds` and `upper_bounds` their intervals, `data` the values of
    columns; unusual ones have a star behind their value. Effects given the rest of the row do not add up to the
    output, so `base_values` are what is left: outputs minus the sum of effects. SHAP's waterfall then ends at the
    output; its steps are ours. With `groups` groups of columns are columns of their own, beside the single ones.
    """
    try:
        import shap  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise InputError("to_shap needs shap, which is not installed: pip install shap") from error
    size, count, effects = len(result.subset_names), len(result.input_names), result.effects
    if len(result.chosen) != size * count or not np.isfinite(effects.effect).all():
        raise InputError(
            "to_shap needs an effect of every subset for every input; run butfor.explain on a table with effects='all'"
        )
    subsets = np.arange(size) if groups else leaves(result)

    def matrix(column: Any) -> Any:  # (inputs, subsets)
        cells = np.empty((count, size), dtype=column.dtype)
        cells[result.input_of, result.subset_of] = column
        return cells[:, subsets]

    effect, observed, value = matrix(effects.effect), matrix(result.evidence.observed), matrix(values(result))
    numeric = [[float(v) if isinstance(v, int | float | np.number) else np.nan for v in row] for row in value]
    marked = zip(value, matrix(result.chosen), strict=True)
    shown = [[_shown(v, bool(sure)) for v, sure in zip(*row, strict=True)] for row in marked]
    return shap.Explanation(
        values=effect,
        base_values=observed[:, 0] - effect.sum(axis=1),
        data=np.array(numeric, np.float64),
        display_data=np.array(shown, dtype=object),
        lower_bounds=matrix(effects.low),
        upper_bounds=matrix(effects.high),
        feature_names=[str(result.subset_names[j]) for j in subsets],
        output_names=output_class(result) or None,
    )


def _shown(value: object, sure: bool) -> str:
    """Return a value as text, marked where it is unusual.

    SHAP's bars cut zeros off the end of what they write, 580 to 58: a space without width keeps them.
    """
    text = value_text(value)
    return text + (MARK if sure else ZERO_WIDTH_SPACE if text.endswith("0") else "")
