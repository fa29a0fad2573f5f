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


def to_shap(result: Result, *, groups: bool = False, columns: bool = False) -> Any:
    """Return the effects of a result on a table as `shap.Explanation`, as `Result.to_shap` says.

    `base_values` are what is left of outputs without their effects, so SHAP's waterfall ends at the output. `p` (or
    evidence of another kind), `q` and `chosen` stand beside `values`; a slice has them no more.
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
    subsets, share = np.arange(size) if groups else leaves(result), np.ones(1, np.int64)
    if columns:
        indices = {one.name: one.index for one in result.hypotheses.subsets}
        parts = [indices[result.subset_names[j]] for j in subsets]
        place, sizes = np.concatenate(parts), [len(part) for part in parts]
        order = np.argsort(place, kind="stable")
        subsets, share, place = (a[order] for a in (np.repeat(subsets, sizes), np.repeat(sizes, sizes), place))
        if len(set(place.tolist())) < len(place):
            raise InputError("columns=True needs each column in one subset; these subsets share columns")

    def matrix(column: Any) -> Any:  # (inputs, subsets)
        cells = np.empty((count, size), dtype=column.dtype)
        cells[result.input_of, result.subset_of] = column
        return cells[:, subsets]

    effect, observed, value = matrix(effects.effect) / share, matrix(result.evidence.observed), matrix(values(result))
    names = [str(result.subset_names[j]) for j in subsets]
    if columns:
        items: Any = result.hypotheses.items
        cells: Any = np.asarray(items.shown(items.values), dtype=np.object_)
        value = cells[:, place]
        names = [str(result.record.columns[j]) for j in place]
    numeric = [[float(v) if isinstance(v, int | float | np.number) else np.nan for v in row] for row in value]
    marked = zip(value, matrix(result.chosen), strict=True)
    shown = [[_shown(v, bool(sure)) for v, sure in zip(*row, strict=True)] for row in marked]
    explanation = shap.Explanation(
        values=effect,
        base_values=observed[:, 0] - effect.sum(axis=1),
        data=np.array(numeric, np.float64),
        display_data=np.array(shown, dtype=object),
        lower_bounds=matrix(effects.low) / share,
        upper_bounds=matrix(effects.high) / share,
        feature_names=names,
        output_names=output_class(result) or None,
    )
    for name, column in ((result.evidence.kind, result.evidence.values), ("q", result.q), ("chosen", result.chosen)):
        setattr(explanation, name, matrix(column))
    return explanation


def _shown(value: object, sure: bool) -> str:
    """Return a value as text, marked where it is unusual.

    SHAP's bars cut zeros off the end of what they write, 580 to 58: a space without width keeps them.
    """
    text = value_text(value)
    return text + (MARK if sure else ZERO_WIDTH_SPACE if text.endswith("0") else "")
