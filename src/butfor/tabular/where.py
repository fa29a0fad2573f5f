"""Picking rows by an expression on the columns, such as "age > 40 and group == 'b'"."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from butfor.core.types import Bools, InputError
from butfor.models.optional import one_line
from butfor.models.rows import is_series

if TYPE_CHECKING:
    import pandas as pd

METHODS = ("isin", "between", "isna", "notna", "str", "startswith", "endswith", "contains", "lower", "upper", "strip")


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
    names_in(expression, option)
    try:
        answer: object = frame.eval(expression, engine="python", local_dict={}, global_dict={})
    except Exception as error:  # pandas raises a dozen kinds for what a person may mistype
        raise InputError(
            f"{option} {expression!r} cannot be evaluated ({one_line(error)}); the columns are "
            f"{some(list(frame.columns))}"
        ) from error
    if not (is_series(answer) and answer.dtype.kind == "b" and len(answer) == len(frame)):
        raise InputError(f'{option} {expression!r} is not true or false for each row; compare something: "age > 40"')
    return np.asarray(answer, bool)


def names_in(expression: str, option: str = "") -> set[str]:
    """The names in an expression, which may compare, combine and call a few harmless methods only.

    >>> sorted(names_in("age > 40 and `blood group`.isin(['A', 'B'])"))
    ['age', 'blood group']
    """
    quoted = re.findall(r"`([^`]+)`", expression)
    try:
        nodes = list(ast.walk(ast.parse(re.sub(r"`[^`]+`", "_quoted_", expression).strip(), mode="eval")))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(
            f"{option} {expression!r} is not an expression; write it like \"age > 40 and group == 'b'\", names with "
            "spaces in `backticks`"
        ) from error
    odd = [node.attr for node in nodes if isinstance(node, ast.Attribute) and node.attr not in METHODS]
    if odd:
        raise InputError(f"{option} {expression!r} uses .{odd[0]}; only {', '.join(METHODS)} may be called on a column")
    return {node.id for node in nodes if isinstance(node, ast.Name)}.difference(["_quoted_"]).union(quoted)


def some(names: Sequence[str], most: int = 8) -> str:
    """A few names for a sentence."""
    return ", ".join(map(str, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
