"""Picking rows by an expression on the columns, such as "age > 40 and group == 'b'"."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from butfor.core.types import Bools, InputError
from butfor.models.optional import one_line
from butfor.models.rows import is_series
from butfor.tabular.expressions import METHODS, Evaluation, Expression, parse

if TYPE_CHECKING:
    import pandas as pd


def matches(frame: pd.DataFrame, expression: str, option: str) -> Bools:
    """Which rows an expression is true for; it sees nothing but the columns. `option` names it in errors.

    >>> import pandas as pd
    >>> matches(pd.DataFrame({"age": [30, 60], "group": ["a", "b"]}), "age > 40 and group == 'b'", "--data-where")
    array([False,  True])
    """
    mask = evaluated(frame, expression, option)
    if not mask.any():
        raise InputError(f"{option} {expression!r} matches none of the {len(frame)} rows; look at how values are spelt")
    return mask


def evaluated(frame: pd.DataFrame, expression: str, option: str) -> Bools:
    """The same, where it may be true for none."""
    parsed = _parsed(expression, option)
    try:
        with np.errstate(all="ignore"):
            answer = Evaluation(parsed, frame)()
    except Exception as error:  # pandas raises a dozen kinds for what a person may mistype
        raise InputError(
            f"{option} {expression!r:.200} cannot be evaluated ({one_line(error)}); the columns are "
            f"{some(list(frame.columns))}"
        ) from error
    if not (is_series(answer) and answer.dtype.kind == "b" and len(answer) == len(frame)):
        raise InputError(
            f'{option} {expression!r:.200} is not true or false for each row; compare something: "age > 40"'
        )
    return np.asarray(answer.fillna(False), bool)


def names_in(expression: str, option: str = "") -> set[str]:
    """The names in an expression, which may compare, combine and call a few harmless methods only.

    >>> sorted(names_in("age > 40 and `blood group`.isin(['A', 'B'])"))
    ['age', 'blood group']
    """
    return _parsed(expression, option).names


def _parsed(expression: str, option: str) -> Expression:
    try:
        parsed = parse(expression)
    except ValueError as error:
        raise InputError(
            f"{option} {expression!r:.200} is not an expression; write it like \"age > 40 and group == 'b'\", names "
            "with spaces in `backticks`"
        ) from error
    nodes = [node for node in ast.walk(parsed.tree) if isinstance(node, ast.Attribute)]
    odd = [node.attr for node in nodes if node.attr not in METHODS]
    if odd:
        raise InputError(
            f"{option} {expression!r:.200} uses .{odd[0]}; only {', '.join(METHODS)} may be called on a column"
        )
    return parsed


def some(names: Sequence[str], most: int = 8) -> str:
    """A few names for a sentence."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"{name!s:.60}" for name in names[:most]) + more
