"""Putting new values of some columns into whole rows, and binding a sampler to the columns of the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from butfor.core.draw.samplers import (
    AlignsColumns,
    DrawsColumns,
    ListsSupport,
    RepeatsDraws,
    Sampler,
    SamplerInfo,
    info_of,
    name_of,
)
from butfor.core.types import Array, Batch, Floats, InputError, ModelError, Subset
from butfor.tabular.table import Table, as_table, check_complete, is_frame

Values = Callable[[Array, Subset, int, np.random.Generator], Any]


def splice(inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator, sampler: Any) -> Batch:
    """Whole counterfactual rows, of the type of `inputs`, in which only the subset's columns are new: `sampler.values`.

    The columns of the inputs may stand in another order than those of the sampler's reference.
    """
    table = as_table(inputs, "data", empty=True, like=info_of(sampler).kinds)
    sampler = align_columns(sampler, table)
    rows = np.repeat(table.values, draws, axis=0)
    rows[:, subset.index] = sampler.values(table.values, subset, draws, rng)
    return table.show(rows)


@dataclass(frozen=True, eq=False)
class FromValues:
    """A sampler made of a function that returns only the new values of the subset's columns."""

    values: Values

    def __repr__(self) -> str:
        return f"from_values({name_of(self.values)})"

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return splice(inputs, subset, draws, rng, self)


def from_values(values: Values) -> FromValues:
    """A sampler from `values(inputs, subset, draws, rng)` -> (len(inputs) * draws, columns of the subset), input-major.

    Faster than returning whole rows, and it cannot touch the rest of a row by mistake.

    >>> noise = from_values(lambda inputs, subset, draws, rng: rng.normal(size=(len(inputs) * draws, 1)))
    >>> noise(np.zeros((1, 2)), Subset("x1", np.array([1])), 3, np.random.default_rng(0)).shape
    (3, 2)
    """
    return FromValues(values)


@dataclass(frozen=True, eq=False)
class Checked:
    """A user's sampler of whole rows: what it returns is checked on every block, then reduced to the new values."""

    sampler: Sampler
    table: Table

    def __repr__(self) -> str:
        return self.sampler.__name__ if isinstance(self.sampler, FunctionType) else repr(self.sampler)

    @property
    def info(self) -> SamplerInfo:
        """What the user's sampler says of itself; missing values are values where the data has some."""
        inner = info_of(self.sampler)
        return replace(inner, takes_missing=inner.takes_missing or bool(np.isnan(self.table.values).any()))

    def __call__(self, inputs: Batch, subset: Subset, draws: int, rng: np.random.Generator) -> Batch:
        return self.sampler(inputs, subset, draws, rng)

    def values(self, inputs: Array, subset: Subset, draws: int, rng: np.random.Generator) -> Array:
        try:
            rows = self._matrix(self.sampler(self.table.show(inputs.copy()), subset, draws, rng), subset)
        except InputError:
            raise
        except Exception as error:
            raise ModelError(f"the sampler raised {type(error).__name__} on subset {subset.name!r}: {error}") from error
        expected = (len(inputs) * draws, inputs.shape[1])
        if rows.shape != expected:
            raise ModelError(
                f"the sampler returned shape {rows.shape} for subset {subset.name!r}, expected {expected}: whole rows, "
                f"{len(inputs)} inputs x {draws} draws, input-major"
            )
        same = rows.reshape(len(inputs), draws, -1) == inputs[:, None, :]
        same[..., subset.index] = True
        if not same.all():
            same |= np.isnan(inputs)[:, None, :] & np.isnan(rows.reshape(same.shape).astype(float))
        if not same.all():
            column = self.table.columns[int(np.argwhere(~same)[0, 2])]
            raise ModelError(
                f"the sampler changed column {column!r}, which is not in subset {subset.name!r}; it may redraw the "
                "subset's columns only, and must return the draws of the first input first"
            )
        return rows[:, subset.index]

    def _matrix(self, rows: Any, subset: Subset) -> Array:
        """What the user's sampler returned, as numbers; a frame is read as the data was."""
        if not is_frame(rows) or self.table.labels is None:
            return np.asarray(rows)
        if list(map(str, rows.columns)) != list(self.table.columns):
            raise ModelError(
                f"the sampler returned columns {list(rows.columns)[:4]} for subset {subset.name!r}; it must return "
                f"those it was given, {list(self.table.columns)[:4]}"
            )
        read = as_table(rows.reset_index(drop=True), "sampler's draws", empty=True, like=self.table.named_kinds)
        for name, new, old in zip(self.table.columns, read.kinds, self.table.kinds, strict=True):
            if old.levels is not None and len(new.levels) > len(old.levels):
                raise ModelError(
                    f"the sampler drew {new.levels[-1]!r} in column {name!r}, which the data does not have; give the "
                    "column as a pandas category with all its levels"
                )
        return read.values


@dataclass(frozen=True, eq=False)
class Listing(Checked):
    """A user's sampler that lists its support too; one that does not say which subsets it lists, lists all."""

    def lists(self, subset: Subset) -> bool:
        return not isinstance(self.sampler, ListsSupport) or bool(self.sampler.lists(subset))

    def repeats(self, subset: Subset) -> bool:
        return bool(self.sampler.repeats(subset)) if isinstance(self.sampler, RepeatsDraws) else self.lists(subset)

    def support(self, inputs: Array, subset: Subset) -> tuple[Any, Floats]:
        sampler: Any = self.sampler
        listed: tuple[Any, Floats] = sampler.support(self.table.show(inputs.copy()), subset)
        return listed


def bind_sampler(data: Any, sampler: Any, what: str = "data") -> tuple[Table, Sampler]:
    """The user's table, and a sampler that the core can use on it; reference data gets a sampler that fits it."""
    if is_data(sampler):
        from butfor.tabular.auto import auto

        sampler = auto(sampler)
    table = as_table(data, what, like=info_of(sampler).kinds)
    return table, table_sampler(sampler, table, what)


def table_sampler(sampler: object, table: Table, what: str = "data") -> Sampler:
    """A sampler that the core can use on this table: its columns in the table's order, or a user's one, checked."""
    if not callable(sampler):
        raise InputError(f"sampler must be a sampler, a callable or reference data, got {type(sampler).__name__}")
    if not isinstance(sampler, DrawsColumns):
        return Listing(sampler, table) if isinstance(sampler, CanList) else Checked(sampler, table)
    if isinstance(sampler, AlignsColumns):
        check_complete(table, what, missing=info_of(sampler).takes_missing)
    return align_columns(sampler, table)  # type: ignore[return-value]


@runtime_checkable
class CanList(Protocol):
    """A user's sampler with a list of what it may draw."""

    def support(self, inputs: Batch, subset: Subset) -> tuple[Any, Floats]: ...


@runtime_checkable
class SeesRows(Protocol):
    """A sampler that has to see rows of a matrix as the user would write them."""

    def shown_by(self, show: Callable[[Array], Batch]) -> Sampler: ...


def align_columns(sampler: DrawsColumns, table: Table) -> DrawsColumns:
    """The sampler for columns in the order of this table, and for its types if it looks at whole rows."""
    aligned: Any = sampler
    if isinstance(aligned, AlignsColumns):
        aligned = aligned.for_columns(table.columns if table.labels is not None else None, len(table.columns))
    if isinstance(aligned, SeesRows):
        aligned = aligned.shown_by(table.show)
    return aligned  # type: ignore[no-any-return]


def order_of(wanted: tuple[str, ...] | None, width: int, columns: tuple[str, ...], named: bool) -> list[int]:
    """Positions of the reference's columns in the order of the data, or one sentence on how they differ."""
    if wanted is None or not named:
        if width != len(columns):
            raise InputError(
                f"the data has {width} columns but the sampler's reference has {len(columns)}; both must have the same"
            )
        return list(range(width))
    if set(wanted) != set(columns) or width != len(columns):
        missing = sorted(set(wanted) - set(columns))[:3]
        extra = sorted(set(columns) - set(wanted))[:3]
        told = [f"{', '.join(missing)} only in the data"] * bool(missing) + [f"{', '.join(extra)} only there"] * bool(
            extra
        )
        raise InputError(
            f"the sampler's reference has other columns than the data ({'; '.join(told)}); give both the same columns"
        )
    return [columns.index(name) for name in wanted]


def is_data(thing: Any) -> bool:
    """Reference data given in place of a sampler."""
    lazy = type(thing).__name__ == "LazyFrame"  # no data yet, which `as_table` says
    return lazy or is_frame(thing) or isinstance(thing, np.ndarray | list) or hasattr(thing, "to_pandas")
