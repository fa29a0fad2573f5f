"""A fitted encoder -> which encoded columns come from which raw column, so that they are tested as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from butfor.core.types import InputError
from butfor.models.optional import attribute

MIXING = ("Normalizer",)  # one output per input, by name too, but each of them made of all inputs
INDICATOR = "missingindicator_"  # how scikit-learn's imputers name the flags they add
Names = tuple[str, ...] | None  # of columns, where they are known


def groups_from_encoder(encoder: object, *, positions: bool = False) -> dict[str, list[Any]]:
    """Encoded columns by raw column, for `subsets=`: {"colour": ["colour_blue", "colour_red"], "age": ["age"]}.

    Every encoded column is in exactly one group. Columns that a transformer makes of several raw ones (PCA) are one
    group with the transformer's name.

    Parameters
    ----------
    encoder : a fitted scikit-learn ColumnTransformer, OneHotEncoder or other transformer, or a Pipeline of them, whose
        last step may be the model: then the columns are those that the model gets.
    positions : give numbers, for tables without names, in place of the names of `get_feature_names_out()`.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.preprocessing import OneHotEncoder
    >>> groups_from_encoder(OneHotEncoder().fit(pd.DataFrame({"colour": ["red", "blue"], "size": ["S", "M"]})))
    {'colour': ['colour_blue', 'colour_red'], 'size': ['size_M', 'size_S']}
    """
    raw = _raw_names(encoder)
    made = _through(encoder, EncodedColumns(raw, raw), "", None)
    if made.names is None and not positions:
        raise InputError(
            f"{type(encoder).__name__} cannot name the columns it makes, since a step of it has no "
            "get_feature_names_out; ask for positions=True"
        )
    groups: dict[str, list[Any]] = {}
    for place, owner in enumerate(made.owners):
        groups.setdefault(owner, []).append(place if positions or made.names is None else made.names[place])
    return groups


@dataclass(frozen=True)
class EncodedColumns:
    """Columns on their way through an encoder: what each is called, if that is known, and whose group it belongs to."""

    names: Names
    owners: tuple[str, ...]

    def take(self, places: Sequence[int]) -> EncodedColumns:
        names = None if self.names is None else tuple(self.names[i] for i in places)
        return EncodedColumns(names, tuple(self.owners[i] for i in places))


def _raw_names(encoder: object) -> tuple[str, ...]:
    names, count = attribute(encoder, "feature_names_in_"), attribute(encoder, "n_features_in_")
    if names is None and count is None:
        raise InputError(
            f"groups_from_encoder needs a fitted ColumnTransformer, OneHotEncoder or Pipeline of scikit-learn, got "
            f"{type(encoder).__name__} that is not fitted or does not say which columns it takes"
        )
    return tuple(f"x{i}" for i in range(count)) if names is None else tuple(map(str, names))


def _through(step: Any, columns: EncodedColumns, name: str, width: int | None) -> EncodedColumns:
    """The columns after one step, which is called `name` and makes `width` columns where that is known."""
    if step is None or isinstance(step, str):  # "passthrough"
        return columns
    if (steps := attribute(step, "steps")) is not None:
        *others, last = steps
        is_model = last[1] is not None and not isinstance(last[1], str) and attribute(last[1], "transform") is None
        for own, part in others if is_model else steps:
            columns = _through(part, columns, name or _apart(own, columns.owners), None)
        return columns
    if attribute(step, "output_indices_") is not None:
        return _side_by_side(step, columns)
    names = _names_out(step, columns.names)
    width = len(names) if names is not None else width
    if width is None:
        raise InputError(
            f"step {name or type(step).__name__!r} does not say how many columns it makes; give the steps before it"
        )
    return EncodedColumns(names, _owners(step, columns, name or type(step).__name__, names, width))


def _side_by_side(step: Any, columns: EncodedColumns) -> EncodedColumns:
    """A ColumnTransformer: each part gets some columns, and what the parts make stands side by side."""
    raw = _raw_names(step)
    places = {part: range(where.start, where.stop) for part, where in step.output_indices_.items()}
    owners = [""] * max((where.stop for where in places.values()), default=0)
    for part, transformer, chosen in step.transformers_:
        where = places.get(part, range(0))
        if len(where):
            given = columns.take(_positions(chosen, raw))
            made = _through(transformer, given, _apart(part, columns.owners), len(where))
            owners[where.start : where.stop] = made.owners
    return EncodedColumns(_names_out(step, columns.names), tuple(owners))


def _apart(part: str, taken: Sequence[str]) -> str:
    return f"{part} (transformer)" if part in taken else part


def _positions(chosen: Any, names: Sequence[str]) -> list[int]:
    """Columns as a ColumnTransformer may name them: one or several, by name, position, slice or mask."""
    if isinstance(chosen, slice) and isinstance(chosen.start or chosen.stop, str):
        first = 0 if chosen.start is None else names.index(chosen.start)
        last = len(names) - 1 if chosen.stop is None else names.index(chosen.stop)  # by name the end is part of it
        return list(range(first, last + 1, chosen.step or 1))
    if isinstance(chosen, slice | int):
        return [int(place) for place in np.atleast_1d(np.arange(len(names))[chosen])]
    listed = [chosen] if isinstance(chosen, str) else list(chosen)
    if all(isinstance(column, bool | np.bool_) for column in listed):
        return [place for place, taken in enumerate(listed) if taken]
    return [names.index(column) if isinstance(column, str) else int(column) % len(names) for column in listed]


def _names_out(step: Any, names: Names) -> Names:
    given = None if names is None else np.asarray(names, dtype=object)
    try:
        return tuple(map(str, step.get_feature_names_out(given)))
    except (AttributeError, ValueError, TypeError, NotImplementedError):
        return None


def _owners(step: Any, columns: EncodedColumns, name: str, names: Names, width: int) -> tuple[str, ...]:
    """Whose each of the columns is that one transformer makes."""
    if len(set(columns.owners)) == 1:
        return columns.owners[:1] * width
    if type(step).__name__ in MIXING:
        return (name,) * width
    counts = _counts(step)
    if counts is not None and len(counts) == len(columns.owners) and sum(counts) == width:
        return tuple(np.repeat(np.array(columns.owners, dtype=object), counts))
    owner = dict(zip(columns.names or (), columns.owners, strict=False))
    found = [owner.get(one, owner.get(one.removeprefix(INDICATOR))) for one in names or ()]
    return tuple(map(str, found)) if found and None not in found else (name,) * width


def _counts(step: Any) -> list[int] | None:
    """How many columns each input becomes, where a transformer makes several of each, one input after the other."""
    kind = type(step).__name__
    if kind == "OneHotEncoder":
        return [_levels(step, i) for i in range(len(step.categories_))]
    if kind == "KBinsDiscretizer":
        return [1 if step.encode == "ordinal" else int(bins) for bins in step.n_bins_]
    if kind == "SplineTransformer":
        return [step.n_features_out_ // step.n_features_in_] * step.n_features_in_
    if kind == "TargetEncoder" and step.target_type_ == "multiclass":
        return [len(step.classes_)] * step.n_features_in_
    return None


def _levels(encoder: Any, column: int) -> int:
    """Columns that a OneHotEncoder makes of one: infrequent levels share one, and one may be dropped."""
    rare = (attribute(encoder, "infrequent_categories_") or {column: None})[column]
    shared = 0 if rare is None or not len(rare) else len(rare) - 1
    dropped = encoder.drop_idx_ is not None and encoder.drop_idx_[column] is not None
    return len(encoder.categories_[column]) - shared - dropped
