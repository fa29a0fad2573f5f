"""Expressions on columns, worked out node by node: only what is listed here can happen, and it ends in time."""

from __future__ import annotations

import ast
import io
import operator
import re
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from butfor.core.patterns import TimedPattern
from butfor.models.rows import is_series

Operand = Any  # a number, a string, or a column of a frame

if TYPE_CHECKING:
    import pandas as pd

LONGEST, DEEPEST = 5_000, 60  # characters; brackets inside brackets
LARGEST = 1e300
CHUNK = 10_000  # texts that a pattern is held against at once
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
JOINERS = {"&": "and", "|": "or"}
OF_COLUMNS = ("isin", "between", "isna", "notna")
OF_TEXT = ("startswith", "endswith", "contains", "lower", "upper", "strip")
METHODS = (*OF_COLUMNS, "str", *OF_TEXT)


@dataclass(frozen=True)
class Expression:
    """A parsed expression; `quoted` are the names in backticks, in the order of their places."""

    tree: ast.expr
    quoted: tuple[str, ...]

    def name(self, node: ast.Name) -> str:
        """The column that a name stands for."""
        place = re.fullmatch(r"_quoted_(\d+)_", node.id)
        return self.quoted[int(place[1])] if place and int(place[1]) < len(self.quoted) else node.id

    @property
    def names(self) -> set[str]:
        """The columns that it names."""
        return {self.name(node) for node in ast.walk(self.tree) if isinstance(node, ast.Name)}


def parse(text: str) -> Expression:
    """The expression, & and | read as `and` and `or`, as pandas does. Raises ValueError where it is none.

    >>> sorted(parse("age > 40 & `blood group` == 'A'").names)
    ['age', 'blood group']
    """
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text)} characters, at most {LONGEST} are read")
    quoted: list[str] = []

    def place(found: re.Match[str]) -> str:
        quoted.append(found[1])
        return f" _quoted_{len(quoted) - 1}_ "

    plain = re.sub(r"`([^`]+)`", place, text).strip()
    try:
        words = [
            (tokenize.NAME, JOINERS[word]) if kind == tokenize.OP and word in JOINERS else (kind, word)
            for kind, word, *_ in tokenize.generate_tokens(io.StringIO(plain).readline)
        ]
        tree = ast.parse(tokenize.untokenize(words).strip(), mode="eval").body
    except (SyntaxError, tokenize.TokenError, RecursionError, MemoryError, IndexError) as error:
        raise ValueError(str(error)) from error
    if _depth(tree) > DEEPEST:
        raise ValueError("it is nested too deeply")
    return Expression(tree, tuple(quoted))


def _depth(tree: ast.AST) -> int:
    layer, depth = [tree], 0
    while layer:
        layer, depth = [child for node in layer for child in ast.iter_child_nodes(node)], depth + 1
    return depth


@dataclass(frozen=True, eq=False)
class Evaluation:
    """An expression on the columns of a frame."""

    expression: Expression
    frame: pd.DataFrame

    def __call__(self) -> object:
        """A column, or a single value where no column is named."""
        return self._of(self.expression.tree)

    def _of(self, node: ast.expr) -> Operand:
        match node:
            case ast.Constant(value=None | bool() | int() | float() | str()):
                return node.value
            case ast.Name():
                return self._column(self.expression.name(node))
            case ast.List() | ast.Tuple() | ast.Set():
                return [self._of(one) for one in node.elts]
            case ast.UnaryOp(op=ast.Not() | ast.Invert()):
                return ~_truth(self._of(node.operand))
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                value = _number(self._of(node.operand))
                return -value if isinstance(node.op, ast.USub) else value
            case ast.BoolOp():
                join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
                return _joined(join, [_truth(self._of(one)) for one in node.values])
            case ast.BinOp(op=op) if type(op) in ARITHMETIC:
                return _computed(type(op), self._of(node.left), self._of(node.right))
            case ast.Compare():
                return self._compared(node)
            case ast.Call(func=ast.Attribute() as function):
                return self._called(node, function)
        raise TypeError(f"{ast.unparse(node)[:60]} is not allowed here")

    def _column(self, name: str) -> Operand:
        frame = self.frame
        if name in frame.columns:
            return frame[name]
        if name in ("index", frame.index.name):
            return frame.index.to_series()
        raise NameError(f"name {name!r} is not defined")

    def _compared(self, node: ast.Compare) -> Operand:
        parts, left = [], self._of(node.left)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._of(right_node)
            if isinstance(op, ast.In | ast.NotIn) or (isinstance(right, list) and isinstance(op, ast.Eq | ast.NotEq)):
                if not is_series(left) or not isinstance(right, list):
                    raise TypeError("write it as column in ['a', 'b']")
                found = left.isin(right)
                parts.append(found if isinstance(op, ast.In | ast.Eq) else ~found)
            elif type(op) in COMPARISONS and not isinstance(left, list) and not isinstance(right, list):
                parts.append(COMPARISONS[type(op)](left, right))
            else:
                raise TypeError(f"{ast.unparse(node)[:60]} compares what cannot be compared")
            left = right
        return _joined(np.logical_and, parts) if len(parts) > 1 else parts[0]

    def _called(self, node: ast.Call, function: ast.Attribute) -> Operand:
        given = [self._of(one) for one in node.args]
        named = {str(one.arg): self._of(one.value) for one in node.keywords}
        if any(is_series(value) for value in (*given, *named.values())) and function.attr != "between":
            raise TypeError(f".{function.attr} takes values, not columns")
        if function.attr in OF_COLUMNS:
            column = self._of(function.value)
            if not is_series(column):
                raise TypeError(f".{function.attr} is for a column")
            return operator.methodcaller(function.attr, *given, **named)(column)
        inner = function.value
        if function.attr not in OF_TEXT or not isinstance(inner, ast.Attribute) or inner.attr != "str":
            raise TypeError(f"write column.str.{function.attr}(...)")
        column = self._of(inner.value)
        if not is_series(column) or column.dtype.kind in "fiubmM":
            raise TypeError(f".str.{function.attr} is for a column of text")
        if function.attr == "contains":
            return _contains(column, *given, **named)
        missing = {"na": False} if function.attr in ("startswith", "endswith") else {}
        return operator.methodcaller(function.attr, *given, **missing, **named)(column.str)


def _truth(value: Operand) -> Operand:
    if isinstance(value, bool):
        return np.bool_(value)
    if is_series(value) and value.dtype.kind == "b":
        return value.fillna(False)
    raise TypeError("`and`, `or` and `not` combine comparisons")


def _joined(join: Callable[[Any, Any], Any], parts: list[Any]) -> Operand:
    found = parts[0]
    for part in parts[1:]:
        found = join(found, part)
    return found


def _number(value: Operand) -> Operand:
    """A number or a column of them: text that is multiplied would take any memory one likes."""
    if is_series(value) and value.dtype.kind in "fiubmM":
        return value
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST:
        return value
    raise TypeError("only numbers can be computed with")


def _computed(op: type[ast.operator], left: Operand, right: Operand) -> Operand:
    left, right = _number(left), _number(right)
    if op is ast.Pow and not is_series(left) and not is_series(right):
        left, right = float(left), float(right)  # whole numbers would grow without end
    found = ARITHMETIC[op](left, right)
    return found if is_series(found) else _number(found)


def _contains(column: pd.Series[Any], pat: str, case: bool = True, regex: bool = True, **_: object) -> pd.Series[Any]:
    """Which texts of a column a pattern is found in, in bounded time; none that are missing."""
    if not isinstance(pat, str):
        raise TypeError(".str.contains takes a text")
    pattern = TimedPattern(pat if regex else re.escape(pat), 0 if case else int(re.IGNORECASE))
    levels = [level for level in column.dropna().unique().tolist() if isinstance(level, str)]
    chunks = [levels[start : start + CHUNK] for start in range(0, len(levels), CHUNK)]
    found = {text for chunk in chunks for text, spans in zip(chunk, pattern.spans(chunk), strict=True) if spans}
    return column.isin(list(found))
